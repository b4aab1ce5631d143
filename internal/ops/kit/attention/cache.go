package attention

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Lengths returns n for each of batch items.
func Lengths(batch, n int) []int {
	r := make([]int, batch)
	for b := range r {
		r[b] = n
	}
	return r
}

// Extend appends n rows of v, for every head of batch item b after past[b] rows, to a state that
// output out of the call extends in place ([ir.Call.Extend]): [batch, heads, length, cols]. It
// returns the first rows of the state, read of them as T. Between the new rows and row read it
// writes zeros. If half is set, which [Core.ReadsHalf] allows, the view of a half-precision state
// has its elements in place. ok is false if the output is not such a state.
func Extend[T kit.RealFloat](c *ir.Call, out int, dtype tensor.DType, v HeadView[T], past []int,
	heads, n, length, read, cols int, half bool) (view HeadView[T], ok bool, err error) {
	cache, err := c.Extend(out, length)
	if cache == nil || err != nil {
		return v, false, err
	}
	if dtype == tensor.DTypeOf[T]() {
		view = HeadsFirst(memory.FromRaw[T](cache.Data), heads, cache.Room, cols)
		for b := range past {
			for h := range heads {
				for t := range n {
					copy(view.At(b, h, past[b]+t)[:cols], v.At(b, h, t))
				}
				clear(view.At(b, h, 0)[min(past[b]+n, read)*cols : read*cols])
			}
		}
		return view, true, nil
	}
	size := dtype.Size()
	if half {
		view = HeadsFirst[T](nil, heads, cache.Room, cols)
		view.half = ir.Kept[halfView[T]](c)
		*view.half = halfView[T]{cache.Data, dtype, v, past, n}
		for b := range past {
			for h := range heads {
				row := func(t int) []byte { return cache.Data[((b*heads+h)*cache.Room+t)*cols*size:] }
				for t := range n {
					kit.Narrow(row(past[b] + t)[:cols*size], v.At(b, h, t)[:cols], dtype)
				}
				clear(row(min(past[b]+n, read))[:max(0, read-past[b]-n)*cols*size])
			}
		}
		return view, true, nil
	}
	view, err = extendWidened(c, cache, dtype, v, past, heads, n, read, cols)
	return view, true, err
}

// extendWidened is [Extend] for a state of another type than T, of which it returns a copy. It is
// not a part of Extend, whose variables would be allocated for the parallel section.
func extendWidened[T kit.RealFloat](c *ir.Call, cache *ir.Cache, dtype tensor.DType, v HeadView[T], past []int,
	heads, n, read, cols int) (HeadView[T], error) {
	data, err := ir.ScratchOf[T](c, len(past)*heads*read*cols)
	if err != nil {
		return v, err
	}
	size, view := dtype.Size(), HeadsFirst(data, heads, read, cols)
	c.Parallel(len(past)*heads, max(1, kit.GrainCheap/max(1, read*cols)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, h := i/heads, i%heads
			row := func(t int) []byte { return cache.Data[(i*cache.Room+t)*cols*size:] }
			x, at := view.At(b, h, 0)[:read*cols], past[b]*cols
			kit.Widen(x[:at], row(0)[:at*size], dtype)
			for t := range n {
				copy(x[at+t*cols:][:cols], v.At(b, h, t))
			}
			kit.Narrow(row(past[b])[:n*cols*size], x[at:][:n*cols], dtype)
			clear(x[min(past[b]+n, read)*cols:])
			clear(row(min(past[b]+n, read))[:max(0, read-past[b]-n)*cols*size])
		}
	})
	return view, nil
}
