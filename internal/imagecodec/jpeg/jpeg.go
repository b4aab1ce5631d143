// Package jpeg registers JPEG with imagecodec.
//
// The inverse transform, the upsampling of chroma and the conversion of colours equal
// those of libjpeg's default settings bit for bit, as ImageDecoder requires; those of
// the standard library's image/jpeg do not.
package jpeg

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() { imagecodec.RegisterFormat("\xff\xd8\xff", readJPEG) }

// jpegFile decodes a JPEG file (ITU-T T.81) of baseline, extended sequential or
// progressive coding with 8-bit samples.
type jpegFile struct {
	data []byte // from the current position on
	stop func() error

	w, h        int
	comps       []*jpegComp
	hmax, vmax  int
	mcux, mcuy  int
	progressive bool
	quant       [4][64]uint16 // in zigzag order
	dc, ac      [4]*huffman
	restart     int  // MCUs between restart markers, 0 for none
	adobe       bool // the file has an Adobe marker
	transform   int  // of the Adobe marker
	jfif        bool

	bits   uint64
	have   int
	marker bool // the bit reader has reached a marker
	eobrun int
}

// jpegComp is one colour component.
type jpegComp struct {
	id, h, v, tq int
	w, hgt       int // size in samples
	bw, bh       int // size in blocks, rounded up to whole MCUs
	coef         []int16
	plane        []uint8 // bw·8 samples a row
	td, ta, pred int     // of the current scan
}

// zigzag maps the stored order of coefficients to their index in the block.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

func readJPEG(data []byte) (*imagecodec.Header, error) {
	j := &jpegFile{data: data[2:]}
	for j.comps == nil {
		if err := j.segment(nil); err != nil {
			return nil, err
		}
	}
	if j.w < 1 || j.h < 1 {
		return nil, fmt.Errorf("jpeg: image has %d×%d pixels", j.w, j.h)
	}
	memory := int64(0)
	for _, c := range j.comps {
		memory += 3 * 64 * int64(c.bw) * int64(c.bh)
	}
	return &imagecodec.Header{Width: j.w, Height: j.h, Memory: memory, Pixels: j.decode}, nil
}

// segment reads one marker segment. It calls scan for the header of a scan, and returns
// errEnd at the end of the image.
func (j *jpegFile) segment(scan func(params []byte) error) error {
	for {
		for len(j.data) > 0 && j.data[0] != 0xff {
			j.data = j.data[1:]
		}
		for len(j.data) > 0 && j.data[0] == 0xff {
			j.data = j.data[1:]
		}
		if len(j.data) == 0 {
			return imagecodec.ErrTruncated
		}
		m := j.data[0]
		j.data = j.data[1:]
		if m == 0xd9 {
			return errEnd
		}
		if m == 0 || m == 1 || m >= 0xd0 && m <= 0xd8 {
			continue
		}
		if len(j.data) < 2 {
			return imagecodec.ErrTruncated
		}
		n := int(j.data[0])<<8 | int(j.data[1])
		if n < 2 || n > len(j.data) {
			return imagecodec.ErrTruncated
		}
		body := j.data[2:n]
		j.data = j.data[n:]
		switch {
		case m == 0xdb:
			return j.readQuant(body)
		case m == 0xc4:
			return j.readHuffman(body)
		case m == 0xdd && len(body) == 2:
			j.restart = int(body[0])<<8 | int(body[1])
			return nil
		case m == 0xe0:
			j.jfif = j.jfif || imagecodec.HasMagic(body, "JFIF\x00")
			return nil
		case m == 0xee && len(body) >= 12 && imagecodec.HasMagic(body, "Adobe"):
			j.adobe, j.transform = true, int(body[11])
			return nil
		case m >= 0xc0 && m <= 0xcf && m != 0xc8 && m != 0xcc:
			return j.readFrame(m, body)
		case m == 0xda:
			if scan == nil {
				return errors.New("jpeg: scan precedes the frame header")
			}
			return scan(body)
		default:
			return nil
		}
	}
}

// errEnd is returned at the end of the image.
var errEnd = errors.New("jpeg: end")

func (j *jpegFile) readQuant(b []byte) error {
	for len(b) > 0 {
		wide, t := int(b[0]>>4), b[0]&15
		if wide > 1 || t > 3 || len(b) < 1+64*(wide+1) {
			return errors.New("jpeg: invalid quantization table")
		}
		b = b[1:]
		for i := range 64 {
			v := uint16(b[0])
			if b = b[1:]; wide == 1 {
				v = v<<8 | uint16(b[0])
				b = b[1:]
			}
			j.quant[t][i] = v
		}
	}
	return nil
}

