package ml

import (
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// treeKey identifies a node of TreeEnsembleClassifier and TreeEnsembleRegressor.
type treeKey struct{ tree, node int64 }

// treeIndex finds the elements of the nodes_ attributes that describe a node. Converters write the
// trees one after the other, and the nodes of each by ascending number from 0; a map serves the
// others.
type treeIndex struct {
	trees, ids []int64
	starts     map[int64]int // the first element of a tree
	other      map[treeKey]int
}

// newTreeIndex returns the first element of each tree too. It fails if a node is defined twice.
func newTreeIndex(a *kit.Attrs, trees, ids []int64) (x *treeIndex, first []int) {
	x = &treeIndex{trees: trees, ids: ids, starts: map[int64]int{}}
	regular := true
	for i, t := range trees {
		if s, ok := x.starts[t]; !ok {
			x.starts[t] = i
			first = append(first, i)
			regular = regular && ids[i] == 0
		} else {
			regular = regular && ids[i] == int64(i-s)
		}
	}
	if regular {
		return x, first
	}
	x.other = make(map[treeKey]int, len(ids))
	for i, id := range ids {
		k := treeKey{trees[i], id}
		if _, ok := x.other[k]; ok {
			a.Errorf("node %d of tree %d is defined twice", id, trees[i])
		}
		x.other[k] = i
	}
	return x, first
}

// find returns the element of a node, and false if the tree has no such node.
func (x *treeIndex) find(tree, id int64) (int, bool) {
	if x.other != nil {
		i, ok := x.other[treeKey{tree, id}]
		return i, ok
	}
	s, ok := x.starts[tree]
	if !ok || id < 0 || id >= int64(len(x.ids)-s) || x.trees[s+int(id)] != tree {
		return 0, false
	}
	return s + int(id), true
}

// buildLegacyTrees converts the attributes of TreeEnsembleClassifier and
// TreeEnsembleRegressor to a model. kind is the prefix of the weights' attributes, class
// or target. The root of a tree is its first node.
func buildLegacyTrees(a *kit.Attrs, opset int, kind string, targets int, aggregate tree.Aggregate) *treeModel {
	since3 := opset >= 3
	f := &treeForest{}
	m := &treeModel{forest: f, targets: targets, aggregate: aggregate, transform: readPostTransform(a)}
	trees, ids := a.Int64s("nodes_treeids"), a.Int64s("nodes_nodeids")
	features, modes := a.Int64s("nodes_featureids"), a.Strings("nodes_modes")
	values := readFloatsOrTensor(a, "nodes_values", since3)
	yes, no := a.Int64s("nodes_truenodeids"), a.Int64s("nodes_falsenodeids")
	missing := a.Int64s("nodes_missing_value_tracks_true")
	readFloatsOrTensor(a, "nodes_hitrates", since3) // visit counts, which have no effect
	voteTrees, voteNodes, voteTargets := a.Int64s(kind+"_treeids"), a.Int64s(kind+"_nodeids"), a.Int64s(kind+"_ids")
	weights := readFloatsOrTensor(a, kind+"_weights", since3)
	m.base = readFloatsOrTensor(a, "base_values", since3)

	n := len(ids)
	for name, k := range map[string]int{"nodes_treeids": len(trees), "nodes_featureids": len(features),
		"nodes_modes":  len(modes),
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
		a.Errorf("%s_treeids, _nodeids, _ids and _weights have %d, %d, %d and %d elements, want equal lengths", kind,
			len(voteTrees), len(voteNodes), len(voteTargets), k)
		return m
	}

	index, first := newTreeIndex(a, trees, ids)
	at := make([]int32, n) // index of each node in the model, or ^leaf
	var nodes, leaves int32
	for i, name := range modes {
		switch mode, ok := treeModeNames[name]; {
		case !ok:
			a.Errorf("node %d of tree %d has unknown mode %q", ids[i], trees[i], name)
			return m
		case mode == treeLeaf:
			at[i] = ^leaves
			leaves++
		default:
			at[i] = nodes
			nodes++
		}
	}
	f.nodes = make([]treeNode, 0, nodes)
	for i := range ids {
		if at[i] < 0 {
			continue
		}
		node := treeNode{threshold: values[i], feature: int32Of(features[i]), mode: treeModeNames[modes[i]]}
		node.missing = len(missing) > 0 && missing[i] != 0
		for k, child := range []int64{no[i], yes[i]} {
			p, ok := index.find(trees[i], child)
			if !ok {
				a.Errorf("node %d of tree %d has child %d, which does not exist", ids[i], trees[i], child)
				return m
			}
			node.next[k] = at[p]
		}
		f.nodes = append(f.nodes, node)
	}
	for _, i := range first {
		f.roots = append(f.roots, at[i])
	}

	// The votes are sorted by leaf.
	leafOf := func(i int) int32 {
		p, ok := index.find(voteTrees[i], voteNodes[i])
		if !ok {
			a.Errorf("%s_nodeids[%d] is node %d of tree %d, which does not exist", kind, i, voteNodes[i], voteTrees[i])
			return -1
		}
		return ^at[p] // negative for inner nodes, for which converters write weights too; they have no effect
	}
	f.first = make([]int32, leaves+2)
	for i := range weights {
		if l := leafOf(i); l >= 0 {
			f.first[l+2]++
		}
	}
	for i := range leaves {
		f.first[i+2] += f.first[i+1]
	}
	f.votes = make([]tree.Term, f.first[leaves+1])
	for i, w := range weights {
		if l := leafOf(i); l >= 0 {
			f.votes[f.first[l+1]] = tree.Term{Target: int32Of(voteTargets[i]), Weight: w}
			f.first[l+1]++
		}
	}
	f.first = f.first[:leaves+1]
	if err := m.finish(); err != nil {
		a.Errorf("%w", err)
	}
	return m
}
