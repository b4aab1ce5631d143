package optimize

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// packedQKV computes queries, keys and values in one product of x, batch×length×8, and transposes
// them to t: 3×batch×2 heads×length×4.
func packedQKV(batch any, length int) []build {
	return steps(input("x", batch, length, 8), ramp("w", 8, 24), ramp("b", 24),
		constant("shape", []int64{0, 0, 3, 2, 4}, 5), node("MatMul", "x w", "m"), node("Add", "m b", "a"),
		node("Reshape", "a shape", "r"), node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{2, 0, 3, 1, 4}}))
}

func init() { moreCases = append(moreCases, splitHeadsCases) }

func splitHeadsCases() []passCase {
	heads := packedQKV("n", 5)
	apart := func(parts int) string {
		return strings.TrimSpace(strings.Repeat("MatMul Add Reshape Transpose ", parts))
	}
	pick := func(part int) build {
		return func(b *onnx.ModelBuilder) {
			i := fmt.Sprint("i", part)
			b.Initializer(i, int64(part)).Node("Gather", []string{"t", i}, []string{fmt.Sprint("p", part)})
		}
	}
	return []passCase{
		{pass: "split-heads", name: "with Gather", build: append(slices.Clone(heads), pick(0), pick(1), pick(2), node("Add", "p0 p1", "s"), node("Sub", "s p2", "y")), want: apart(3) + " Add Sub"},
		{pass: "split-heads", name: "a part that is not used", build: append(slices.Clone(heads), pick(0), pick(2), node("Add", "p0 p2", "y")), want: apart(2) + " Add"},
		{pass: "split-heads", name: "a part twice", build: append(slices.Clone(heads), pick(0), constant("j", int64(-3)), node("Gather", "t j", "q"), node("Add", "p0 q", "y")), want: "MatMul Add Reshape Transpose Gather Gather Add"},
		{pass: "split-heads", name: "all parts are needed", build: append(slices.Clone(heads), pick(0), pick(1), node("Add", "p0 p1", "y")), outputs: "y t", want: "MatMul Add Reshape Transpose Gather Gather Add"},
		{pass: "split-heads", name: "another use of the product", build: append(slices.Clone(heads), pick(0), pick(1), node("Add", "p0 p1", "y")), outputs: "y a", want: "MatMul Add Reshape Transpose Gather Gather Add"},
		{pass: "split-heads", name: "another operator", build: append(slices.Clone(heads), pick(0), node("Neg", "t", "u"), node("Add", "p0 u", "y")), want: "MatMul Add Reshape Transpose Gather Neg Add"},
		{pass: "split-heads", name: "weights of float16", with: "widen-half", build: steps(halves("h", "n", 5, 8), halfRamp("w", 8, 24), constant("shape", []int64{0, 0, 3, 2, 4}, 5), node("MatMul", "h w", "m"), node("Reshape", "m shape", "r"),
			node("Transpose", "r", "t", onnx.Attrs{"perm": []int64{2, 0, 3, 1, 4}}), pick(0), pick(1), node("Add", "p0 p1", "s"), node("Cast", "s", "y", onnx.Attrs{"to": onnx.Float})), want: "Cast MatMul Reshape Transpose MatMul Reshape Transpose Add Cast"},
		{pass: "split-heads", name: "a list of parts", build: append(slices.Clone(heads), constant("l", []int64{1}, 1), node("Gather", "t l", "y")), want: "MatMul Add Reshape Transpose Gather"},
	}
}
