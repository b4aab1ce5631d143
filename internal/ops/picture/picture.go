// Package picture decodes the picture formats that ONNX's ImageDecoder lists:
// JPEG, JPEG 2000, PNG, BMP, TIFF, WebP and the portable formats PBM, PGM, PPM and PAM
// (https://onnx.ai/onnx/operators/onnx__ImageDecoder.html).
//
// Pictures come from outside: every decoder first reads the header alone, so
// that the caller can weigh size and memory before anything is allocated.
package picture

import (
	"bytes"
	"errors"
	"fmt"
)

// Header is what a picture says of itself before it is decoded.
type Header struct {
	Width, Height int
	// Memory is a bound of the bytes that decoding takes besides the result.
	Memory int64

	decode func(dst []uint8, stop func() error) error
}

// maxSide is the longest side of a picture in pixels: a row of it fits memory,
// and products of two sides fit an int.
const maxSide = 1 << 24

// ErrFormat is returned for bytes of no known picture format.
var ErrFormat = errors.New("picture: unknown format")

// format is one picture format: magic is how its files start, '?' standing for
// any byte.
type format struct {
	magic string
	read  func(data []byte) (*Header, error)
}

var formats = []format{
	{"\xff\xd8\xff", readJPEG},
	{"\x89PNG\r\n\x1a\n", readPNG},
	{"BM", readBMP},
	{"II*\x00", readTIFF},
	{"MM\x00*", readTIFF},
	{"RIFF????WEBP", readWebP},
	{"\x00\x00\x00\x0cjP  \r\n\x87\n", readJP2},
	{"\xff\x4f\xff\x51", readCodestream},
	{"P1", readPNM}, {"P2", readPNM}, {"P3", readPNM}, {"P4", readPNM}, {"P5", readPNM}, {"P6", readPNM}, {"P7", readPNM},
}

// ReadHeader finds out what data holds and how much memory it takes.
func ReadHeader(data []byte) (*Header, error) {
	for _, f := range formats {
		if !matches(data, f.magic) {
			continue
		}
		h, err := f.read(data)
		if err != nil {
			return nil, err
		}
		if h.Width < 1 || h.Height < 1 || h.Width > maxSide || h.Height > maxSide {
			return nil, fmt.Errorf("picture: %d×%d pixels, want sides in [1, %d]", h.Width, h.Height, maxSide)
		}
		return h, nil
	}
	return nil, ErrFormat
}

func matches(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && data[i] != magic[i] {
			return false
		}
	}
	return true
}

// Decode writes the pixels to dst, row by row from the top, three bytes red,
// green and blue each; transparency is dropped. dst must hold
// Width·Height·3 bytes. It gives up with stop's error once there is one.
func (h *Header) Decode(dst []uint8, stop func() error) error {
	if len(dst) != h.Width*h.Height*3 {
		return fmt.Errorf("picture: %d bytes for %d×%d pixels", len(dst), h.Width, h.Height)
	}
	return h.decode(dst, stop)
}

// reader reads numbers from the front of a slice; beyond its end they are 0 and
// short is set.
type reader struct {
	data  []byte
	big   bool
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.short, r.data = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) uint(n int) int {
	v := 0
	b := r.take(n)
	for i := range b {
		if r.big {
			v = v<<8 | int(b[i])
		} else {
			v |= int(b[i]) << (8 * i)
		}
	}
	return v
}

// int32 reads a signed number of 4 bytes.
func (r *reader) int32() int { return int(int32(uint32(r.uint(4)))) }

// errShort tells that a file ends within its pixels or headers.
var errShort = errors.New("picture: the data is cut off")

// gray writes n pixels of one brightness each.
func gray(dst, src []uint8) {
	for i, v := range src {
		d := dst[3*i : 3*i+3]
		d[0], d[1], d[2] = v, v, v
	}
}

func newReader(data []byte) *bytes.Reader { return bytes.NewReader(data) }
