package gradients

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// gradientCase is y = f(x, w), where make adds the nodes of f.
type gradientCase struct {
	name string
	x, w []int64 // shapes
	make func(b *onnx.ModelBuilder)
}

func oneNode(op string, in []string, attrs ...onnx.Attrs) func(b *onnx.ModelBuilder) {
	return func(b *onnx.ModelBuilder) { b.Node(op, in, []string{"y"}, attrs...) }
}

// elementwiseGradientCases returns a case for every operator of an opset that applies a
// differentiable function to each element.
func elementwiseGradientCases(opset int) []gradientCase {
	shifts := map[string]float64{"Asin": -1.1, "Acos": -1.1, "Atanh": -1.1, "Acosh": 1} // into the domain
	var r []gradientCase
	for _, op := range opfuzz.Functions(opset, func(d *kit.Def) bool {
		return d.Gradient != nil && d.Gradient != gradient.None
	}) {
		r = append(r, gradientCase{op, []int64{2, 3}, []int64{1}, func(b *onnx.ModelBuilder) {
			b.Initializer("shift", []float64{shifts[op]}, 1)
			b.Node("Add", []string{"x", "shift"}, []string{"s"})
			b.Node(op, []string{"s"}, []string{"y"})
		}})
	}
	return r
}

func gradientCases() []gradientCase {
	one, two := []string{"x"}, []string{"x", "w"}
	var r []gradientCase
	for _, op := range []string{"Softmax", "LogSoftmax", "Transpose", "Flatten", "ReduceSum", "ReduceMean"} {
		r = append(r, gradientCase{op, []int64{2, 3}, []int64{1}, oneNode(op, one)})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Sum"} {
		r = append(r, gradientCase{op, []int64{2, 3}, []int64{3}, oneNode(op, two)},
			gradientCase{op + " wide", []int64{2, 1}, []int64{2, 2, 3}, oneNode(op, two)})
	}
	return append(r,
		gradientCase{"MatMul", []int64{2, 3, 2}, []int64{2, 4}, oneNode("MatMul", two)},
		gradientCase{"Gemm", []int64{2, 3}, []int64{4, 3}, oneNode("Gemm", two, onnx.Attrs{"transB": 1, "alpha": 0.5})},
		gradientCase{"Gemm transA", []int64{3, 2}, []int64{3, 4}, oneNode("Gemm", two, onnx.Attrs{"transA": 1})},
		gradientCase{"Gemm both", []int64{3, 2}, []int64{4, 3},
			oneNode("Gemm", two, onnx.Attrs{"transA": 1, "transB": 1})},
		gradientCase{"Gemm bias", []int64{2, 3}, []int64{3}, func(b *onnx.ModelBuilder) {
			b.Initializer("m", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
			b.Node("Gemm", []string{"x", "m", "w"}, []string{"y"}, onnx.Attrs{"beta": 0.25})
		}},
		gradientCase{"perm", []int64{2, 3, 4}, []int64{1},
			oneNode("Transpose", one, onnx.Attrs{"perm": []int64{1, 2, 0}})},
		gradientCase{"ReduceMean axes", []int64{2, 3, 2}, []int64{1},
			oneNode("ReduceMean", one, onnx.Attrs{"axes": []int64{1}, "keepdims": 0})},
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

// moreGradientCases returns cases of operators with windows, of operators that move
// elements, of reductions and of composite operators. The opset is 13 if the case has 0.
func moreGradientCases() []gradientCase {
	one, two := []string{"x"}, []string{"x", "w"}
	var r []gradientCase
	add := func(op, name string, x, w []int64, f func(b *onnx.ModelBuilder)) {
		r = append(r, gradientCase{op + " " + name, x, w, f})
	}
	for _, op := range []string{"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
		"ReduceLogSum", "ReduceLogSumExp", "Dropout"} {
		add(op, "", []int64{2, 3}, []int64{1}, oneNode(op, one))
		if strings.HasPrefix(op, "Reduce") {
			add(op, "axis", []int64{2, 3, 2}, []int64{1},
				oneNode(op, one, onnx.Attrs{"axes": []int64{-2}, "keepdims": 0}))
		}
	}
	for _, e := range []struct {
		equation string
		x, w     []int64
	}{{"ij,jk->ik", []int64{2, 3}, []int64{3, 2}}, {"ij,jk", []int64{2, 3}, []int64{3, 2}},
		{"ij,kj->k", []int64{2, 3}, []int64{2, 3}}, {"ij,k->ji", []int64{2, 3}, []int64{2}},
		{"...ij, ...jk -> ...ik", []int64{2, 2, 3}, []int64{3, 2}}, {"ba,b", []int64{2, 3}, []int64{2}}} {
		add("Einsum", e.equation, e.x, e.w, oneNode("Einsum", two, onnx.Attrs{"equation": e.equation}))
	}
	add("LpNormalization", "", []int64{2, 3}, []int64{1}, oneNode("LpNormalization", one))
	add("LpNormalization", "p 1", []int64{2, 3}, []int64{1},
		oneNode("LpNormalization", one, onnx.Attrs{"p": 1, "axis": 0}))
	for _, op := range []string{"Max", "Min", "Mean", "PRelu"} {
		add(op, "", []int64{2, 3}, []int64{3}, oneNode(op, two))
	}
	add("PRelu", "below", []int64{2, 3}, []int64{3}, func(b *onnx.ModelBuilder) {
		b.Node("Neg", one, []string{"n"})
		b.Node("PRelu", []string{"n", "w"}, []string{"y"})
	})
	add("Elu", "below", []int64{2, 3}, []int64{1}, func(b *onnx.ModelBuilder) {
		b.Node("Neg", one, []string{"n"})
		b.Node("Elu", []string{"n"}, []string{"y"}, onnx.Attrs{"alpha": 0.75})
	})
	add("Clip", "", []int64{2, 5}, []int64{1}, func(b *onnx.ModelBuilder) {
		b.Initializer("lo", []float64{0.8})
		b.Initializer("hi", []float64{1.2})
		b.Node("Clip", []string{"x", "lo", "hi"}, []string{"y"})
	})

	// Operators that move elements.
	indices := func(op, name string, x []int64, in map[string][]int64, order []string, attrs ...onnx.Attrs) {
		add(op, name, x, []int64{1}, func(b *onnx.ModelBuilder) {
			for _, k := range slices.Sorted(maps.Keys(in)) {
				b.Initializer(k, in[k], int64(len(in[k])))
			}
			b.Node(op, append([]string{"x"}, order...), []string{"y"}, attrs...)
		})
	}
	v := func(v ...int64) []int64 { return v }
	indices("Gather", "", v(3, 4), map[string][]int64{"i": v(2, -1, 0, 2)}, []string{"i"}, onnx.Attrs{"axis": 1})
	indices("Slice", "", v(3, 5), map[string][]int64{"a": v(1, -1), "b": v(3, -6), "c": v(0, 1), "d": v(1, -2)},
		[]string{"a", "b", "c", "d"})
	indices("Tile", "", v(2, 3), map[string][]int64{"r": v(2, 3)}, []string{"r"})
	indices("Reshape", "", v(2, 3), map[string][]int64{"s": v(3, -1)}, []string{"s"})
	indices("Expand", "", v(2, 1), map[string][]int64{"s": v(3, 2, 4)}, []string{"s"})
	for _, mode := range []string{"constant", "reflect", "edge"} {
		indices("Pad", mode, v(3, 4), map[string][]int64{"p": v(1, 2, 2, -1)}, []string{"p"}, onnx.Attrs{"mode": mode})
	}
	add("Pad", "with a value", v(2, 3), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("p", v(1, 0, 0, 2), 4)
		b.Initializer("c", []float64{3})
		b.Node("Pad", []string{"x", "p", "c"}, []string{"y"})
	})
	add("GatherElements", "", v(2, 3), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("i", v(0, 1, 1, 1, 0, -1), 2, 3)
		b.Node("GatherElements", []string{"x", "i"}, []string{"y"})
	})
	add("GatherND", "", v(2, 3, 2), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("i", v(0, 1, 1, 2, 0, 1), 3, 2)
		b.Node("GatherND", []string{"x", "i"}, []string{"y"})
	})
	add("Concat", "", v(2, 3), v(2, 2), oneNode("Concat", []string{"x", "w", "x"}, onnx.Attrs{"axis": 1}))
	add("Split", "", v(2, 5), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("s", v(2, 3), 2)
		b.Node("Split", []string{"x", "s"}, []string{"p", "q"}, onnx.Attrs{"axis": 1})
		b.Node("Concat", []string{"q", "p"}, []string{"y"}, onnx.Attrs{"axis": 1})
	})
	add("Split", "one part", v(2, 6), v(1), func(b *onnx.ModelBuilder) {
		b.Node("Split", one, []string{"p", "y", "q"}, onnx.Attrs{"axis": 1})
	})
	add("TopK", "", v(2, 5), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("k", v(3), 1)
		b.Node("TopK", []string{"x", "k"}, []string{"y", "i"})
	})
	for _, reverse := range []int64{0, 1} {
		add("CumSum", "", v(2, 4), v(1), func(b *onnx.ModelBuilder) {
			b.Initializer("axis", []int64{1})
			b.Node("CumSum", []string{"x", "axis"}, []string{"y"}, onnx.Attrs{"reverse": reverse, "exclusive": 1})
		})
	}
	add("DepthToSpace", "", v(1, 4, 2, 2), v(1), oneNode("DepthToSpace", one, onnx.Attrs{"blocksize": 2}))
	add("SpaceToDepth", "", v(1, 2, 4, 2), v(1), oneNode("SpaceToDepth", one, onnx.Attrs{"blocksize": 2}))
	add("Resize", "nearest", v(1, 2, 2, 3), v(1), func(b *onnx.ModelBuilder) {
		b.Initializer("scales", []float32{1, 1, 2, 1.5}, 4)
		b.Node("Resize", []string{"x", "", "scales"}, []string{"y"}, onnx.Attrs{"mode": "nearest"})
	})

	// Operators with windows.
	for _, axis := range []int64{-1, 1, 0} {
		add("LogSoftmax", fmt.Sprint(axis), v(2, 3, 2), v(1), oneNode("LogSoftmax", one, onnx.Attrs{"axis": axis}))
		add("Softmax", fmt.Sprint(axis), v(2, 3, 2), v(1), oneNode("Softmax", one, onnx.Attrs{"axis": axis}))
	}
	add("MaxPool", "", v(1, 2, 5, 4), v(1),
		oneNode("MaxPool", one, onnx.Attrs{"kernel_shape": v(2, 3), "strides": v(2, 1), "pads": v(1, 1, 0, 1)}))
	add("AveragePool", "", v(1, 2, 5, 4), v(1),
		oneNode("AveragePool", one, onnx.Attrs{"kernel_shape": v(2, 3), "strides": v(2, 1), "pads": v(1, 1, 0, 1)}))
	add("AveragePool", "padded", v(2, 1, 7), v(1),
		oneNode("AveragePool", one,
			onnx.Attrs{"kernel_shape": v(3), "strides": v(2), "pads": v(1, 1), "count_include_pad": 1, "ceil_mode": 1}))
	add("GlobalAveragePool", "", v(2, 3, 2, 2), v(1), oneNode("GlobalAveragePool", one))
	add("GlobalMaxPool", "", v(2, 3, 2, 2), v(1), oneNode("GlobalMaxPool", one))
	norm := func(op string, x []int64, attrs ...onnx.Attrs) {
		c := x[1]
		add(op, "", x, v(c), func(b *onnx.ModelBuilder) {
			some := make([]float64, c)
			for i := range some {
				some[i] = 0.3 + 0.1*float64(i)
			}
			b.Initializer("s", some, c)
			in := []string{"x", "w", "s"}
			if op == "BatchNormalization" {
				in = append(in, "s", "s")
			}
			b.Node(op, in, []string{"y"}, attrs...)
		})
	}
	norm("BatchNormalization", v(2, 3, 2))
	norm("InstanceNormalization", v(2, 2, 4))
	return r
}

