package gradients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

const double = onnx.DataType(tensor.TypeFloat64)

// nestedIf is an If on flag. One branch multiplies; the other contains an If, whose
// branches return x and add.
func nestedIf(flags [2]bool) func(b *onnx.ModelBuilder) {
	return func(b *onnx.ModelBuilder) {
		graph := func(name string, fill func(g *onnx.GraphBuilder)) *onnx.GraphBuilder {
			g := onnx.NewGraph(name)
			fill(g)
			return g
		}
		b.Initializer("c", []bool{flags[0]})
		b.Initializer("d", []bool{flags[1]})
		then := graph("then", func(g *onnx.GraphBuilder) {
			g.Node("Mul", []string{"x", "w"}, []string{"p"})
			g.Node("Mul", []string{"p", "x"}, []string{"t"})
			g.Node("Sin", []string{"w"}, []string{"u"})
			g.Output("t", double, 2, 3).Output("u", double, 3)
		})
		other := graph("else", func(g *onnx.GraphBuilder) {
			left := graph("left", func(g *onnx.GraphBuilder) {
				g.Node("Identity", []string{"x"}, []string{"l"})
				g.Output("l", double, 2, 3)
			})
			right := graph("right", func(g *onnx.GraphBuilder) {
				g.Node("Add", []string{"e", "x"}, []string{"r"})
				g.Output("r", double, 2, 3)
			})
			g.Node("Sin", []string{"w"}, []string{"e"})
			g.Node("If", []string{"d"}, []string{"o"}, onnx.Attrs{"then_branch": left, "else_branch": right})
			g.Node("Mul", []string{"e", "e"}, []string{"e2"})
			g.Output("o", double, 2, 3).Output("e2", double, 3)
		})
		b.Node("If", []string{"c"}, []string{"y0", "y1"}, onnx.Attrs{"then_branch": then, "else_branch": other})
		b.Node("Mul", []string{"y0", "y1"}, []string{"y"})
	}
}

func TestIfGradients(t *testing.T) {
	for i := range 4 {
		flags := [2]bool{i&1 != 0, i&2 != 0}
		for order := 1; order <= 2; order++ {
			checkGradients(t, gradientCase{fmt.Sprint("If ", flags), []int64{2, 3}, []int64{3}, nestedIf(flags)}, order,
				13)
		}
	}
}

// TestScanGradients scans x forwards and backwards. The body reads w from the outer
// scope and has two outputs and two states, one of which is a counter.
func TestScanGradients(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		flag := rapid.Int64Range(0, 1)
		in, out, axis, last := flag.Draw(rt, "backward"), flag.Draw(rt, "prepend"), flag.Draw(rt, "axis"),
			flag.Draw(rt, "of the states only")
		shape := []int64{3, 2}
		if axis == 1 {
			shape = []int64{2, 3}
		}
		body := onnx.NewGraph("body").Input("s", double, 2).Input("n", onnx.DataType(tensor.TypeInt64)).
			Input("xt", double, 2)
		body.Initializer("one", []int64{1})
		body.Node("Add", []string{"n", "one"}, []string{"n2"})
		body.Node("Mul", []string{"s", "w"}, []string{"sw"})
		body.Node("Sin", []string{"sw"}, []string{"turn"})
		body.Node("Tanh", []string{"xt"}, []string{"q"})
		body.Node("Add", []string{"turn", "q"}, []string{"s2"})
		body.Node("Mul", []string{"s", "xt"}, []string{"o"})
		body.Output("s2", double, 2).Output("n2", onnx.DataType(tensor.TypeInt64)).Output("o", double, 2)
		checkGradients(rt, gradientCase{"Scan", shape, []int64{2}, func(b *onnx.ModelBuilder) {
			b.Initializer("zero", []int64{0})
			b.Node("Scan", []string{"w", "zero", "x"}, []string{"end", "count", "all"},
				onnx.Attrs{"body": body, "num_scan_inputs": 1,
					"scan_input_axes": []int64{axis}, "scan_input_directions": []int64{in}, "scan_output_axes": []int64{axis}, "scan_output_directions": []int64{out}})
			if last == 1 {
				b.Node("Sin", []string{"end"}, []string{"y"})
				return
			}
			b.Node("ReduceSum", []string{"end"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
			b.Node("Tanh", []string{"sum"}, []string{"level"})
			b.Node("Mul", []string{"all", "level"}, []string{"y"})
		}}, rapid.IntRange(1, 2).Draw(rt, "order"), 15)
	})
}

// This test computes a gradient through deeply nested branches.
func TestGradientOfDeepBranches(t *testing.T) {
	leaf := func(op string) *onnx.GraphBuilder {
		g := onnx.NewGraph("leaf")
		g.Node(op, []string{"x"}, []string{op})
		return g.Output(op, double, 2)
	}
	inner := leaf("Sin")
	for i := range 8 {
		g, o := onnx.NewGraph("level"), fmt.Sprint("o", i)
		g.Node("If", []string{"c"}, []string{o}, onnx.Attrs{"then_branch": inner, "else_branch": leaf("Cos")})
		inner = g.Output(o, double, 2)
	}
	checkGradients(t, gradientCase{"deep", []int64{2}, []int64{1}, func(b *onnx.ModelBuilder) {
		b.Initializer("c", []bool{true})
		b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{"then_branch": inner, "else_branch": leaf("Cos")})
	}}, 1, 13)
}

// Every further derivative doubles the graph: high orders must fail soon.
func TestGradientsAreBounded(t *testing.T) {
	b := onnx.NewModel("gradient").Opset("", 13).Opset("ai.onnx.preview.training", 1)
	b.Input("x", double, 1)
	b.Node("Tanh", []string{"x"}, []string{"y0"})
	for i := range 60 {
		b.Node("Gradient", []string{"x"}, []string{fmt.Sprint("y", i+1)},
			onnx.Attrs{"xs": []string{"x"}, "y": fmt.Sprint("y", i)}).Domain("ai.onnx.preview.training")
	}
	b.Output("y60", double, 1)
	if _, err := onward.OpenModel(t.Context(), b.Must(), nil); err == nil ||
		!strings.Contains(err.Error(), "more than 262144 nodes") {
		t.Errorf("error %v", err)
	}
}
