package passes

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// encoder builds one transformer encoder layer in the forms that exporters write.
type encoder struct {
	b           *onnx.ModelBuilder
	rng         *rand.Rand
	n           int
	heads, size int
	modern      bool // LayerNormalization and Gelu are operators
	tanh        bool
	scaleQ      bool // the scale is applied to the queries
}

func (e *encoder) name() string { e.n++; return fmt.Sprintf("t%d", e.n) }

func (e *encoder) op(op string, in []string, attrs onnx.Attrs) string {
	out := e.name()
	e.b.Node(op, in, []string{out}, attrs)
	return out
}

func (e *encoder) weights(scale float64, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(e.rng.NormFloat64() * scale)
	}
	name := e.name()
	e.b.Initializer(name, data, dims...)
	return name
}

func (e *encoder) scalar(v float64) string {
	name := e.name()
	e.b.Initializer(name, float32(v))
	return name
}

func (e *encoder) ints(v ...int64) string {
	name := e.name()
	e.b.Initializer(name, v)
	return name
}

func (e *encoder) dense(x string, in, out int) string {
	y := e.op("MatMul", []string{x, e.weights(1/math.Sqrt(float64(in)), int64(in), int64(out))}, nil)
	b := e.weights(0.1, int64(out))
	if e.rng.IntN(2) == 0 {
		return e.op("Add", []string{b, y}, nil)
	}
	return e.op("Add", []string{y, b}, nil)
}

// normEpsilon is large because a row may have only two elements. If they are almost equal, their
// norm multiplies rounding errors by up to 1/√ε, and the next norm does so again.
const normEpsilon = 0.1

func (e *encoder) norm(x string, n int) string {
	scale, bias := e.weights(1, int64(n)), e.weights(0.1, int64(n))
	if e.modern {
		return e.op("LayerNormalization", []string{x, scale, bias},
			onnx.Attrs{"axis": -1, "epsilon": float32(normEpsilon)})
	}
	axes := onnx.Attrs{"axes": []int64{-1}}
	d := e.op("Sub", []string{x, e.op("ReduceMean", []string{x}, axes)}, nil)
	v := e.op("ReduceMean", []string{e.op("Pow", []string{d, e.scalar(2)}, nil)}, axes)
	q := e.op("Div", []string{d, e.op("Sqrt", []string{e.op("Add", []string{v, e.scalar(normEpsilon)}, nil)}, nil)},
		nil)
	return e.op("Add", []string{e.op("Mul", []string{q, scale}, nil), bias}, nil)
}

func (e *encoder) gelu(x string) string {
	if e.tanh {
		c := e.op("Mul", []string{e.op("Pow", []string{x, e.scalar(3)}, nil), e.scalar(0.044715)}, nil)
		t := e.op("Tanh",
			[]string{e.op("Mul", []string{e.op("Add", []string{x, c}, nil), e.scalar(math.Sqrt(2 / math.Pi))}, nil)},
			nil)
		return e.op("Mul",
			[]string{e.op("Mul", []string{x, e.scalar(0.5)}, nil), e.op("Add", []string{t, e.scalar(1)}, nil)}, nil)
	}
	t := e.op("Add",
		[]string{e.op("Erf", []string{e.op("Div", []string{x, e.scalar(math.Sqrt2)}, nil)}, nil), e.scalar(1)}, nil)
	return e.op("Mul", []string{e.op("Mul", []string{x, t}, nil), e.scalar(0.5)}, nil)
}

func (e *encoder) layer(x string) string {
	h, d := e.heads, e.size
	w := h * d
	split := func(x string, perm []int64) string {
		r := e.op("Reshape", []string{x, e.ints(0, 0, int64(h), int64(d))}, nil)
		return e.op("Transpose", []string{r}, onnx.Attrs{"perm": perm})
	}
	q := split(e.dense(x, w, w), []int64{0, 2, 1, 3})
	k := split(e.dense(x, w, w), []int64{0, 2, 3, 1})
	v := split(e.dense(x, w, w), []int64{0, 2, 1, 3})
	scale := 1 / math.Sqrt(float64(d))
	if e.scaleQ {
		q = e.op("Mul", []string{q, e.scalar(scale)}, nil)
	}
	s := e.op("MatMul", []string{q, k}, nil)
	if !e.scaleQ {
		s = e.op("Div", []string{s, e.scalar(1 / scale)}, nil)
	}
	p := e.op("Softmax", []string{s}, onnx.Attrs{"axis": -1})
	o := e.op("Transpose", []string{e.op("MatMul", []string{p, v}, nil)}, onnx.Attrs{"perm": []int64{0, 2, 1, 3}})
	o = e.dense(e.op("Reshape", []string{o, e.ints(0, 0, int64(w))}, nil), w, w)
	x = e.norm(e.op("Add", []string{o, x}, nil), w)
	f := e.dense(e.gelu(e.dense(x, w, 2*w)), 2*w, w)
	return e.norm(e.op("Add", []string{f, x}, nil), w)
}

// This test compares cpu with reference on transformer encoders and checks that cpu fuses
// them.
func TestEncoders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &encoder{b: onnx.NewModel("encoder").Opset("", 17),
			rng:   rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))),
			heads: rapid.IntRange(1, 4).Draw(t, "heads"), size: rapid.IntRange(1, 20).Draw(t, "size"),
			modern: rapid.Bool().Draw(t, "modern"), tanh: rapid.Bool().Draw(t, "tanh"), scaleQ: rapid.Bool().Draw(t, "scaleQ")}
		w := e.heads * e.size
		batch, length := rapid.IntRange(1, 3).Draw(t, "batch"), rapid.IntRange(1, 40).Draw(t, "length")
		e.b.Input("x", onnx.Float, "N", "S", w)
		layers := rapid.IntRange(1, 2).Draw(t, "layers")
		y := "x"
		for range layers {
			y = e.layer(y)
		}
		e.b.Output(y, onnx.Float, "N", "S", w)
		m := e.b.Must()
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, batch, length, w))
		for i, d := 0, tensor.MustData[float32](x); i < len(d); i++ {
			d[i] = float32(e.rng.NormFloat64())
		}
		var want *tensor.Tensor
		for _, p := range enginetest.Engines {
			s, err := onward.OpenModel(t.Context(), m, enginetest.On(p))
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			ran := map[string]int{}
			for i := range 5 {
				opts := &onward.RunOptions{}
				if i == 0 {
					opts.Observe = func(n onward.NodeRun) { ran[n.OpType]++ }
				}
				out, err := s.Run(context.Background(), onward.Values{"x": x}, opts)
				if err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				got := out[y].(*tensor.Tensor)
				if want == nil {
					want = got
				}
				if err := tensor.AllClose(got, want, 2e-4, enginetest.Tolerance(want)); err != nil {
					t.Fatalf("%s: %v", p, err)
				}
			}
			if p != "cpu" {
				continue
			}
			b, err := s.NewBinding()
			if err != nil {
				t.Fatal(err)
			}
			enginetest.CheckBinding(t, s, b, x)
			for op, n := range map[string]int{"Linear": 6 * layers, "Attention": layers,
				"LayerNormalization": 2 * layers, "StridedMatMul": 0, "Softmax": 0,
				"Transpose": 0, "MatMul": 0, "Mul": 0, "Div": 0, "Erf": 0, "Tanh": 0, "Gelu": 0, "Add": 0} {
				if ran[op] != n {
					t.Fatalf("%d %s ran, want %d; all: %v", ran[op], op, n, ran)
				}
			}
		}
	})
}
