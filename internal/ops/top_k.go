package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TopK returns the k largest or smallest elements along an axis and their indices, in order. Equal
// elements keep their order, and NaN is larger than all numbers. Without Sorted any order is
// allowed; the same one is used (https://onnx.ai/onnx/operators/onnx__TopK.html).
type TopK struct {
	Axis    int
	Largest bool
}

var _ = kit.Register(&kit.Def{Name: "TopK", Since: kit.Versions{1, 10, 11, 24}, In: "X:T, K:int64", Out: "Values:T, Indices:I",
	Types: "T: @number; I: int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &TopK{Axis: a.Int("axis", -1), Largest: true}
		if opset < 10 {
			a.Require("k")
			k := a.Int("k", 1)
			if k < 1 {
				return a.Fail(fail.Errorf("k is %d, want at least 1", k))
			}
			a.SetInputInts(1, []int{k})
		}
		if opset >= 11 {
			o.Largest = a.Bool("largest", true)
			a.Ignore("sorted")
		}
		return o
	},
	Gradient: &kit.Gradient{Rule: topKGradient}})

// topKGradient adds the gradient to the elements that the second output names.
func topKGradient(b *kit.GradientBuilder, n *kit.GradientNode, gs []string) ([]string, error) {
	if err := b.Need(11); err != nil {
		return nil, err
	}
	indices := ""
	if len(n.Outputs) > 1 {
		indices = n.Outputs[1]
	}
	if indices == "" {
		m := *n
		m.Outputs = []string{"", ""} // as many as the repetition has
		indices = b.Again(&m)[1]
	}
	axis := kit.GradientAttrs{"axis": n.Attrs.Int("axis", -1)}
	from := b.Node("GatherElements", axis, b.Positions(n.Inputs[0], 1), indices)
	return n.First(b.ScatterBack(1, gs[0], from, n.Inputs[0])), nil
}

// Infer implements [ir.Operator].
func (o *TopK) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	if t.Shape != nil {
		axis, err := kit.NormalAxis(o.Axis, len(t.Shape))
		if err != nil {
			return err
		}
		k := ir.Unknown
		if d := c.Contents(1); len(d) == 1 {
			k = d[0]
		}
		n, ok1 := t.Shape[axis].Value()
		if v, ok2 := k.Value(); ok2 && (v < 0 || ok1 && v > n) {
			return fail.Errorf("k is %d, want 0 to %s, the size of axis %d", v, t.Shape[axis], o.Axis)
		}
		t.Shape = slices.Clone(t.Shape)
		t.Shape[axis] = k
	}
	c.SetOut(0, t)
	t.Elem = tensor.TypeInt64
	c.SetOut(1, t)
	return nil
}

// Run implements [ir.Operator].
func (o *TopK) Run(c *ir.Call) error {
	x := c.Tensor(0)
	axis, err := kit.NormalAxis(o.Axis, x.Rank())
	if err != nil {
		return err
	}
	k, err := kit.ScalarInt(c.Tensor(1), "K")
	if err != nil {
		return err
	}
	if k < 0 || k > x.Dim(axis) {
		return fail.Errorf("k is %d, want 0 to %d, the size of axis %d", k, x.Dim(axis), o.Axis)
	}
	shape := slices.Clone(x.Shape())
	shape[axis] = k
	values, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	var index *tensor.Tensor
	if c.Wants(1) {
		index, err = c.Output(1, tensor.TypeInt64, shape...)
	} else {
		index, err = kit.ScratchTensor(c, tensor.TypeInt64, shape)
	}
	if err != nil {
		return err
	}
	s, at := kit.SpanOf(x.Shape(), axis), tensor.Of[int64](index)
	if len(at) == 0 {
		return nil
	}
	ordered := x
	wide := x.DType()
	switch wide {
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		wide = tensor.TypeFloat32
	case tensor.TypeInt8, tensor.TypeUint8, tensor.TypeInt16, tensor.TypeUint16:
		wide = tensor.TypeInt32
	case tensor.TypeUint32:
		wide = tensor.TypeInt64
	}
	if wide != x.DType() {
		if ordered, err = kit.ToScratch(c, x, wide); err != nil {
			return err
		}
	}
	switch wide {
	case tensor.TypeInt32:
		err = topKRun[int32](c, at, ordered, s, k, o.Largest, nil)
	case tensor.TypeInt64:
		err = topKRun[int64](c, at, ordered, s, k, o.Largest, nil)
	case tensor.TypeUint64:
		err = topKRun[uint64](c, at, ordered, s, k, o.Largest, nil)
	case tensor.TypeFloat32:
		bestOf := bestOfFloats
		if c.Generic {
			bestOf = nil
		}
		err = topKRun(c, at, ordered, s, k, o.Largest, bestOf)
	case tensor.TypeFloat64:
		err = topKRun[float64](c, at, ordered, s, k, o.Largest, nil)
	default:
		err = fail.Errorf("elements of type %s are not supported", wide)
	}
	if err != nil {
		return err
	}
	return topKValues(c, values, x, at, s, k)
}

