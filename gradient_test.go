package onward_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// gradientCase is y = f(x, w), with f written by nodes.
type gradientCase struct {
	name string
	x, w []int64 // shapes
	make func(b *onnx.ModelBuilder)
}

func oneNode(op string, in []string, attrs ...onnx.Attrs) func(b *onnx.ModelBuilder) {
	return func(b *onnx.ModelBuilder) { b.Node(op, in, []string{"y"}, attrs...) }
}

func gradientCases() []gradientCase {
	one, two := []string{"x"}, []string{"x", "w"}
	var r []gradientCase
	for _, op := range []string{"Identity", "Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Abs", "Reciprocal", "Tanh", "Sigmoid", "Softplus", "Erf", "Relu", "LeakyRelu",
		"Softmax", "LogSoftmax", "Transpose", "Flatten", "ReduceSum", "ReduceMean"} {
		r = append(r, gradientCase{op, []int64{2, 3}, []int64{1}, oneNode(op, one)})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Sum"} {
		r = append(r, gradientCase{op, []int64{2, 3}, []int64{3}, oneNode(op, two)}, gradientCase{op + " wide", []int64{2, 1}, []int64{2, 2, 3}, oneNode(op, two)})
	}
	return append(r,
		gradientCase{"MatMul", []int64{2, 3, 2}, []int64{2, 4}, oneNode("MatMul", two)},
		gradientCase{"Gemm", []int64{2, 3}, []int64{4, 3}, oneNode("Gemm", two, onnx.Attrs{"transB": 1, "alpha": 0.5})},
		gradientCase{"Gemm transA", []int64{3, 2}, []int64{3, 4}, oneNode("Gemm", two, onnx.Attrs{"transA": 1})},
		gradientCase{"Gemm both", []int64{3, 2}, []int64{4, 3}, oneNode("Gemm", two, onnx.Attrs{"transA": 1, "transB": 1})},
		gradientCase{"Gemm bias", []int64{2, 3}, []int64{3}, func(b *onnx.ModelBuilder) {
			b.Initializer("m", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
			b.Node("Gemm", []string{"x", "m", "w"}, []string{"y"}, onnx.Attrs{"beta": 0.25})
		}},
		gradientCase{"perm", []int64{2, 3, 4}, []int64{1}, oneNode("Transpose", one, onnx.Attrs{"perm": []int64{1, 2, 0}})},
		gradientCase{"ReduceMean axes", []int64{2, 3, 2}, []int64{1}, oneNode("ReduceMean", one, onnx.Attrs{"axes": []int64{1}, "keepdims": 0})},
		gradientCase{"Where", []int64{2, 3}, []int64{3}, func(b *onnx.ModelBuilder) {
			b.Node("Greater", []string{"x", "w"}, []string{"c"})
			b.Node("Where", []string{"c", "x", "w"}, []string{"y"})
		}},
		gradientCase{"twice", []int64{2, 3}, []int64{2, 3}, func(b *onnx.ModelBuilder) {
			b.Node("Mul", []string{"x", "x"}, []string{"a"})
			b.Node("Mul", []string{"a", "w"}, []string{"c"})
			b.Node("Add", []string{"c", "x"}, []string{"y"})
		}})
}

func gradientModel(c gradientCase, order int) *onnx.Model {
	dims := func(s []int64) []any {
		r := make([]any, len(s))
		for i, d := range s {
			r[i] = d
		}
		return r
	}
	b := onnx.NewModel("gradient").Opset("", 13).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.DataType(tensor.TypeFloat64), dims(c.x)...)
	b.Input("w", onnx.DataType(tensor.TypeFloat64), dims(c.w)...)
	c.make(b)
	// Weights make the elements of y count differently, so that a gradient cannot
	// be right by symmetry.
	b.Node("Sin", []string{"y"}, []string{"wave"})
	b.Node("Exp", []string{"wave"}, []string{"z"})
	target := "z"
	if order == 2 {
		b.Node("Gradient", []string{"x", "w"}, []string{"g1"}, onnx.Attrs{"xs": []string{"x"}, "zs": []string{"w"}, "y": "z"}).Domain("ai.onnx.preview.training")
		b.Node("Mul", []string{"g1", "g1"}, []string{"z2"})
		target = "z2"
	}
	b.Node("ReduceSum", []string{target}, []string{"loss"}, onnx.Attrs{"keepdims": 0})
	b.Node("Gradient", []string{"x", "w"}, []string{"dx", "dw"}, onnx.Attrs{"xs": []string{"x", "w"}, "y": "loss"}).Domain("ai.onnx.preview.training")
	for _, o := range []string{"loss", "dx", "dw"} {
		b.Output(o, onnx.DataType(tensor.TypeFloat64))
	}
	m := b.Must()
	for _, o := range m.Graph.Outputs {
		o.Type.Tensor.Shape = nil
	}
	return m
}

