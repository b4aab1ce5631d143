package imagecodec_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"runtime"
	"testing"

	"github.com/onward-ml/onward/internal/imagecodec"
)

// codestream is the main header of a JPEG 2000 file of one component, with tiles of t×t pixels.
func codestream(size, t uint32, layers uint16, block byte) []byte {
	return big([]byte{0xff, 0x4f, 0xff, 0x51}, uint16(41), uint16(0), size, size, uint32(0), uint32(0), t, t, uint32(0),
		uint32(0), uint16(1), []byte{7, 1, 1},
		[]byte{0xff, 0x52}, uint16(12), []byte{0, 0}, layers, []byte{0, 0, block, block, 0, 1},
		[]byte{0xff, 0x5c}, uint16(4), []byte{0x60, 27 << 3})
}

func big(parts ...any) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		_ = binary.Write(&b, binary.BigEndian, p)
	}
	return b.Bytes()
}

// tilePart appends a tile part.
func tilePart(b []byte, index uint16, data []byte) []byte {
	b = append(b, big([]byte{0xff, 0x90}, uint16(10), index, uint32(14+len(data)), []byte{0, 1, 0xff, 0x93})...)
	return append(b, data...)
}

// packet is the header of a packet whose blocks, in a grid of n×n, have 164 passes and no data.
func packet(n int) []byte {
	var out []byte
	cur, left := byte(0), 8
	put := func(bits ...byte) {
		for _, v := range bits {
			left--
			cur |= v << left
			if left == 0 {
				out = append(out, cur)
				if left = 8; cur == 0xff {
					left = 7
				}
				cur = 0
			}
		}
	}
	put(1)
	for y := range n {
		for x := range n {
			for range 2 { // a bit for each node that is new, from the root on
				for level := n; level > 0; level /= 2 {
					if x%level == 0 && y%level == 0 {
						put(1)
					}
				}
			}
			put(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0)
			put(make([]byte, 10)...)
		}
	}
	put(make([]byte, 8)...)
	return out
}

// TestDecodingStops checks that decoders ask stop while they decode images whose files are small,
// or whose pixels are few, for the work.
func TestDecodingStops(t *testing.T) {
	var deep, indexed, deflated bytes.Buffer
	_ = png.Encode(&deep, image.NewNRGBA64(image.Rect(0, 0, 1000, 1000)))
	_ = png.Encode(&indexed, image.NewPaletted(image.Rect(0, 0, 1000, 1000), color.Palette{color.White, color.Black}))
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write(make([]byte, 1000*4000))
	_ = z.Close()
	tiff := func(compression uint32, data []byte) []byte {
		return tiffFile(data, tagWidth, 1000, tagHeight, 4000, tagBits, 8, tagPhotometric, 1, tagCompression,
			compression)
	}
	for _, c := range []struct {
		name  string
		data  []byte
		least int
	}{
		{"BMP, runs beyond the row", bitmap(1, 1, 8, 1, palette(256), bytes.Repeat([]byte{255, 0}, 1<<18)...), 64},
		{"PNG of 16 bits", deep.Bytes(), 1000},
		{"PNG with a palette", indexed.Bytes(), 1000},
		{"TIFF, one strip", tiff(1, make([]byte, 1000*4000)), 4000},
		{"TIFF, one deflated strip", tiff(8, deflated.Bytes()), 4000},
		{"JPEG 2000, one precinct", tilePart(codestream(512, 512, 1, 4), 0, packet(8)), 64},
	} {
		h, err := imagecodec.ReadHeader(c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		asked := 0
		err = h.Decode(make([]uint8, 3*h.Width*h.Height), func() error {
			asked++
			return nil
		})
		if asked < c.least {
			t.Errorf("%s: stop is called %d times, want at least %d; error %v", c.name, asked, c.least, err)
		}
	}
}

// TestMemoryOfTiles checks that the memory of the parameters of tiles is in Header.Memory.
func TestMemoryOfTiles(t *testing.T) {
	data := codestream(256, 1, 1, 4)
	for i := range 1<<16 - 1 { // the last one is missing
		data = tilePart(data, uint16(i), nil)
	}
	h, err := imagecodec.ReadHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]uint8, 3*h.Width*h.Height)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = h.Decode(dst, func() error { return nil })
	runtime.ReadMemStats(&after)
	if n := int64(after.TotalAlloc - before.TotalAlloc); err == nil || n > h.Memory+32<<20 {
		t.Errorf("decoding takes %d bytes, Memory is %d; error %v", n, h.Memory, err)
	}
}
