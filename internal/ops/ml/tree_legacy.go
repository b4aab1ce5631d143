package ml

import (
	"sort"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// treeKey names a node of the old tree operators.
type treeKey struct{ tree, node int }

// buildLegacyTrees turns the attributes of TreeEnsembleClassifier and
// TreeEnsembleRegressor into a model. kind is the prefix of the votes'
// attributes, class or target. The root of a tree is the first of its nodes.
func buildLegacyTrees(a *kit.Attrs, opset int, kind string, targets int) *treeModel {
	since3 := opset >= 3
	m := &treeModel{targets: targets, aggregate: treeSum, transform: readPostTransform(a)}
	trees, ids := a.Ints("nodes_treeids"), a.Ints("nodes_nodeids")
	features, modes := a.Ints("nodes_featureids"), a.Strings("nodes_modes")
	values := readFloatsOrTensor(a, "nodes_values", since3)
	yes, no := a.Ints("nodes_truenodeids"), a.Ints("nodes_falsenodeids")
	missing := a.Ints("nodes_missing_value_tracks_true")
	readFloatsOrTensor(a, "nodes_hitrates", since3) // how often a node is met; of no effect
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
		a.Errorf("%s_treeids, _nodeids, _ids and _weights have %d, %d, %d and %d elements, want one number", kind, len(voteTrees), len(voteNodes), len(voteTargets), k)
		return m
	}

	// at holds the place of every node: its index, or ^leaf.
	at := make(map[treeKey]int32, n)
	place := make([]int32, n)
	var nodes, leaves int32
	seen := map[int]bool{}
	var first []int
	for i, id := range ids {
		k := treeKey{trees[i], id}
		if _, ok := at[k]; ok {
			a.Errorf("node %d of tree %d is given twice", id, trees[i])
			return m
		}
		mode, ok := treeModeNames[modes[i]]
		switch {
		case !ok:
			a.Errorf("node %d of tree %d has the mode %q", id, trees[i], modes[i])
			return m
		case mode == treeLeaf:
			place[i] = ^leaves
			leaves++
		default:
			place[i] = nodes
			nodes++
		}
		at[k] = place[i]
		if !seen[trees[i]] {
			seen[trees[i]] = true
			first = append(first, i)
		}
	}
	f := &m.forest
	f.nodes = make([]treeNode[float64], 0, nodes)
	for i := range ids {
		if place[i] < 0 {
			continue
		}
		node := treeNode[float64]{threshold: values[i], feature: int32Of(features[i]), mode: treeModeNames[modes[i]]}
		node.missing = len(missing) > 0 && missing[i] != 0
		for k, child := range []int{no[i], yes[i]} {
			p, ok := at[treeKey{trees[i], child}]
			if !ok {
				a.Errorf("node %d of tree %d has the child %d, which does not exist", ids[i], trees[i], child)
				return m
			}
			node.next[k] = p
		}
		f.nodes = append(f.nodes, node)
	}
	for _, i := range first {
		f.roots = append(f.roots, place[i])
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
		if p < 0 { // converters give weights to inner nodes too; nobody reads them
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
