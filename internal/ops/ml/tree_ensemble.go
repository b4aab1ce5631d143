package ml

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TreeEnsemble combines the leaf weights of decision trees for each target
// (https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html). Trees may share nodes
// but must not contain cycles. A NaN feature takes the true branch if
// nodes_missing_value_tracks_true is set, else the branch that the comparison gives.
type TreeEnsemble struct{ *treeModel }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "TreeEnsemble", Since: kit.Versions{5}, In: "X:T", Out: "Y:T",
	Types: "T: float double float16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		m, err := buildTreeEnsemble(a)
		if err != nil {
			return a.Fail(err)
		}
		return &TreeEnsemble{m}
	}})

func buildTreeEnsemble(a *kit.Attrs) (*treeModel, error) {
	a.Require("leaf_targetids", "leaf_weights", "nodes_falseleafs", "nodes_falsenodeids",
		"nodes_featureids", "nodes_modes",
		"nodes_splits", "nodes_trueleafs", "nodes_truenodeids", "tree_roots")
	a.Tensor("nodes_hitrates") // visit counts, which have no effect
	m := &treeModel{aggregate: tree.Aggregate(a.Int("aggregate_function", 1)),
		transform: postTransform(a.Int("post_transform", 0))}
	if m.aggregate > tree.Max || m.transform > transformProbit {
		a.Errorf("aggregate_function is %d and post_transform %d, want 0 to 3 and 0 to 4", m.aggregate, m.transform)
	}
	targetIDs := a.Ints("leaf_targetids")
	weights, err := treeNumbers(a.Tensor("leaf_weights"))
	if err != nil {
		return nil, fail.Errorf("leaf_weights: %w", err)
	}
	splits, err := treeNumbers(a.Tensor("nodes_splits"))
	if err != nil {
		return nil, fail.Errorf("nodes_splits: %w", err)
	}
	values, err := treeNumbers(a.Tensor("membership_values"))
	if err != nil {
		return nil, fail.Errorf("membership_values: %w", err)
	}
	var modes []uint8
	if t := a.Tensor("nodes_modes"); t != nil {
		if modes, err = tensor.Data[uint8](t); err != nil {
			return nil, fail.Errorf("nodes_modes: %w", err)
		}
	}
	features := a.Ints("nodes_featureids")
	ids := [2][]int{a.Ints("nodes_falsenodeids"), a.Ints("nodes_truenodeids")}
	leafs := [2][]int{a.Ints("nodes_falseleafs"), a.Ints("nodes_trueleafs")}
	missing, roots := a.Ints("nodes_missing_value_tracks_true"), a.Ints("tree_roots")
	n := len(features)
	if len(splits) != n || len(modes) != n || len(ids[0]) != n || len(ids[1]) != n || len(leafs[0]) != n ||
		len(leafs[1]) != n || len(missing) != 0 && len(missing) != n {
		return nil, fail.Errorf("the nodes_ attributes have different lengths, want %d as nodes_featureids has", n)
	}
	if len(targetIDs) != len(weights) {
		return nil, fail.Errorf("leaf_targetids has %d elements, leaf_weights has %d", len(targetIDs), len(weights))
	}
	top := 0
	for _, t := range targetIDs {
		top = max(top, t+1)
	}
	m.targets = a.Int("n_targets", top)
	if m.targets < 1 || m.targets > 1<<24 {
		return nil, fail.Errorf("n_targets is %d, want 1 to 2^24", m.targets)
	}

	f := &treeForest{nodes: make([]treeNode, n)}
	m.forest = f
	if slices.Contains(modes, uint8(treeMember)) {
		f.members = make([][]float64, n)
	}
	for i := range f.nodes {
		node := treeNode{threshold: splits[i], feature: int32Of(features[i]), mode: treeMode(modes[i]),
			missing: len(missing) > 0 && missing[i] != 0}
		if node.mode > treeMember {
			return nil, fail.Errorf("nodes_modes[%d] is %d, want 0 to 6", i, modes[i])
		}
		for k := range node.next {
			p := int32Of(ids[k][i])
			if limit := len(weights); p < 0 || leafs[k][i] != 0 && int(p) >= limit || leafs[k][i] == 0 && int(p) >= n {
				return nil, fail.Errorf("node %d has the child %d, which is out of range for %d nodes and %d leaves",
					i, ids[k][i], n, limit)
			}
			if leafs[k][i] != 0 {
				p = ^p
			}
			node.next[k] = p
		}
		if node.mode == treeMember {
			// Each set is terminated by a NaN.
			end := slices.IndexFunc(values, func(v float64) bool { return v != v })
			if end < 0 {
				return nil, fail.Errorf("membership_values has no set for node %d", i)
			}
			f.members[i] = slices.Sorted(slices.Values(values[:end]))
			values = values[end+1:]
			node.threshold = 0
		}
		f.nodes[i] = node
	}
	if len(values) != 0 {
		return nil, fail.Errorf("membership_values has %d numbers more than the sets of the nodes", len(values))
	}
	for _, r := range roots {
		if r < 0 || r >= n {
			return nil, fail.Errorf("tree_roots names node %d, want less than the number of nodes, %d", r, n)
		}
		f.roots = append(f.roots, int32(r))
	}
	f.first = make([]int32, len(weights)+1)
	for i, w := range weights {
		f.first[i+1] = int32(i + 1)
		f.votes = append(f.votes, tree.Term{Target: int32Of(targetIDs[i]), Weight: w})
	}
	return m, m.finish()
}

// Infer sets Y to [N, n_targets].
func (op *TreeEnsemble) Infer(c *ir.InferContext) error {
	n, _, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), n, ir.Known(op.targets)))
	return nil
}

// Run computes the targets.
func (op *TreeEnsemble) Run(c *ir.Call) error { return op.regress(c, c.Tensor(0).DType()) }
