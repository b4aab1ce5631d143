package calibration

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// digits returns the images of the example's test set, in batches, and their labels.
func digits(t *testing.T, size int) (batches []onward.Values, labels string) {
	t.Helper()
	sheet, err := os.ReadFile("../datasets/testdata/digits_heldout.png")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../datasets/testdata/digits_heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(sheet))
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	for _, p := range img.(*image.Gray).Pix {
		x = append(x, float32(p)/255)
	}
	for part := range slices.Chunk(x, 64*size) {
		batches = append(batches, onward.Values{"image": tensor.Must(tensor.New(part, len(part)/64, 1, 8, 8))})
	}
	return batches, strings.TrimSpace(string(text))
}

// way is a way to quantize a model.
type way struct {
	name     string
	quantize func(m *onnx.Model, table *Table) (*onnx.Model, error)
	integer  []string // operators that the engine cpu computes with
}

func ways() []way {
	static := func(o QuantizeOptions) func(*onnx.Model, *Table) (*onnx.Model, error) {
		return func(m *onnx.Model, t *Table) (*onnx.Model, error) { return QuantizeStatic(m, t, &o) }
	}
	conv := []string{"QLinearConv", "QGemm"}
	return []way{
		{"qdq", static(QuantizeOptions{}), conv},
		{"qdq per channel", static(QuantizeOptions{PerChannel: true}), conv},
		{"qdq int8", static(QuantizeOptions{Activation: tensor.TypeInt8, SymmetricActivations: true, PerChannel: true,
			ReduceRange: ortlib.Saturates()}), conv},
		{"qdq uint8 reduced", static(QuantizeOptions{Weight: tensor.TypeUint8, ReduceRange: true}), conv},
		{"operators", static(QuantizeOptions{Style: QOperator}), conv},
		{"operators per channel", static(QuantizeOptions{Style: QOperator, PerChannel: true}), conv},
		{"dynamic", func(m *onnx.Model, _ *Table) (*onnx.Model, error) { return QuantizeDynamic(m, nil) }, []string{"ConvInteger", "MatMulInteger"}},
		{"4 bits", func(m *onnx.Model, _ *Table) (*onnx.Model, error) {
			return QuantizeMatMulNBits(m, &NBitsOptions{Block: 16})
		}, []string{"MatMulNBits"}},
		{"8 bits", func(m *onnx.Model, _ *Table) (*onnx.Model, error) {
			return QuantizeMatMulNBits(m, &NBitsOptions{Bits: 8, Symmetric: true})
		}, []string{"MatMulNBits"}},
	}
}

// onProviders returns the engines to test: also ONNX Runtime if its library is installed.
func onProviders(t *testing.T) []string {
	t.Helper()
	lib, err := ortlib.Find()
	if err != nil {
		t.Run("ort", func(t *testing.T) { ortlib.Path(t) }) // counts as skipped
		return []string{"cpu", "reference"}
	}
	t.Setenv(ortlib.Env, lib)
	return []string{"cpu", "reference", "ort"}
}

// integerOperators runs a model on the engine cpu. It fails if one of the operators did not
// run, or if a float operator ran in its place.
func integerOperators(t *testing.T, m *onnx.Model, feed onward.Values, want []string) {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	if _, err := s.Run(t.Context(), feed, &onward.RunOptions{Observe: func(r onward.NodeRun) {
		op := r.OpType
		if x, ok := r.In[0].(*tensor.Tensor); ok && op == "Linear" && x.DType() != tensor.TypeFloat32 {
			op = "MatMulInteger" // with packed weights
		}
		ran[op]++
	}}); err != nil {
		t.Fatal(err)
	}
	for _, op := range want {
		if ran[op] == 0 {
			t.Errorf("%s did not run: %v", op, ran)
		}
	}
	floats := []string{"Conv", "FusedConv", "Gemm", "MatMul", "Linear"}
	for _, op := range floats {
		if ran[op] > 0 && want[0] != "MatMulNBits" {
			t.Errorf("%d %s ran on floats: %v", ran[op], op, ran)
		}
	}
}

