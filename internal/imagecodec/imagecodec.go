// Package imagecodec decodes the image formats that ONNX's ImageDecoder lists
// (https://onnx.ai/onnx/operators/onnx__ImageDecoder.html).
//
// As in the standard library's package image, a format is registered by importing
// the package of its codec. Images are untrusted input: a codec first reads the
// header alone, so that the caller can check size and memory before pixels are
// allocated.
package imagecodec

import (
	"errors"
	"fmt"
	"io"
)

// Header describes an image before its pixels are decoded.
type Header struct {
	Width, Height int
	// Memory bounds the bytes that decoding allocates besides the result.
	Memory int64
	// Pixels decodes into dst; see Decode.
	Pixels func(dst []uint8, stop func() error) error
}

// MaxSide is the largest width or height in pixels. A row of it fits in memory, and
// the product of two sides fits in an int.
const MaxSide = 1 << 24

// ErrFormat is returned for data of an unknown image format.
var ErrFormat = errors.New("imagecodec: unknown format")

// ErrTruncated is returned for data that ends within its headers or pixels.
var ErrTruncated = errors.New("imagecodec: data is truncated")

// A NotLinkedError is returned for data of a format that is known but not
// registered, because the program does not import its codec.
type NotLinkedError struct {
	Format string
	Import string // the package to import
}

// Error implements error.
func (e *NotLinkedError) Error() string {
	return fmt.Sprintf("the codec for %s is not linked into this program: import _ %q", e.Format, e.Import)
}

// format is a registered format.
type format struct {
	magic      string
	readHeader func(data []byte) (*Header, error)
}

var formats []format

// optional lists the formats that only programs with the named import decode.
var optional = []struct{ magic, name, path string }{
	{"RIFF????WEBP", "WebP", "github.com/onward-ml/onward/imagecodec/webp"},
	{"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000", "github.com/onward-ml/onward/imagecodec/jpeg2000"},
	{"\xff\x4f\xff\x51", "JPEG 2000", "github.com/onward-ml/onward/imagecodec/jpeg2000"},
}

// RegisterFormat registers a codec for data that starts with magic, in which '?'
// matches any byte. It must be called from an init function.
func RegisterFormat(magic string, readHeader func(data []byte) (*Header, error)) {
	formats = append(formats, format{magic, readHeader})
}

// ReadHeader returns the size of an image and the memory that decoding it takes.
func ReadHeader(data []byte) (*Header, error) {
	for _, f := range formats {
		if !HasMagic(data, f.magic) {
			continue
		}
		h, err := f.readHeader(data)
		if err != nil {
			return nil, err
		}
		if h.Width < 1 || h.Height < 1 || h.Width > MaxSide || h.Height > MaxSide {
			return nil, fmt.Errorf("imagecodec: image has %d×%d pixels, want sides in [1, %d]", h.Width,
				h.Height, MaxSide)
		}
		return h, nil
	}
	for _, f := range optional {
		if HasMagic(data, f.magic) {
			return nil, &NotLinkedError{f.name, f.path}
		}
	}
	return nil, ErrFormat
}

// HasMagic reports whether data starts with magic, in which '?' matches any byte.
func HasMagic(data []byte, magic string) bool {
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

// Decode writes the pixels to dst, row by row from the top, as three bytes each: red,
// green and blue. Transparency is dropped. dst must hold Width·Height·3 bytes.
// Decode returns the error of stop, which it calls repeatedly, once that is not nil.
func (h *Header) Decode(dst []uint8, stop func() error) error {
	if len(dst) != h.Width*h.Height*3 {
		return fmt.Errorf("imagecodec: buffer has %d bytes, want %d×%d×3", len(dst), h.Width, h.Height)
	}
	return h.Pixels(dst, stop)
}

// A Reader reads integers from the front of Data. Reading past the end returns 0 and
// sets Short.
type Reader struct {
	Data      []byte
	BigEndian bool
	Short     bool
}

// Take returns the next n bytes. Past the end it returns up to 8 zeros.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Data) {
		r.Short, r.Data = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

// Uint reads an unsigned integer of n bytes.
func (r *Reader) Uint(n int) int {
	v := 0
	b := r.Take(n)
	for i := range b {
		if r.BigEndian {
			v = v<<8 | int(b[i])
		} else {
			v |= int(b[i]) << (8 * i)
		}
	}
	return v
}

// Int32 reads a signed integer of 4 bytes.
func (r *Reader) Int32() int { return int(int32(uint32(r.Uint(4)))) }

// A StopReader reads from Reader and fails once Stop returns an error.
type StopReader struct {
	io.Reader
	Stop func() error
}

// Read implements io.Reader.
func (r *StopReader) Read(b []byte) (int, error) {
	if err := r.Stop(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// Gray writes one pixel of equal red, green and blue for each byte of src.
func Gray(dst, src []uint8) {
	for i, v := range src {
		d := dst[3*i : 3*i+3]
		d[0], d[1], d[2] = v, v, v
	}
}

// YCbCr writes one pixel from a luma sample and the chroma samples minus 128, by ITU-R
// BT.601 with full range, in 16-bit fixed point.
func YCbCr(dst []uint8, y, cb, cr int) {
	const half = 1 << 15
	dst = dst[:3]
	dst[0] = Clamp(y + (91881*cr+half)>>16)
	dst[1] = Clamp(y + (-22554*cb-46802*cr+half)>>16)
	dst[2] = Clamp(y + (116130*cb+half)>>16)
}

// Clamp limits v to [0, 255].
func Clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }

// RGB writes one pixel for each four bytes of w×h pixels in pix, with
// a row stride in bytes, and drops every fourth byte.
func RGB(dst, pix []uint8, stride, w, h int) {
	for y := range h {
		row := pix[y*stride : y*stride+4*w]
		for x := range w {
			copy(dst[3*(y*w+x):3*(y*w+x)+3], row[4*x:])
		}
	}
}
