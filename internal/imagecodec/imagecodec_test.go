package imagecodec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/imagecodec"
	_ "github.com/onward-ml/onward/internal/imagecodec/bmp"
	_ "github.com/onward-ml/onward/internal/imagecodec/jpeg"
	_ "github.com/onward-ml/onward/internal/imagecodec/jpeg2000"
	_ "github.com/onward-ml/onward/internal/imagecodec/png"
	_ "github.com/onward-ml/onward/internal/imagecodec/pnm"
	_ "github.com/onward-ml/onward/internal/imagecodec/tiff"
	_ "github.com/onward-ml/onward/internal/imagecodec/webp"
)

// decode decodes a whole image.
func decode(data []byte) (*imagecodec.Header, []uint8, error) {
	h, err := imagecodec.ReadHeader(data)
	if err != nil {
		return nil, nil, err
	}
	if h.Width*h.Height > 1<<22 {
		return h, nil, errors.New("too large for a test")
	}
	dst := make([]uint8, h.Width*h.Height*3)
	return h, dst, h.Decode(dst, func() error { return nil })
}

func want(t *testing.T, name string, data []byte, w, h int, px ...uint8) {
	t.Helper()
	hd, got, err := decode(data)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if hd.Width != w || hd.Height != h || !bytes.Equal(got, px) {
		t.Errorf("%s: %d×%d %v, want %d×%d %v", name, hd.Width, hd.Height, got, w, h, px)
	}
}

func pack(parts ...any) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		if s, ok := p.(string); ok {
			b.WriteString(s)
		} else {
			binary.Write(&b, binary.LittleEndian, p)
		}
	}
	return b.Bytes()
}

// bitmap builds a BMP file.
func bitmap(w, h int32, depth uint16, compression uint32, extra []byte, pixels ...byte) []byte {
	start := uint32(54 + len(extra))
	return pack("BM", uint32(0), uint32(0), start, uint32(40), w, h, uint16(1), depth, compression, uint32(0),
		uint32(0), uint32(0), uint32(0), uint32(0), extra, pixels)
}

var palette2 = []byte{0, 0, 0, 0, 30, 20, 10, 0}

func palette(n int) []byte { return append(append([]byte{}, palette2...), make([]byte, 4*n-8)...) }

// Tags of TIFF.
const (
	tagWidth       = 256
	tagHeight      = 257
	tagBits        = 258
	tagCompression = 259
	tagPhotometric = 262
	tagOffsets     = 273
	tagSamples     = 277
	tagCounts      = 279
	tagPredictor   = 317
)

// tiffFile builds a TIFF file of one strip from pairs of a tag and its value.
func tiffFile(px []byte, list ...uint32) []byte {
	list = append(list, tagOffsets, 8, tagCounts, uint32(len(px)))
	b := pack("II*\x00", uint32(8+len(px)+len(px)%2), px, make([]byte, len(px)%2), uint16(len(list)/2))
	for i := 0; i < len(list); i += 2 {
		b = append(b, pack(uint16(list[i]), uint16(4), uint32(1), list[i+1])...)
	}
	return append(b, 0, 0, 0, 0)
}

func samples() map[string][]byte {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	img.Set(0, 0, color.NRGBA{200, 100, 50, 255})
	img.Set(1, 0, color.NRGBA{1, 2, 3, 128})
	var p, j bytes.Buffer
	_ = png.Encode(&p, img)
	_ = jpeg.Encode(&j, image.NewGray(image.Rect(0, 0, 9, 3)), nil)
	return map[string][]byte{
		"bmp24":    bitmap(2, -1, 24, 0, nil, 1, 2, 3, 4, 5, 6, 0, 0),
		"bmp1":     bitmap(9, 1, 1, 0, palette2, 0x80, 0x80, 0, 0),
		"bmp16":    bitmap(1, 1, 16, 0, nil, 0xff, 0x7c, 0, 0),
		"bmp565":   bitmap(1, 1, 16, 3, pack(uint32(0xf800), uint32(0x7e0), uint32(0x1f)), 0xe0, 0x07, 0, 0),
		"bmprle8":  bitmap(3, 2, 8, 1, palette(256), 2, 1, 0, 0, 0, 3, 1, 0, 1, 0, 0, 1),
		"bmprle4":  bitmap(3, 1, 4, 2, palette(16), 3, 0x10, 0, 1),
		"pbm":      []byte("P4 9 1\n\x80\x80"),
		"pbmplain": []byte("P1 # c\n3 1\n10 1"),
		"pgm16":    []byte("P5 1 1 65535\n\x80\x00"),
		"pgm":      []byte("P2 2 1 10\n0 5"),
		"ppm":      []byte("P6\n1 1\n255\nabc"),
		"pam":      []byte("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\nabcd"),
		"tiffrgb":  tiffFile([]byte{1, 2, 3, 4, 5, 6}, tagWidth, 2, tagHeight, 1, tagBits, 8, tagSamples, 3, tagPhotometric, 2),
		"tiffbw":   tiffFile([]byte{0x40}, tagWidth, 2, tagHeight, 1, tagPhotometric, 0),
		"tiffbits": tiffFile([]byte{0xfe, 7, 0, 9}, tagWidth, 4, tagHeight, 1, tagBits, 8, tagPhotometric, 1, tagCompression, 32773),
		// 256 (clear), 7, 258 (7 7), 8, 257 (end), 9 bits each.
		"tifflzw":  tiffFile([]byte{0x80, 0x01, 0xe0, 0x40, 0x88, 0x08, 0x08}, tagWidth, 4, tagHeight, 1, tagBits, 8, tagPhotometric, 1, tagCompression, 5),
		"tiffpred": tiffFile([]byte{5, 1, 1, 255}, tagWidth, 4, tagHeight, 1, tagBits, 8, tagPhotometric, 1, tagPredictor, 2),
		"png":      p.Bytes(),
		"jpeg":     j.Bytes(),
	}
}

