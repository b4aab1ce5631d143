package vec

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
)

// Top finds the largest or smallest elements of rows in order: a tournament of 16 numbers at a
// time. A Top serves one goroutine.
type Top struct {
	tree    []int32
	offsets []int // in bytes, of each level of the tree; the leaves come first
	leaves  int
	flip    int
	none    [1]int32
}

// HasTop reports whether the level has the kernels of [Top].
func HasTop(l cpu.Level) bool { return l == cpu.AVX512 }

// Resize prepares t for rows of n elements, which need about 4.3·n bytes. It keeps the memory of
// earlier ones.
func (t *Top) Resize(n int, largest bool) {
	t.leaves, t.flip, t.offsets = n, 0, t.offsets[:0]
	if !largest {
		t.flip = -1
	}
	size := 0
	for k, done := n, false; !done; k = (k + 15) / 16 {
		t.offsets = append(t.offsets, 4*size)
		size += (k + 15) &^ 15
		done = k <= 16
	}
	t.tree = slices.Grow(t.tree[:0], size)[:size]
	for k := range t.offsets {
		level := t.level(k)
		for i := n; i < len(level); i++ {
			level[i] = -1 << 31
		}
		n = len(level) / 16
	}
}

// Set begins with a row, parts of which it reads in order. more is called before each part, and
// ends it by false.
func (t *Top) Set(x []float32, more func() bool) bool {
	x = x[:t.leaves]
	var maxima []int32
	for at := 0; at < len(x); at += chunk {
		if !more() {
			return false
		}
		maxima = t.maxima()
		topLeavesF32(&t.tree[at], &maxima[at/16], &x[at], min(chunk, len(x)-at), t.flip)
	}
	for k := 2; k < len(t.offsets); k++ {
		from, to := t.level(k-1), t.level(k)
		for at := 0; at < len(from); at += chunk {
			if !more() {
				return false
			}
			topMaxima(&to[at/16], &from[at], min(chunk, len(from)-at)/16)
		}
	}
	return true
}

// maxima returns the memory for those of the leaves.
func (t *Top) maxima() []int32 {
	if len(t.offsets) == 1 {
		return t.none[:] // of the only vector
	}
	return t.level(1)
}

// level returns level k of the tree, nil if the tree is not that deep.
func (t *Top) level(k int) []int32 {
	if k >= len(t.offsets) {
		return nil
	}
	end := len(t.tree)
	if k+1 < len(t.offsets) {
		end = t.offsets[k+1] / 4
	}
	return t.tree[t.offsets[k]/4 : end]
}

// Take writes the indices of the next elements, at most as many as the row has in all, of equal
// ones the first first, NaN as the largest. more is as for [Top.Set].
func (t *Top) Take(at []int64, more func() bool) {
	const most = 128 // per call
	for ; len(at) > 0 && more(); at = at[min(most, len(at)):] {
		topTake(&at[0], &t.tree[0], &t.offsets[0], len(t.offsets), min(most, len(at)))
	}
}

// Rows writes the indices of the first k elements of each of adjacent rows. more is as for
// [Top.Set].
func (t *Top) Rows(at []int64, x []float32, k int, more func() bool) {
	const cycles = 40_000              // per call
	part := cycles / (t.leaves + 80*k) // about the cycles of a row
	for n := t.leaves; len(x) > 0 && more(); {
		if rows := min(part, len(x)/n); rows > 0 && len(t.offsets) <= 2 {
			topRowsF32(&at[0], &t.tree[0], &t.offsets[0], len(t.offsets), k, &t.maxima()[0], &x[0], n, t.flip, rows)
			at, x = at[rows*k:], x[rows*n:]
			continue
		}
		if !t.Set(x[:n], more) {
			return
		}
		t.Take(at[:k], more)
		at, x = at[k:], x[n:]
	}
}