// newerGradientCases returns cases of operators that opset 13 lacks.
func newerGradientCases() []gradientCase {
	r := []gradientCase{{"Gelu tanh", []int64{2, 3}, []int64{1},
		oneNode("Gelu", []string{"x"}, onnx.Attrs{"approximate": "tanh"})},
		{"BatchNormalization training", []int64{3, 2, 2}, []int64{2}, func(b *onnx.ModelBuilder) {
			b.Initializer("s", []float64{0.25, 0.5}, 2)
			b.Node("BatchNormalization", []string{"x", "w", "s", "s", "s"}, []string{"y", "m", "v"},
				onnx.Attrs{"training_mode": 1})
		}}}
	for _, axis := range []int64{-1, 1} {
		w := []int64{4}
		if axis == 1 {
			w = []int64{3, 4}
		}
		r = append(r, gradientCase{"LayerNormalization", []int64{2, 3, 4}, w,
			oneNode("LayerNormalization", []string{"x", "w", "w"}, onnx.Attrs{"axis": axis})},
			gradientCase{"RMSNormalization", []int64{2, 3, 4}, w,
				oneNode("RMSNormalization", []string{"x", "w"}, onnx.Attrs{"axis": axis})})
	}
	return r
}

// olderGradientCases returns cases of old operator versions: attributes that later became
// inputs, or an axis that stood for all axes from it on.
func olderGradientCases() []gradientCase {
	one := []string{"x"}
	return []gradientCase{
		{"Softmax", []int64{2, 3, 2}, []int64{1}, oneNode("Softmax", one, onnx.Attrs{"axis": 1})},
		{"LogSoftmax", []int64{2, 3, 2}, []int64{1}, oneNode("LogSoftmax", one, onnx.Attrs{"axis": 1})},
		{"Split", []int64{2, 5}, []int64{1}, func(b *onnx.ModelBuilder) {
			b.Node("Split", one, []string{"p", "q"}, onnx.Attrs{"axis": 1, "split": []int64{2, 3}})
			b.Node("Concat", []string{"q", "p"}, []string{"y"}, onnx.Attrs{"axis": 1})
		}},
		{"Unsqueeze", []int64{2, 3}, []int64{1}, oneNode("Unsqueeze", one, onnx.Attrs{"axes": []int64{1}})},
		{"ReduceL2", []int64{2, 3}, []int64{1}, oneNode("ReduceL2", one, onnx.Attrs{"axes": []int64{1}})},
	}
}

