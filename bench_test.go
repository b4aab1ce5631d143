package onward_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// BenchmarkTinyChain measures the overhead of a run and of a node without arithmetic.
func BenchmarkTinyChain(b *testing.B) {
	for _, n := range []int{1, 100} {
		m := onnx.NewModel("chain").Opset("", 21)
		m.Input("x", onnx.Float, 1, 4).Initializer("c", []float32{1, 2, 3, 4}, 1, 4)
		prev := "x"
		for i := range n {
			out := fmt.Sprint("v", i)
			m.Node([]string{"Add", "Mul", "Relu"}[i%3], []string{prev, "c"}[:2-i%3/2], []string{out})
			prev = out
		}
		m.Output(prev, onnx.Float, 1, 4)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := onward.OpenModel(b.Context(), m.Must(), nil)
			if err != nil {
				b.Fatal(err)
			}
			feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 4))}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(context.Background(), feed, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGlue measures nodes that exporters put around the arithmetic: shapes of shapes,
// branches, and loops.
func BenchmarkGlue(b *testing.B) {
	shapes := func(m *onnx.ModelBuilder) {
		m.Initializer("zero", int64(0)).Initializer("axis", []int64{0}, 1).Initializer("minus", []int64{-1}, 1)
		prev := "x"
		for i := range 100 / 5 { // x is reshaped to [dim 0, -1]
			v := func(s string) string { return fmt.Sprint(s, i) }
			m.Node("Shape", []string{prev}, []string{v("shape")})
			m.Node("Gather", []string{v("shape"), "zero"}, []string{v("dim")})
			m.Node("Unsqueeze", []string{v("dim"), "axis"}, []string{v("dims")})
			m.Node("Concat", []string{v("dims"), "minus"}, []string{v("to")}, onnx.Attrs{"axis": int64(0)})
			m.Node("Reshape", []string{prev, v("to")}, []string{v("y")})
			prev = v("y")
		}
		m.Node("Relu", []string{prev}, []string{"y"})
	}
	branch := func(op string) *onnx.GraphBuilder {
		g := onnx.NewGraph(op)
		g.Node(op, []string{"x"}, []string{"r"})
		g.Output("r", onnx.Float, nil, nil)
		return g
	}
	branches := func(m *onnx.ModelBuilder) {
		m.Initializer("zero", []float32{0})
		m.Node("ReduceMax", []string{"x"}, []string{"most"}, onnx.Attrs{"keepdims": int64(0)})
		m.Node("Greater", []string{"most", "zero"}, []string{"positive"})
		m.Node("If", []string{"positive"}, []string{"y"},
			onnx.Attrs{"then_branch": branch("Tanh"), "else_branch": branch("Relu")})
	}
	loop := func(trips int64) func(m *onnx.ModelBuilder) {
		return func(m *onnx.ModelBuilder) {
			body := onnx.NewGraph("body")
			body.Input("i", onnx.Int64).Input("go", onnx.Bool).Input("s", onnx.Float, nil, nil)
			body.Node("Identity", []string{"go"}, []string{"on"})
			body.Node("Add", []string{"s", "x"}, []string{"next"})
			body.Output("on", onnx.Bool).Output("next", onnx.Float, nil, nil)
			m.Initializer("trips", []int64{trips})
			m.Node("Loop", []string{"trips", "", "x"}, []string{"y"}, onnx.Attrs{"body": body})
		}
	}
	scan := func(m *onnx.ModelBuilder) {
		body := onnx.NewGraph("body")
		body.Input("s", onnx.Float, 4).Input("row", onnx.Float, 4)
		body.Node("Add", []string{"s", "row"}, []string{"sum"})
		body.Node("Identity", []string{"sum"}, []string{"out"})
		body.Output("sum", onnx.Float, 4).Output("out", onnx.Float, 4)
		m.Initializer("start", make([]float32, 4), 4)
		m.Node("Scan", []string{"start", "x"}, []string{"last", "y"},
			onnx.Attrs{"body": body, "num_scan_inputs": int64(1)})
	}
	for _, c := range []struct {
		name  string
		rows  int
		build func(m *onnx.ModelBuilder)
	}{{"Shapes", 3, shapes}, {"If", 3, branches}, {"Loop1", 3, loop(1)}, {"Loop100", 3, loop(100)},
		{"Scan100", 100, scan}} {
		b.Run(c.name, func(b *testing.B) {
			m := onnx.NewModel(c.name).Opset("", 21)
			m.Input("x", onnx.Float, "n", 4).Output("y", onnx.Float, nil, nil)
			c.build(m)
			s, err := onward.OpenModel(b.Context(), m.Must(), nil)
			if err != nil {
				b.Fatal(err)
			}
			feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, c.rows, 4))}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(context.Background(), feed, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLogregIris(b *testing.B) {
	s := example(b, "logreg_iris.onnx", nil)
	feed := enginetest.Flowers()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), feed, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBound measures a run with and without bound inputs and outputs.
func BenchmarkBound(b *testing.B) {
	cases := []struct {
		name  string
		model *onnx.ModelBuilder
		x     *tensor.Tensor
	}{
		{"classifier", classifier(), ramp(5*4, 5, 4)},
		{"perceptron", perceptron(32), ramp(32, 1, 32)},
		{"convolutions", convNet(), ramp(3*8*8, 1, 3, 8, 8)},
	}
	for _, c := range cases {
		s, err := onward.OpenModel(b.Context(), c.model.Must(), nil)
		enginetest.Must(b, err)
		b.Run(c.name+"/Run", func(b *testing.B) {
			feed := onward.Values{"x": c.x}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(context.Background(), feed, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/RunBinding", func(b *testing.B) {
			bound := newBinding(b, s)
			enginetest.Must(b, bound.BindCPUInput("x", c.x))
			for _, o := range s.Outputs() {
				enginetest.Must(b, bound.BindOutput(o.Name, onward.Buffer{}))
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.RunBinding(context.Background(), bound, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
