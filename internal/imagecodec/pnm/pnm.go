// Package pnm registers the Netpbm formats with imagecodec: plain and raw PBM, PGM and
// PPM, and PAM (https://netpbm.sourceforge.net/doc/).
package pnm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() {
	for _, magic := range []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7"} {
		imagecodec.RegisterFormat(magic, readPNM)
	}
}

// pnm is an image of the Netpbm family.
type pnm struct {
	w, h, channels, max int
	plain, bitmap       bool
	pixels              []byte
}

func readPNM(data []byte) (*imagecodec.Header, error) {
	m := &pnm{max: 1, channels: 1}
	kind := data[1]
	rest := data[2:]
	if kind == '7' {
		var err error
		if rest, err = m.readPAM(rest); err != nil {
			return nil, err
		}
	} else {
		fields := []*int{&m.w, &m.h, &m.max}
		m.plain, m.bitmap = kind <= '3', kind == '1' || kind == '4'
		if m.bitmap {
			fields = fields[:2]
		}
		if kind == '3' || kind == '6' {
			m.channels = 3
		}
		for _, f := range fields {
			v, r, ok := pnmNumber(rest)
			if !ok {
				return nil, imagecodec.ErrTruncated
			}
			*f, rest = v, r
		}
		if len(rest) == 0 {
			return nil, imagecodec.ErrTruncated
		}
		rest = rest[1:] // a single whitespace character
	}
	m.pixels = rest
	if m.w < 1 || m.h < 1 || m.w > imagecodec.MaxSide || m.h > imagecodec.MaxSide || m.max < 1 || m.max > 65535 {
		return nil, fmt.Errorf("pnm: image has %d×%d pixels with maximum %d", m.w, m.h, m.max)
	}
	// A plain number takes at least one byte and, except in bitmaps, a whitespace character.
	need := m.w * m.h * m.channels
	switch {
	case m.plain && m.bitmap:
	case m.plain:
		need = 2*need - 1
	case m.bitmap:
		need = (m.w + 7) / 8 * m.h
	case m.max > 255:
		need *= 2
	}
	if len(m.pixels) < need {
		return nil, imagecodec.ErrTruncated
	}
	return &imagecodec.Header{Width: m.w, Height: m.h, Pixels: m.decode}, nil
}

// readPAM reads the header of a PAM file: lines with a name and a value.
func (m *pnm) readPAM(data []byte) ([]byte, error) {
	text := data[:min(len(data), 4096)]
	for used := 0; ; {
		line, _, ok := strings.Cut(string(text[used:]), "\n")
		if !ok {
			return nil, imagecodec.ErrTruncated
		}
		used += len(line) + 1
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		switch name {
		case "ENDHDR":
			if m.channels < 1 || m.channels > 4 {
				return nil, fmt.Errorf("pnm: image has %d channels, want 1 to 4", m.channels)
			}
			return data[used:], nil
		case "WIDTH":
			m.w = n
		case "HEIGHT":
			m.h = n
		case "DEPTH":
			m.channels = n
		case "MAXVAL":
			m.max = n
		default:
			err = nil
		}
		if err != nil {
			return nil, fmt.Errorf("pnm: header field %s: %w", name, err)
		}
	}
}

// pnmNumber reads a decimal number after whitespace and comments.
func pnmNumber(b []byte) (v int, rest []byte, ok bool) {
	for len(b) > 0 {
		switch c := b[0]; {
		case c == '#':
			for len(b) > 0 && b[0] != '\n' {
				b = b[1:]
			}
		case c == ' ' || c >= '\t' && c <= '\r':
			b = b[1:]
		case c < '0' || c > '9':
			return 0, nil, false
		default:
			for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
				v = min(v*10+int(b[0]-'0'), 1<<30)
				b = b[1:]
			}
			return v, b, true
		}
	}
	return 0, nil, false
}

func (m *pnm) decode(dst []uint8, stop func() error) error {
	next, err := m.samples()
	if err != nil {
		return err
	}
	var px [4]int
	for i := range m.w * m.h {
		if i%m.w == 0 {
			if err := stop(); err != nil {
				return err
			}
		}
		for k := range m.channels {
			v, ok := next(i % m.w)
			if !ok {
				return imagecodec.ErrTruncated
			}
			if m.bitmap {
				px[k] = 255 * (1 - v)
			} else {
				px[k] = (min(v, m.max)*255 + m.max/2) / m.max
			}
		}
		d := dst[3*i : 3*i+3]
		if m.channels < 3 {
			d[0], d[1], d[2] = uint8(px[0]), uint8(px[0]), uint8(px[0])
		} else {
			d[0], d[1], d[2] = uint8(px[0]), uint8(px[1]), uint8(px[2])
		}
	}
	return nil
}

// samples returns a function that reads the next sample, which is in column x.
func (m *pnm) samples() (func(x int) (int, bool), error) {
	b := m.pixels
	switch {
	case m.plain && m.bitmap: // digits may follow each other without whitespace
		return func(int) (int, bool) {
			for len(b) > 0 && b[0] != '0' && b[0] != '1' {
				if b[0] == '#' {
					for len(b) > 0 && b[0] != '\n' {
						b = b[1:]
					}
					continue
				}
				b = b[1:]
			}
			if len(b) == 0 {
				return 0, false
			}
			v := int(b[0] - '0')
			b = b[1:]
			return v, true
		}, nil
	case m.plain:
		return func(int) (int, bool) {
			v, rest, ok := pnmNumber(b)
			b = rest
			return v, ok
		}, nil
	case m.bitmap:
		return func(x int) (int, bool) {
			v := int(b[0] >> (7 - x%8) & 1)
			if x%8 == 7 || x == m.w-1 {
				b = b[1:]
			}
			return v, true
		}, nil
	case m.max > 255:
		return func(int) (int, bool) {
			v := int(b[0])<<8 | int(b[1])
			b = b[2:]
			return v, true
		}, nil
	}
	return func(int) (int, bool) {
		v := int(b[0])
		b = b[1:]
		return v, true
	}, nil
}
