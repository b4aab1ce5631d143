package imageinput

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"testing"
)

// photo returns a JPEG image of 16×8 pixels, black but for a white block of 8×8 pixels on the left,
// with an orientation in its Exif data.
func photo(tb testing.TB, o byte, big bool) []byte {
	m := image.NewGray(image.Rect(0, 0, 16, 8))
	for y := range 8 {
		for x := range 8 {
			m.SetGray(x, y, color.Gray{255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		tb.Fatal(err)
	}
	tiff := []byte{'I', 'I', 42, 0, 8, 0, 0, 0, 2, 0, 0x0f, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		0x12, 1, 3, 0, 1, 0, 0, 0, o, 0, 0, 0}
	if big {
		tiff = []byte{'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, o, 0, 0}
	}
	data := append([]byte("Exif\x00\x00"), tiff...)
	file := append([]byte{0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xe1, 0, byte(len(data) + 2)}, data...)
	return append(file, b.Bytes()[2:]...)
}

// TestOrientation checks where the white half is, in the order of rows and columns.
func TestOrientation(t *testing.T) {
	for o, want := range []struct {
		h, w  int
		white [2]int // a row and a column within
		black [2]int
	}{
		0: {8, 16, [2]int{4, 3}, [2]int{4, 12}}, 1: {8, 16, [2]int{4, 3}, [2]int{4, 12}},
		2: {8, 16, [2]int{4, 12}, [2]int{4, 3}}, 3: {8, 16, [2]int{4, 12}, [2]int{4, 3}},
		4: {8, 16, [2]int{4, 3}, [2]int{4, 12}}, 5: {16, 8, [2]int{3, 4}, [2]int{12, 4}},
		6: {16, 8, [2]int{3, 4}, [2]int{12, 4}}, 7: {16, 8, [2]int{12, 4}, [2]int{3, 4}},
		8: {16, 8, [2]int{12, 4}, [2]int{3, 4}}, 9: {8, 16, [2]int{4, 3}, [2]int{4, 12}},
	} {
		for _, big := range []bool{false, true} {
			pixels, h, w, err := Pixels(bytes.NewReader(photo(t, byte(o), big)), 1)
			if err != nil || h != want.h || w != want.w {
				t.Errorf("orientation %d: got %d×%d pixels, %v, want %d×%d", o, w, h, err, want.w, want.h)
				continue
			}
			at := func(p [2]int) uint8 { return pixels[p[0]*w+p[1]] }
			if at(want.white) < 200 || at(want.black) > 50 {
				t.Errorf("orientation %d: %v is %d and %v is %d, want white and black", o, want.white, at(want.white),
					want.black, at(want.black))
			}
		}
	}
}

// TestStored checks each orientation against its definition: where the stored row 0 and column 0
// are in the upright image.
func TestStored(t *testing.T) {
	const w, h = 3, 2
	for o, want := range map[int][4]int{ // the upright images of the stored pixels (0,0) and (2,0)
		1: {0, 0, 2, 0}, 2: {2, 0, 0, 0}, 3: {2, 1, 0, 1}, 4: {0, 1, 2, 1},
		5: {0, 0, 0, 2}, 6: {1, 0, 1, 2}, 7: {1, 2, 1, 0}, 8: {0, 2, 0, 0},
	} {
		for i, corner := range []int{0, 2} {
			if x, y := stored(o, want[2*i], want[2*i+1], w, h); x != corner || y != 0 {
				t.Errorf("orientation %d: upright (%d,%d) is stored at (%d,%d), want (%d,0)", o, want[2*i],
					want[2*i+1], x, y, corner)
			}
		}
	}
}

func FuzzOrientation(f *testing.F) {
	f.Add(photo(f, 6, false))
	f.Add(photo(f, 8, true))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o := orientation(bytes.NewReader(data)); o < upright || o > last {
			t.Errorf("orientation %d", o)
		}
	})
}