// convolutionCases returns convolutions of one to three dimensions with random strides,
// paddings, dilations and groups.
func convolutionCases(t *rapid.T) gradientCase {
	n := rapid.IntRange(1, 3).Draw(t, "dimensions")
	group := int64(rapid.IntRange(1, 2).Draw(t, "group"))
	cg, mg := int64(rapid.IntRange(1, 2).Draw(t, "channels")), int64(rapid.IntRange(1, 2).Draw(t, "kernels"))
	small := func(lo, hi int, name string) []int64 {
		r := make([]int64, n)
		for i := range r {
			r[i] = int64(rapid.IntRange(lo, hi).Draw(t, name))
		}
		return r
	}
	kernel, attrs := small(1, 2, "kernel"),
		onnx.Attrs{"group": group, "strides": small(1, 2, "stride"), "dilations": small(1, 2, "dilation")}
	attrs["pads"] = append(small(0, 1, "before"), small(0, 1, "after")...)
	size := small(3, 4, "size")
	if rapid.Bool().Draw(t, "transposed") {
		x := append([]int64{1, group * mg}, size...)
		return gradientCase{"ConvTranspose", x, append([]int64{group * mg, cg}, kernel...),
			oneNode("ConvTranspose", []string{"x", "w"}, attrs)}
	}
	x := append([]int64{2, group * cg}, size...)
	return gradientCase{"Conv", x, append([]int64{group * mg, cg}, kernel...),
		oneNode("Conv", []string{"x", "w"}, attrs)}
}

