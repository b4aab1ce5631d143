package ml

import (
	"math"
	"math/bits"
	"slices"
)

// treeScale maps numbers of X to float32 numbers that compare with mapped thresholds as the
// original ones do. A nil scale is for float32 numbers, which it does not change.
//
// If all thresholds of a feature are float32 numbers, compared by ≤ or >, its numbers are rounded
// up to float32. Otherwise the feature has keys ([orderKey]): those of the thresholds t, and of the
// number before t unless the comparison is ≤ or >. A number is mapped to its rank, the count of
// keys that are less than its own. So v compares with t as their ranks do.
type treeScale struct {
	searches []treeSearch // one per feature, by ascending size, so that their branches are predictable
	of       []int32      // index of each feature's search
	plain    int          // features without keys, whose searches are the first
}

// treeSearch has the keys of a feature as a binary search tree: the children of keys[i] are
// keys[2*i] and keys[2*i+1], and the root is keys[1]. The length is a power of two, or 0 if the
// feature has no keys; the greatest number fills the tree.
type treeSearch struct {
	keys    []int64
	feature int32
}

// rankCost is the cost of a rank in elementary operations.
const rankCost = 16

// scale returns the scale for numbers that float32 may not hold, or nil if a feature has more keys
// than float32 has ranks.
func (f *treeForest) scale(features int) *treeScale {
	keys, ranked := make([][]int64, features), make([]bool, features)
	for i := range f.nodes {
		n := &f.nodes[i]
		set := []float64{n.threshold}
		if n.mode == treeMember {
			set = f.members[i]
		}
		ordered := n.mode == treeLEQ || n.mode == treeGT
		for _, t := range set {
			if t != t {
				continue
			}
			ranked[n.feature] = ranked[n.feature] || !ordered || float64(float32(t)) != t
			if keys[n.feature] = append(keys[n.feature], orderKey(t)); !ordered {
				keys[n.feature] = append(keys[n.feature], orderKey(math.Nextafter(t, math.Inf(-1))))
			}
		}
	}
	s := &treeScale{searches: make([]treeSearch, features), of: make([]int32, features)}
	for i, k := range keys {
		s.searches[i].feature = int32(i)
		if !ranked[i] {
			s.plain++
			continue
		}
		slices.Sort(k)
		k = slices.Compact(k)
		levels := bits.Len(uint(len(k)))
		if levels > 24 {
			return nil
		}
		tree := make([]int64, 1<<levels)
		for p := range tree {
			tree[p] = math.MaxInt64
			if at := (2*p+1)<<(levels-bits.Len(uint(p))) - len(tree) - 1; p > 0 && at < len(k) {
				tree[p] = k[at]
			}
		}
		s.searches[i].keys = tree
	}
	slices.SortFunc(s.searches, func(a, b treeSearch) int { return len(a.keys) - len(b.keys) })
	for i, q := range s.searches {
		s.of[q.feature] = int32(i)
	}
	return s
}

// threshold returns the number with which mapped numbers compare as numbers with t. It is NaN if
// the mode is EQ and no number is equal to t.
func (s *treeScale) threshold(mode treeMode, feature int32, t float64) float32 {
	if s != nil && t == t {
		if keys := s.searches[s.of[feature]].keys; keys != nil {
			return float32(rank(keys, orderKey(t)))
		}
	}
	r := float32(t)
	switch {
	case (mode == treeLEQ || mode == treeGT) && float64(r) > t:
		return math.Nextafter32(r, float32(math.Inf(-1)))
	case (mode == treeLT || mode == treeGTE) && float64(r) < t:
		return math.Nextafter32(r, float32(math.Inf(1)))
	case mode == treeEQ && float64(r) != t:
		return float32(math.NaN())
	}
	return r
}

// scaleRow maps the features of a row. NaN remains NaN. It does not branch on comparisons, whose
// results are hard to predict.
func scaleRow[T int32 | int64 | float64](s *treeScale, dst []float32, x []T) {
	for _, q := range s.searches[:s.plain] { // rounds up
		v, less := float64(x[q.feature]), int32(0)
		f := float32(v)
		if float64(f) < v {
			less = 1
		}
		b := int32(math.Float32bits(f))
		dst[q.feature] = math.Float32frombits(uint32(b + less*(b>>31|1)))
	}
	for _, q := range s.searches[s.plain:] {
		v := float64(x[q.feature])
		r := float32(rank(q.keys, orderKey(v)))
		if v != v {
			r = float32(v)
		}
		dst[q.feature] = r
	}
}

// rank returns the count of the keys of a search tree that are less than k.
func rank(keys []int64, k int64) int {
	i := uint(1)
	for i < uint(len(keys)) {
		less := uint(0)
		if keys[i] < k {
			less = 1
		}
		i = 2*i + less
	}
	return int(i) - len(keys)
}

// orderKey returns an integer with the order of the numbers. Those of −0 and 0 are equal.
func orderKey(v float64) int64 {
	b := int64(math.Float64bits(v + 0))
	return b ^ int64(uint64(b>>63)>>1)
}
