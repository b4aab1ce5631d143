// Package jpeg2000 registers JPEG 2000 (ITU-T T.800) with imagecodec, as a bare
// codestream or in a JP2 file.
//
// Not supported: bypassed and terminated coding passes, changes of progression, packed
// headers, regions of interest, palettes.
package jpeg2000

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() {
	imagecodec.RegisterFormat("\x00\x00\x00\x0cjP  \r\n\x87\n", readJP2)
	imagecodec.RegisterFormat("\xff\x4f\xff\x51", readCodestream)
}

// j2k decodes a codestream.
type j2k struct {
	data   []byte
	w, h   int // of the image area
	x0, y0 int
	x1, y1 int
	tw, th int // of a tile
	tx, ty int // origin of the tiles
	across int
	down   int
	comps  []j2kComp
	main   j2kParams
	ycc    bool // the file declares YCbCr components
	tiles  map[int]*j2kTile
}

// j2kComp is a component, subsampled by dx and dy.
type j2kComp struct {
	depth  int
	signed bool
	dx, dy int
	x0, y0 int
	w, h   int
	out    []int32
}

// j2kCoding holds the coding style of a component.
type j2kCoding struct {
	levels     int
	xcb, ycb   int // log2 of the sides of code blocks
	style      int
	reversible bool
	precincts  [33][2]uint8 // log2 of their sides by resolution
}

// j2kQuant holds the quantization of a component.
type j2kQuant struct {
	style, guard int
	steps        [97][2]int // exponent and mantissa per subband
}

// j2kParams holds the parameters of the main header, or of a tile, which inherits them.
type j2kParams struct {
	progression, layers int
	mct                 bool
	coding              [4]j2kCoding
	quant               [4]j2kQuant
	ownCoding, ownQuant [4]bool // set by a marker for one component
	hasCoding, hasQuant bool
}

// maxTiles is the largest number of tiles, whose indices have 16 bits.
const maxTiles = 1 << 16

// j2kTile holds the parameters and the data of a tile.
type j2kTile struct {
	params j2kParams
	data   []byte
}

var errJ2K = errors.New("jpeg2000: invalid data")

func readJP2(data []byte) (*imagecodec.Header, error) {
	ycc := false
	for r := (&imagecodec.Reader{Data: data, BigEndian: true}); ; {
		size, name := r.Uint(4), string(r.Take(4))
		n := size - 8
		switch {
		case size == 0:
			n = len(r.Data)
		case size == 1:
			if r.Uint(4) != 0 {
				return nil, errJ2K
			}
			n = r.Uint(4) - 16
		}
		if r.Short || n < 0 {
			return nil, imagecodec.ErrTruncated
		}
		if n > len(r.Data) {
			if name != "jp2c" {
				return nil, imagecodec.ErrTruncated
			}
			n = len(r.Data)
		}
		switch name {
		case "jp2h": // a superbox: read the boxes inside
		case "colr":
			b := r.Take(n)
			ycc = len(b) >= 7 && b[0] == 1 && b[6] == 18
		case "pclr":
			return nil, errors.New("jpeg2000: palettes are not supported")
		case "jp2c":
			h, d, err := readJ2K(r.Take(n))
			if err == nil {
				d.ycc = ycc
			}
			return h, err
		default:
			r.Take(n)
		}
	}
}

func readCodestream(data []byte) (*imagecodec.Header, error) {
	h, _, err := readJ2K(data)
	return h, err
}

func readJ2K(data []byte) (*imagecodec.Header, *j2k, error) {
	d := &j2k{}
	r := &imagecodec.Reader{Data: data, BigEndian: true}
	if r.Uint(2) != 0xff4f || r.Uint(2) != 0xff51 {
		return nil, nil, errJ2K
	}
	if err := d.readSize(r); err != nil {
		return nil, nil, err
	}
	d.data = r.Data
	// A tile part takes at least 14 bytes.
	tiles := min(int64(d.across)*int64(d.down), maxTiles, int64(len(data))/14)
	memory := int64(1<<20) + tiles*int64(unsafe.Sizeof(j2kTile{})+64)
	for _, c := range d.comps {
		memory += 64 * int64(c.w+64) * int64(c.h+64)
	}
	return &imagecodec.Header{Width: d.w, Height: d.h, Memory: memory + int64(len(data)), Pixels: d.decode}, d, nil
}