func TestFormats(t *testing.T) {
	s := samples()
	want(t, "bmp24", s["bmp24"], 2, 1, 3, 2, 1, 6, 5, 4)
	want(t, "bmp1", s["bmp1"], 9, 1, 10, 20, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 10, 20, 30)
	want(t, "bmp16", s["bmp16"], 1, 1, 255, 58, 255)
	want(t, "bmp565", s["bmp565"], 1, 1, 0, 255, 0)
	want(t, "bmprle8", s["bmprle8"], 3, 2, 10, 20, 30, 0, 0, 0, 10, 20, 30, 10, 20, 30, 10, 20, 30, 0, 0, 0)
	want(t, "bmprle4", s["bmprle4"], 3, 1, 10, 20, 30, 0, 0, 0, 10, 20, 30)
	want(t, "pbm", s["pbm"], 9, 1, append(append(make([]uint8, 3), bytes.Repeat([]byte{255}, 21)...), 0, 0, 0)...)
	want(t, "pbmplain", s["pbmplain"], 3, 1, 0, 0, 0, 255, 255, 255, 0, 0, 0)
	want(t, "pgm16", s["pgm16"], 1, 1, 128, 128, 128)
	want(t, "pgm", s["pgm"], 2, 1, 0, 0, 0, 128, 128, 128)
	want(t, "ppm", s["ppm"], 1, 1, 'a', 'b', 'c')
	want(t, "pam", s["pam"], 1, 1, 'a', 'b', 'c')
	want(t, "tiffrgb", s["tiffrgb"], 2, 1, 1, 2, 3, 4, 5, 6)
	want(t, "tiffbw", s["tiffbw"], 2, 1, 255, 255, 255, 0, 0, 0)
	want(t, "tiffbits", s["tiffbits"], 4, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 9, 9, 9)
	want(t, "tifflzw", s["tifflzw"], 4, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8)
	want(t, "tiffpred", s["tiffpred"], 4, 1, 5, 5, 5, 6, 6, 6, 7, 7, 7, 6, 6, 6)
	want(t, "png", s["png"], 2, 1, 200, 100, 50, 1, 2, 3)
}

// TestTruncated cuts every sample at every byte: an error or an image, no panic.
func TestTruncated(t *testing.T) {
	for name, data := range samples() {
		for n := range data {
			if _, _, err := decode(data[:n]); err == nil && n < len(data)/2 {
				t.Errorf("%s of %d bytes decodes from %d", name, len(data), n)
			}
		}
	}
}

func TestHugeHeaders(t *testing.T) {
	for name, data := range map[string][]byte{
		"bmp": bitmap(1<<30, 1<<30, 24, 0, nil),
		"pgm": []byte("P5 99999999 99999999 255\n"),
		"rle": bitmap(1<<23, 1<<23, 8, 1, palette(256), 0, 1),
	} {
		h, err := imagecodec.ReadHeader(data)
		if err == nil && h.Width*h.Height < 1<<40 {
			t.Errorf("%s: %d×%d", name, h.Width, h.Height)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, data := range samples() {
		f.Add(data)
	}
	for _, data := range files(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { _, _, _ = decode(data) })
}

// files returns the images of testdata. pixels.txt holds for each its width, height and
// the SHA-256 sum of the pixels that Pillow 13 decodes with libjpeg-turbo, libwebp and
// OpenJPEG.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	r := map[string][]byte{}
	for line := range strings.Lines(readFile(t, "pixels.txt")) {
		name, _, _ := strings.Cut(line, " ")
		r[line] = []byte(readFile(t, name))
	}
	return r
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFilesEqualOtherDecoders(t *testing.T) {
	for line, data := range files(t) {
		h, px, err := decode(data)
		name, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := fmt.Sprintf("%d %d %x", h.Width, h.Height, sha256.Sum256(px)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestDamagedFiles cuts files and flips bytes: an image or an error, no panic.
func TestDamagedFiles(t *testing.T) {
	for _, data := range files(t) {
		for n := 0; n < len(data); n += 1 + len(data)/300 {
			_, _, _ = decode(data[:n])
			bad := bytes.Clone(data)
			bad[n] ^= 0x55
			_, _, _ = decode(bad)
		}
	}
}

// TestLossyJPEG2000 allows a difference of 1, since floating-point sums round differently.
func TestLossyJPEG2000(t *testing.T) {
	_, px, err := decode([]byte(readFile(t, "lossy.jp2")))
	want := []byte(readFile(t, "lossy.rgb"))
	if err != nil || len(px) != len(want) {
		t.Fatalf("%d bytes, %v, want %d", len(px), err, len(want))
	}
	for i, v := range px {
		if d := int(v) - int(want[i]); d < -1 || d > 1 {
			t.Fatalf("byte %d is %d, want %d", i, v, want[i])
		}
	}
}
