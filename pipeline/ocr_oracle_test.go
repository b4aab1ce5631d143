package pipeline

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/preprocess"
)

// TestOCROracle compares lines with those that rapidocr reads: at least 98 % must have the same
// text, and as many boxes whose intersection over union is above 0.95.
func TestOCROracle(t *testing.T) {
	var r *TextRecognizer
	lines, same, boxes, exact, least := 0, 0, 0, 0, 1.0
	oracleMedia(t, "ocr", func(line []byte) {
		var c struct {
			Image, Models string
			Lines         []struct {
				Text  string
				Score float64
				Box   [4][2]float32
			}
		}
		readJSON(t, line, &c)
		var err error
		if r == nil {
			if r, err = OpenTextRecognizer(t.Context(), c.Models, nil); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.Recognize(t.Context(), readImage(t, c.Image))
		if err != nil {
			t.Fatal(err)
		}
		lines += max(len(got), len(c.Lines))
		for i := range min(len(got), len(c.Lines)) {
			want := c.Lines[i]
			if got[i].Text == want.Text && math.Abs(got[i].Score-want.Score) < 0.01 {
				same++
			} else {
				t.Logf("%s: %q %.3f, want %q %.3f", c.Image, got[i].Text, got[i].Score, want.Text, want.Score)
			}
			var box [4]Point
			for k, p := range want.Box {
				box[k] = Point{p[0], p[1]}
			}
			if got[i].Box == box {
				exact++
			}
			common := overlapOf(got[i].Box, box)
			least = min(least, common)
			if common > 0.95 {
				boxes++
			}
		}
	})
	t.Logf("%d lines: %d with the same text, %d boxes alike and %d equal, the least overlap is %.3f", lines, same,
		boxes, exact, least)
	if lines < 20 || same*100 < lines*98 || boxes*100 < lines*98 {
		t.Errorf("of %d lines %d have the same text and %d the same box, want 98 %%", lines, same, boxes)
	}
	if r != nil {
		r.Close()
	}
}

// overlapOf returns the intersection over union of two quadrilaterals, in quarters of pixels.
func overlapOf(a, b [4]Point) float64 {
	const fine = 4
	w, h := 0, 0
	for _, p := range append(a[:], b[:]...) {
		w, h = max(w, int(p.X*fine)+1), max(h, int(p.Y*fine)+1)
	}
	fill := func(q [4]Point) []bool {
		mask := make([]bool, w*h)
		var corners []pixel
		for _, p := range q {
			corners = append(corners, pixel{int(p.X * fine), int(p.Y * fine)})
		}
		fillPolygon(mask, h, w, corners)
		return mask
	}
	x, y := fill(a), fill(b)
	both, any := 0, 0
	for i := range x {
		if x[i] && y[i] {
			both++
		}
		if x[i] || y[i] {
			any++
		}
	}
	return float64(both) / float64(any)
}

// TestImageYOLOOracle compares objects with those that NumPy and torchvision's NMS find with
// nudenet's YOLO v8, also in the form of the outputs of version 5.
func TestImageYOLOOracle(t *testing.T) {
	n := 0
	oracleMedia(t, "yolo", func(line []byte) {
		var c struct {
			Image, Folder string
			Threshold     float32
			Boxes         [][4]float64
			Scores        []float64
			Labels        []string
		}
		readJSON(t, line, &c)
		d, err := OpenObjectDetector(t.Context(), c.Folder, &ObjectDetectorOptions{Threshold: c.Threshold, Size: 320})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		got, err := d.Detect(t.Context(), readImage(t, c.Image))
		if err != nil {
			t.Fatal(err)
		}
		n += len(got)
		if len(got) != len(c.Boxes) {
			t.Errorf("%s: %d objects, want %d: %v", c.Folder, len(got), len(c.Boxes), got)
			return
		}
		for i, o := range got {
			b := c.Boxes[i]
			if o.Label != c.Labels[i] || !near(float64(o.Score), c.Scores[i], 1e-4) || !o.within(b) {
				t.Errorf("%s: object %d is %v, want %s %v %v", c.Folder, i, o, c.Labels[i], c.Scores[i], b)
			}
		}
	})
	if n == 0 {
		t.Error("no object was found")
	}
	t.Logf("%d objects", n)
}

// TestTextRecognizerSizes checks images that cannot hold text, and broken ones.
func TestTextRecognizerSizes(t *testing.T) {
	for _, c := range []struct {
		m    *preprocess.Image
		fail bool
	}{
		{nil, true},
		{&preprocess.Image{Height: 10, Width: 10, Channels: 3}, true},
		{&preprocess.Image{Height: -1, Width: 10, Channels: 3}, true},
		{&preprocess.Image{Height: 1, Width: 4000, Channels: 1, Pixels: make([]uint8, 4000)}, true},
		{&preprocess.Image{Height: 20, Width: 4000, Channels: 1, Pixels: make([]uint8, 80000)}, true},
		{&preprocess.Image{Height: 40, Width: 1200, Channels: 4, Pixels: make([]uint8, 192000)}, false},
		{&preprocess.Image{Height: 40, Width: 50, Channels: 1, Pixels: make([]uint8, 2000)}, false},
	} {
		p, err := newPage(c.m)
		if (err != nil) != c.fail {
			t.Errorf("%v: error %v", c.m, err)
		}
		if err == nil && (p.image.Channels != 3 || p.image.Width > 8*p.image.Height) {
			t.Errorf("page has %d×%d pixels", p.image.Width, p.image.Height)
		}
	}
}
