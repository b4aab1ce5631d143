package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward/onnx"
)

func TestNames(t *testing.T) {
	want := []string{"digits.onnx", "logreg_iris.onnx", "mul_1.onnx", "sigmoid.onnx"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
	for _, name := range Names() {
		if _, err := Get(name); err != nil {
			t.Error(err)
		}
	}
}

func TestGetUnknown(t *testing.T) {
	for _, name := range []string{"X", "", "x.onnx", "digit7.png", "../datasets.go", "models/sigmoid.onnx",
		"./sigmoid.onnx", "a\x00.onnx"} {
		b, err := Get(name)
		if want := fmt.Sprintf("Unable to find example '%s'", name); b != nil || err == nil || err.Error() != want {
			t.Errorf("Get(%q) = %d bytes, %v, want %s", name, len(b), err, want)
		}
		var nf *NotFoundError
		if !errors.As(err, &nf) || nf.Name != name || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%q): %#v is no *NotFoundError that is fs.ErrNotExist", name, err)
		}
	}
}

func TestPath(t *testing.T) {
	path, err := Path(t.TempDir(), "sigmoid.onnx")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want, _ := Get("sigmoid.onnx"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, %v, want %d", path, len(got), err, len(want))
	}
	if _, err := Path(t.TempDir(), "x.onnx"); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("Path of an unknown example: %v", err)
	}
	if _, err := Path(t.TempDir()+"/missing", "sigmoid.onnx"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Path to a missing folder: %v", err)
	}
}

func TestGetReturnsACopy(t *testing.T) {
	a, err := Get("sigmoid.onnx")
	if err != nil {
		t.Fatal(err)
	}
	clear(a)
	if b, err := Get("sigmoid.onnx"); err != nil || bytes.Equal(a, b) {
		t.Errorf("writing to the first result changes the second, %v", err)
	}
}

func model(t *testing.T, name string) *onnx.Model {
	t.Helper()
	b, err := Get(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Unmarshal(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// typeText writes a type as float[3,2], seq(map(7,float[])).
func typeText(ty *onnx.Type) string {
	elem := map[onnx.DataType]string{onnx.Float: "float", onnx.Int64: "int64"}
	switch {
	case ty.Tensor != nil:
		var dims []string
		for _, d := range ty.Tensor.Shape.Dims {
			if d.Kind == onnx.DimParam {
				dims = append(dims, d.Param)
			} else {
				dims = append(dims, fmt.Sprint(d.Value))
			}
		}
		return elem[ty.Tensor.ElemType] + "[" + strings.Join(dims, ",") + "]"
	case ty.Sequence != nil:
		return "seq(" + typeText(ty.Sequence.Elem) + ")"
	case ty.Map != nil:
		return "map(" + elem[ty.Map.Key] + "," + typeText(ty.Map.Value) + ")"
	}
	return "?"
}

func TestInterfaces(t *testing.T) {
	for name, want := range map[string]string{
		"logreg_iris.onnx": "float_input float[3,2] -> output_label int64[3] output_probability seq(map(int64,float[])) by LinearClassifier Normalizer Cast ZipMap",
		"mul_1.onnx":       "X float[3,2] -> Y float[3,2] by Mul",
		"sigmoid.onnx":     "x float[3,4,5] -> y float[3,4,5] by Sigmoid",
		"digits.onnx":      "image float[batch,1,8,8] -> digit int64[batch] probabilities float[batch,10] by Conv Relu Conv Relu MaxPool Flatten Gemm Softmax ArgMax",
	} {
		g := model(t, name).Graph
		var words []string
		for _, v := range g.Inputs {
			words = append(words, v.Name, typeText(v.Type))
		}
		words = append(words, "->")
		for _, v := range g.Outputs {
			words = append(words, v.Name, typeText(v.Type))
		}
		words = append(words, "by")
		for _, n := range g.Nodes {
			words = append(words, n.OpType)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestMulWeights(t *testing.T) {
	inits := model(t, "mul_1.onnx").Graph.Initializers
	if len(inits) != 1 {
		t.Fatalf("%d initializers, want 1", len(inits))
	}
	var want []byte
	for i := range 6 {
		bits := math.Float32bits(float32(i + 1))
		want = append(want, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	w := inits[0]
	if w.DataType != onnx.Float || !slices.Equal(w.Dims, []int64{3, 2}) || !bytes.Equal(w.RawData, want) {
		t.Errorf("weights are %v %v % x, want float [3 2] 1 to 6", w.DataType, w.Dims, w.RawData)
	}
}

func TestDigitsIsSmallAndSaysHowGoodItIs(t *testing.T) {
	b, err := Get("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if len(b) >= 200_000 {
		t.Errorf("digits.onnx has %d bytes, want less than 200,000", len(b))
	}
	props := model(t, "digits.onnx").MetadataProps
	if len(props) != 1 || props[0].Key != "accuracy" || !strings.HasPrefix(props[0].Value, "99.11% of 449 held-out") {
		t.Errorf("metadata is %v, want the accuracy that the package's documentation states", props)
	}
}

func TestSampleImage(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(SampleImage()))
	if err != nil {
		t.Fatal(err)
	}
	grey, ok := img.(*image.Gray)
	if !ok || grey.Rect != image.Rect(0, 0, 8, 8) {
		t.Fatalf("the image is %T %v, want *image.Gray of 8×8 pixels", img, img.Bounds())
	}
	if lo, hi := slices.Min(grey.Pix), slices.Max(grey.Pix); lo != 0 || hi != 255 {
		t.Errorf("grey levels from %d to %d, want 0 to 255", lo, hi)
	}
}
