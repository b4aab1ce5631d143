package goengine

import (
	"fmt"
	"math"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// rateModel returns a network as voice detectors are: an input chooses between two convolutions,
// and the one for the other rate does not fit the samples, so that inference fails in its branch.
func rateModel() *onnx.Model {
	b := onnx.NewModel("rate").Opset("", 17)
	b.Input("x", onnx.Float, "n", 1, "t").Input("rate", onnx.Int64).Output("y", onnx.Float, nil, nil)
	branch := func(size, stride int) *onnx.GraphBuilder {
		s := onnx.NewGraph("branch")
		s.Initializer("w", pixels(8*size, size), 8, 1, int64(size))
		s.Initializer("axes", []int64{2}, 1)
		s.Node("Conv", []string{"x", "w"}, []string{"c"}, onnx.Attrs{"strides": []int64{int64(stride)}})
		s.Node("Relu", []string{"c"}, []string{"r"})
		s.Node("Squeeze", []string{"r", "axes"}, []string{"z"}) // one position remains
		s.Output("z", onnx.Float, nil, nil)
		return s
	}
	b.Initializer("high", []int64{16000})
	b.Node("Equal", []string{"rate", "high"}, []string{"is"})
	b.Node("If", []string{"is"}, []string{"y"}, onnx.Attrs{"then_branch": branch(8, 8), "else_branch": branch(4, 4)})
	return b.Must()
}

func rateInputs(samples int, rate int64) []tensor.Value {
	return []tensor.Value{tensor.Must(tensor.New(pixels(samples, 3), 1, 1, samples)),
		tensor.Must(tensor.New([]int64{rate}))}
}

// TestPlansForContents checks that a plan is specialized to the contents of an input that chooses
// between branches, also if the other branch does not fit the input shapes.
func TestPlansForContents(t *testing.T) {
	e := freeEngine(t, rateModel(), &driver.Options{}, 0)
	for range 2 {
		wantPlan(t, e, "x=1x1x8, rate=16000", rateInputs(8, 16000)...)
		wantPlan(t, e, "x=1x1x4, rate=8000", rateInputs(4, 8000)...)
	}
	p := e.special.program(t.Context(), rateInputs(8, 16000))
	for _, n := range p.graph.Nodes {
		if len(n.Graphs) > 0 {
			t.Errorf("the specialized plan has the %s %s", n.OpType, n.Name)
		}
	}
	general := freeEngine(t, rateModel(), &driver.Options{SpecializedShapes: -1}, 0)
	for _, in := range [][]tensor.Value{rateInputs(8, 16000), rateInputs(4, 8000)} {
		_, want, err := general.ran(t.Context(), in...)
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := e.ran(t.Context(), in...)
		if err != nil {
			t.Fatal(err)
		}
		a, b := tensor.MustData[float32](want[0].(*tensor.Tensor)), tensor.MustData[float32](got[0].(*tensor.Tensor))
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-5 {
				t.Fatalf("the specialized plan returns %v, want %v", b, a)
			}
		}
	}
	if _, _, err := e.ran(t.Context(), rateInputs(4, 16000)...); err == nil {
		t.Error("a convolution of 8 positions over 4 samples has no error")
	}
}

// TestContentsThatVary checks that an input with many contents does not prevent plans for shapes.
func TestContentsThatVary(t *testing.T) {
	counted := freeModel(func(b *onnx.ModelBuilder) {
		b.Input("step", onnx.Int64).Output("act", onnx.Float, nil, nil, nil, nil).Initializer("zero", []int64{0})
		first, later := onnx.NewGraph("first"), onnx.NewGraph("later")
		first.Node("Exp", []string{"mean"}, []string{"e"})
		first.Output("e", onnx.Float, nil, nil, nil, nil)
		later.Node("Tanh", []string{"mean"}, []string{"t"})
		later.Output("t", onnx.Float, nil, nil, nil, nil)
		b.Node("Equal", []string{"step", "zero"}, []string{"is"})
		b.Node("If", []string{"is"}, []string{"act"}, onnx.Attrs{"then_branch": first, "else_branch": later})
	})
	e := freeEngine(t, counted, &driver.Options{}, math.MaxInt64)
	step := func(i int) *tensor.Tensor { return tensor.Must(tensor.New([]int64{int64(i)})) }
	for i := range maxContents + 1 {
		wantPlan(t, e, driver.GeneralPlan, imageOf(1, 8, 8), step(i))
	}
	e.special.cost = 0
	wantPlan(t, e, "x=1x3x9x8", imageOf(1, 9, 8), step(0))
}

// TestDecidingInputs checks which inputs belong to the signature of a plan.
func TestDecidingInputs(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *onnx.ModelBuilder) string // returns the condition
		want  bool
	}{
		{"bool", func(b *onnx.ModelBuilder) string { b.Input("c", onnx.Bool); return "c" }, true},
		{"compared", func(b *onnx.ModelBuilder) string {
			b.Input("c", onnx.Int64, 1).Initializer("k", []int64{3}, 1)
			b.Node("Mod", []string{"c", "k"}, []string{"m"})
			b.Node("Greater", []string{"m", "k"}, []string{"g"})
			return "g"
		}, true},
		{"with a shape", func(b *onnx.ModelBuilder) string {
			b.Input("c", onnx.Int64)
			b.Node("Size", []string{"x"}, []string{"s"})
			b.Node("Less", []string{"c", "s"}, []string{"l"})
			return "l"
		}, true},
		{"with contents of a tensor", func(b *onnx.ModelBuilder) string {
			b.Input("c", onnx.Int64).Input("many", onnx.Int64, 4)
			b.Node("ReduceSum", []string{"many"}, []string{"s"}, onnx.Attrs{"keepdims": int64(0)})
			b.Node("Less", []string{"c", "s"}, []string{"l"})
			return "l"
		}, false},
		{"float", func(b *onnx.ModelBuilder) string {
			b.Input("c", onnx.Float).Initializer("k", []float32{1})
			b.Node("Less", []string{"c", "k"}, []string{"l"})
			return "l"
		}, false},
		{"64 sums of one input with itself", func(b *onnx.ModelBuilder) string {
			b.Input("c", onnx.Int64)
			last := "c"
			for i := range 64 {
				next := fmt.Sprint("sum", i)
				b.Node("Add", []string{last, last}, []string{next})
				last = next
			}
			b.Node("Less", []string{last, "c"}, []string{"l"})
			return "l"
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := onnx.NewModel("deciding").Opset("", 17)
			b.Input("x", onnx.Float, "n").Output("y", onnx.Float, "n")
			then, other := onnx.NewGraph("then"), onnx.NewGraph("else")
			then.Node("Exp", []string{"x"}, []string{"e"})
			then.Output("e", onnx.Float, "n")
			other.Node("Relu", []string{"x"}, []string{"r"})
			other.Output("r", onnx.Float, "n")
			b.Node("If", []string{c.build(b)}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": other})
			e := freeEngine(t, b.Must(), &driver.Options{}, 0)
			if got := e.special != nil; got != c.want {
				t.Errorf("specialized plans: %t, want %t", got, c.want)
			}
		})
	}
}