func TestConvolutionGradients(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := convolutionCases(rt)
		checkGradients(rt, c, 1+rapid.IntRange(0, 1).Draw(rt, "order"), 13)
	})
}

func TestConvolutionBiasGradient(t *testing.T) {
	checkGradients(t, gradientCase{"bias", []int64{2, 1, 4}, []int64{2}, func(b *onnx.ModelBuilder) {
		b.Initializer("k", []float64{1, 2, 3, -4}, 2, 1, 2)
		b.Node("Conv", []string{"x", "k", "w"}, []string{"y"})
	}}, 2, 13)
}

func gradientModel(c gradientCase, order, opset int) *onnx.Model {
	dims := func(s []int64) []any {
		r := make([]any, len(s))
		for i, d := range s {
			r[i] = d
		}
		return r
	}
	b := onnx.NewModel("gradient").Opset("", int64(opset)).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.DataType(tensor.TypeFloat64), dims(c.x)...)
	b.Input("w", onnx.DataType(tensor.TypeFloat64), dims(c.w)...)
	c.make(b)
	// Different weights for the elements of y keep a wrong gradient from passing by symmetry.
	b.Node("Sin", []string{"y"}, []string{"wave"})
	b.Node("Exp", []string{"wave"}, []string{"z"})
	target := "z"
	if order == 2 {
		b.Node("Gradient", []string{"x", "w"}, []string{"g1"},
			onnx.Attrs{"xs": []string{"x"}, "zs": []string{"w"}, "y": "z"}).Domain("ai.onnx.preview.training")
		b.Node("Mul", []string{"g1", "g1"}, []string{"z2"})
		target = "z2"
	}
	b.Node("ReduceSum", []string{target}, []string{"loss"}, onnx.Attrs{"keepdims": 0})
	b.Node("Gradient", []string{"x", "w"}, []string{"dx", "dw"}, onnx.Attrs{"xs": []string{"x", "w"}, "y": "loss"}).
		Domain("ai.onnx.preview.training")
	for _, o := range []string{"loss", "dx", "dw"} {
		b.Output(o, onnx.DataType(tensor.TypeFloat64))
	}
	m := b.Must()
	for _, o := range m.Graph.Outputs {
		o.Type.Tensor.Shape = nil
	}
	return m
}

