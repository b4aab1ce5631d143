package ml

import (
	"maps"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// stump returns the attributes of a single tree, x[1] ≤ 0.5 ? leaf 0 : leaf 1, with
// changes applied.
func stump(change map[string]any) map[string]any {
	a := map[string]any{
		"nodes_featureids": []int{1}, "nodes_modes": optest.Tensor([]uint8{0}, 1), "nodes_splits": optest.Tensor([]float32{0.5}, 1),
		"nodes_truenodeids": []int{0}, "nodes_falsenodeids": []int{1}, "nodes_trueleafs": []int{1}, "nodes_falseleafs": []int{1},
		"leaf_targetids": []int{0, 1}, "leaf_weights": optest.Tensor([]float32{2, 3}), "tree_roots": []int{0}, "n_targets": 2,
	}
	maps.Copy(a, change)
	return a
}

const treeOp = "ai.onnx.ml.TreeEnsemble"

func TestTreeEnsembleForms(t *testing.T) {
	x := optest.Tensor([]float32{9, 0.5, 9, 0.75, 9, float32(math.NaN())}, 3, 2)
	optest.Want(t, treeOp, 5, stump(nil), optest.Tensor([]float32{2, 0, 0, 3, 0, 3}, 3, 2), x)
	optest.Want(t, treeOp, 5, stump(map[string]any{"nodes_missing_value_tracks_true": []int{1}}),
		optest.Tensor([]float32{2, 0, 0, 3, 2, 0}, 3, 2), x)
	optest.Want(t, treeOp, 5, stump(map[string]any{"tree_roots": []int{0, 0}, "aggregate_function": 0}),
		optest.Tensor([]float32{2, 0, 0, 3, 0, 3}, 3, 2), x)
	optest.Want(t, treeOp, 5, stump(map[string]any{"post_transform": 2}),
		optest.Tensor([]float32{0.880797, 0.5, 0.5, 0.952574, 0.5, 0.952574}, 3, 2), x)
	// Double thresholds distinguish values that are equal as float.
	fine := stump(map[string]any{"nodes_splits": optest.Tensor([]float64{0.1}, 1),
		"leaf_weights": optest.Tensor([]float64{2, 3})})
	optest.Want(t, treeOp, 5, fine, optest.Tensor([]float64{2, 0, 0, 3}, 2, 2),
		optest.Tensor([]float64{0, 0.1, 0, math.Nextafter(0.1, 1)}, 2, 2))
	half := func(v ...float32) []tensor.Float16 {
		h := make([]tensor.Float16, len(v))
		tensor.Float32sToFloat16s(h, v)
		return h
	}
	optest.Want(t, treeOp, 5, stump(map[string]any{"nodes_splits": optest.Tensor(half(0.5), 1),
		"leaf_weights": optest.Tensor(half(2, 3))}),
		optest.Tensor(half(2, 0, 0, 3), 2, 2), optest.Tensor(half(0, 0.5, 0, 0.75), 2, 2))
	set := stump(map[string]any{"nodes_modes": optest.Tensor([]uint8{6}, 1),
		"membership_values": optest.Tensor([]float32{0.75, 0, float32(math.NaN())})})
	optest.Want(t, treeOp, 5, set, optest.Tensor([]float32{0, 3, 2, 0, 0, 3, 2, 0}, 4, 2),
		optest.Tensor([]float32{9, 0.5, 9, 0.75, 9, float32(math.NaN()), 9, 0}, 4, 2))
	optest.Want(t, treeOp, 5, stump(nil), optest.Tensor([]float32{}, 0, 2), optest.Tensor([]float32{}, 0, 2))
	// Two nodes may share a subtree.
	shared := stump(map[string]any{
		"nodes_featureids": []int{0, 1, 1}, "nodes_modes": optest.Tensor([]uint8{0, 0, 0}), "nodes_splits": optest.Tensor([]float32{0, 0.5, 0.5}),
		"nodes_truenodeids": []int{1, 2, 0}, "nodes_falsenodeids": []int{2, 2, 1}, "nodes_trueleafs": []int{0, 0, 1}, "nodes_falseleafs": []int{0, 0, 1}})
	optest.Want(t, treeOp, 5, shared, optest.Tensor([]float32{2, 0, 0, 3}, 2, 2),
		optest.Tensor([]float32{-1, 0, 1, 1}, 2, 2))
}

// TestTreeEnsembleRoundsDoubleThresholds compares float32 numbers next to thresholds that float32
// does not hold.
func TestTreeEnsembleRoundsDoubleThresholds(t *testing.T) {
	for mode, holds := range []func(x, y float64) bool{
		func(x, y float64) bool { return x <= y }, func(x, y float64) bool { return x < y },
		func(x, y float64) bool { return x >= y }, func(x, y float64) bool { return x > y },
	} {
		for _, threshold := range []float64{0.1, 0.3, -0.1, 1e300, -1e300, 0.5} {
			near := float32(threshold)
			x := []float32{9, near, 9, math.Nextafter32(near, 99), 9, math.Nextafter32(near, -99), 9,
				float32(math.Inf(1)), 9, float32(math.Inf(-1))}
			want := make([]float32, len(x))
			for i := 0; i < len(x); i += 2 {
				if holds(float64(x[i+1]), threshold) {
					want[i] = 2
				} else {
					want[i+1] = 3
				}
			}
			a := stump(map[string]any{"nodes_modes": optest.Tensor([]uint8{uint8(mode)}, 1),
				"nodes_splits": optest.Tensor([]float64{threshold}, 1)})
			optest.Want(t, treeOp, 5, a, optest.Tensor(want, 5, 2), optest.Tensor(x, 5, 2))
		}
	}
}

// TestTreesConvertOnlyColumnsThatTheyRead has integers in columns after those that the trees read.
func TestTreesConvertOnlyColumnsThatTheyRead(t *testing.T) {
	a := map[string]any{"n_targets": 1, "nodes_treeids": []int{0, 0, 0}, "nodes_nodeids": []int{0, 1, 2},
		"nodes_featureids": []int{1, 0, 0},
		"nodes_modes":      []string{"BRANCH_LEQ", "LEAF", "LEAF"}, "nodes_values": []float64{4, 0, 0}, "nodes_truenodeids": []int{1, 0, 0}, "nodes_falsenodeids": []int{2, 0, 0},
		"target_treeids": []int{0, 0}, "target_nodeids": []int{1, 2}, "target_ids": []int{0, 0}, "target_weights": []float64{2, 3}}
	want := optest.Tensor([]float32{2, 3}, 2, 1)
	optest.Want(t, "ai.onnx.ml.TreeEnsembleRegressor", 3, a, want, optest.Tensor([]int32{9, 4, 7, 9, 9, 5, 7, 9}, 2, 4))
	optest.Want(t, "ai.onnx.ml.TreeEnsembleRegressor", 3, a, want, optest.Tensor([]int64{9, 4, 7, 9, 9, 5, 7, 9}, 2, 4))
}

// TestTreesCompareWideNumbers has numbers next to the threshold that float32 does not hold.
func TestTreesCompareWideNumbers(t *testing.T) {
	big := int64(1 << 25)
	inf := math.Inf(1)
	for mode, want := range map[string][]float32{"BRANCH_LEQ": {2, 2, 3, 2, 3, 3}, "BRANCH_GT": {3, 3, 2, 3, 2, 3},
		"BRANCH_LT": {2, 3, 3, 2, 3, 3}} {
		a := map[string]any{"n_targets": 1, "nodes_treeids": []int{0, 0, 0}, "nodes_nodeids": []int{0, 1, 2},
			"nodes_featureids": []int{0, 0, 0},
			"nodes_modes":      []string{mode, "LEAF", "LEAF"}, "nodes_values": []float64{float64(big), 0, 0}, "nodes_truenodeids": []int{1, 0, 0}, "nodes_falsenodeids": []int{2, 0, 0},
			"target_treeids": []int{0, 0}, "target_nodeids": []int{1, 2}, "target_ids": []int{0, 0}, "target_weights": []float64{2, 3}}
		op := "ai.onnx.ml.TreeEnsembleRegressor"
		x := float64(big)
		optest.Want(t, op, 3, a, optest.Tensor(want, 6, 1),
			optest.Tensor([]float64{math.Nextafter(x, -inf), x, math.Nextafter(x, inf), -inf, inf, math.NaN()}, 6, 1))
		optest.Want(t, op, 3, a, optest.Tensor(want[:3], 3, 1), optest.Tensor([]int64{big - 1, big, big + 1}, 3, 1))
		optest.Want(t, op, 3, a, optest.Tensor(want[:3], 3, 1),
			optest.Tensor([]int32{int32(big) - 1, int32(big), int32(big) + 1}, 3, 1))
	}
}

// TestTreeEnsembleComparesDoubles has doubles next to a threshold that float32 does not hold, for
// all modes, in rows that are evaluated together.
func TestTreeEnsembleComparesDoubles(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	negative := math.Copysign(0, -1)
	for mode, holds := range []func(x, y float64) bool{
		func(x, y float64) bool { return x <= y }, func(x, y float64) bool { return x < y },
		func(x, y float64) bool { return x >= y }, func(x, y float64) bool { return x > y },
		func(x, y float64) bool { return x == y }, func(x, y float64) bool { return x != y },
		func(x, y float64) bool { return x == y || x == 0.7 },
	} {
		for _, threshold := range []float64{0.1, -0.3, 1e-320, 1e300, 0, negative, 0.5, inf, -inf} {
			for missing := range 2 {
				var x, want []float64
				for _, v := range []float64{threshold, math.Nextafter(threshold, inf), math.Nextafter(threshold, -inf),
					float64(float32(threshold)), 0, negative, 0.7, inf, -inf, nan} {
					x = append(x, 9, v)
					if holds(v, threshold) || missing == 1 && v != v {
						want = append(want, 0.1, 0)
					} else {
						want = append(want, 0, 0.3)
					}
				}
				a := stump(map[string]any{"nodes_modes": optest.Tensor([]uint8{uint8(mode)}, 1),
					"nodes_splits":                    optest.Tensor([]float64{threshold}, 1),
					"nodes_missing_value_tracks_true": []int{missing},
					"leaf_weights":                    optest.Tensor([]float64{0.1, 0.3})})
				if treeMode(mode) == treeMember {
					a["membership_values"] = optest.Tensor([]float64{threshold, 0.7, nan})
				}
				rows := len(x) / 2
				optest.Want(t, treeOp, 5, a, optest.Tensor(want, rows, 2), optest.Tensor(x, rows, 2))
			}
		}
	}
}

func TestBrokenTreeEnsembles(t *testing.T) {
	x := optest.Tensor([]float32{1, 2}, 1, 2)
	fail := func(want string, change map[string]any) {
		t.Helper()
		optest.Fail(t, treeOp, 5, stump(change), want, x)
	}
	fail("form a cycle", map[string]any{"nodes_trueleafs": []int{0}})
	fail("has the child 7", map[string]any{"nodes_truenodeids": []int{7}})
	fail("has the child -1", map[string]any{"nodes_truenodeids": []int{-1}})
	fail("has the child 9", map[string]any{"nodes_truenodeids": []int{math.MinInt64 + 9},
		"nodes_falsenodeids": []int{9}, "nodes_trueleafs": []int{1}})
	fail("is 9, want 0 to 6", map[string]any{"nodes_modes": optest.Tensor([]uint8{9}, 1)})
	fail("has no set for node 0", map[string]any{"nodes_modes": optest.Tensor([]uint8{6}, 1)})
	fail("2 numbers more", map[string]any{"membership_values": optest.Tensor([]float32{1, 2})})
	fail("is for target 1", map[string]any{"n_targets": 1})
	fail("is for target -1", map[string]any{"leaf_targetids": []int{-5, 0}})
	fail("different lengths", map[string]any{"nodes_featureids": []int{1, 2}})
	fail("has feature -1", map[string]any{"nodes_featureids": []int{-1}})
	fail("the trees read feature 2", map[string]any{"nodes_featureids": []int{2}})
	fail("names node 3", map[string]any{"tree_roots": []int{3}})
	fail("n_targets is", map[string]any{"n_targets": math.MaxInt64})
	fail("aggregate_function is 9", map[string]any{"aggregate_function": 9})

	old := map[string]any{"nodes_treeids": []int{0, 0, 0}, "nodes_nodeids": []int{0, 1, 2},
		"nodes_featureids": []int{0, 0, 0},
		"nodes_modes":      []string{"BRANCH_LT", "LEAF", "LEAF"}, "nodes_values": []float64{0, 0, 0}, "nodes_truenodeids": []int{1, 0, 0},
		"nodes_falsenodeids": []int{2, 0, 0}, "target_treeids": []int{0, 0}, "target_nodeids": []int{1, 2}, "target_ids": []int{0, 0},
		"target_weights": []float64{1, 2}}
	const op = "ai.onnx.ml.TreeEnsembleRegressor"
	failOld := func(want string, change map[string]any) {
		t.Helper()
		a := maps.Clone(old)
		maps.Copy(a, change)
		optest.Fail(t, op, 3, a, want, x)
	}
	for _, opset := range []int{1, 3, 5} {
		optest.Want(t, op, opset, old, optest.Tensor([]float32{2}, 1, 1), x)
	}
	optest.Fail(t, op, 1, map[string]any{"nodes_values_as_tensor": optest.Tensor([]float64{1}, 1)},
		"unknown attribute nodes_values_as_tensor", x)
	failOld("form a cycle", map[string]any{"nodes_truenodeids": []int{0, 0, 0}})
	failOld("defined twice", map[string]any{"nodes_nodeids": []int{0, 1, 1}})
	failOld("has child 5", map[string]any{"nodes_truenodeids": []int{5, 0, 0}})
	failOld(`has unknown mode "BRANCH"`, map[string]any{"nodes_modes": []string{"BRANCH", "LEAF", "LEAF"}})
	failOld("is node 9 of tree 0", map[string]any{"target_nodeids": []int{1, 9}})
	failOld("both set", map[string]any{"nodes_values_as_tensor": optest.Tensor([]float64{1, 2, 3})})
	failOld("2 base values for 1", map[string]any{"base_values": []float64{1, 2}})
	failOld("nodes_values has 1 elements", map[string]any{"nodes_values": []float64{1}})
}

// TestTreeEnsembleClassifierBothClassesVote checks rows whose leaf has weights for both
// classes. ONNX Runtime labels them by the sign of the second score alone.
func TestTreeEnsembleClassifierBothClassesVote(t *testing.T) {
	a := map[string]any{"nodes_treeids": []int{0}, "nodes_nodeids": []int{0}, "nodes_featureids": []int{0},
		"nodes_modes":  []string{"LEAF"},
		"nodes_values": []float64{0}, "nodes_truenodeids": []int{0}, "nodes_falsenodeids": []int{0}, "class_treeids": []int{0, 0},
		"class_nodeids": []int{0, 0}, "class_ids": []int{0, 1}, "class_weights": []float64{0.75, 0.25}, "classlabels_strings": []string{"no", "yes"}}
	optest.WantAll(t, "ai.onnx.ml.TreeEnsembleClassifier", 3, a,
		[]tensor.Value{optest.Tensor([]string{"no"}, 1), optest.Tensor([]float32{0.75, 0.25}, 1, 2)},
		optest.Tensor([]float32{1}, 1, 1))
}

// TestTreeEnsembleRegressorBaseValueWithoutVotes checks that a target without leaf
// weights gets its base value. ONNX Runtime returns 0 for it.
func TestTreeEnsembleRegressorBaseValueWithoutVotes(t *testing.T) {
	for _, aggregate := range []string{"SUM", "AVERAGE", "MIN", "MAX"} {
		for _, ids := range [][]int{{0, 0}, {0, 1}} {
			a := map[string]any{"nodes_treeids": []int{0, 0, 0}, "nodes_nodeids": []int{0, 1, 2},
				"nodes_featureids": []int{0, 0, 0},
				"nodes_modes":      []string{"BRANCH_LEQ", "LEAF", "LEAF"}, "nodes_values": []float64{0, 0, 0}, "nodes_truenodeids": []int{1, 0, 0},
				"nodes_falsenodeids": []int{2, 0, 0}, "target_treeids": []int{0, 0}, "target_nodeids": []int{1, 2}, "target_ids": ids,
				"target_weights": []float64{1, 2}, "n_targets": 2, "base_values": []float64{10, 20}, "aggregate_function": aggregate}
			want := []float32{11, 20, 12, 20}
			if ids[1] == 1 {
				want = []float32{11, 20, 10, 22}
			}
			optest.Want(t, "ai.onnx.ml.TreeEnsembleRegressor", 3, a, optest.Tensor(want, 2, 2),
				optest.Tensor([]float32{-1, 1}, 2, 1))
		}
	}
}