func (j *jpegFile) readFrame(marker byte, b []byte) error {
	if j.comps != nil {
		return errors.New("jpeg: file has two frame headers")
	}
	if marker > 0xc2 {
		return fmt.Errorf("jpeg: coding process %#x is not supported", marker)
	}
	if len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) {
		return errors.New("jpeg: frame header is invalid or its samples do not have 8 bits")
	}
	j.progressive = marker == 0xc2
	j.h, j.w = int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	if n := b[5]; n != 1 && n != 3 && n != 4 {
		return fmt.Errorf("jpeg: image has %d components, want 1, 3 or 4", n)
	}
	for b = b[6:]; len(b) > 0; b = b[3:] {
		c := &jpegComp{id: int(b[0]), h: int(b[1] >> 4), v: int(b[1] & 15), tq: int(b[2])}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.tq > 3 {
			return errors.New("jpeg: invalid component")
		}
		j.hmax, j.vmax = max(j.hmax, c.h), max(j.vmax, c.v)
		j.comps = append(j.comps, c)
	}
	if len(j.comps) == 1 {
		// A single component is not interleaved, so its sampling factors have no effect.
		j.comps[0].h, j.comps[0].v, j.hmax, j.vmax = 1, 1, 1, 1
	}
	up := func(a, b int) int { return (a + b - 1) / b }
	j.mcux, j.mcuy = up(j.w, 8*j.hmax), up(j.h, 8*j.vmax)
	for _, c := range j.comps {
		c.w, c.hgt = up(j.w*c.h, j.hmax), up(j.h*c.v, j.vmax)
		c.bw, c.bh = j.mcux*c.h, j.mcuy*c.v
	}
	return nil
}

func (j *jpegFile) decode(dst []uint8, stop func() error) error {
	j.stop = stop
	for _, c := range j.comps {
		c.coef = make([]int16, 64*c.bw*c.bh)
	}
	seen := false
	for {
		err := j.segment(func(b []byte) error { seen = true; return j.scan(b) })
		if err == errEnd {
			break
		}
		if err != nil {
			return err
		}
	}
	if !seen {
		return imagecodec.ErrTruncated
	}
	for _, c := range j.comps {
		if err := stop(); err != nil {
			return err
		}
		c.transform(&j.quant[c.tq])
		c.coef = nil
	}
	return j.colours(dst)
}

