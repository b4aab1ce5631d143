// Package newoperator adds an operator to ai.onnx in one file, as a contributor would, and
// tests that the engine and its passes need no other.
package newoperator

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// softSquare computes x·|x| / (1 + |x|) of each element.
type softSquare struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "SoftSquare", Since: kit.Versions{1}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*softSquare](softSquareF32), Build: kit.WithoutAttrs[softSquare],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { // |x|·(2 + |x|) / (1 + |x|)²
		a := b.Op("Abs", x)
		n := b.Plus(a, 1)
		return b.Op("Mul", g, b.Op("Div", b.Op("Mul", a, b.Plus(n, 1)), b.Op("Mul", n, n)))
	})})

var softSquareLoops = elementwise.FloatLoops(softSquareLoop[float32], softSquareLoop[float64], softSquareF32)

// Run implements [ir.Operator].
func (*softSquare) Run(c *ir.Call) error {
	return elementwise.MapTable(c, softSquareLoops, kit.GrainCheap)
}

func softSquareLoop[T kit.FloatNumber](dst, src []T) {
	for i, x := range src {
		dst[i] = x * max(x, -x) / (1 + max(x, -x))
	}
}

func softSquareF32(_ cpu.Level, dst, x []float32) { softSquareLoop(dst, x) }

func TestInferAndRun(t *testing.T) {
	optest.Want(t, "SoftSquare", 21, nil, optest.Tensor([]float32{-0.5, 0, 0.5, 2.25}, 2, 2),
		optest.Tensor([]float32{-1, 0, 1, 3}, 2, 2))
	optest.Want(t, "SoftSquare", 21, nil, optest.Tensor([]float64{-4.0 / 3, 0.5}), optest.Tensor([]float64{-2, 1}))
	optest.Want(t, "SoftSquare", 21, nil, optest.Tensor([]tensor.Float16{tensor.NewFloat16(0.5)}),
		optest.Tensor([]tensor.Float16{tensor.NewFloat16(1)}))
}

// build makes a model of one input and the nodes that add gives it.
func build(add func(b *onnx.ModelBuilder)) *onnx.Model {
	b := onnx.NewModel("m").Opset("", 21)
	add(b)
	b.Output("y", onnx.Float)
	return b.Must()
}

func ramp(n int) []float32 {
	r := make([]float32, n)
	for i := range r {
		r[i] = float32(i%7)/4 - 0.7
	}
	return r
}

// models are models in which passes fuse an elementwise operator, with the operators that
// remain.
var models = []struct {
	name, want string
	shape      []int
	model      *onnx.Model
}{
	{"behind a dense layer", "Linear", []int{3, 8}, build(func(b *onnx.ModelBuilder) {
		b.Input("x", onnx.Float, 3, 8).Initializer("w", ramp(40), 8, 5)
		b.Node("MatMul", []string{"x", "w"}, []string{"p"})
		b.Node("SoftSquare", []string{"p"}, []string{"y"})
	})},
	{"behind a blocked convolution", "ToBlocked BlockedConv FromBlocked", []int{1, 16, 9, 9}, build(func(b *onnx.ModelBuilder) {
		b.Input("x", onnx.Float, 1, 16, 9, 9).Initializer("w", ramp(16*16*9), 16, 16, 3, 3)
		b.Node("Conv", []string{"x", "w"}, []string{"c"})
		b.Node("SoftSquare", []string{"c"}, []string{"y"})
	})},
	{"between integers", "QuantizeLinear ByteMap DequantizeLinear", []int{300}, build(func(b *onnx.ModelBuilder) {
		b.Input("x", onnx.Float, 300).Initializer("s", float32(0.02)).Initializer("q", uint8(128)).
			Initializer("r", float32(0.03))
		b.Node("QuantizeLinear", []string{"x", "s", "q"}, []string{"i"})
		b.Node("DequantizeLinear", []string{"i", "s", "q"}, []string{"f"})
		b.Node("SoftSquare", []string{"f"}, []string{"g"})
		b.Node("QuantizeLinear", []string{"g", "r", "q"}, []string{"j"})
		b.Node("DequantizeLinear", []string{"j", "r", "q"}, []string{"y"})
	})},
}

func TestPassesFuse(t *testing.T) {
	for _, c := range models {
		t.Run(c.name, func(t *testing.T) {
			g, err := frontend.Convert(c.model, frontend.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := &optimize.Options{Level: optimize.All,
				Eval: func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
					return exec.Eval(t.Context(), g, n, in, limit)
				}}
			if err := optimize.Run(t.Context(), g, o); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range g.Nodes {
				got = append(got, n.OpType)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("optimized to %s, want %s", s, c.want)
			}
		})
	}
}

// TestProvidersAgree runs the models with all passes and with none.
func TestProvidersAgree(t *testing.T) {
	for _, c := range models {
		t.Run(c.name, func(t *testing.T) {
			n := kit.Product(c.shape)
			x := tensor.Must(tensor.New(ramp(n), c.shape...))
			var out [2][]float32
			for i, provider := range []string{"reference", "cpu"} {
				s, err := onward.OpenModel(context.Background(), c.model,
					&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				r, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
				if err != nil {
					t.Fatal(err)
				}
				out[i] = slices.Clone(tensor.MustData[float32](r["y"].(*tensor.Tensor)))
			}
			for i, v := range out[0] {
				if d := v - out[1][i]; !(max(d, -d) <= 1e-4*(1+max(v, -v))) {
					t.Fatalf("element %d is %v, want %v", i, out[1][i], v)
				}
			}
		})
	}
}

func TestGradient(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.Double, 4)
	b.Node("SoftSquare", []string{"x"}, []string{"y"})
	b.Node("ReduceSum", []string{"y"}, []string{"z"}, onnx.Attrs{"keepdims": 0})
	b.Node("Gradient", []string{"x"}, []string{"dx"}, onnx.Attrs{"xs": []string{"x"}, "y": "z"}).
		Domain("ai.onnx.preview.training")
	b.Output("y", onnx.Double, 4).Output("dx", onnx.Double, 4)
	s, err := onward.OpenModel(t.Context(), b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := []float64{-2, -0.25, 0.5, 3}
	run := func(shift float64) map[string][]float64 {
		x := slices.Clone(at)
		for i := range x {
			x[i] += shift
		}
		r, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.New(x, 4))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]float64{"y": slices.Clone(tensor.MustData[float64](r["y"].(*tensor.Tensor))),
			"dx": slices.Clone(tensor.MustData[float64](r["dx"].(*tensor.Tensor)))}
	}
	const h = 1e-5
	above, below, got := run(h)["y"], run(-h)["y"], run(0)["dx"]
	for i, x := range at {
		if want := (above[i] - below[i]) / (2 * h); math.Abs(got[i]-want) > 1e-7 {
			t.Errorf("derivative at %v is %v, want %v", x, got[i], want)
		}
	}
}
