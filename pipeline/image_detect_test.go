package pipeline

import (
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preprocess"
)

// TestImageDetectorForms checks models with the selection of boxes in the graph: YOLO v10 in a
// letterbox, and torchvision's detectors, which get the image as it is.
func TestImageDetectorForms(t *testing.T) {
	boxes := []float32{10, 20, 30, 60, 0, 0, 5, 5}
	for _, c := range []struct {
		name  string
		build func(b *onnx.ModelBuilder)
		want  []Object
	}{
		{"separate", func(b *onnx.ModelBuilder) {
			b.Input("image", onnx.Float, 3, "h", "w").Initializer("b", boxes, 2, 4)
			b.Initializer("l", []int64{1, 2}, 2).Initializer("s", []float32{0.9, 0.1}, 2)
			for _, n := range []string{"b", "l", "s"} {
				b.Node("Identity", []string{n}, []string{"out_" + n})
			}
			b.Output("out_b", onnx.Float, "n", 4).Output("out_l", onnx.Int64, "n").Output("out_s", onnx.Float, "n")
		}, []Object{{"dog", 0.9, Point{10, 20}, Point{30, 60}}}},
		// 100×200 pixels become 32×64, with 16 rows of padding above
		{"final", func(b *onnx.ModelBuilder) {
			b.Input("image", onnx.Float, 1, 3, 64, 64)
			b.Initializer("all", []float32{16, 20, 48, 36, 0.5, 2, 0, 0, 1, 1, 0.2, 0}, 1, 2, 6)
			b.Node("Identity", []string{"all"}, []string{"out"})
			b.Output("out", onnx.Float, 1, 2, 6)
		}, []Object{{"bird", 0.5, Point{50, 12.5}, Point{150, 62.5}}}},
	} {
		dir := t.TempDir()
		b := onnx.NewModel(c.name).Metadata("names", "{0: 'cat', 1: 'dog', 2: 'bird'}")
		c.build(b)
		m, err := b.Model()
		if err == nil {
			err = onnx.WriteFile(filepath.Join(dir, "detector.onnx"), m, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := OpenObjectDetector(t.Context(), dir, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		defer d.Close()
		image, err := preprocess.NewImage(100, 200, 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Detect(t.Context(), image)
		if err != nil || len(got) != len(c.want) || got[0] != c.want[0] {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := OpenObjectDetector(t.Context(), t.TempDir(), nil); err == nil {
		t.Error("an empty folder: no error")
	}
}
