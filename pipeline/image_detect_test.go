package pipeline

import (
	"math"
	"path/filepath"
	"strings"
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
		// 100×200 pixels become 32×64, with 16 rows of padding above. Boxes without a class are
		// left out.
		{"final", func(b *onnx.ModelBuilder) {
			b.Input("image", onnx.Float, 1, 3, 64, 64)
			b.Initializer("all", []float32{16, 20, 48, 36, 0.5, 2, 0, 0, 1, 1, 0.2, 0, 0, 0, 1, 1, 0.7, -1,
				0, 0, 1, 1, 0.6, float32(math.NaN())}, 1, 4, 6)
			b.Node("Identity", []string{"all"}, []string{"out"})
			b.Output("out", onnx.Float, 1, 4, 6)
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

// queriesFolder writes a folder whose model has the given outputs of constant numbers.
func queriesFolder(t *testing.T, config string, outputs map[string][]float32, shapes map[string][]int64) string {
	t.Helper()
	dir := t.TempDir()
	b := onnx.NewModel("queries")
	b.Input("pixel_values", onnx.Float, 1, 3, "height", "width")
	for _, name := range sortedKeys(outputs) {
		dims := make([]any, len(shapes[name]))
		for i, d := range shapes[name] {
			dims[i] = d
		}
		b.Initializer("all_"+name, outputs[name], shapes[name]...)
		b.Node("Identity", []string{"all_" + name}, []string{name})
		b.Output(name, onnx.Float, dims...)
	}
	m, err := b.Model()
	if err == nil {
		err = onnx.WriteFile(filepath.Join(dir, "model.onnx"), m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), config)
	write(t, filepath.Join(dir, "preprocessor_config.json"),
		`{"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}`)
	return dir
}

// TestImageDetectorTop checks how many scores of sigmoids count: 100, or for RT-DETR as many as
// there are queries.
func TestImageDetectorTop(t *testing.T) {
	const queries, classes = 40, 3
	logits, boxes := make([]float32, queries*classes), make([]float32, queries*4)
	for i := range logits {
		logits[i] = float32(i*37%len(logits)) / 10
	}
	for kind, want := range map[string]int{"conditional_detr": 100, "deformable_detr": 100, "rt_detr": queries,
		"d_fine": queries, "detr": queries} {
		dir := queriesFolder(t, `{"model_type": "`+kind+`"}`,
			map[string][]float32{"logits": logits, "pred_boxes": boxes},
			map[string][]int64{"logits": {1, queries, classes}, "pred_boxes": {1, queries, 4}})
		d, err := OpenObjectDetector(t.Context(), dir, &ObjectDetectorOptions{Threshold: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		got, err := d.Detect(t.Context(), small())
		if err != nil || len(got) != want {
			t.Fatalf("%s: %d objects, %v, want %d", kind, len(got), err, want)
		}
		first, last := sigmoid(11.9), sigmoid(12-float32(want)/10)
		if kind != "detr" && (got[0].Score != first || got[want-1].Score != last) {
			t.Errorf("%s: scores from %v to %v, want %v to %v", kind, got[0].Score, got[want-1].Score, first, last)
		}
	}
}

// TestSegmenterRefusesQueries checks that masks of queries are not taken for classes.
func TestSegmenterRefusesQueries(t *testing.T) {
	for name, mask := range map[string]string{"logits": "pred_masks", "class_queries_logits": "masks_queries_logits"} {
		dir := queriesFolder(t, "{}", map[string][]float32{name: make([]float32, 6), mask: make([]float32, 8)},
			map[string][]int64{name: {1, 2, 3}, mask: {1, 2, 2, 2}})
		if _, err := OpenSegmenter(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), mask) {
			t.Errorf("error %v, want one that names %s", err, mask)
		}
	}
}

// TestImageRegression checks that the scores of a regression are the outputs of the model.
func TestImageRegression(t *testing.T) {
	for problem, want := range map[string]float32{"regression": -7, "multi_label_classification": sigmoid(-7)} {
		dir := queriesFolder(t, `{"problem_type": "`+problem+`"}`, map[string][]float32{"logits": {-7, -8}},
			map[string][]int64{"logits": {1, 2}})
		c, err := OpenImageClassifier(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, err := c.Classify(t.Context(), small(), 1); err != nil || got[0].Score != want {
			t.Errorf("%s: got %v, %v, want %v", problem, got, err, want)
		}
	}
}
