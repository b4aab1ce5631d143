package ml

import (
	"sort"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// treeKey identifies a node of TreeEnsembleClassifier and TreeEnsembleRegressor.
type treeKey struct{ tree, node int }

// buildLegacyTrees converts the attributes of TreeEnsembleClassifier and
// TreeEnsembleRegressor to a model. kind is the prefix of the weights' attributes, class
// or target. The root of a tree is its first node.
func buildLegacyTrees(a *kit.Attrs, opset int, kind string, targets int) *treeModel {
	since3 := opset >= 3
	m := &treeModel{targets: targets, aggregate: treeSum, transform: readPostTransform(a)}
	trees, ids := a.Ints("nodes_treeids"), a.Ints("nodes_nodeids")
	features, modes := a.Ints("nodes_featureids"), a.Strings("nodes_modes")
	values := readFloatsOrTensor(a, "nodes_values", since3)
	yes, no := a.Ints("nodes_truenodeids"), a.Ints("nodes_falsenodeids")
	missing := a.Ints("nodes_missing_value_tracks_true")
	readFloatsOrTensor(a, "nodes_hitrates", since3) // visit counts, which have no effect
	voteTrees, voteNodes, voteTargets := a.Ints(kind+"_treeids"), a.Ints(kind+"_nodeids"), a.Ints(kind+"_ids")
	weights := readFloatsOrTensor(a, kind+"_weights", since3)
	m.base = readFloatsOrTensor(a, "base_values", since3)

	n := len(ids)
	for name, k := range map[string]int{"nodes_treeids": len(trees), "nodes_featureids": len(features), "nodes_modes": len(modes),
		"nodes_values": len(values), "nodes_truenodeids": len(yes), "nodes_falsenodeids": len(no)} {
		if k != n {
			a.Errorf("%s has %d elements, nodes_nodeids has %d", name, k, n)
			return m
		}
	}
	if len(missing) != 0 && len(missing) != n {
		a.Errorf("nodes_missing_value_tracks_true has %d elements, nodes_nodeids has %d", len(missing), n)
		return m
	}
	if k := len(weights); len(voteTrees) != k || len(voteNodes) != k || len(voteTargets) != k {
		a.Errorf("%s_treeids, _nodeids, _ids and _weights have %d, %d, %d and %d elements, want equal lengths", kind, len(voteTrees), len(voteNodes), len(voteTargets), k)
		return m
	}

	// at maps every node to its index in the model, or to ^leaf.
	at := make(map[treeKey]int32, n)
	indices := make([]int32, n)
	var nodes, leaves int32
	seen := map[int]bool{}
	var first []int
	for i, id := range ids {
		k := treeKey{trees[i], id}
		if _, ok := at[k]; ok {
			a.Errorf("node %d of tree %d is defined twice", id, trees[i])
			return m
		}
		mode, ok := treeModeNames[modes[i]]
		switch {
		case !ok:
			a.Errorf("node %d of tree %d has unknown mode %q", id, trees[i], modes[i])
			return m
		case mode == treeLeaf:
			indices[i] = ^leaves
			leaves++
		default:
			indices[i] = nodes
			nodes++
		}
		at[k] = indices[i]
		if !seen[trees[i]] {
			seen[trees[i]] = true
			first = append(first, i)
		}
	}
	f := &m.forest
	f.nodes = make([]treeNode[float64], 0, nodes)
	for i := range ids {
		if indices[i] < 0 {
			continue
		}
		node := treeNode[float64]{threshold: values[i], feature: int32Of(features[i]), mode: treeModeNames[modes[i]]}
		node.missing = len(missing) > 0 && missing[i] != 0
		for k, child := range []int{no[i], yes[i]} {
			p, ok := at[treeKey{trees[i], child}]
			if !ok {
				a.Errorf("node %d of tree %d has child %d, which does not exist", ids[i], trees[i], child)
				return m
			}
			node.next[k] = p
		}
		f.nodes = append(f.nodes, node)
	}
	for _, i := range first {
		f.roots = append(f.roots, indices[i])
	}

	type vote struct {
		leaf int32
		treeVote
	}
	votes := make([]vote, 0, len(weights))
	for i, w := range weights {
		p, ok := at[treeKey{voteTrees[i], voteNodes[i]}]
		if !ok {
			a.Errorf("%s_nodeids[%d] is node %d of tree %d, which does not exist", kind, i, voteNodes[i], voteTrees[i])
			return m
		}
		if p < 0 { // converters write weights for inner nodes too, which have no effect
			votes = append(votes, vote{^p, treeVote{int32Of(voteTargets[i]), w}})
		}
	}
	sort.SliceStable(votes, func(i, j int) bool { return votes[i].leaf < votes[j].leaf })
	f.first = make([]int32, leaves+1)
	for _, v := range votes {
		f.votes = append(f.votes, v.treeVote)
		f.first[v.leaf+1]++
	}
	for i := range leaves {
		f.first[i+1] += f.first[i]
	}
	if err := m.finish(exactFloats(values)); err != nil {
		a.Errorf("%w", err)
	}
	return m
}
