package optimize

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/onnx"
)

// cells writes y from the products of the last n slices x[:, i] of x, 3×size×8.
func cells(size any, n int) []build {
	r := steps(input("x", 3, size, 8), ramp("w", 4, 8), ramp("b", 4))
	for i := range n {
		from, to := fmt.Sprintf("s%d", i-1), fmt.Sprintf("s%d", i)
		r = append(r, constant(fmt.Sprintf("i%d", i), int64(-i-1)),
			node("Gather", fmt.Sprintf("x i%d", i), fmt.Sprintf("x%d", i), onnx.Attrs{"axis": int64(1)}),
			node("Gemm", fmt.Sprintf("x%d w b", i), fmt.Sprintf("g%d", i), onnx.Attrs{"transB": int64(1)}))
		switch i {
		case 0:
			r = append(r, node("Tanh", "g0", "s0"))
		default:
			r = append(r, node("Sub", fmt.Sprintf("g%d %s", i, from), to))
		}
	}
	return append(r, node("Relu", fmt.Sprintf("s%d", n-1), "y"))
}

// twoCells writes products of x[0] and x[1], 2×8, with weights that the two share or not.
func twoCells(second string) []build {
	return steps(input("x", 2, 8), ramp("w", 8, 4), ramp("v", 8, 4), constant("i", int64(0)), constant("k", int64(1)),
		node("Gather", "x i", "a"), node("Gather", "x k", "b"),
		node("MatMul", "a w", "p"), node("MatMul", "b "+second, "q"), node("Sub", "p q", "y"))
}

func init() { moreCases = append(moreCases, mergeStepsCases) }

func mergeStepsCases() []passCase {
	var r []passCase
	for _, c := range []passCase{
		{name: "all slices", build: cells(3, 3), want: "Linear Gather Tanh Gather Sub Gather Sub Relu"},
		{name: "half of the slices", build: cells(4, 2), want: "Linear Gather Tanh Gather Sub Relu"},
		{name: "fewer slices", build: cells(5, 2), want: "Gather Gemm Tanh Gather Gemm Sub Relu"},
		{name: "an unknown number of slices", build: cells("n", 2), want: "Gather Gemm Tanh Gather Gemm Sub Relu"},
		{name: "one slice", build: cells(1, 1), want: "Gather Gemm Tanh Relu"},
		{name: "vectors", build: twoCells("w"), want: "Linear Gather Gather Sub"},
		{name: "other weights", build: twoCells("v"), want: "Gather Gather MatMul MatMul Sub"},
		{name: "slices that are needed", build: twoCells("w"), outputs: "y a", want: "Linear Gather Gather Gather Sub"},
		{name: "slices with two readers", build: append(twoCells("w"), node("MatMul", "a v", "c"), node("MatMul", "b v", "d"), node("Add", "c d", "z")), outputs: "y z", want: "Linear Linear Gather Gather Sub Gather Gather Add"},
		{name: "slices of columns", build: steps(input("x", 8, 2), ramp("w", 8, 4), constant("i", int64(0)), constant("k", int64(1)), node("Gather", "x i", "a", onnx.Attrs{"axis": int64(1)}), node("Gather", "x k", "b", onnx.Attrs{"axis": int64(1)}), node("MatMul", "a w", "p"), node("MatMul", "b w", "q"), node("Sub", "p q", "y")), want: "Gather Gather MatMul MatMul Sub"},
		{name: "lists of slices", build: steps(input("x", 2, 8), ramp("w", 8, 4), constant("i", []int64{0}, 1), constant("k", []int64{1}, 1), node("Gather", "x i", "a"), node("Gather", "x k", "b"), node("MatMul", "a w", "p"), node("MatMul", "b w", "q"), node("Sub", "p q", "y")), want: "Gather Gather MatMul MatMul Sub"},
	} {
		c.pass = "merge-steps"
		r = append(r, c)
	}
	return r
}

// TestSharedWeights checks that layers with the same weights have them packed once, also if they
// read them through an Identity, as PyTorch's exporter writes equal initializers.
func TestSharedWeights(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	for _, step := range steps(input("x", 3, 200), ramp("w", 200, 200), node("Identity", "w", "v"),
		node("MatMul", "x w", "p"), node("Tanh", "p", "h"), node("MatMul", "h v", "y")) {
		step(b)
	}
	b.Output("y", onnx.Float)
	g, err := frontend.Convert(b.Must(), frontend.Options{})
	if err == nil {
		err = Run(t.Context(), g, &Options{Level: All, MaxFolded: 1 << 20, Eval: onlyPass("").Eval})
	}
	if err != nil {
		t.Fatal(err)
	}
	packed := map[uintptr]bool{}
	for _, n := range g.Nodes {
		if _, ok := n.Op.(*blocked.Linear); ok {
			packed[reflect.ValueOf(n.Op).Elem().FieldByName("packed").Pointer()] = true
		}
	}
	if len(packed) != 1 {
		t.Errorf("%d packed matrices, want 1: %s", len(packed), operators(g))
	}
}