// readSize reads the marker segment SIZ (A.5.1).
func (d *j2k) readSize(r *imagecodec.Reader) error {
	n := r.Uint(2)
	r.Uint(2)
	d.x1, d.y1, d.x0, d.y0 = r.Uint(4), r.Uint(4), r.Uint(4), r.Uint(4)
	d.tw, d.th, d.tx, d.ty = r.Uint(4), r.Uint(4), r.Uint(4), r.Uint(4)
	count := r.Uint(2)
	if r.Short {
		return imagecodec.ErrTruncated
	}
	if count < 1 || count > 4 || n != 38+3*count {
		return fmt.Errorf("jpeg2000: image has %d components, want 1 to 4", count)
	}
	d.w, d.h = d.x1-d.x0, d.y1-d.y0
	if d.w < 1 || d.h < 1 || d.w > imagecodec.MaxSide || d.h > imagecodec.MaxSide || d.tw < 1 || d.th < 1 ||
		d.tx > d.x0 || d.ty > d.y0 || d.tx+d.tw <= d.x0 || d.ty+d.th <= d.y0 || d.x1 > math.MaxInt32 ||
		d.y1 > math.MaxInt32 {
		return errJ2K
	}
	d.across, d.down = ceilDiv(d.x1-d.tx, d.tw), ceilDiv(d.y1-d.ty, d.th)
	for range count {
		s := r.Uint(1)
		c := j2kComp{depth: s&127 + 1, signed: s>>7 == 1, dx: r.Uint(1), dy: r.Uint(1)}
		if r.Short {
			return imagecodec.ErrTruncated
		}
		if c.depth > 16 || c.dx < 1 || c.dy < 1 {
			return errJ2K
		}
		c.x0, c.y0 = ceilDiv(d.x0, c.dx), ceilDiv(d.y0, c.dy)
		c.w, c.h = ceilDiv(d.x1, c.dx)-c.x0, ceilDiv(d.y1, c.dy)-c.y0
		if c.w < 1 || c.h < 1 {
			return errJ2K
		}
		d.comps = append(d.comps, c)
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// ceilShift is ⌈a ÷ 2ⁿ⌉.
func ceilShift(a, n int) int { return (a + 1<<n - 1) >> n }

// headers reads all marker segments and collects the data of the tiles.
func (d *j2k) headers() error {
	d.tiles = map[int]*j2kTile{}
	r := &imagecodec.Reader{Data: d.data, BigEndian: true}
	var tile *j2kTile
	rest := 0 // bytes left of the current tile part after SOT
	for len(d.tiles) < maxTiles {
		m := r.Uint(2)
		if r.Short {
			if len(d.tiles) == d.across*d.down {
				return nil // only the end marker is missing
			}
			return imagecodec.ErrTruncated
		}
		if m == 0xffd9 {
			break
		}
		if m == 0xff93 { // the data of a tile part
			if tile == nil || rest > len(r.Data) {
				return imagecodec.ErrTruncated
			}
			tile.data = append(tile.data, r.Take(rest)...)
			tile = nil
			continue
		}
		n := r.Uint(2) - 2
		if r.Short || n < 0 || n > len(r.Data) {
			return imagecodec.ErrTruncated
		}
		rest -= n + 4
		s := &imagecodec.Reader{Data: r.Take(n), BigEndian: true}
		p := &d.main
		if tile != nil {
			p = &tile.params
		}
		var err error
		switch m {
		case 0xff90:
			i, size := s.Uint(2), s.Uint(4)
			if s.Short || tile != nil || i >= d.across*d.down || !d.main.hasCoding || !d.main.hasQuant {
				return errJ2K
			}
			if tile = d.tiles[i]; tile == nil {
				tile = &j2kTile{params: d.main}
				clear(tile.params.ownCoding[:])
				clear(tile.params.ownQuant[:])
				d.tiles[i] = tile
			}
			// The size includes the marker SOT and the two bytes of SOD.
			if rest = size - 12 - 2; size == 0 {
				rest = len(r.Data) - 2
			}
			if rest < 0 {
				return errJ2K
			}
		case 0xff52:
			err = p.readCOD(s)
		case 0xff53:
			if c := s.Uint(1); c < len(d.comps) {
				style := s.Uint(1)
				err = p.coding[c].read(s, style)
				p.ownCoding[c] = true
			} else {
				err = errJ2K
			}
		case 0xff5c:
			var q j2kQuant
			if err = q.read(s); err == nil {
				p.hasQuant = true
				for c := range p.quant {
					if !p.ownQuant[c] {
						p.quant[c] = q
					}
				}
			}
		case 0xff5d:
			if c := s.Uint(1); c < len(d.comps) {
				err = p.quant[c].read(s)
				p.ownQuant[c] = true
			} else {
				err = errJ2K
			}
		case 0xff5e, 0xff5f, 0xff60, 0xff61:
			return fmt.Errorf("jpeg2000: marker %#x is not supported", m)
		}
		if err != nil {
			return err
		}
	}
	if len(d.tiles) != d.across*d.down {
		return imagecodec.ErrTruncated
	}
	return nil
}

// readCOD reads the default coding style (A.6.1).
func (p *j2kParams) readCOD(s *imagecodec.Reader) error {
	style := s.Uint(1)
	p.progression, p.layers = s.Uint(1), s.Uint(2)
	mct := s.Uint(1)
	if s.Short || p.progression > 4 || p.layers < 1 || mct > 1 {
		return errJ2K
	}
	p.mct = mct == 1
	var c j2kCoding
	if err := c.read(s, style); err != nil {
		return err
	}
	p.hasCoding = true
	for i := range p.coding {
		if !p.ownCoding[i] {
			p.coding[i] = c
		}
	}
	return nil
}

// read reads the coding parameters of components (A.6.1).
func (c *j2kCoding) read(s *imagecodec.Reader, style int) error {
	*c = j2kCoding{levels: s.Uint(1), xcb: s.Uint(1) + 2, ycb: s.Uint(1) + 2, style: s.Uint(1),
		reversible: s.Uint(1) == 1}
	if s.Short || c.levels > 32 || c.xcb > 10 || c.ycb > 10 || c.xcb+c.ycb > 12 {
		return errJ2K
	}
	if c.style&5 != 0 {
		return errors.New("jpeg2000: bypassed and terminated coding passes are not supported")
	}
	for r := range c.levels + 1 {
		c.precincts[r] = [2]uint8{15, 15}
		if style&1 != 0 {
			v := s.Uint(1)
			c.precincts[r] = [2]uint8{uint8(v & 15), uint8(v >> 4)}
			if r > 0 && (v&15 == 0 || v>>4 == 0) {
				return errJ2K
			}
		}
	}
	if s.Short {
		return imagecodec.ErrTruncated
	}
	return nil
}

// read reads the quantization of components (A.6.4).
func (q *j2kQuant) read(s *imagecodec.Reader) error {
	v := s.Uint(1)
	*q = j2kQuant{style: v & 31, guard: v >> 5}
	for i := range q.steps {
		switch {
		case q.style == 0 && len(s.Data) > 0:
			q.steps[i] = [2]int{s.Uint(1) >> 3, 0}
		case q.style == 2 && len(s.Data) > 1, q.style == 1 && i == 0:
			v := s.Uint(2)
			q.steps[i] = [2]int{v >> 11, v & 2047}
		case q.style == 1:
			q.steps[i] = [2]int{max(0, q.steps[0][0]-(i-1)/3), q.steps[0][1]}
		}
	}
	if s.Short || q.style > 2 {
		return errJ2K
	}
	return nil
}

func (d *j2k) decode(dst []uint8, stop func() error) error {
	if err := d.headers(); err != nil {
		return err
	}
	for i := range d.comps {
		c := &d.comps[i]
		c.out = make([]int32, c.w*c.h)
	}
	for i := range d.across * d.down {
		if err := stop(); err != nil {
			return err
		}
		if err := d.tile(i, stop); err != nil {
			return err
		}
		delete(d.tiles, i)
	}
	return d.colours(dst, stop)
}

// colours scales the components to 8 bits and converts them to pixels.
func (d *j2k) colours(dst []uint8, stop func() error) error {
	var px [4]int
	for y := range d.h {
		if err := stop(); err != nil {
			return err
		}
		for x := range d.w {
			for i := range d.comps {
				c := &d.comps[i]
				cx := min(max((x+d.x0)/c.dx-c.x0, 0), c.w-1)
				cy := min(max((y+d.y0)/c.dy-c.y0, 0), c.h-1)
				v := int(c.out[cy*c.w+cx])
				if c.signed {
					v += 1 << (c.depth - 1)
				}
				v = min(max(v, 0), 1<<c.depth-1)
				if c.depth > 8 {
					v >>= c.depth - 8
				} else if c.depth < 8 {
					v = v * 255 / (1<<c.depth - 1)
				}
				px[i] = v
			}
			o := dst[3*(y*d.w+x):]
			o = o[:3]
			switch {
			case len(d.comps) < 3:
				o[0], o[1], o[2] = uint8(px[0]), uint8(px[0]), uint8(px[0])
			case d.ycc:
				imagecodec.YCbCr(o, px[0], px[1]-128, px[2]-128)
			default:
				o[0], o[1], o[2] = uint8(px[0]), uint8(px[1]), uint8(px[2])
			}
		}
	}
	return nil
}
