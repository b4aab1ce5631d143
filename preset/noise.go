package preset

import (
	"slices"
	"time"
)

const (
	// significance is the largest p-value with which one candidate counts as faster. Three blocks
	// of each candidate, if all pairs are in order, have p = 0.05.
	significance = 0.05
	// maxBlocks is the largest number of blocks in which a candidate is measured, if its difference
	// from the best one is not significant after [blocks].
	maxBlocks = 9
)

// faster reports whether times a are lower than times b by more than noise explains: by the exact
// one-sided test of Mann and Whitney (1947), which assumes nothing of the distribution.
func faster(a, b []time.Duration) bool {
	if len(a) == 0 || len(b) == 0 || len(a) > maxBlocks || len(b) > maxBlocks {
		return false
	}
	u := 0 // twice the number of pairs in order; half a pair for equal times
	for _, x := range a {
		for _, y := range b {
			switch {
			case x < y:
				u += 2
			case x == y:
				u++
			}
		}
	}
	return tail(len(a), len(b), u/2) <= significance // rounded towards no difference
}

// tail returns the probability that at least u of the m·n pairs are in order if all orders of m+n
// times are equally likely.
func tail(m, n, u int) float64 {
	// ways[i][j][k] is the number of orders of i and j times with k pairs in order.
	var ways [maxBlocks + 1][maxBlocks + 1][maxBlocks*maxBlocks + 1]float64
	for i := range m + 1 {
		for j := range n + 1 {
			for k := range i*j + 1 {
				switch {
				case i == 0 || j == 0:
					ways[i][j][k] = 1
				default: // the largest time is one of the first, or of the second: then it makes i pairs
					ways[i][j][k] = ways[i-1][j][k]
					if k >= i {
						ways[i][j][k] += ways[i][j-1][k-i]
					}
				}
			}
		}
	}
	all, least := 0.0, 0.0
	for k := range m*n + 1 {
		all += ways[m][n][k]
		if k >= u {
			least += ways[m][n][k]
		}
	}
	return least / all
}

// contenders returns the candidate with the lowest median, and after it the candidates from which
// it does not differ significantly.
func contenders(list []*candidate) []*candidate {
	var best *candidate
	for _, c := range list {
		if c.Status == StatusOK && (best == nil || median(c.blocks) < median(best.blocks)) {
			best = c
		}
	}
	if best == nil {
		return nil
	}
	r := []*candidate{best}
	for _, c := range list {
		if c != best && c.Status == StatusOK && !hopeless(c, best) && !faster(best.blocks, c.blocks) {
			r = append(r, c)
		}
	}
	return r
}

// hopeless reports whether the first block of a candidate is so slow that it is not measured again.
func hopeless(c, best *candidate) bool {
	return c.blocks[0] > 4*slices.Min(best.blocks)
}
