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
