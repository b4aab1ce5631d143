package optimize

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/export"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// onlyPass are options under which one pass and dce run.
func onlyPass(name string) *Options {
	o := &Options{Level: All, MaxFolded: 1 << 20, Disabled: map[string]bool{},
		Eval: func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
			return exec.Eval(context.Background(), g, n, in, limit)
		}}
	for _, p := range Passes() {
		o.Disabled[p.Name] = p.Name != name && p.Name != "dce"
	}
	return o
}

// operators lists the operators of a graph, subgraphs in brackets.
func operators(g *ir.Graph) string {
	var r []string
	for _, n := range g.Nodes {
		s := n.OpType
		if n.Source != nil && !n.FromSource() && s == n.Source.OpType { // it has kept its name
			s = strings.NewReplacer("*ops.", "", "*blocked.", "").Replace(fmt.Sprintf("%T", n.Op))
		}
		for _, sub := range n.Graphs {
			s += "[" + operators(sub) + "]"
		}
		r = append(r, s)
	}
	return strings.Join(r, " ")
}

type build func(b *onnx.ModelBuilder)

// node adds a node with one output of the same name as its last argument.
func node(op string, in, out string, attrs ...onnx.Attrs) build {
	return func(b *onnx.ModelBuilder) { b.Node(op, strings.Fields(in), strings.Fields(out), attrs...) }
}

func inputBytes(name string) build {
	return func(b *onnx.ModelBuilder) { b.Input(name, onnx.Uint8, 4) }
}

func constant(name string, v any, dims ...int64) build {
	return func(b *onnx.ModelBuilder) { b.Initializer(name, v, dims...) }
}

func ramp(name string, dims ...int64) build {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i%7) + 0.5
	}
	return constant(name, data, dims...)
}

func halves(name string, dims ...any) build {
	return func(b *onnx.ModelBuilder) { b.Input(name, onnx.Float16, dims...) }
}

// halfRamp is ramp in float16.
func halfRamp(name string, dims ...int64) build {
	return func(b *onnx.ModelBuilder) {
		shape := make([]int, len(dims))
		for i, d := range dims {
			shape[i] = int(d)
		}
		t := tensor.Must(tensor.Zeros(tensor.TypeFloat16, shape...))
		for i := range tensor.MustData[tensor.Float16](t) {
			tensor.MustData[tensor.Float16](t)[i] = tensor.NewFloat16(float32(i%7) + 0.5)
		}
		b.Initializer(name, onnx.FromTensor(t))
	}
}

func input(name string, dims ...any) build {
	return func(b *onnx.ModelBuilder) { b.Input(name, onnx.Float, dims...) }
}

func steps(list ...build) []build { return list }

// branches adds an If whose condition is c. Its first branch reads w.
func branches(b *onnx.ModelBuilder) {
	branch := func(add func(g *onnx.GraphBuilder)) *onnx.GraphBuilder {
		g := onnx.NewGraph("branch")
		add(g)
		return g.Output("o", onnx.Float, "n", 8)
	}
	b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{
		"then_branch": branch(func(g *onnx.GraphBuilder) {
			g.Node("Add", []string{"x", "w"}, []string{"s"})
			g.Node("Min", []string{"s", "s"}, []string{"o"})
		}),
		"else_branch": branch(func(g *onnx.GraphBuilder) {
			g.Node("Neg", []string{"x"}, []string{"s"})
			g.Node("Neg", []string{"s"}, []string{"o"})
		})})
}

func truth(b *onnx.ModelBuilder) { b.Input("c", onnx.Bool) }

var (
	pixels  = input("x", "n", 4, 6, 6)
	rows    = input("x", "n", 8)
	conv    = node("Conv", "x w", "c", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})
	filters = ramp("w", 4, 4, 3, 3)
	norm    = steps(ramp("s", 4), ramp("b", 4), ramp("m", 4), ramp("v", 4))
)

// hardGate returns g = clip(x+3, 0, 6), followed by nodes of two inputs, given as operator, inputs,
// output.
func hardGate(list ...string) []build {
	r := steps(rows, constant("three", float32(3)), constant("zero", float32(0)), constant("six", float32(6)),
		constant("sixth", float32(1.0/6)), node("Add", "x three", "a"), node("Clip", "a zero six", "g"))
	for c := range slices.Chunk(list, 3) {
		r = append(r, node(c[0], c[1], c[2]))
	}
	return r
}

// moreCases are functions that return cases of passes; files with the tests of a pass add them.
var moreCases []func() []passCase

// passCase is a graph, and the expected result of a pass.
type passCase struct {
	pass, name string
	opset      int64 // default 21
	build      []build
	outputs    string // default "y"
	with       string // another pass to run
	want       string
	bytes      bool // whether the pass only runs on processors with VNNI or SDOT
}

