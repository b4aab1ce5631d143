package optimize

import "github.com/onward-ml/onward/onnx"

// carried writes a Loop that combines its state with −w, a matrix that it carries too. The body
// returns the value next for it, and op computes the next state.
func carried(w build, op, next string) []build {
	body := onnx.NewGraph("body")
	body.Input("i", onnx.Int64).Input("c", onnx.Bool).Input("s", onnx.Float, "n", 8).Input("k", onnx.Float, 8, 8)
	body.Node("Identity", []string{"c"}, []string{"d"})
	body.Node("Neg", []string{"k"}, []string{"o"})
	body.Node(op, []string{"s", "o"}, []string{"t"})
	body.Output("d", onnx.Bool).Output("t", onnx.Float, "n", 8).Output(next, onnx.Float, 8, 8)
	return steps(input("x", "n", 8), w, constant("m", int64(3)), constant("e", []bool{true}),
		node("Loop", "m e x w", "y v", onnx.Attrs{"body": body}))
}

func init() { moreCases = append(moreCases, hoistInvariantsCases) }

func hoistInvariantsCases() []passCase {
	w := ramp("w", 8, 8)
	return []passCase{
		{pass: "hoist-invariants", name: "a weight", with: "fold", build: carried(w, "MatMul", "k"), want: "Loop[Identity MatMul]"},
		{pass: "hoist-invariants", name: "a weight that is read afterwards", with: "fold", build: append(carried(w, "MatMul", "k"), node("Add", "y v", "z")), outputs: "z", want: "Loop[Identity MatMul] Add"},
		{pass: "hoist-invariants", name: "a matrix that changes", with: "fold", build: carried(w, "MatMul", "o"), want: "Loop[Identity Neg MatMul]"},
	}
}