// topKValues copies the elements at the indices.
func topKValues(c *ir.Call, values, x *tensor.Tensor, at []int64, s kit.AxisSpan, k int) error {
	size := x.DType().Size()
	dst, src := values.Bytes(), x.Bytes()
	c.Parallel(len(at), kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			outer, j := i/(k*s.Inner), i%s.Inner
			p := (outer*s.N+int(at[i]))*s.Inner + j
			copy(dst[i*size:(i+1)*size], src[p*size:(p+1)*size])
		}
	})
	return nil
}

// topKRun finds the indices for every line along the axis.
func topKRun[T kit.RealNumber](c *ir.Call, at []int64, x *tensor.Tensor, s kit.AxisSpan, k int, largest bool, bestOf func(x []T, largest bool) T) error {
	src := tensor.Of[T](x)
	lines := s.Outer * s.Inner
	const perTask = 8 // lines that share their memory
	tasks := (lines + perTask - 1) / perTask
	entry := int64(len(memory.AsBytes(make([]topKEntry[T], 1))))
	if err := c.Reserve(entry * int64(k) * int64(min(tasks, 64))); err != nil {
		return err
	}
	kit.ReduceEach(c, tasks, perTask*s.N, func(task int) {
		heap := memory.FromRaw[topKEntry[T]](memory.Uninitialized(int(entry) * k))[:0] // clearing it takes long if k is large
		for line := task * perTask; line < min(lines, (task+1)*perTask); line++ {
			outer, j := line/s.Inner, line%s.Inner
			in := src[outer*s.N*s.Inner+j:]
			heap = topKLine(c, heap[:0], in, s.N, s.Inner, k, largest, bestOf)
			if c.Err() != nil {
				return
			}
			out := at[outer*k*s.Inner+j:]
			for i, e := range heap {
				out[i*s.Inner] = int64(e.index)
			}
		}
	})
	return nil
}

func bestOfFloats(x []float32, largest bool) float32 {
	if largest {
		return vec.ReduceMaxF32(cpu.Active(), x)
	}
	return vec.ReduceMinF32(cpu.Active(), x)
}

type topKEntry[T any] struct {
	value T
	index int
}

// greaterFirst reports whether a precedes b among the largest elements.
func greaterFirst[T kit.RealNumber](a, b topKEntry[T]) bool {
	switch {
	case a.value > b.value:
		return true
	case a.value < b.value:
		return false
	case (a.value != a.value) != (b.value != b.value):
		return a.value != a.value
	}
	return a.index < b.index
}

// lessFirst reports whether a precedes b among the smallest elements.
func lessFirst[T kit.RealNumber](a, b topKEntry[T]) bool {
	switch {
	case a.value < b.value:
		return true
	case a.value > b.value:
		return false
	case (a.value != a.value) != (b.value != b.value):
		return b.value != b.value
	}
	return a.index < b.index
}

// topKDown restores the order of a heap whose root is last, where only element i may be out of order.
func topKDown[E any](h []E, i int, first func(a, b E) bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && first(h[child], h[child+1]) {
			child++
		}
		if !first(h[i], h[child]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// topKLine returns the first k of n elements in order. It keeps them in a heap whose root is the
// last of them. bestOf returns the largest or smallest of many elements, or NaN if there is one; it
// may be nil. If the context ends, it returns the elements so far.
func topKLine[T kit.RealNumber](c *ir.Call, heap []topKEntry[T], x []T, n, stride, k int, largest bool, bestOf func(x []T, largest bool) T) []topKEntry[T] {
	first := lessFirst[T]
	if largest {
		first = greaterFirst[T]
	}
	stopped := func(i int) bool { return i&0xfff == 0xfff && c.Err() != nil }
	for i := range k {
		heap = append(heap, topKEntry[T]{x[i*stride], i})
		if stopped(i) {
			return heap
		}
	}
	for i := k/2 - 1; i >= 0; i-- {
		topKDown(heap, i, first)
		if stopped(i) {
			return heap
		}
	}
	const block = 256 // elements that are skipped together
	for i := k; i < n; i++ {
		if stopped(i) {
			return heap
		}
		if bestOf != nil && stride == 1 && (i-k)%block == 0 && k > 0 {
			b, root := bestOf(x[i:min(n, i+block)], largest), heap[0].value
			if largest && b <= root || !largest && b >= root {
				i += block - 1
				continue
			}
		}
		// A later equal element never replaces an earlier one.
		v := x[i*stride]
		if k == 0 || largest && v <= heap[0].value || !largest && v >= heap[0].value {
			continue
		}
		if e := (topKEntry[T]{v, i}); first(e, heap[0]) {
			heap[0] = e
			topKDown(heap, 0, first)
		}
	}
	for end := k - 1; end > 0; end-- {
		if stopped(end) {
			return heap
		}
		heap[0], heap[end] = heap[end], heap[0]
		topKDown(heap[:end], 0, first)
	}
	return heap
}