// TestPasses checks for every pass what it rewrites, and similar graphs that it must not
// change. Every pass runs alone, followed by dce.
func TestPasses(t *testing.T) {
	// A wide image, and its depthwise convolution.
	expand := steps(input("x", "n", 3, 104, 104), ramp("w", 32, 3, 1, 1), ramp("k", 32, 1, 3, 3),
		ramp("v", 16, 32, 1, 1), node("Conv", "x w", "e"))
	spread := node("Conv", "e k", "d", onnx.Attrs{"group": int64(32)})
	squeeze := node("GlobalAveragePool", "e", "s")
	excite := steps(ramp("a", 8, 32, 1, 1), ramp("b", 32, 8, 1, 1), node("Conv", "s a", "h"), node("Conv", "h b", "f"))
	byteConvs := steps(func(b *onnx.ModelBuilder) {
		b.Input("x", onnx.Uint8, "n", 20, 6, 6)
	}, constant("w", make([]int8, 20*20), 20, 20, 1, 1),
		constant("s", float32(0.5)), constant("z", uint8(3)), constant("wz", int8(0)),
		constant("shape", []int64{-1, 20}, 2))
	byteConv := func(x, y string) build { return node("QLinearConv", x+" s z w s wz s z", y) }
	byteSum := func(a, b, y string) build {
		return func(m *onnx.ModelBuilder) {
			m.Opset("com.microsoft", 1).Node("QLinearAdd", []string{a, "s", "z", b, "s", "z", "s", "z"}, []string{y}).
				Domain("com.microsoft")
		}
	}
	halfNorm := steps(halves("x", "n", 4, 6, 6), halfRamp("w", 4, 4, 1, 1), halfRamp("s", 4), halfRamp("b", 4),
		halfRamp("m", 4), halfRamp("v", 4))
	toFloat := node("Cast", "h", "y", onnx.Attrs{"to": onnx.Float})
	cases := []passCase{
		{pass: "inline-if", name: "a condition that is an input", build: steps(rows, truth, ramp("w", 8), branches), want: "If[Neg Neg][Add Min]"},
		{pass: "inline-if", name: "a constant", build: steps(rows, constant("c", true), ramp("w", 8), branches), want: "Add Min"},
		{pass: "inline-if", name: "a branch that cannot run", with: "fold", build: steps(rows, constant("c", false), ramp("w", 3), branches), want: "Neg Neg"},
		{pass: "inline-if", name: "a condition that folding finds", with: "fold", build: steps(rows, constant("d", false), node("Not", "d", "c"), ramp("w", 8), branches), want: "Add Min"},
		{pass: "fold", name: "constants are added", build: steps(rows, constant("a", float32(1)), constant("b", float32(2)), node("Add", "a b", "c"), node("Mul", "x c", "y")), want: "Mul"},
		{pass: "fold", name: "the shape of a fixed input", build: steps(input("x", 2, 3), node("Shape", "x", "y")), want: ""},
		{pass: "fold", name: "the shape of another input", build: steps(rows, node("Shape", "x", "y")), want: "Shape"},
		{pass: "fold", name: "one known dimension of it", build: steps(rows, constant("i", int64(1)), node("Shape", "x", "s"), node("Gather", "s i", "y")), want: ""},
		{pass: "fold", name: "random numbers", build: steps(node("RandomNormal", "", "y", onnx.Attrs{"shape": []int64{2}})), want: "RandomNormal"},
		{pass: "fold", name: "a node that fails", build: steps(constant("a", []int64{1, 2}, 2), constant("i", int64(9)), node("Gather", "a i", "y")), want: "Gather"},
		{pass: "fold", name: "weights in bytes are kept", build: steps(constant("q", []int8{1, 2}, 2), constant("s", float32(2)), node("DequantizeLinear", "q s", "y")), want: "DequantizeLinear"},
		{pass: "fold-quantized", name: "weights in bytes without integer operator", build: steps(constant("q", []int8{1, 2}, 2), constant("s", float32(2)), node("DequantizeLinear", "q s", "y")), want: ""},
		{pass: "fold", name: "results that are too large", build: steps(constant("a", []int64{1 << 20}, 1), node("ConstantOfShape", "a", "y")), want: "ConstantOfShape"},

		{pass: "identity", name: "a scalar that is expanded to an unknown rank", build: steps(input("x"), func(b *onnx.ModelBuilder) { b.Input("s", onnx.Int64, "n") }, node("Expand", "x s", "e"), node("Neg", "e", "y")), want: "Expand Neg"},
		{pass: "identity", name: "in the middle", build: steps(rows, node("Identity", "x", "i"), node("Neg", "i", "y")), want: "Neg"},
		{pass: "identity", name: "at the output", build: steps(rows, node("Identity", "x", "y")), want: "Identity"},
		{pass: "identity", name: "Dropout", build: steps(rows, node("Dropout", "x", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "Dropout whose mask is used", build: steps(rows, node("Dropout", "x", "d k"), node("Neg", "d", "y")), outputs: "y k", want: "Dropout Neg"},
		{pass: "identity", name: "Cast to the same type", build: steps(rows, node("Cast", "x", "d", onnx.Attrs{"to": onnx.Float}), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "a product with ones", build: steps(rows, constant("o", float32(1)), node("Mul", "o x", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "a quotient by ones", build: steps(rows, constant("o", []float32{1}, 1), node("Div", "x o", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "ones that repeat the rows", build: steps(rows, constant("o", []float32{1, 1}, 2, 1, 1), node("Div", "x o", "d"), node("Neg", "d", "y")), want: "Div Neg"},
		{pass: "identity", name: "ones divided", build: steps(rows, constant("o", float32(1)), node("Div", "o x", "d"), node("Neg", "d", "y")), want: "Div Neg"},
		{pass: "identity", name: "a Slice of everything", build: steps(rows, constant("s", []int64{0}, 1), constant("e", []int64{8}, 1), constant("a", []int64{1}, 1), node("Slice", "x s e a", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "a Slice backwards", build: steps(rows, constant("s", []int64{-1}, 1), constant("e", []int64{-9}, 1), constant("a", []int64{1}, 1), node("Slice", "x s e a s", "d"), node("Neg", "d", "y")), want: "Slice Neg"},
		{pass: "identity", name: "Expand to the same shape", build: steps(input("x", 2, 3), constant("s", []int64{2, 1}, 2), node("Expand", "x s", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "Pad by nothing", build: steps(input("x", 2, 3), constant("p", []int64{0, 0, 0, 0}, 4), node("Pad", "x p", "d"), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "Pad that moves", build: steps(input("x", 2, 3), constant("p", []int64{0, 1, 0, -1}, 4), node("Pad", "x p", "d"), node("Neg", "d", "y")), want: "Pad Neg"},
		{pass: "identity", name: "Concat of one input", build: steps(rows, node("Concat", "x", "d", onnx.Attrs{"axis": 0}), node("Neg", "d", "y")), want: "Neg"},
		{pass: "identity", name: "Cast to another type", build: steps(rows, node("Cast", "x", "d", onnx.Attrs{"to": onnx.Double}), node("Neg", "d", "y")), want: "Cast Neg"},

		{pass: "cse", name: "the same twice", build: steps(rows, node("Neg", "x", "a"), node("Neg", "x", "b"), node("Add", "a b", "y")), want: "Neg Add"},
		{pass: "cse", name: "other attributes", build: steps(rows, node("Elu", "x", "a", onnx.Attrs{"alpha": float32(1)}), node("Elu", "x", "b", onnx.Attrs{"alpha": float32(2)}), node("Add", "a b", "y")), want: "Elu Elu Add"},
		{pass: "cse", name: "other inputs", build: steps(rows, input("z", "n", 8), node("Neg", "x", "a"), node("Neg", "z", "b"), node("Add", "a b", "y")), want: "Neg Neg Add"},
		{pass: "cse", name: "equal constants", build: steps(rows, constant("p", float32(3)), constant("q", float32(3)), node("Mul", "x p", "a"), node("Mul", "x q", "b"), node("Add", "a b", "y")), want: "Mul Add"},
		{pass: "cse", name: "other constants", build: steps(rows, constant("p", float32(3)), constant("q", float32(4)), node("Mul", "x p", "a"), node("Mul", "x q", "b"), node("Add", "a b", "y")), want: "Mul Mul Add"},
		{pass: "cse", name: "random numbers", build: steps(node("RandomNormal", "", "a", onnx.Attrs{"shape": []int64{2}}), node("RandomNormal", "", "b", onnx.Attrs{"shape": []int64{2}}), node("Add", "a b", "y")), want: "RandomNormal RandomNormal Add"},

		{pass: "dce", name: "unused nodes", build: steps(rows, node("Neg", "x", "a"), node("Abs", "a", "b"), node("Sqrt", "x", "y")), want: "Sqrt"},
		{pass: "dce", name: "nodes of an output", build: steps(rows, node("Neg", "x", "a"), node("Abs", "a", "b"), node("Sqrt", "x", "y")), outputs: "y b", want: "Neg Abs Sqrt"},

		{pass: "unsigned-activations", name: "an activation", with: "fuse-quantized", bytes: true, build: steps(constant("s", float32(0.05)), constant("z", int8(-7)), constant("t", float32(0.04)), input("x", 4), node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "f"), node("Tanh", "f", "y")), want: "QuantizeLinear DequantizeLinear Tanh"},
		{pass: "fuse-quantized", name: "an addition", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), inputBytes("x2"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "x2 s z", "f2"),
			node("Add", "f f2", "a"), node("QuantizeLinear", "a s z", "y")), want: "QLinearAdd"},
		{pass: "fuse-quantized", name: "means of planes", opset: 17, build: append(slices.Clone(byteConvs), node("DequantizeLinear", "x s z", "f"), node("ReduceMean", "f", "m", onnx.Attrs{"axes": []int64{2, -1}}), node("QuantizeLinear", "m s z", "y")), want: "QLinearGlobalAveragePool"},
		{pass: "fuse-quantized", name: "means without their dimensions", opset: 17, build: append(slices.Clone(byteConvs), node("DequantizeLinear", "x s z", "f"), node("ReduceMean", "f", "m", onnx.Attrs{"axes": []int64{2, 3}, "keepdims": int64(0)}), node("QuantizeLinear", "m s z", "y")), want: "DequantizeLinear ReduceMean QuantizeLinear"},
		{pass: "fuse-quantized", name: "a bias of floats", build: append(slices.Clone(byteConvs), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "w s wz", "g"), ramp("b", 20), constant("t", float32(1)), node("Conv", "f g b", "c"), node("QuantizeLinear", "c t z", "y")), want: "QLinearConv"},
		{pass: "fuse-quantized", name: "a bias that would be rounded by more than a quarter", build: append(slices.Clone(byteConvs), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "w s wz", "g"), constant("b", slices.Repeat([]float32{0.124}, 20), 20), constant("t", float32(0.4)), node("Conv", "f g b", "c"), node("QuantizeLinear", "c t z", "y")), want: "DequantizeLinear DequantizeLinear Conv QuantizeLinear"},
		{pass: "fuse-quantized", name: "constants of the other type of bytes", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)), constant("k", []int8{-128, -1, 5, 127}, 4), constant("n", int8(-2)),
			inputBytes("x"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "k s n", "f2"),
			node("Add", "f2 f", "a"), node("QuantizeLinear", "a s z", "b"), node("DequantizeLinear", "b s z", "g"), node("Concat", "g f2", "c", onnx.Attrs{"axis": int64(0)}), node("QuantizeLinear", "c s z", "y")), want: "QLinearAdd QLinearConcat"},
		{pass: "fuse-quantized", name: "a sum of two", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), inputBytes("x2"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "x2 s z", "f2"),
			node("Sum", "f f2", "a"), node("QuantizeLinear", "a s z", "y")), want: "QLinearAdd"},
		{pass: "fuse-quantized", name: "a sum of three", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), inputBytes("x2"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "x2 s z", "f2"),
			node("Sum", "f f2 f", "a"), node("QuantizeLinear", "a s z", "y")), want: "DequantizeLinear DequantizeLinear Sum QuantizeLinear"},
		{pass: "fuse-quantized", name: "a sum of one", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), node("DequantizeLinear", "x s z", "f"), node("Sum", "f", "a"), node("QuantizeLinear", "a s z", "y")), want: "ByteMap"},
		{pass: "fuse-quantized", name: "a function of one tensor", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), node("DequantizeLinear", "x s z", "f"), node("Tanh", "f", "a"), node("QuantizeLinear", "a s z", "y")), want: "ByteMap"},
		{pass: "fuse-quantized", name: "a value that floats need too", build: steps(constant("s", float32(0.5)), constant("z", uint8(3)),
			inputBytes("x"), inputBytes("x2"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "x2 s z", "f2"),
			node("Add", "f f2", "a"), node("QuantizeLinear", "a s z", "y")), outputs: "y a", want: "DequantizeLinear DequantizeLinear Add QuantizeLinear"},
		{pass: "fuse-quantized", name: "a step that is not known", build: steps(input("s"), constant("z", uint8(3)),
			inputBytes("x"), inputBytes("x2"), node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "x2 s z", "f2"),
			node("Add", "f f2", "a"), node("QuantizeLinear", "a s z", "y")), want: "DequantizeLinear DequantizeLinear Add QuantizeLinear"},

		{pass: "widen-half", name: "a convolution and what follows", build: append(slices.Clone(halfNorm), node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "n"), node("Relu", "n", "r"), node("GlobalAveragePool", "r", "h"), toFloat),
			want: "Cast Conv BatchNormalization Relu GlobalAveragePool Cast"},
		{pass: "widen-half", name: "two readers of an image", build: append(slices.Clone(halfNorm), node("Conv", "x w", "c"), node("Conv", "c w", "d"), node("Add", "c d", "h"), toFloat), want: "Cast Conv Conv Add Cast"},
		{pass: "widen-half", name: "a value that is needed", build: append(slices.Clone(halfNorm), node("Conv", "x w", "h"), node("Relu", "h", "r"), toFloat, node("Cast", "r", "z", onnx.Attrs{"to": onnx.Float})), outputs: "y z", want: "Cast Conv Relu Cast Cast"},
		{pass: "widen-half", name: "weights that are an input", build: steps(halves("x", "n", 4, 6, 6), halves("w", 4, 4, 1, 1), node("Conv", "x w", "h"), toFloat), want: "Conv Cast"},
		{pass: "widen-half", name: "rows after a convolution along one axis", build: steps(halves("x", 1, 4, 9), halfRamp("w", 4, 4, 1), node("Conv", "x w", "c"), node("Relu", "c", "h"), toFloat), want: "Cast Conv Relu Cast"},
		{pass: "widen-half", name: "a product and a normalization", build: steps(halves("x", "n", 4), halfRamp("w", 4, 4), halfRamp("s", 4), node("MatMul", "x w", "p"), node("LayerNormalization", "p s", "h"), toFloat), want: "Cast MatMul LayerNormalization Cast"},
		{pass: "widen-half", name: "a product of two inputs", build: steps(halves("x", "n", 4), halves("w", 4, 4), node("MatMul", "x w", "h"), toFloat), want: "MatMul Cast"},
		{pass: "widen-half", name: "a cast between two products", build: steps(halves("x", "n", 4), halfRamp("w", 4, 4), node("MatMul", "x w", "p"), node("Cast", "p", "q", onnx.Attrs{"to": onnx.BFloat16}), node("Cast", "q", "r", onnx.Attrs{"to": onnx.Float16}), node("MatMul", "r w", "h"), toFloat),
			want: "Cast MatMul Cast Cast Cast MatMul Cast"},
		{pass: "widen-half", name: "a choice and a shape", build: steps(halves("x", "n", 4), halfRamp("w", 4, 4), constant("c", []bool{true, false, true, true}, 4), constant("z", int64(0)), node("MatMul", "x w", "p"), node("Where", "c p x", "h"), toFloat, node("Shape", "p", "d"), node("Cast", "d", "u", onnx.Attrs{"to": onnx.Float})), outputs: "y u",
			want: "Cast MatMul Where Cast Shape Cast"},
		{pass: "widen-half", name: "a large table", build: steps(func(b *onnx.ModelBuilder) { b.Input("x", onnx.Int64, "n") }, halfRamp("t", 1<<17, 4), halfRamp("w", 4, 4), node("Gather", "t x", "e"), node("MatMul", "e w", "h"), toFloat),
			want: "Gather Cast MatMul Cast"},
		{pass: "widen-half", name: "a product with packed weights", with: "fuse-linear", build: steps(halves("x", "n", 4), halfRamp("w", 4, 4), node("MatMul", "x w", "p"), node("Relu", "p", "h"), toFloat), want: "Cast Linear Cast"},
		{pass: "widen-half", name: "a sequence", build: steps(halves("x", "n", 4), halfRamp("w", 4, 4), constant("z", int64(0)), node("MatMul", "x w", "p"), node("SequenceConstruct", "p", "q"), node("SequenceAt", "q z", "h"), toFloat),
			want: "Cast MatMul Cast SequenceConstruct SequenceAt Cast"},
		{pass: "widen-half", name: "attention with a cache", opset: 23, build: steps(halves("x", 1, 2, 4), halfRamp("w", 4, 4), halves("k", 1, 1, 3, 4), halves("v", 1, 1, 3, 4), halves("m", 2, 5), node("MatMul", "x w", "q"), node("Attention", "q q q m k v", "h k2 v2", onnx.Attrs{"q_num_heads": int64(1), "kv_num_heads": int64(1)}), toFloat),
			want: "Cast MatMul Cast Attention Cast"},
		{pass: "widen-half", name: "images without a convolution", build: steps(halves("x", 1, 4, 9, 9), node("Relu", "x", "h"), toFloat), want: "Relu Cast"},
		{pass: "widen-half", name: "a recurrent operator", build: steps(halves("x", 3, 1, 2), halfRamp("w", 1, 4, 2), halfRamp("u", 1, 4, 4), node("RNN", "x w u", "h", onnx.Attrs{"hidden_size": int64(4)}), toFloat), want: "Cast RNN Cast"},
		{pass: "widen-half", name: "a convolution of float32", build: steps(pixels, filters, conv, node("Relu", "c", "y")), want: "Conv Relu"},

		{pass: "fold-pad", name: "zeros around an image", build: steps(pixels, filters, constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Conv"},
		{pass: "fold-pad", name: "a given zero for one axis", build: steps(pixels, filters, constant("p", []int64{2, 0}, 2), constant("o", float32(0)), constant("a", []int64{-1}, 1), node("Pad", "x p o a", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Conv"},
		{pass: "fold-pad", name: "another value", build: steps(pixels, filters, constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), constant("o", float32(1)), node("Pad", "x p o", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Pad Conv"},
		{pass: "fold-pad", name: "reflected pixels", build: steps(pixels, filters, constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d", onnx.Attrs{"mode": "reflect"}), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Pad Conv"},
		{pass: "fold-pad", name: "channels", build: steps(input("x", "n", 3, 6, 6), filters, constant("p", []int64{0, 1, 0, 0, 0, 0, 0, 0}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Pad Conv"},
		{pass: "fold-pad", name: "fewer pixels", build: steps(pixels, filters, constant("p", []int64{0, 0, -2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), want: "Pad Conv"},
		{pass: "fold-pad", name: "automatic padding", build: steps(pixels, filters, constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"auto_pad": "SAME_UPPER", "strides": []int64{2, 2}})), want: "Pad Conv"},
		{pass: "fold-pad", name: "an image that is needed", build: steps(pixels, filters, constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), outputs: "y d", want: "Pad Conv"},
		{pass: "fold-into-conv", name: "BatchNormalization", build: append(slices.Clone(norm), pixels, filters, conv, node("BatchNormalization", "c s b m v", "y")), want: "Conv"},
		{pass: "fold-into-conv", name: "after ConvTranspose", build: append(slices.Clone(norm), pixels, filters, node("ConvTranspose", "x w", "c"), node("BatchNormalization", "c s b m v", "y")), want: "ConvTranspose"},
		{pass: "fold-into-conv", name: "after ConvTranspose of groups", build: append(slices.Clone(norm), pixels, ramp("w", 4, 2, 3, 3), node("ConvTranspose", "x w", "c", onnx.Attrs{"group": int64(2)}), node("BatchNormalization", "c s b m v", "y")), want: "ConvTranspose BatchNormalization"},
		{pass: "fold-into-conv", name: "a bias and a factor", build: append(slices.Clone(norm), pixels, filters, conv, ramp("k", 4, 1, 1), node("Add", "k c", "p"), node("Mul", "p k", "q"), node("BatchNormalization", "q s b m v", "y")), want: "Conv"},
		{pass: "fold-into-conv", name: "a result that is needed", build: append(slices.Clone(norm), pixels, filters, conv, node("BatchNormalization", "c s b m v", "y")), outputs: "y c", want: "Conv BatchNormalization"},
		{pass: "fold-into-conv", name: "weights of two convolutions", build: append(slices.Clone(norm), pixels, filters, conv, node("Conv", "x w", "c2", onnx.Attrs{"pads": []int64{1, 1, 1, 1}}), node("BatchNormalization", "c s b m v", "n"), node("Add", "n c2", "y")), want: "Conv Conv Add"},
		{pass: "fold-into-conv", name: "weights that are an input", build: append(slices.Clone(norm), pixels, input("w", 4, 4, 3, 3), conv, node("BatchNormalization", "c s b m v", "y")), want: "Conv BatchNormalization"},
		{pass: "fold-into-conv", name: "one constant for all channels", build: steps(pixels, filters, conv, constant("k", float32(3)), node("Add", "c k", "p"), constant("f", []float32{0.5}, 1, 1, 1, 1), node("Mul", "f p", "y")), want: "Conv"},
		{pass: "fold-into-conv", name: "a vector and one constant", build: steps(input("x", 4), constant("k", float32(3)), node("Add", "x k", "y")), want: "Add"},
		{pass: "affine", name: "BatchNormalization", build: append(slices.Clone(norm), pixels, node("BatchNormalization", "x s b m v", "y")), want: "ChannelAffine"},
		{pass: "affine", name: "BatchNormalization in training", build: append(slices.Clone(norm), pixels, node("BatchNormalization", "x s b m v", "y r1 r2", onnx.Attrs{"training_mode": int64(1)})), outputs: "y r1", want: "BatchNormalization"},
		{pass: "affine", name: "BatchNormalization of inputs", build: append(slices.Clone(norm[:3]), pixels, input("v", 4), node("BatchNormalization", "x s b m v", "y")), want: "BatchNormalization"},
		{pass: "affine", name: "BatchNormalization of rows", build: append(slices.Clone(norm), input("x", "n", 4), node("BatchNormalization", "x s b m v", "y")), want: "ChannelAffine"},
		{pass: "affine", name: "a factor per channel", build: steps(pixels, ramp("k", 4, 1, 1), node("Mul", "x k", "y")), want: "ChannelAffine"},
		{pass: "affine", name: "a factor per column", build: steps(pixels, ramp("k", 6), node("Mul", "x k", "y")), want: "Mul"},

		{pass: "channel-shuffle", name: "a shuffle", build: steps(pixels, constant("a", []int64{-1, 2, 2, 6, 6}, 5), constant("b", []int64{-1, 4, 6, 6}, 4),
			node("Reshape", "x a", "r"), node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}), node("Reshape", "t b", "y")), want: "ChannelShuffle"},
		{pass: "channel-shuffle", name: "another permutation", build: steps(pixels, constant("a", []int64{-1, 2, 2, 6, 6}, 5), constant("b", []int64{-1, 4, 6, 6}, 4),
			node("Reshape", "x a", "r"), node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{0, 2, 1, 4, 3}}), node("Reshape", "t b", "y")), want: "Reshape Transpose Reshape"},
		{pass: "channel-shuffle", name: "columns shuffled too", build: steps(pixels, constant("a", []int64{-1, 2, 4, 3, 6}, 5), constant("b", []int64{-1, 4, 6, 6}, 4),
			node("Reshape", "x a", "r"), node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}), node("Reshape", "t b", "y")), want: "Reshape Transpose Reshape"},

		{pass: "factor-scale", name: "a residual of squeeze-and-excitation", build: steps(pixels, node("GlobalAveragePool", "x", "s"), node("Mul", "s x", "m"), node("Add", "x m", "y")), want: "GlobalAveragePool Add Mul"},
		{pass: "factor-scale", name: "a residual of another image", build: steps(pixels, input("z", "n", 4, 6, 6), node("GlobalAveragePool", "x", "s"), node("Mul", "x s", "m"), node("Add", "m z", "y")), want: "GlobalAveragePool Mul Add"},
		{pass: "factor-scale", name: "a factor per pixel", build: steps(pixels, node("Sigmoid", "x", "s"), node("Mul", "x s", "m"), node("Add", "m x", "y")), want: "Sigmoid Mul Add"},
		{pass: "factor-scale", name: "a product that is needed", build: steps(pixels, node("GlobalAveragePool", "x", "s"), node("Mul", "x s", "m"), node("Add", "m x", "y")), outputs: "y m", want: "GlobalAveragePool Mul Add"},

		{pass: "affine", name: "one constant after a function of a convolution", build: steps(pixels, filters, conv, constant("k", float32(0.3)), node("HardSwish", "c", "h"), node("Mul", "h k", "m"), node("Add", "k m", "y")), want: "Conv HardSwish ChannelAffine ChannelAffine"},
		{pass: "affine", name: "one constant elsewhere", build: steps(pixels, constant("k", float32(0.3)), node("HardSwish", "x", "h"), node("Mul", "h k", "y")), want: "HardSwish Mul"},

		{pass: "fuse-conv", name: "followed by Relu", build: steps(pixels, filters, conv, node("Relu", "c", "y")), want: "FusedConv"},
		{pass: "fuse-conv", name: "followed by Clip", build: steps(pixels, filters, conv, constant("lo", float32(0)), constant("hi", float32(6)), node("Clip", "c lo hi", "y")), want: "FusedConv"},
		{pass: "fuse-conv", name: "Clip by an input", build: steps(pixels, filters, conv, input("lo"), constant("hi", float32(6)), node("Clip", "c lo hi", "y")), want: "Conv Clip"},
		{pass: "fuse-conv", name: "its sum with the image", build: steps(pixels, filters, conv, node("Add", "c x", "y")), want: "FusedConv"},
		{pass: "fuse-conv", name: "its sum with a broadcast one", build: steps(pixels, filters, input("z", "n", 4, 1, 1), conv, node("Add", "c z", "y")), want: "Conv Add"},
		{pass: "fuse-conv", name: "a result that is needed", build: steps(pixels, filters, conv, node("Relu", "c", "y")), outputs: "y c", want: "Conv Relu"},
		{pass: "fuse-conv", name: "a result with two readers", build: steps(pixels, filters, conv, node("Relu", "c", "r"), node("Neg", "c", "g"), node("Add", "r g", "y")), want: "Conv Relu Neg Add"},
		{pass: "fuse-conv", name: "followed by another function", build: steps(pixels, filters, conv, node("Tanh", "c", "y")), want: "Conv Tanh"},

		{pass: "fuse-activation", name: "Silu", build: steps(rows, node("Sigmoid", "x", "s"), node("Mul", "s x", "y")), want: "Silu"},
		{pass: "fuse-activation", name: "Silu of a multiple", build: steps(rows, constant("a", float32(1.702)), node("Mul", "a x", "m"), node("Sigmoid", "m", "s"), node("Mul", "x s", "y")), want: "Silu"},
		{pass: "fuse-activation", name: "a gate of a negative multiple", build: steps(rows, constant("a", float32(-1)), node("Mul", "x a", "m"), node("Sigmoid", "m", "s"), node("Mul", "x s", "y")), want: "Mul Sigmoid Mul"},
		{pass: "fuse-activation", name: "a gate other than Silu", build: steps(rows, input("z", "n", 8), node("Sigmoid", "x", "s"), node("Mul", "s z", "y")), want: "Sigmoid Mul"},
		{pass: "fuse-activation", name: "Gelu", build: steps(rows, constant("r", float32(1.4142135)), constant("one", float32(1)), constant("half", float32(0.5)),
			node("Div", "x r", "d"), node("Erf", "d", "e"), node("Add", "e one", "p"), node("Mul", "x p", "q"), node("Mul", "q half", "y")), want: "Gelu"},
		{pass: "fuse-activation", name: "nearly Gelu", build: steps(rows, constant("r", float32(1.5)), constant("one", float32(1)), constant("half", float32(0.5)),
			node("Div", "x r", "d"), node("Erf", "d", "e"), node("Add", "e one", "p"), node("Mul", "x p", "q"), node("Mul", "q half", "y")), want: "Div Erf Add Mul Mul"},

		{pass: "fuse-activation", name: "HardSwish", build: hardGate("Mul", "x g", "p", "Div", "p six", "y"), want: "HardSwish"},
		{pass: "fuse-activation", name: "HardSwish by a HardSigmoid", build: hardGate("Div", "g six", "p", "Mul", "x p", "y"), want: "HardSwish"},
		{pass: "fuse-activation", name: "HardSwish by a product", build: hardGate("Mul", "sixth g", "p", "Mul", "p x", "y"), want: "HardSwish"},
		{pass: "fuse-activation", name: "HardSwish of HardSigmoid", build: steps(rows, node("HardSigmoid", "x", "s", onnx.Attrs{"alpha": float32(1.0 / 6)}), node("Mul", "x s", "y")), want: "HardSwish"},
		{pass: "fuse-activation", name: "x · HardSigmoid with another slope", build: steps(rows, node("HardSigmoid", "x", "s"), node("Mul", "x s", "y")), want: "HardSigmoid Mul"},
		{pass: "fuse-activation", name: "Max with a constant", build: steps(rows, constant("k", float32(-0.5)), node("Max", "x k", "y")), want: "Clip"},
		{pass: "fuse-activation", name: "Min with a constant", build: steps(rows, constant("k", []float32{2}, 1, 1), node("Min", "k x", "y")), want: "Clip"},
		{pass: "fuse-activation", name: "Max with NaN", build: steps(rows, constant("k", float32(math.NaN())), node("Max", "x k", "y")), want: "Max"},
		{pass: "fuse-activation", name: "Max with a row", build: steps(rows, ramp("k", 8), node("Max", "x k", "y")), want: "Max"},
		{pass: "fuse-activation", name: "Max that adds an axis", build: steps(rows, constant("k", []float32{1}, 1, 1, 1), node("Max", "x k", "y")), want: "Max"},
		{pass: "fuse-activation", name: "Max of three", build: steps(rows, constant("k", float32(1)), node("Max", "x k x", "y")), want: "Max"},
		{pass: "fuse-activation", name: "HardSigmoid", build: hardGate("Div", "g six", "y"), want: "HardSigmoid"},
		{pass: "fuse-activation", name: "a gate of another value", build: append(hardGate("Div", "g six", "p", "Mul", "z p", "y"), input("z", "n", 8)), want: "HardSigmoid Mul"},
		{pass: "fuse-activation", name: "a gate that reaches 1 elsewhere", build: append(hardGate("Div", "g seven", "y"), constant("seven", float32(7))), want: "Add Clip Div"},
		{pass: "fuse-activation", name: "six divided by a gate", build: hardGate("Div", "six g", "y"), want: "Add Clip Div"},
		{pass: "fuse-activation", name: "a clip that is needed", build: hardGate("Div", "g six", "y"), outputs: "y g", want: "Add Clip Div"},

		{pass: "fuse-layer-norm", name: "LayerNormalization", opset: 17, build: layerNorm(-1, squared), want: "LayerNormalization"},
		{pass: "fuse-layer-norm", name: "by the third power", opset: 17, build: layerNorm(-1, node("Pow", "d three", "q")), want: "ReduceMean Sub Pow ReduceMean Add Sqrt Div Mul Add"},
		{pass: "fuse-layer-norm", name: "over another axis", opset: 17, build: layerNorm(0, squared), want: "ReduceMean Sub Mul ReduceMean Add Sqrt Div Mul Add"},

		{pass: "fuse-rms-norm", opset: 17, name: "RMSNormalization", build: rmsNorm(node("Pow", "x two", "q"), node("Sqrt", "e", "r"), node("Div", "x r", "n"), node("Mul", "w n", "y")), want: "RMSNormalization"},
		{pass: "fuse-rms-norm", opset: 17, name: "by a quotient of one", build: rmsNorm(node("Mul", "x x", "q"), node("Sqrt", "e", "r"), node("Div", "one r", "i"), node("Mul", "x i", "n"), node("Mul", "n w", "y")), want: "RMSNormalization"},
		{pass: "fuse-rms-norm", opset: 17, name: "by a reciprocal", build: rmsNorm(node("Pow", "x two", "q"), node("Sqrt", "e", "r"), node("Reciprocal", "r", "i"), node("Mul", "i x", "n"), node("Mul", "n w", "y")), want: "RMSNormalization"},
		{pass: "fuse-rms-norm", opset: 17, name: "of another value", build: rmsNorm(node("Pow", "x two", "q"), node("Sqrt", "e", "r"), node("Neg", "x", "v"), node("Div", "v r", "n"), node("Mul", "n w", "y")), want: "Pow ReduceMean Add Sqrt Neg Div Mul"},
		{pass: "fuse-rms-norm", opset: 17, name: "by a quotient of two", build: rmsNorm(node("Mul", "x x", "q"), node("Sqrt", "e", "r"), node("Div", "two r", "i"), node("Mul", "x i", "n"), node("Mul", "n w", "y")), want: "Mul ReduceMean Add Sqrt Div Mul Mul"},

		{pass: "fuse-transpose", name: "a transposed factor", build: steps(input("x", "n", 5, 8), node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("MatMul", "x t", "y")), want: "StridedMatMul"},
		{pass: "fuse-transpose", name: "followed by a scale", build: steps(input("x", "n", 8, 8), constant("k", float32(0.1)), node("MatMul", "x x", "p"), node("Mul", "p k", "y")), want: "StridedMatMul"},
		{pass: "fuse-transpose", name: "a factor that is needed transposed", build: steps(input("x", "n", 5, 8), node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("MatMul", "x t", "y")), outputs: "y t", want: "Transpose MatMul"},
		{pass: "fuse-transpose", name: "matrices without a stack", build: steps(input("x", "n", 8), node("Transpose", "x", "t"), node("MatMul", "t x", "y")), want: "Transpose MatMul"},

		{pass: "fuse-attention", name: "matrices without transpositions", with: "fuse-transpose", build: attention(node("Softmax", "s", "p")), want: "Attention"},
		{pass: "fuse-attention", name: "a scale and a mask", with: "fuse-transpose", build: attention(node("Softmax", "m", "p"), constant("k", float32(8)), input("a", 1, 1, 5), node("Div", "s k", "d"), node("Add", "d a", "m")), want: "Attention"},
		{pass: "fuse-attention", name: "a mask that adds dimensions", with: "fuse-transpose", build: attention(node("Softmax", "m", "p"), input("a", 2, 5, 5), node("Add", "a s", "m")), want: "StridedMatMul Add Softmax MatMul"},
		{pass: "fuse-attention", name: "zeros instead of NaN", with: "fuse-transpose", build: withoutNaN("n z p0"), want: "Attention"},
		{pass: "fuse-attention", name: "NaN that become one", with: "fuse-transpose", build: withoutNaN("n o p0"), want: "StridedMatMul Add Softmax IsNaN Where MatMul"},
		{pass: "fuse-attention", name: "NaN alone", with: "fuse-transpose", build: withoutNaN("n p0 z"), want: "StridedMatMul Add Softmax IsNaN Where MatMul"},
		{pass: "fuse-attention", name: "probabilities that are needed beside zeros", with: "fuse-transpose", build: withoutNaN("n z p0"), outputs: "y p0", want: "StridedMatMul Add Softmax IsNaN Where MatMul"},
		{pass: "fuse-attention", name: "along another axis", with: "fuse-transpose", build: attention(node("Softmax", "s", "p", onnx.Attrs{"axis": int64(1)})), want: "StridedMatMul Softmax MatMul"},
		{pass: "fuse-attention", name: "probabilities that are needed", with: "fuse-transpose", build: attention(node("Softmax", "s", "p")), outputs: "y p", want: "StridedMatMul Softmax MatMul"},
		{pass: "fuse-attention", name: "scores that are needed", with: "fuse-transpose", build: attention(node("Softmax", "s", "p")), outputs: "y s", want: "StridedMatMul Softmax MatMul"},
		{pass: "fuse-attention", name: "keys whose columns are contiguous", build: steps(input("x", 2, 5, 5), node("MatMul", "x x", "s"), node("Softmax", "s", "p"), node("MatMul", "p x", "y")), want: "MatMul Softmax MatMul"},

		{pass: "fuse-linear", name: "MatMul, bias, Relu", build: steps(rows, ramp("w", 8, 3), ramp("b", 3), node("MatMul", "x w", "p"), node("Add", "p b", "a"), node("Relu", "a", "y")), want: "Linear"},
		{pass: "fuse-linear", name: "Gemm", build: steps(rows, ramp("w", 3, 8), ramp("b", 3), node("Gemm", "x w b", "y", onnx.Attrs{"transB": int64(1)})), want: "Linear"},
		{pass: "fuse-linear", name: "Gemm with another beta", build: steps(rows, ramp("w", 8, 3), ramp("b", 3), node("Gemm", "x w b", "y", onnx.Attrs{"beta": float32(2)})), want: "Gemm"},
		{pass: "fuse-linear", name: "weights from an input", build: steps(rows, input("w", 8, 3), node("MatMul", "x w", "y")), want: "MatMul"},
		{pass: "fuse-linear", name: "a bias that makes more rows", build: steps(input("x", 1, 8), ramp("w", 8, 3), input("z", 5, 3), node("MatMul", "x w", "p"), node("Add", "p z", "y")), want: "Linear Add"},

		{pass: "channels-last", name: "two convolutions", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), byteConv("c", "y")),
			want: "MoveChannels QLinearConv QLinearConv MoveChannels"},
		{pass: "channels-last", name: "one alone", build: append(slices.Clone(byteConvs), byteConv("x", "y")), want: "QLinearConv"},
		{pass: "channels-last", name: "a function between two", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), node("MaxPool", "c", "p", onnx.Attrs{"kernel_shape": []int64{1, 1}}), byteConv("p", "y")),
			want: "MoveChannels QLinearConv NhwcMaxPool QLinearConv MoveChannels"},
		{pass: "channels-last", name: "factors of channels", bytes: true, build: append(slices.Clone(byteConvs), func(b *onnx.ModelBuilder) { b.Input("f", onnx.Uint8, "n", 20, 1, 1) }, byteConv("x", "c"), byteSum("f", "c", "p"), byteConv("p", "y")),
			want: "MoveChannels QLinearConv MoveChannels QLinearAdd QLinearConv MoveChannels"},
		{pass: "channels-last", name: "an image for the factors of channels", bytes: true, build: append(slices.Clone(byteConvs), func(b *onnx.ModelBuilder) { b.Input("f", onnx.Uint8, "n", 20, 1, 1) }, byteConv("f", "c"), byteSum("x", "c", "y")), want: "QLinearConv QLinearAdd"},
		{pass: "channels-last", name: "a value that is needed", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), byteConv("c", "y")), outputs: "y c",
			want: "MoveChannels QLinearConv MoveChannels QLinearConv MoveChannels"},
		{pass: "channels-last", name: "an operator without the layout", build: append(slices.Clone(byteConvs), byteConv("x", "c"), node("Reshape", "c shape", "y")), want: "QLinearConv Reshape"},

		{pass: "fuse-quantized-add", name: "a convolution and its input", with: "channels-last", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), byteConv("c", "d"), byteSum("d", "c", "y")),
			want: "MoveChannels QLinearConv QLinearConvAdd MoveChannels"},
		{pass: "fuse-quantized-add", name: "a convolution as the second operand", with: "channels-last", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), byteConv("c", "d"), byteSum("c", "d", "y")),
			want: "MoveChannels QLinearConv QLinearConvAdd MoveChannels"},
		{pass: "fuse-quantized-add", name: "a convolution that is needed", with: "channels-last", bytes: true, build: append(slices.Clone(byteConvs), byteConv("x", "c"), byteConv("c", "d"), byteSum("d", "c", "y")), outputs: "y d c",
			want: "MoveChannels QLinearConv MoveChannels QLinearConv MoveChannels QLinearAdd MoveChannels"},

		{pass: "block-layout", name: "two convolutions", build: steps(input("x", "n", 16, 9, 9), ramp("w", 16, 16, 3, 3), node("Conv", "x w", "c"), node("Conv", "c w", "y")), want: "ToBlocked BlockedConv BlockedConv FromBlocked"},
		{pass: "block-layout", name: "two filters per channel between convolutions", build: steps(input("x", "n", 16, 9, 9), ramp("w", 16, 16, 3, 3), ramp("d", 32, 1, 3, 3), ramp("v", 8, 32, 3, 3),
			node("Conv", "x w", "a"), node("Conv", "a d", "b", onnx.Attrs{"group": int64(16)}), node("Conv", "b v", "y")), want: "ToBlocked BlockedConv FromBlocked Conv ToBlocked BlockedConv FromBlocked"},
		{pass: "block-layout", name: "an image of unknown size", build: steps(input("x", "n", 16, "h", 9), ramp("w", 16, 16, 3, 3), node("Conv", "x w", "c"), node("Conv", "c w", "y")), want: "Conv Conv"},
		{pass: "block-layout", name: "the means of planes", build: append(slices.Clone(expand), node("ReduceMean", "e", "y", onnx.Attrs{"axes": []int64{3, -2}})), opset: 17, want: "BlockedConv BlockedReduceMean FromBlocked"},
		{pass: "block-layout", name: "the maxima of planes without their dimensions", build: append(slices.Clone(expand), node("ReduceMax", "e", "m", onnx.Attrs{"axes": []int64{2, 3}, "keepdims": int64(0)}), node("Relu", "m", "y")), opset: 17, want: "BlockedConv BlockedReduceMax BlockedRelu FromBlocked"},
		{pass: "block-layout", name: "a sum with means of planes", build: append(slices.Clone(expand), node("ReduceMean", "e", "m", onnx.Attrs{"axes": []int64{2, 3}, "keepdims": int64(0)}), input("z", "n", 32), node("Add", "m z", "y")), opset: 17, want: "BlockedConv BlockedReduceMean ToBlocked BlockedAdd FromBlocked"},
		{pass: "block-layout", name: "halves of channels", build: append(slices.Clone(expand), node("Split", "e", "f g", onnx.Attrs{"axis": int64(1), "num_outputs": int64(2)}), node("Mul", "g f", "y")), want: "BlockedConv BlockedSplit BlockedSplit BlockedMul FromBlocked"},
		{pass: "block-layout", name: "parts of blocks", build: append(slices.Clone(expand), node("Split", "e", "f g h i", onnx.Attrs{"axis": int64(1), "num_outputs": int64(4)}), node("Mul", "g f", "m"), node("Mul", "h i", "j"), node("Add", "j m", "y")), want: "BlockedConv BlockedSplit BlockedSplit BlockedSplit BlockedSplit BlockedMul BlockedMul BlockedAdd FromBlocked"},
		{pass: "block-layout", name: "parts of two channels", build: append(slices.Clone(expand), constant("n", []int64{2, 2, 28}, 3), node("Split", "e n", "f g h", onnx.Attrs{"axis": int64(1)}), node("Mul", "g f", "y")), want: "BlockedConv FromBlocked Split Mul"},
		{pass: "block-layout", name: "halves that nothing blocked reads", build: append(slices.Clone(expand), node("Split", "e", "f g", onnx.Attrs{"axis": int64(1), "num_outputs": int64(2)}), node("Max", "g f", "y")), want: "BlockedConv FromBlocked Split Max"},
		{pass: "block-layout", name: "slices of channels", build: append(slices.Clone(expand), sliced("e", "f", 1, 0, 12), sliced("e", "g", 1, 20, 99), node("Mul", "g f", "y")), want: "BlockedConv BlockedSlice BlockedSlice BlockedMul FromBlocked"},
		{pass: "block-layout", name: "slices of odd channels", build: append(slices.Clone(expand), sliced("e", "f", 1, 0, 13), sliced("e", "g", 1, 18, 31), node("Mul", "g f", "y")), want: "BlockedConv FromBlocked Slice Slice Mul"},
		{pass: "block-layout", name: "a slice that nothing blocked reads", build: append(slices.Clone(expand), sliced("e", "f", 1, 0, 16), node("Max", "f f", "y")), want: "BlockedConv FromBlocked Slice Max"},
		{pass: "block-layout", name: "halves of rows", build: append(slices.Clone(expand), node("Split", "e", "f g", onnx.Attrs{"axis": int64(2), "num_outputs": int64(2)}), node("Mul", "g f", "y")), want: "BlockedConv FromBlocked Split Mul"},
		{pass: "block-layout", name: "the maxima of lines", build: steps(input("x", "n", 16, 9), ramp("w", 16, 16, 3), node("Conv", "x w", "c"), node("ReduceMax", "c", "y", onnx.Attrs{"axes": []int64{2}, "keepdims": int64(0)})), opset: 17, want: "ToBlocked BlockedConv BlockedReduceMax FromBlocked"},
		{pass: "block-layout", name: "the maxima of rows", build: append(slices.Clone(expand), node("ReduceMax", "e", "y", onnx.Attrs{"axes": []int64{3}})), opset: 17, want: "BlockedConv FromBlocked ReduceMax"},
		{pass: "block-layout", name: "another operator than a convolution", build: steps(pixels, node("Relu", "x", "y")), want: "Relu"},
		{pass: "fuse-blocked-map", name: "a function after a convolution", with: "block-layout", build: append(slices.Clone(expand), node("Gelu", "e", "y")), want: "BlockedConv FromBlocked"},
		{pass: "fuse-blocked-map", name: "a result that is needed", with: "block-layout", build: append(slices.Clone(expand), node("Tanh", "e", "y")), outputs: "y e", want: "BlockedConv FromBlocked BlockedTanh FromBlocked"},
		{pass: "fuse-blocked-map", name: "two functions", with: "block-layout", build: append(slices.Clone(expand), node("Tanh", "e", "t"), node("Sigmoid", "t", "y")), want: "BlockedConv FromBlocked"},
		{pass: "fuse-blocked-map", name: "a sum after a function", with: "block-layout", build: append(slices.Clone(expand), node("Tanh", "e", "t"), node("Conv", "x w", "z"), node("Add", "z t", "y")), want: "BlockedConv BlockedConv FromBlocked"},
		{pass: "fuse-blocked-map", name: "a function after a sum", with: "block-layout", build: append(slices.Clone(expand), node("Conv", "x w", "z"), node("Add", "z e", "s"), node("Tanh", "s", "y")), want: "BlockedConv BlockedConv BlockedTanh FromBlocked"},
		{pass: "fuse-blocked-map", name: "a sum with itself", with: "block-layout", build: append(slices.Clone(expand), node("Add", "e e", "y")), want: "BlockedConv BlockedAdd FromBlocked"},
		{pass: "fuse-blocked-map", name: "a difference", with: "block-layout", build: append(slices.Clone(expand), node("Conv", "x w", "z"), node("Sub", "z e", "y")), want: "BlockedConv BlockedConv BlockedSub FromBlocked"},
		{pass: "fuse-blocked-map", name: "a sum with means of planes", with: "block-layout", build: append(slices.Clone(expand), squeeze, node("Conv", "x w", "z"), node("Add", "z s", "y")), want: "BlockedConv BlockedGlobalAveragePool BlockedConv BlockedAdd FromBlocked"},
		{pass: "fuse-scale", name: "a 1×1 convolution of scaled channels", with: "block-layout", build: append(slices.Clone(expand), squeeze, node("Mul", "e s", "m"), node("Conv", "m v", "y")), want: "BlockedConv BlockedGlobalAveragePool BlockedScaledConv FromBlocked"},
		{pass: "fuse-scale", name: "scaled channels that are needed", with: "block-layout", build: append(slices.Clone(expand), squeeze, node("Mul", "s e", "m"), node("Conv", "m v", "y")), outputs: "y m", want: "BlockedConv BlockedGlobalAveragePool BlockedMul FromBlocked BlockedConv FromBlocked"},
		{pass: "fuse-scale", name: "a sum", with: "block-layout", build: append(slices.Clone(expand), squeeze, node("Add", "e s", "m"), node("Conv", "m v", "y")), want: "BlockedConv BlockedGlobalAveragePool BlockedAdd BlockedConv FromBlocked"},
		{pass: "fuse-scale", name: "more weights than pixels", with: "block-layout", build: steps(input("x", "n", 3, 4, 4), ramp("w", 32, 3, 1, 1), ramp("v", 32, 32, 1, 1), node("Conv", "x w", "e"), squeeze, node("Mul", "e s", "m"), node("Conv", "m v", "y")), want: "BlockedConv BlockedGlobalAveragePool BlockedMul BlockedConv FromBlocked"},
		{pass: "fuse-squeeze", name: "squeeze-and-excitation", with: "block-layout", build: slices.Concat(expand, steps(squeeze), excite, steps(node("Mul", "f e", "m"), node("Conv", "m v", "y"))), want: "BlockedConv BlockedSqueezeExcite BlockedConv FromBlocked"},
		{pass: "fuse-squeeze", name: "four channels between the convolutions", with: "block-layout", build: slices.Concat(expand, steps(squeeze, ramp("a", 4, 32, 1, 1), ramp("b", 32, 4, 1, 1), node("Conv", "s a", "h"), node("Conv", "h b", "f"), node("Mul", "e f", "y"))), want: "BlockedConv BlockedSqueezeExcite FromBlocked"},
		{pass: "fuse-squeeze", name: "squeeze-and-excitation of maxima", with: "block-layout", build: slices.Concat(expand, steps(node("GlobalMaxPool", "e", "s")), excite, steps(node("Mul", "e f", "m"), node("Conv", "m v", "y"))), want: "BlockedConv BlockedGlobalMaxPool BlockedConv BlockedConv BlockedMul BlockedConv FromBlocked"},
		{pass: "fuse-squeeze", name: "means that are needed", with: "block-layout", build: slices.Concat(expand, steps(squeeze), excite, steps(node("Mul", "e f", "y"))), outputs: "y s", want: "BlockedConv BlockedGlobalAveragePool FromBlocked BlockedConv BlockedConv BlockedMul FromBlocked"},
		{pass: "fuse-depthwise", name: "an inverted residual block", with: "block-layout", build: append(slices.Clone(expand), spread, node("Conv", "d v", "y")), want: "BlockedConvDepthwise BlockedConv FromBlocked"},
		{pass: "fuse-depthwise", name: "another reader", with: "block-layout", build: append(slices.Clone(expand), spread, node("Neg", "e", "g"), node("Conv", "d v", "y")), outputs: "y g", want: "BlockedConv FromBlocked BlockedConv Neg BlockedConv FromBlocked"},
		{pass: "fuse-depthwise", name: "a function between the two", with: "block-layout", build: append(slices.Clone(expand), node("Tanh", "e", "t"), node("Conv", "t k", "y", onnx.Attrs{"group": int64(32)})), want: "BlockedConv BlockedTanh BlockedConv FromBlocked"},
		{pass: "fuse-depthwise", name: "dilated rows", with: "block-layout", build: append(slices.Clone(expand), node("Conv", "e k", "y", onnx.Attrs{"group": int64(32), "dilations": []int64{2, 1}})), want: "BlockedConv BlockedConv FromBlocked"},
		{pass: "fuse-depthwise", name: "a small image", with: "block-layout", build: steps(input("x", "n", 3, 64, 64), ramp("w", 32, 3, 1, 1), ramp("k", 32, 1, 3, 3), node("Conv", "x w", "e"), spread, node("Relu", "d", "y")), want: "BlockedConv BlockedConv BlockedRelu FromBlocked"},
		{pass: "delay-shuffle", name: "a shuffle before a depthwise convolution", with: "channel-shuffle", build: shuffleThenConv(6), want: "Conv ChannelShuffle"},
		{pass: "delay-shuffle", name: "a convolution of groups of two channels", with: "channel-shuffle", build: shuffleThenConv(3), want: "ChannelShuffle Conv"},
		{pass: "delay-shuffle", name: "a shuffled value that is needed", with: "channel-shuffle", build: shuffleThenConv(6), outputs: "y z", want: "ChannelShuffle Conv"},
		{pass: "delay-shuffle", name: "another permutation than a shuffle", build: steps(pixels, ramp("w", 4, 1, 3, 3), node("Conv", "x w", "y", onnx.Attrs{"group": int64(4)})), want: "Conv"},
	}
	for _, more := range moreCases {
		cases = append(cases, more()...)
	}
	for _, p := range Passes() {
		if !slices.ContainsFunc(cases, func(c passCase) bool { return c.pass == p.Name }) {
			t.Errorf("pass %s has no case: add some to moreCases in internal/optimize/%s_test.go", p.Name,
				strings.ReplaceAll(p.Name, "-", "_"))
		}
	}
	for _, c := range cases {
		t.Run(c.pass+"/"+c.name, func(t *testing.T) {
			if l := cpu.Active(); c.bytes && !cpu.VNNI(l) && !cpu.DotProduct(l) {
				t.Skip("the pass only runs on processors with VNNI or SDOT")
			}
			b := onnx.NewModel("m").Opset("", max(c.opset, 17))
			if c.opset == 0 {
				b = onnx.NewModel("m").Opset("", 21)
			}
			for _, step := range c.build {
				step(b)
			}
			if c.outputs == "" {
				c.outputs = "y"
			}
			for _, name := range strings.Fields(c.outputs) {
				b.Output(name, 0) // of any type
			}
			m := b.Must()
			g, err := frontend.Convert(m, frontend.Options{KeepSource: true})
			if err != nil {
				t.Fatal(err)
			}
			o := onlyPass(c.pass)
			if c.with != "" {
				o.Disabled[c.with] = false
			}
			writable(t, m, *o)
			stops(t, m, c.pass)
			var edits []Edit
			o.Explain = func(e Edit) { edits = append(edits, e) }
			before := operators(g)
			if err := Run(context.Background(), g, o); err != nil {
				t.Fatal(err)
			}
			if got := operators(g); got != c.want {
				t.Errorf("%s became %s, want %s", before, got, c.want)
			}
			said := slices.ContainsFunc(edits, func(e Edit) bool { return e.Pass == c.pass || e.Pass == c.with })
			if before != operators(g) && !said {
				t.Errorf("the pass reports no edit: %+v", edits)
			}
			for _, e := range edits {
				if e.After != e.Before-len(e.Removed)+len(e.Added) {
					t.Errorf("counts of nodes are inconsistent: %+v", e)
				}
			}
		})
	}
}