// TestGradients compares the derivatives of every rule, and the derivatives of
// these derivatives, with differences.
func TestGradients(t *testing.T) {
	for _, c := range gradientCases() {
		for order := 1; order <= 2; order++ {
			m := gradientModel(c, order)
			sess, err := onward.OpenModel(m, nil)
			if err != nil {
				t.Errorf("%s, order %d: %v", c.name, order, err)
				continue
			}
			rng := rand.New(rand.NewPCG(1, 2))
			random := func(shape []int64) (*tensor.Tensor, []float64) {
				n, s := 1, []int{}
				for _, d := range shape {
					n *= int(d)
					s = append(s, int(d))
				}
				v := make([]float64, n)
				for i := range v {
					v[i] = 0.5 + rng.Float64() // away from kinks and poles
				}
				return tensor.Must(tensor.New(v, s...)), v
			}
			xt, x := random(c.x)
			wt, w := random(c.w)
			run := func() (float64, []float64, []float64) {
				out, err := sess.RunList(context.Background(), []tensor.Value{xt, wt}, nil)
				if err != nil {
					t.Fatalf("%s, order %d: %v", c.name, order, err)
				}
				return tensor.Of[float64](out[0].(*tensor.Tensor))[0], tensor.Of[float64](out[1].(*tensor.Tensor)), tensor.Of[float64](out[2].(*tensor.Tensor))
			}
			_, dx, dw := run()
			for k, in := range [][]float64{x, w} {
				got := append([]float64{}, [][]float64{dx, dw}[k]...)
				for i := range in {
					const h = 1e-5
					old := in[i]
					in[i] = old + h
					up, _, _ := run()
					in[i] = old - h
					down, _, _ := run()
					in[i] = old
					if want := (up - down) / (2 * h); !(math.Abs(got[i]-want) <= 1e-5*(1+math.Abs(want))) {
						t.Errorf("%s, order %d: derivative %d of input %d is %v, want %v", c.name, order, i, k, got[i], want)
					}
				}
			}
			sess.Close()
		}
	}
}

// Other tensors than those that xs names may be fed: the nodes run again.
func TestGradientElsewhere(t *testing.T) {
	b := onnx.NewModel("gradient").Opset("", 13).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1)
	b.Input("v", onnx.DataType(tensor.TypeFloat32), 1)
	b.Node("Exp", []string{"x"}, []string{"h"})
	b.Node("Mul", []string{"h", "h"}, []string{"y"})
	b.Node("Gradient", []string{"v"}, []string{"d"}, onnx.Attrs{"xs": []string{"h"}, "y": "y"}).Domain("ai.onnx.preview.training")
	b.Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	b.Output("d", onnx.DataType(tensor.TypeFloat32), 1)
	sess, err := onward.OpenModel(b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	out, err := sess.RunList(context.Background(), []tensor.Value{tensor.Must(tensor.New([]float32{0}, 1)), tensor.Must(tensor.New([]float32{5}, 1))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if y, d := tensor.Of[float32](out[0].(*tensor.Tensor))[0], tensor.Of[float32](out[1].(*tensor.Tensor))[0]; y != 1 || d != 10 {
		t.Errorf("y is %v and dy/dh at 5 is %v, want 1 and 10", y, d)
	}
}

func TestGradientNamesWhatItCannotDifferentiate(t *testing.T) {
	m := gradientModel(gradientCase{"", []int64{2, 3}, []int64{1}, oneNode("Hardmax", []string{"x"})}, 1)
	if _, err := onward.OpenModel(m, nil); err == nil || !strings.Contains(err.Error(), "operator Hardmax is not differentiated") {
		t.Errorf("error %v", err)
	}
}
