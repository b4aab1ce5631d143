package datasets_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

// onEachEngine runs test on a session of the example for each engine.
func onEachEngine(t *testing.T, name string, test func(t *testing.T, s *onward.Session)) {
	t.Helper()
	b, err := datasets.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"reference", "cpu"} {
		t.Run(engine, func(t *testing.T) {
			s, err := onward.OpenBytes(t.Context(), b,
				&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: engine}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			test(t, s)
		})
	}
}

func run(t *testing.T, s *onward.Session, input string, data []float32, shape ...int) onward.Values {
	t.Helper()
	x, err := tensor.New(data, shape...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Run(context.Background(), onward.Values{input: x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func elements[T tensor.Element](t *testing.T, v tensor.Value) []T {
	t.Helper()
	x, ok := v.(*tensor.Tensor)
	if !ok {
		t.Fatalf("%T is no tensor", v)
	}
	d, err := tensor.Data[T](x)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func near(a, b float32, tol float64) bool { return math.Abs(float64(a)-float64(b)) <= tol }

// The expected numbers are those of ONNX Runtime 1.31 for the same file.
func TestIrisResults(t *testing.T) {
	onEachEngine(t, "logreg_iris.onnx", func(t *testing.T, s *onward.Session) {
		for _, c := range []struct {
			x      []float32
			labels []int64
			probs  [][]float32
		}{
			{[]float32{1, 2, 3, 4, 5, 6}, []int64{0, 0, 0}, [][]float32{
				{0.8418933749, 0.1497989893, 0.0083076637}, {0.9760215878, 0.0211643539, 0.0028140789}, {0.9969007373, 0.0022622447, 0.0008369925}}},
			{[]float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}, []int64{0, 2, 2}, [][]float32{
				{0.8180571198, 0.1140970141, 0.0678458437}, {0.0512021482, 0.4419798553, 0.5068179965}, {0.1674687117, 0.4128083289, 0.4197229445}}},
			{[]float32{-1, -2, -1, -2, -1, -2}, []int64{1, 1, 1}, [][]float32{
				{0.0058272453, 0.6399332881, 0.3542394340}, {0.0058272453, 0.6399332881, 0.3542394340}, {0.0058272453, 0.6399332881, 0.3542394340}}},
		} {
			out := run(t, s, "float_input", c.x, 3, 2)
			if got := elements[int64](t, out["output_label"]); !slices.Equal(got, c.labels) {
				t.Errorf("labels of %v are %v, want %v", c.x, got, c.labels)
			}
			seq, ok := out["output_probability"].(*tensor.Sequence)
			if !ok || len(seq.Items) != 3 {
				t.Fatalf("output_probability is %T %v, want a sequence of 3 maps", out["output_probability"],
					out["output_probability"])
			}
			for i, item := range seq.Items {
				m, ok := item.(*tensor.Map)
				if !ok {
					t.Fatalf("item %d is %T, want a map", i, item)
				}
				if keys := elements[int64](t, m.Keys); !slices.Equal(keys, []int64{0, 1, 2}) {
					t.Errorf("keys %v, want 0, 1, 2", keys)
				}
				if got := elements[float32](t, m.Values); !slices.EqualFunc(got, c.probs[i], func(a, b float32) bool {
					return near(a, b, 1e-6)
				}) {
					t.Errorf("row %d of %v: %v, want %v", i, c.x, got, c.probs[i])
				}
			}
		}
	})
}

func TestIrisRefusesOneFlower(t *testing.T) {
	onEachEngine(t, "logreg_iris.onnx", func(t *testing.T, s *onward.Session) {
		x := tensor.Must(tensor.New([]float32{1, 2}, 1, 2))
		_, err := s.Run(context.Background(), onward.Values{"float_input": x}, nil)
		const want = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for " +
			"the following indices\n" +
			" index: 0 Got: 1 Expected: 3\n Please fix either the inputs or the model."
		if !errors.Is(err, onward.ErrInvalidArgument) || err.Error() != want {
			t.Errorf("got  %q\nwant %q", err, want)
		}
	})
}

func TestMulResults(t *testing.T) {
	onEachEngine(t, "mul_1.onnx", func(t *testing.T, s *onward.Session) {
		got := elements[float32](t, run(t, s, "X", []float32{1, 2, 3, 4, 5, 6}, 3, 2)["Y"])
		if want := []float32{1, 4, 9, 16, 25, 36}; !slices.Equal(got, want) {
			t.Errorf("Y = %v, want %v", got, want)
		}
	})
}

func TestSigmoidResults(t *testing.T) {
	x := make([]float32, 60)
	for i := range x {
		x[i] = float32(i-30) / 3
	}
	onEachEngine(t, "sigmoid.onnx", func(t *testing.T, s *onward.Session) {
		for i, y := range elements[float32](t, run(t, s, "x", x, 3, 4, 5)["y"]) {
			if want := float32(1 / (1 + math.Exp(-float64(x[i])))); !near(y, want, 1e-6) {
				t.Errorf("sigmoid(%v) = %v, want %v", x[i], y, want)
			}
		}
	})
}

// images turns a PNG of images one below the other into input for digits.onnx.
func images(t *testing.T, b []byte) []float32 {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	grey, ok := img.(*image.Gray)
	if !ok || grey.Stride != 8 {
		t.Fatalf("the image is %T %v, want grey, 8 wide", img, img.Bounds())
	}
	x := make([]float32, len(grey.Pix))
	for i, p := range grey.Pix {
		x[i] = float32(p) / 255
	}
	return x
}

func TestDigitsReadsTheSampleImage(t *testing.T) {
	x := images(t, datasets.SampleImage())
	onEachEngine(t, "digits.onnx", func(t *testing.T, s *onward.Session) {
		out := run(t, s, "image", x, 1, 1, 8, 8)
		if got := elements[int64](t, out["digit"]); !slices.Equal(got, []int64{datasets.SampleDigit}) {
			t.Errorf("digit = %v, want [%d]", got, datasets.SampleDigit)
		}
		// ONNX Runtime 1.31's result.
		if p := elements[float32](t, out["probabilities"]); len(p) != 10 || !near(p[7], 0.99985254, 1e-6) {
			t.Errorf("probabilities = %v, want 0.99985254 for 7", p)
		}
	})
}

// The package's documentation says 445 of 449.
func TestDigitsAccuracy(t *testing.T) {
	sheet, err := os.ReadFile("testdata/digits_heldout.png")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/digits_heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	labels := strings.TrimSpace(string(text))
	x := images(t, sheet)
	onEachEngine(t, "digits.onnx", func(t *testing.T, s *onward.Session) {
		right := 0
		for i, d := range elements[int64](t, run(t, s, "image", x, len(labels), 1, 8, 8)["digit"]) {
			if d == int64(labels[i]-'0') {
				right++
			}
		}
		if right != 445 || len(labels) != 449 {
			t.Errorf("%d of %d images are read right, want 445 of 449", right, len(labels))
		}
	})
}
