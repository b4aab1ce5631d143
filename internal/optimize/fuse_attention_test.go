package optimize

import "github.com/onward-ml/onward/onnx"

func init() { moreCases = append(moreCases, fuseAttentionCases) }

func fuseAttentionCases() []passCase {
	return []passCase{
		{pass: "fuse-attention", name: "repeated heads", with: "fuse-transpose", build: grouped(2, []int64{1, 2, 3, 5, 8}), want: "Attention"},
		{pass: "fuse-attention", name: "heads in turn", with: "fuse-transpose", build: grouped(1, []int64{1, 3, 2, 5, 8}), want: "Unsqueeze Expand Reshape Unsqueeze Expand Reshape Attention"},
		{pass: "fuse-attention", name: "repeated rows", with: "fuse-transpose", build: grouped(3, []int64{1, 2, 5, 3, 8}), want: "Unsqueeze Expand Reshape Unsqueeze Expand Reshape Attention"},
	}
}

// grouped writes attention of six heads, whose keys k and values v of two heads are expanded along
// an inserted axis.
func grouped(axis int64, shape []int64) []build {
	return steps(input("x", 1, 6, 5, 8), input("k", 1, 2, 5, 8), input("v", 1, 2, 5, 8),
		constant("i", []int64{axis}, 1), constant("e", shape, 5),
		constant("r", []int64{1, 6, 5, 8}, 4), node("Unsqueeze", "k i", "k1"),
		node("Expand", "k1 e", "k2"), node("Reshape", "k2 r", "k3"), node("Unsqueeze", "v i", "v1"),
		node("Expand", "v1 e", "v2"), node("Reshape", "v2 r", "v3"),
		node("Transpose", "k3", "t", onnx.Attrs{"perm": []int64{0, 1, 3, 2}}), node("MatMul", "x t", "s"),
		node("Softmax", "s", "p"), node("MatMul", "p v3", "y"))
}