// This test checks that a quantized classifier is as accurate as the original, within one per
// cent of the images, with every calibration, quantization and engine.
func TestQuantizedDigits(t *testing.T) {
	data, err := datasets.Get("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Unmarshal(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	batches, labels := digits(t, 64)
	providers := onProviders(t)
	right := func(m *onnx.Model, provider string) int {
		n, at := 0, 0
		for _, feed := range batches {
			for _, d := range tensor.MustData[int64](runOn(t, m, provider, feed)["digit"].(*tensor.Tensor)) {
				if d == int64(labels[at]-'0') {
					n++
				}
				at++
			}
		}
		if at != len(labels) {
			t.Fatalf("%d answers, want %d", at, len(labels))
		}
		return n
	}
	original := right(m, "cpu")
	for _, method := range []Method{MinMax, Entropy, Percentile} {
		table, err := Calibrate(t.Context(), m, Batches(batches...),
			&Options{Method: method, MaxBatches: 2, OpTypes: StaticOps()})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ways() {
			if method != MinMax && w.name != "qdq" && w.name != "operators per channel" {
				continue
			}
			t.Run(fmt.Sprint(method, "/", w.name), func(t *testing.T) {
				q, err := w.quantize(m, table)
				if err != nil {
					t.Fatal(err)
				}
				q = checkModel(t, q)
				integerOperators(t, q, batches[0], w.integer)
				for _, p := range providers {
					if n := right(q, p); float64(original-n) > 0.01*float64(len(labels)) {
						t.Errorf("%s classifies %d of %d images correctly, the original %d", p, n,
							len(labels), original)
					}
				}
				report, err := Evaluate(t.Context(), m, q, Batches(batches...), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, out := range report.Outputs {
					if out.Agreement() < 0.99 {
						t.Errorf("output %q agrees for %.1f%%", out.Name, 100*out.Agreement())
					}
				}
			})
		}
	}
}

// residualModel is a small residual network with batch normalization and random weights: a
// first convolution, two blocks, the second with a stride and a projection, pooling and a
// classifier.
func residualModel(t *testing.T) *onnx.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	b := onnx.NewModel("residual").Opset("", 17)
	b.Input("x", onnx.Float, "n", 3, 32, 32)
	normal := func(n int, scale, shift float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()*scale + shift)
		}
		return v
	}
	conv := func(name, x string, in, out, kernel, stride int64) string {
		k := int(in * kernel * kernel)
		b.Initializer(name+".w", normal(int(out)*k, math.Sqrt(2/float64(k)), 0), out, in, kernel, kernel)
		b.Node("Conv", []string{x, name + ".w"}, []string{name + ".c"}, onnx.Attrs{
			"pads": []int64{kernel / 2, kernel / 2, kernel / 2, kernel / 2}, "strides": []int64{stride, stride}}).Name(name)
		b.Initializer(name+".scale", normal(int(out), 0.1, 1)).Initializer(name+".shift", normal(int(out), 0.1, 0))
		b.Initializer(name+".mean", normal(int(out), 0.1, 0))
		variance := normal(int(out), 0.1, 0)
		for i, v := range variance {
			variance[i] = 1 + v*v
		}
		b.Initializer(name+".var", variance)
		b.Node("BatchNormalization",
			[]string{name + ".c", name + ".scale", name + ".shift", name + ".mean", name + ".var"}, []string{name}, nil)
		return name
	}
	relu := func(x string) string {
		b.Node("Relu", []string{x}, []string{x + ".r"}, nil)
		return x + ".r"
	}
	x := relu(conv("stem", "x", 3, 16, 3, 1))
	b.Node("MaxPool", []string{x}, []string{"pool"},
		onnx.Attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}})
	y := conv("a2", relu(conv("a1", "pool", 16, 16, 3, 1)), 16, 16, 3, 1)
	b.Node("Add", []string{y, "pool"}, []string{"a"}, nil)
	a := relu("a")
	y = conv("b2", relu(conv("b1", a, 16, 32, 3, 2)), 32, 32, 3, 1)
	b.Node("Add", []string{y, conv("down", a, 16, 32, 1, 2)}, []string{"b"}, nil)
	b.Node("GlobalAveragePool", []string{relu("b")}, []string{"gap"}, nil)
	b.Node("Flatten", []string{"gap"}, []string{"flat"}, nil)
	b.Initializer("fc.w", normal(10*32, 0.2, 0), 10, 32).Initializer("fc.b", normal(10, 0.1, 0))
	b.Node("Gemm", []string{"flat", "fc.w", "fc.b"}, []string{"y"}, onnx.Attrs{"transB": int64(1)})
	b.Output("y", onnx.Float, "n", 10)
	return b.Must()
}

// This test checks that quantization of a residual network keeps the signal.
func TestQuantizedResidualNetwork(t *testing.T) {
	m := residualModel(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var batches []onward.Values
	for range 4 {
		x := make([]float32, 2*3*32*32)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		batches = append(batches, onward.Values{"x": tensor.Must(tensor.New(x, 2, 3, 32, 32))})
	}
	// The folded model computes the same.
	folded, err := Preprocess(m)
	if err != nil {
		t.Fatal(err)
	}
	if n := operators(folded)["BatchNormalization"]; n != 0 {
		t.Errorf("%d BatchNormalization nodes remain, want 0", n)
	}
	report, err := Evaluate(t.Context(), m, checkModel(t, folded), Batches(batches...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := report.Outputs[0].SNR(); s < 100 {
		t.Errorf("the folded model is %.1f dB from the original", s)
	}
	table, err := Calibrate(t.Context(), m, Batches(batches...),
		&Options{OpTypes: append(StaticOps(), "BatchNormalization")})
	if err != nil {
		t.Fatal(err)
	}
	providers := onProviders(t)
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			q, err := w.quantize(m, table)
			if err != nil {
				t.Fatal(err)
			}
			q = checkModel(t, q)
			integerOperators(t, q, batches[0], w.integer)
			least := 20.0
			for _, p := range providers {
				r, err := Evaluate(t.Context(), m, q, Batches(batches...), &EvaluateOptions{
					Session: &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}}})
				if err != nil {
					t.Fatal(err)
				}
				out := r.Outputs[0]
				t.Logf("%s: SNR %.1f dB, cosine %.6f, largest difference %.3g, same answer %.0f%%", p, out.SNR(),
					out.Cosine(), out.MaxAbs, 100*out.Agreement())
				if out.SNR() < least {
					t.Errorf("%s: %.1f dB from the original, want %g", p, out.SNR(), least)
				}
			}
		})
	}
}