// scan decodes one scan.
func (j *jpegFile) scan(b []byte) error {
	if len(b) < 4 || len(b) != 4+2*int(b[0]) || b[0] < 1 || b[0] > 4 {
		return errors.New("jpeg: invalid scan header")
	}
	var comps []*jpegComp
	blocks := 0
	for i := range int(b[0]) {
		var c *jpegComp
		for _, k := range j.comps {
			if k.id == int(b[1+2*i]) {
				c = k
			}
		}
		if c == nil {
			return errors.New("jpeg: scan names an unknown component")
		}
		for _, k := range comps {
			if k == c {
				return errors.New("jpeg: scan names a component twice")
			}
		}
		c.td, c.ta, c.pred = int(b[2+2*i]>>4), int(b[2+2*i]&15), 0
		if c.td > 3 || c.ta > 3 {
			return errors.New("jpeg: invalid scan header")
		}
		blocks += c.h * c.v
		comps = append(comps, c)
	}
	p := b[len(b)-3:]
	s := &jpegScan{from: int(p[0]), to: int(p[1]), high: int(p[2] >> 4), low: int(p[2] & 15)}
	if !j.progressive {
		s = &jpegScan{to: 63}
	}
	if s.from > s.to || s.to > 63 || s.low > 13 || s.high > 13 || j.progressive && (s.from == 0) != (s.to == 0) ||
		s.from > 0 && len(comps) > 1 || len(comps) > 1 && blocks > 10 {
		return errors.New("jpeg: invalid scan header")
	}
	for _, c := range comps {
		if (s.from == 0 && s.high == 0 && j.dc[c.td] == nil) || s.to > 0 && j.ac[c.ta] == nil {
			return errors.New("jpeg: scan has no Huffman table")
		}
		for _, h := range []*huffman{j.dc[c.td], j.ac[c.ta]} {
			if h != nil {
				h.fill()
			}
		}
	}
	j.bits, j.have, j.marker, j.eobrun = 0, 0, false, 0
	wide, high := j.mcux, j.mcuy
	if len(comps) == 1 {
		wide, high = (comps[0].w+7)/8, (comps[0].hgt+7)/8
	}
	for n := range wide * high {
		if n%wide == 0 {
			if err := j.stop(); err != nil {
				return err
			}
			if j.marker && len(j.data) == 0 {
				return imagecodec.ErrTruncated
			}
		}
		if j.restart > 0 && n > 0 && n%j.restart == 0 {
			j.resync()
			for _, c := range comps {
				c.pred = 0
			}
		}
		x, y := n%wide, n/wide
		if len(comps) == 1 {
			c := comps[0]
			if err := j.block(c, s, c.coef[64*(y*c.bw+x):]); err != nil {
				return err
			}
			continue
		}
		for _, c := range comps {
			for v := range c.v {
				for h := range c.h {
					if err := j.block(c, s, c.coef[64*((y*c.v+v)*c.bw+x*c.h+h):]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// resync skips to the position after the next restart marker.
func (j *jpegFile) resync() {
	for i := 0; i+1 < len(j.data); i++ {
		if j.data[i] == 0xff && j.data[i+1] != 0 && j.data[i+1] != 0xff {
			if m := j.data[i+1]; m >= 0xd0 && m <= 0xd7 {
				j.data = j.data[i+2:]
			} else {
				j.data = j.data[i:]
			}
			break
		}
	}
	j.bits, j.have, j.marker, j.eobrun = 0, 0, false, 0
}

// jpegScan selects the coefficients of a scan: their range in zigzag order and, for
// progressive coding, their bits.
type jpegScan struct{ from, to, high, low int }

// block decodes the coefficients of one block in a scan.
func (j *jpegFile) block(c *jpegComp, s *jpegScan, b []int16) error {
	b = b[:64]
	k := s.from
	if k == 0 {
		if s.high != 0 {
			if j.take(1) != 0 {
				b[0] |= 1 << s.low
			}
		} else {
			n, err := j.symbol(j.dc[c.td])
			if err != nil {
				return err
			}
			if n > 15 {
				return errors.New("jpeg: invalid Huffman code")
			}
			c.pred += j.signed(n)
			b[0] = int16(c.pred << s.low)
		}
		k = 1
	}
	if s.to == 0 {
		return nil
	}
	if s.high != 0 {
		return j.refine(c, s, b, k)
	}
	if j.eobrun > 0 {
		j.eobrun--
		return nil
	}
	for k <= s.to {
		v, err := j.symbol(j.ac[c.ta])
		if err != nil {
			return err
		}
		run, n := v>>4, v&15
		if n == 0 {
			if run < 15 {
				if j.progressive {
					j.eobrun = 1<<run - 1 + j.take(run)
				}
				return nil
			}
			k += 16
			continue
		}
		k += run
		x := j.signed(n)
		if k > s.to {
			return errors.New("jpeg: invalid Huffman code")
		}
		b[zigzag[k]] = int16(x << s.low)
		k++
	}
	return nil
}

// refine decodes one more bit of the coefficients of a block (T.81, G.1.2.3).
func (j *jpegFile) refine(c *jpegComp, s *jpegScan, b []int16, k int) error {
	bit := int16(1) << s.low
	correct := func(p *int16) {
		if j.take(1) != 0 && *p&bit == 0 {
			if *p >= 0 {
				*p += bit
			} else {
				*p -= bit
			}
		}
	}
	if j.eobrun == 0 {
		for k <= s.to {
			v, err := j.symbol(j.ac[c.ta])
			if err != nil {
				return err
			}
			run, n := v>>4, v&15
			put := int16(0)
			switch {
			case n == 1:
				if put = -bit; j.take(1) != 0 {
					put = bit
				}
			case n != 0:
				return errors.New("jpeg: invalid Huffman code")
			case run < 15:
				j.eobrun = 1<<run + j.take(run)
			}
			if j.eobrun > 0 {
				break
			}
			for ; k <= s.to; k++ {
				p := &b[zigzag[k]]
				if *p != 0 {
					correct(p)
					continue
				}
				if run == 0 {
					break
				}
				run--
			}
			if k <= s.to {
				if put != 0 {
					b[zigzag[k]] = put
				}
				k++
			}
		}
	}
	if j.eobrun > 0 {
		for ; k <= s.to; k++ {
			if p := &b[zigzag[k]]; *p != 0 {
				correct(p)
			}
		}
		j.eobrun--
	}
	return nil
}