// stops checks that a pass edits no graph after its context has ended. The search at a node may
// visit all others, so a pass must ask before each one.
func stops(t *testing.T, m *onnx.Model, name string) {
	g, err := frontend.Convert(m, frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	o := onlyPass(name)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.ctx = ctx
	p := passes[slices.IndexFunc(passes, func(p pass) bool { return p.Name == name })]
	if edits, err := p.run(o, g); err == nil && edits > 0 {
		t.Errorf("the pass made %d edits after its context had ended", edits)
	}
}

// writable checks that an optimized model can be written: that package export knows the operators
// that passes up to the level Extended make.
func writable(t *testing.T, m *onnx.Model, o Options) {
	g, err := frontend.Convert(m, frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Level, o.Opset = Extended, export.Opset(m)
	if err := Run(t.Context(), g, &o); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Model(g, m); err != nil {
		t.Errorf("the result cannot be written, see the method made in internal/export/operators.go: %v", err)
	}
}

// attention writes the products of attention of one head with itself. Steps between the scores s
// and the softmax that makes the probabilities p are given.
func attention(softmax build, between ...build) []build {
	r := steps(input("x", 1, 5, 8), node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}),
		node("MatMul", "x t", "s"))
	return append(append(r, between...), softmax, node("MatMul", "p x", "y"))
}

