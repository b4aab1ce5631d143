package elementwise

import (
	"slices"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// loopSource is an input of a broadcast: elements of size bytes each.
type loopSource struct {
	data    []byte
	size    int
	shape   []int
	strides []int // over the loop's collapsed dimensions, in elements
	whole   bool  // elements have the order of the output
	len     int   // number of elements in the dimensions that plan has processed
}

// broadcastLoop iterates over an output in memory order and calls a loop with the corresponding
// elements of each input.
type broadcastLoop struct {
	dims []int // shape of the output, with dimensions merged where all inputs allow it
	src  []loopSource
}

// plan merges the dimensions of an output of n elements, n > 0.
func (b *broadcastLoop) plan(out []int, n int) {
	b.dims = b.dims[:0]
	same := true
	for k := range b.src {
		s := &b.src[k]
		s.strides, s.len = s.strides[:0], 1
		s.whole = kit.Product(s.shape) == n
		same = same && s.whole
	}
	if same {
		b.dims = append(b.dims, n)
		for k := range b.src {
			b.src[k].strides = append(b.src[k].strides, 1)
		}
		return
	}
	// Process from the innermost dimension outward; the lists are reversed afterwards.
	for d := len(out) - 1; d >= 0; d-- {
		n, last := out[d], len(b.dims)-1
		join := last >= 0 && n > 1
		for k := range b.src {
			s := &b.src[k]
			join = join && s.stride(out, d) == s.strides[last]*b.dims[last]
		}
		if join {
			b.dims[last] *= n
		} else if n > 1 {
			b.dims = append(b.dims, n)
		}
		for k := range b.src {
			s := &b.src[k]
			if !join && n > 1 {
				s.strides = append(s.strides, s.stride(out, d))
			}
			s.len *= s.dim(out, d)
		}
	}
	if len(b.dims) == 0 {
		b.dims = append(b.dims, 1)
		for k := range b.src {
			b.src[k].strides = append(b.src[k].strides, 0)
		}
	}
	slices.Reverse(b.dims)
	for k := range b.src {
		slices.Reverse(b.src[k].strides)
	}
}

// dim returns the source's size along dimension d of the output.
func (s *loopSource) dim(out []int, d int) int {
	if d -= len(out) - len(s.shape); d >= 0 {
		return s.shape[d]
	}
	return 1
}

// stride returns the stride of the source along dimension d of the output, or 0 if it is broadcast.
// s.len is the number of elements of the inner dimensions.
func (s *loopSource) stride(out []int, d int) int {
	if s.dim(out, d) == 1 {
		return 0
	}
	return s.len
}

// rowMin is the length of the innermost dimension from which rows are processed one by one where
// groups of rows do not apply. Shorter rows are first gathered into blocks.
const rowMin = 32

// block returns how many elements are gathered or repeated at a time.
func (b *broadcastLoop) block() int {
	size := 1
	for k := range b.src {
		size = max(size, b.src[k].size)
	}
	return max(kit.LoopBlock, 4096/size)
}

// elements computes the elements [lo, hi) of the output into dst.
func (b *broadcastLoop) elements(l Loop, dst []byte, lo, hi int) {
	st := LoopStates.Get().(*LoopState)
	defer LoopStates.Put(st)
	for k := range st.filled {
		st.filled[k].offset, st.filled[k].n = -1, 0
	}
	last := len(b.dims) - 1
	inner := b.dims[last]
	if b.grouped() {
		b.groups(l, st, dst, lo, hi)
		return
	}
	least := rowMin
	for k := range b.src {
		if b.src[k].strides[last] == 0 && !l.scalars {
			least = kit.LoopBlock / 2 // a block with a repeated element takes longer than its share of a longer one
		}
	}
	if last == 0 || inner >= least {
		b.rows(l, st, dst, lo, hi)
		return
	}
	size, block := l.Out.Size(), b.block()
	for pos := lo; pos < hi; pos += block {
		m := min(block, hi-pos)
		for k := range b.src {
			s := &b.src[k]
			if s.whole {
				st.in[k] = s.data[pos*s.size : (pos+m)*s.size]
				continue
			}
			st.in[k] = st.fill[k][:m*s.size]
			b.gather(s, st.in[k], pos, m)
		}
		l.Run(dst[(pos-lo)*size:(pos-lo+m)*size], &st.in)
	}
}

// grouped reports whether blocks of whole rows pay: there are enough of them, and no input has one
// element for each row.
func (b *broadcastLoop) grouped() bool {
	last := len(b.dims) - 1
	if last == 0 || b.dims[last] > kit.LoopBlock/2 || b.dims[last]*b.dims[last-1] < kit.LoopBlock {
		return false
	}
	for k := range b.src {
		if s := &b.src[k]; s.strides[last-1] != 0 && s.strides[last] == 0 {
			return false
		}
	}
	return true
}

// groups processes [lo, hi) in blocks of whole rows, and the parts of rows at the ends. An input
// that does not change from row to row is repeated in a block, which is reused while the input is
// the same.
func (b *broadcastLoop) groups(l Loop, st *LoopState, dst []byte, lo, hi int) {
	last := len(b.dims) - 1
	inner, lines, size, block := b.dims[last], b.dims[last-1], l.Out.Size(), b.block()
	for pos := lo; pos < hi; {
		row, off := pos/inner, pos%inner
		n := min(block/inner, (hi-pos)/inner, lines-row%lines)
		if off != 0 || n == 0 {
			m := min(inner-off, hi-pos)
			b.rows(l, st, dst[(pos-lo)*size:], pos, pos+m)
			pos += m
			continue
		}
		m := n * inner
		for k := range b.src {
			s := &b.src[k]
			p := b.rowOffset(s, row)
			if s.strides[last-1] != 0 {
				st.in[k] = s.data[p*s.size : (p+m)*s.size]
				continue
			}
			f := &st.filled[k]
			if block := st.fill[k][:m*s.size]; f.offset != p || f.n < m {
				if f.offset, f.n = p, m; s.strides[last] == 0 {
					move.RepeatElement(block, s.data[p*s.size:(p+1)*s.size])
				} else {
					move.RepeatBytes(block, copy(block, s.data[p*s.size:(p+inner)*s.size]))
				}
			}
			st.in[k] = st.fill[k][:m*s.size]
		}
		l.Run(dst[(pos-lo)*size:(pos-lo+m)*size], &st.in)
		pos += m
	}
}

// rows processes the parts of the innermost dimension in [lo, hi).
func (b *broadcastLoop) rows(l Loop, st *LoopState, dst []byte, lo, hi int) {
	last := len(b.dims) - 1
	inner, size := b.dims[last], l.Out.Size()
	step := inner
	if !l.scalars {
		for k := range b.src {
			if b.src[k].strides[last] == 0 {
				step = b.block()
			}
		}
	}
	row, off := lo/inner, lo%inner
	var from [3]int // offsets of the row
	for k := range b.src {
		from[k] = b.rowOffset(&b.src[k], row)
	}
	st.at = st.at[:0]
	for _, n := range slices.Backward(b.dims[:last]) { // from the inner to the outer ones
		st.at = append(st.at, row%n)
		row /= n
	}
	for pos := lo; pos < hi; {
		m := min(inner-off, hi-pos, step)
		for k := range b.src {
			s := &b.src[k]
			p := from[k]
			if s.strides[last] != 0 {
				p += off * s.strides[last]
				st.in[k] = s.data[p*s.size : (p+m)*s.size]
				continue
			}
			elem := s.data[p*s.size : (p+1)*s.size]
			if l.scalars {
				st.in[k] = elem
				continue
			}
			if f := &st.filled[k]; f.offset != p || f.n < m {
				move.RepeatElement(st.fill[k][:m*s.size], elem)
				f.offset, f.n = p, m
			}
			st.in[k] = st.fill[k][:m*s.size]
		}
		l.Run(dst[(pos-lo)*size:(pos-lo+m)*size], &st.in)
		pos += m
		if off += m; off == inner {
			off = 0
			b.nextRow(st.at, &from)
		}
	}
}

// nextRow advances the coordinates of a row, the inner dimension first, and its offsets in the
// sources.
func (b *broadcastLoop) nextRow(at []int, from *[3]int) {
	for i := range at {
		d := len(at) - 1 - i
		at[i]++
		back := 0
		if at[i] == b.dims[d] {
			at[i], back = 0, b.dims[d]
		}
		for k := range b.src {
			stride := b.src[k].strides[d]
			from[k] += stride - back*stride
		}
		if back == 0 {
			return
		}
	}
}

// rowOffset returns the index in s of the first element of a row.
func (b *broadcastLoop) rowOffset(s *loopSource, row int) int {
	p := 0
	for d := len(b.dims) - 2; d >= 0; d-- {
		n := b.dims[d]
		p += row % n * s.strides[d]
		row /= n
	}
	return p
}

// gather copies the m source elements for the output elements from pos on.
func (b *broadcastLoop) gather(s *loopSource, dst []byte, pos, m int) {
	last := len(b.dims) - 1
	inner, lines, size := b.dims[last], b.dims[last-1], 0
	if s.strides[last] == 0 {
		size = s.size
	}
	for m > 0 {
		row, off := pos/inner, pos%inner
		src, n := s.data[b.rowOffset(s, row)*s.size:], min(m/inner, lines-row%lines)
		if off > 0 || n == 0 { // a part of a row
			n = 1
			src = src[off*s.strides[last]*s.size:]
		}
		k := min(n*inner, inner-off+(n-1)*inner, m)
		move.CopyRows(dst[:k*s.size], src, min(k, inner)*s.size, s.strides[last-1]*s.size, size)
		dst = dst[k*s.size:]
		pos += k
		m -= k
	}
}

// EachBroadcastIndex calls fn for every element of the output with the indices of the corresponding
// elements of the inputs. It is for strings; numbers use broadcastLoop.
func EachBroadcastIndex(out []int, shapes [][]int, fn func(i int, at []int)) {
	n := kit.Product(out)
	strides := make([][]int, len(shapes))
	for k, s := range shapes {
		strides[k] = kit.BroadcastStrides(s, out)
	}
	at, index := make([]int, len(shapes)), make([]int, len(out))
	for i := range n {
		fn(i, at)
		for d := len(out) - 1; d >= 0; d-- {
			index[d]++
			if index[d] < out[d] {
				for k := range at {
					at[k] += strides[k][d]
				}
				break
			}
			for k := range at {
				at[k] -= strides[k][d] * (out[d] - 1)
			}
			index[d] = 0
		}
	}
}