// TestGradients compares the first and second derivatives of every rule with finite
// differences.
func TestGradients(t *testing.T) {
	for _, set := range []struct {
		opset int
		cases []gradientCase
	}{{13, slices.Concat(elementwiseGradientCases(13), gradientCases(), moreGradientCases())},
		{24, slices.Concat(elementwiseGradientCases(24), newerGradientCases())}, {11, olderGradientCases()}} {
		for _, c := range set.cases {
			for order := 1; order <= 2; order++ {
				checkGradients(t, c, order, set.opset)
			}
		}
	}
}

func checkGradients(t interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, c gradientCase, order, opset int) {
	t.Helper()
	sess, err := onward.OpenModel(context.Background(), gradientModel(c, order, opset), nil)
	if err != nil {
		t.Errorf("%s, order %d: %v", c.name, order, err)
		return
	}
	defer sess.Close()
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
		return tensor.MustData[float64](out[0].(*tensor.Tensor))[0], tensor.MustData[float64](out[1].(*tensor.Tensor)),
			tensor.MustData[float64](out[2].(*tensor.Tensor))
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
}

// The Gradient node accepts other tensors than those that xs names: its nodes then run on
// these.
func TestGradientElsewhere(t *testing.T) {
	b := onnx.NewModel("gradient").Opset("", 13).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1)
	b.Input("v", onnx.DataType(tensor.TypeFloat32), 1)
	b.Node("Exp", []string{"x"}, []string{"h"})
	b.Node("Mul", []string{"h", "h"}, []string{"y"})
	b.Node("Gradient", []string{"v"}, []string{"d"}, onnx.Attrs{"xs": []string{"h"}, "y": "y"}).
		Domain("ai.onnx.preview.training")
	b.Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	b.Output("d", onnx.DataType(tensor.TypeFloat32), 1)
	sess, err := onward.OpenModel(t.Context(), b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	out, err := sess.RunList(context.Background(),
		[]tensor.Value{tensor.Must(tensor.New([]float32{0}, 1)), tensor.Must(tensor.New([]float32{5}, 1))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if y, d := tensor.MustData[float32](out[0].(*tensor.Tensor))[0],
		tensor.MustData[float32](out[1].(*tensor.Tensor))[0]; y != 1 || d != 10 {
		t.Errorf("y is %v and dy/dh at 5 is %v, want 1 and 10", y, d)
	}
}

func TestGradientNamesWhatItCannotDifferentiate(t *testing.T) {
	m := gradientModel(gradientCase{"", []int64{2, 3}, []int64{1}, oneNode("Hardmax", []string{"x"})}, 1, 13)
	if _, err := onward.OpenModel(t.Context(), m, nil); err == nil ||
		!strings.Contains(err.Error(), "operator Hardmax is not differentiable") {
		t.Errorf("error %v", err)
	}
	m = gradientModel(gradientCase{"", []int64{3, 3}, []int64{1},
		oneNode("Einsum", []string{"x"}, onnx.Attrs{"equation": "i,i->i"})}, 1, 13)
	if _, err := onward.OpenModel(t.Context(), m, nil); err == nil ||
		!strings.Contains(err.Error(), "2 terms, want 1") {
		t.Errorf("error %v", err)
	}
}