// withoutNaN writes attention whose first query sees no key and whose probabilities p are a Where
// of the tests n for NaN, the constants z and o, 0 and 1, and the result p0 of Softmax.
func withoutNaN(where string) []build {
	mask := make([]float32, 25)
	for i := range 5 {
		mask[i] = float32(math.Inf(-1))
	}
	return attention(node("Where", where, "p"), constant("a", mask, 5, 5), constant("z", float32(0)),
		constant("o", float32(1)), node("Add", "s a", "m"), node("Softmax", "m", "p0"), node("IsNaN", "p0", "n"))
}

// shuffleThenConv writes a shuffle of six channels in two groups, whose inverse is another
// permutation, and a convolution of groups with a bias.
func shuffleThenConv(groups int64) []build {
	return steps(input("x", 2, 6, 4, 5), constant("a", []int64{2, 2, 3, 4, 5}, 5),
		constant("b", []int64{2, 6, 4, 5}, 4),
		node("Reshape", "x a", "r"), node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}),
		node("Reshape", "t b", "z"),
		ramp("w", 6, 6/groups, 3, 3), constant("k", []float32{1, -20, 300, -4000, 5e4, -6e5}, 6),
		node("Conv", "z w k", "y", onnx.Attrs{"group": groups}))
}

var squared = node("Mul", "d d", "q")

// rmsNorm writes an RMSNormalization in parts; square computes q from x, and the others y from x
// and e, the mean plus ε.
func rmsNorm(square build, others ...build) []build {
	return append(steps(rows, constant("two", float32(2)), constant("one", float32(1)), constant("eps", float32(1e-6)),
		constant("w", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 8),
		square, node("ReduceMean", "q", "m", onnx.Attrs{"axes": []int64{-1}}), node("Add", "m eps", "e")), others...)
}

// layerNorm writes a LayerNormalization over an axis in parts; square computes q from d.
func layerNorm(axis int64, square build) []build {
	mean := onnx.Attrs{"axes": []int64{axis}}
	return steps(input("x", 8, 8), ramp("s", 8), ramp("b", 8), constant("eps", float32(1e-5)),
		node("ReduceMean", "x", "m", mean), constant("three", float32(3)), node("Sub", "x m", "d"), square,
		node("ReduceMean", "q", "v", mean),
		node("Add", "v eps", "e"), node("Sqrt", "e", "r"), node("Div", "d r", "z"), node("Mul", "z s", "k"),
		node("Add", "k b", "y"))
}
