// Package bmp registers Windows bitmaps with imagecodec
// (https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage).
package bmp

import (
	"fmt"
	"math/bits"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() { imagecodec.RegisterFormat("BM", readBMP) }

// bmp is a bitmap: rows of pixels, by default from the bottom up, each padded to a
// multiple of 4 bytes.
type bmp struct {
	w, h    int
	topDown bool
	depth   int // bits per pixel
	rle     bool
	masks   [3]uint32 // of red, green and blue
	palette [256][3]uint8
	pixels  []byte
}

func readBMP(data []byte) (*imagecodec.Header, error) {
	r := &imagecodec.Reader{Data: data}
	r.Take(10)
	start := r.Uint(4)
	size := r.Uint(4)
	m := &bmp{}
	compression, colours := 0, 0
	if size == 12 {
		m.w, m.h = r.Uint(2), r.Uint(2)
		r.Take(2)
		m.depth = r.Uint(2)
	} else {
		m.w, m.h = r.Int32(), r.Int32()
		r.Take(2)
		m.depth, compression = r.Uint(2), r.Uint(4)
		r.Take(12)
		colours = r.Uint(4)
		r.Take(4)
	}
	if m.h < 0 {
		m.h, m.topDown = -m.h, true
	}
	switch {
	case r.Short:
		return nil, imagecodec.ErrTruncated
	case size != 12 && size < 40:
		return nil, fmt.Errorf("bmp: info header has %d bytes, want 12 or at least 40", size)
	case m.w < 1 || m.h < 1 || m.w > imagecodec.MaxSide || m.h > imagecodec.MaxSide:
		return nil, fmt.Errorf("bmp: image has %d×%d pixels", m.w, m.h)
	}
	switch m.depth {
	case 16:
		m.masks = [3]uint32{31 << 10, 31 << 5, 31}
	case 32:
		m.masks = [3]uint32{255 << 16, 255 << 8, 255}
	case 1, 4, 8, 24:
	default:
		return nil, fmt.Errorf("bmp: %d bits per pixel are not supported", m.depth)
	}
	switch {
	case compression == 0:
	case compression == 1 && m.depth == 8, compression == 2 && m.depth == 4:
		m.rle = true
	case (compression == 3 || compression == 6) && (m.depth == 16 || m.depth == 32):
		// The masks follow a header of 40 bytes; longer headers contain them.
		for i := range m.masks {
			m.masks[i] = uint32(r.Uint(4))
		}
		if size == 40 {
			size += 12
			if compression == 6 {
				size += 4
			}
		}
	default:
		return nil, fmt.Errorf("bmp: %d bits per pixel with compression %d are not supported", m.depth, compression)
	}
	if m.depth <= 8 {
		entry := 4
		if size == 12 {
			entry = 3
		}
		n := 1 << m.depth
		if colours > 0 && colours < n {
			n = colours
		}
		p := &imagecodec.Reader{Data: data}
		p.Take(14 + size)
		for i := range n {
			c := p.Take(entry)
			m.palette[i] = [3]uint8{c[2], c[1], c[0]}
		}
		if p.Short {
			return nil, imagecodec.ErrTruncated
		}
	}
	if start > len(data) {
		return nil, imagecodec.ErrTruncated
	}
	m.pixels = data[start:]
	if !m.rle && len(m.pixels) < m.stride()*(m.h-1)+(m.w*m.depth+7)/8 {
		return nil, imagecodec.ErrTruncated
	}
	return &imagecodec.Header{Width: m.w, Height: m.h, Memory: int64(m.w) * int64(m.h), Pixels: m.decode}, nil
}

func (m *bmp) stride() int { return (m.w*m.depth + 31) / 32 * 4 }

// row returns the output row for the y-th stored row.
func (m *bmp) row(dst []uint8, y int) []uint8 {
	if !m.topDown {
		y = m.h - 1 - y
	}
	return dst[3*m.w*y : 3*m.w*(y+1)]
}

func (m *bmp) decode(dst []uint8, stop func() error) error {
	if m.rle {
		return m.decodeRLE(dst, stop)
	}
	for y := range m.h {
		if err := stop(); err != nil {
			return err
		}
		src := m.pixels[m.stride()*y:]
		out := m.row(dst, y)
		switch m.depth {
		case 24:
			for x := range m.w {
				out[3*x], out[3*x+1], out[3*x+2] = src[3*x+2], src[3*x+1], src[3*x]
			}
		case 16:
			for x := range m.w {
				m.masked(out[3*x:], uint32(src[2*x])|uint32(src[2*x+1])<<8)
			}
		case 32:
			for x := range m.w {
				s := src[4*x : 4*x+4]
				m.masked(out[3*x:], uint32(s[0])|uint32(s[1])<<8|uint32(s[2])<<16|uint32(s[3])<<24)
			}
		default:
			per := 8 / m.depth
			for x := range m.w {
				v := src[x/per] >> (8 - m.depth*(x%per+1)) & (1<<m.depth - 1)
				copy(out[3*x:3*x+3], m.palette[v][:])
			}
		}
	}
	return nil
}

// masked extracts the colours of a pixel by the masks and scales each to 8 bits.
func (m *bmp) masked(dst []uint8, v uint32) {
	for i, mask := range m.masks {
		n := bits.OnesCount32(mask)
		if n == 0 {
			dst[i] = 0
			continue
		}
		c := uint64((v & mask) >> bits.TrailingZeros32(mask))
		top := uint64(1)<<n - 1
		dst[i] = uint8((c*255 + top/2) / top)
	}
}

// decodeRLE decodes runs: a count and a value, or 0 and an escape. An escape is the end of
// the row (0), the end of the image (1), a move (2) or a number of literal values.
func (m *bmp) decodeRLE(dst []uint8, stop func() error) error {
	for i := range m.w * m.h {
		if i%m.w == 0 {
			if err := stop(); err != nil {
				return err
			}
		}
		copy(dst[3*i:3*i+3], m.palette[0][:])
	}
	r := &imagecodec.Reader{Data: m.pixels}
	x, y := 0, 0
	put := func(v uint8) {
		if x < m.w && y < m.h {
			copy(m.row(dst, y)[3*x:3*x+3], m.palette[v][:])
		}
		x++
	}
	for codes := 0; y < m.h; codes++ {
		if codes%4096 == 0 { // each is up to 255 pixels
			if err := stop(); err != nil {
				return err
			}
		}
		n, v := r.Uint(1), r.Uint(1)
		if r.Short {
			return imagecodec.ErrTruncated
		}
		switch {
		case n > 0:
			for k := range n {
				if m.depth == 8 {
					put(uint8(v))
				} else {
					put(uint8(v) >> (4 * (1 - k%2)) & 15)
				}
			}
		case v == 0:
			x = 0
			y++
		case v == 1:
			return nil
		case v == 2:
			x += r.Uint(1)
			y += r.Uint(1)
		default:
			size := v
			if m.depth == 4 {
				size = (v + 1) / 2
			}
			b := r.Take(size + size%2)
			if r.Short {
				return imagecodec.ErrTruncated
			}
			for k := range v {
				if m.depth == 8 {
					put(b[k])
				} else {
					put(b[k/2] >> (4 * (1 - k%2)) & 15)
				}
			}
		}
	}
	return nil
}
