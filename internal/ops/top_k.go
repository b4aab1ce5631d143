package ops

import (
	"encoding/binary"
	"slices"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// TopK returns the k largest or smallest elements along an axis and their indices, in order. Equal
// elements keep their order, and NaN is larger than all numbers. Without Sorted any order is
// allowed; the same one is used (https://onnx.ai/onnx/operators/onnx__TopK.html).
type TopK struct {
	Axis    int
	Largest bool
}

var _ = kit.Register(&kit.Def{Name: "TopK", Since: kit.Versions{1, 10, 11, 24}, In: "X:T, K:int64",
	Out:   "Values:T, Indices:I",
	Class: kit.ClassReduction,
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
	Gradient: &gradient.Gradient{Rule: topKGradient}})

// topKGradient adds the gradient to the elements that the second output names.
func topKGradient(b *gradient.Builder, n *gradient.Node, gs []string) ([]string, error) {
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
	axis := gradient.Attrs{"axis": n.Attrs.Int("axis", -1)}
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
	s, at := kit.SpanOf(x.Shape(), axis), tensor.MustData[int64](index)
	if len(at) == 0 {
		return nil
	}
	ordered := x
	wide := x.DType()
	switch wide {
	case tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeInt8, tensor.TypeUint8, tensor.TypeInt16,
		tensor.TypeUint16:
		wide = tensor.TypeFloat32
	case tensor.TypeInt32, tensor.TypeUint32:
		wide = tensor.TypeInt64
	}
	if wide != x.DType() {
		if ordered, err = kit.ToScratch(c, x, wide); err != nil {
			return err
		}
	}
	switch wide {
	case tensor.TypeInt64:
		err = topKRun(c, at, tensor.MustData[int64](ordered), s, k, topKInts(c, o.Largest))
	case tensor.TypeUint64:
		var signed []int64
		if signed, err = ir.ScratchOf[int64](c, x.Len()); err != nil {
			return err
		}
		for lo, hi := range ir.Steps(c, len(signed)) {
			for i, v := range tensor.MustData[uint64](x)[lo:hi] {
				signed[lo+i] = int64(v ^ 1<<63) // in the same order
			}
		}
		err = topKRun(c, at, signed, s, k, topKInts(c, o.Largest))
	case tensor.TypeFloat32:
		if topKTournament(s, k) && !c.Generic {
			err = topKFloats(c, at, tensor.MustData[float32](ordered), s, k, o.Largest)
			break
		}
		err = topKRun(c, at, tensor.MustData[float32](ordered), s, k,
			newTopKOrder(c, topKOrder[float32]{o.Largest, kit.OrderF32, vec.ReduceMaxF32, extremesOf(vec.MaxRowsF32)},
				vec.ReduceMinF32, extremesOf(vec.MinRowsF32)))
	case tensor.TypeFloat64:
		err = topKRun(c, at, tensor.MustData[float64](ordered), s, k,
			newTopKOrder(c, topKOrder[float64]{o.Largest, kit.OrderF64, nil, nil}, nil, nil))
	default:
		err = fail.Errorf("elements of type %s are not supported", wide)
	}
	if err != nil {
		return err
	}
	topKValues(c, values.Bytes(), x.Bytes(), x.DType().Size(), at, s, k)
	return nil
}

// topKValues copies the elements of size bytes at the indices.
func topKValues(c *ir.Call, dst, src []byte, size int, at []int64, s kit.AxisSpan, k int) {
	c.Parallel(s.Outer, kit.GrainFor(k*s.Inner), func(lo, hi int) {
		for outer := lo; outer < hi && c.Err() == nil; outer++ {
			x := src[outer*s.N*s.Inner*size:][:s.N*s.Inner*size]
			for i := outer * k * s.Inner; i < (outer+1)*k*s.Inner; {
				for j := range s.Inner {
					p := int(at[i])*s.Inner + j
					switch size {
					case 1:
						dst[i] = x[p]
					case 2:
						binary.NativeEndian.PutUint16(dst[2*i:], binary.NativeEndian.Uint16(x[2*p:]))
					case 4:
						binary.NativeEndian.PutUint32(dst[4*i:], binary.NativeEndian.Uint32(x[4*p:]))
					case 8:
						binary.NativeEndian.PutUint64(dst[8*i:], binary.NativeEndian.Uint64(x[8*p:]))
					}
					i++
				}
			}
		}
	})
}

// topKOrder is the order of the elements of a type.
type topKOrder[T kit.RealNumber] struct {
	largest bool
	number  func(T) int64 // increases with the elements
	// the largest or smallest of many elements, NaN if there is one; nil, as groups, where it takes
	// long
	best   func(l cpu.Level, x []T) T
	groups func(best, x []T) // best of every topKGroup elements
}

// newTopKOrder returns an order, without best and groups for plain runs.
func newTopKOrder[T kit.RealNumber](c *ir.Call, o topKOrder[T], least func(l cpu.Level, x []T) T,
	leasts func(best, x []T)) *topKOrder[T] {
	if c.Generic {
		o.best, o.groups = nil, nil
	} else if !o.largest {
		o.best, o.groups = least, leasts
	}
	return &o
}

func topKInts(c *ir.Call, largest bool) *topKOrder[int64] {
	return newTopKOrder(c, topKOrder[int64]{largest, func(v int64) int64 { return v }, vec.ReduceMaxI64, largestInts},
		vec.ReduceMinI64, smallestInts)
}

// ahead reports whether a precedes b.
func (o *topKOrder[T]) ahead(a, b T) bool {
	if o.largest {
		return a > b || a != a && b == b
	}
	return a < b || b != b && a == a
}

// of returns a number that is larger for elements that come earlier.
func (o *topKOrder[T]) of(v T) int64 {
	n := o.number(v)
	if !o.largest {
		n = ^n
	}
	return n
}

// topKTournament reports whether topKFloats takes less time than topKRun.
func topKTournament(s kit.AxisSpan, k int) bool {
	return vec.HasTop(cpu.Active()) && s.N <= 1<<20 && (k > 1 || s.Inner > 1 || s.N <= 256)
}

// topKScratch is the memory of a task of topKFloats.
type topKScratch struct {
	top     vec.Top
	columns []float32
	taken   []int64
}

var topKTops = sync.Pool{New: func() any { return new(topKScratch) }}

// topKFloats is topKRun with vector kernels.
func topKFloats(c *ir.Call, at []int64, src []float32, s kit.AxisSpan, k int, largest bool) error {
	const columns = 16                     // lines that are read together where their elements are not adjacent
	perTask, bytes := 1+(1<<12)/s.N, 5*s.N // the memory of a task
	if s.Inner > 1 {
		perTask, bytes = columns, bytes+columns*(4*s.N+8*k)
	}
	lines := s.Outer * s.Inner
	tasks := (lines + perTask - 1) / perTask
	if err := c.Reserve(int64(bytes) * int64(min(tasks, 64))); err != nil {
		return err
	}
	kit.ParallelEach(c, tasks, perTask*s.N, func(task int) {
		m, more := topKTops.Get().(*topKScratch), func() bool { return c.Err() == nil }
		defer topKTops.Put(m)
		top := &m.top
		top.Resize(s.N, largest)
		line, end := task*perTask, min(lines, (task+1)*perTask)
		if s.Inner == 1 {
			top.Rows(at[line*k:end*k], src[line*s.N:end*s.N], k, more)
			return
		}
		m.columns, m.taken = slices.Grow(m.columns[:0], columns*s.N), slices.Grow(m.taken[:0], columns*k)
		buffer, taken := m.columns[:columns*s.N], m.taken[:columns*k]
		for line < end {
			outer, j := line/s.Inner, line%s.Inner
			n := min(end-line, s.Inner-j)
			for lo, hi := range ir.Steps(c, s.N) {
				vec.TransposeF32(cpu.Active(), buffer[lo:], s.N, src[(outer*s.N+lo)*s.Inner+j:], s.Inner, hi-lo, n)
			}
			if !more() {
				return
			}
			top.Rows(taken[:n*k], buffer[:n*s.N], k, more)
			for b := range n {
				for i, v := range taken[b*k:][:k] {
					at[(outer*k+i)*s.Inner+j+b] = v
				}
			}
			line += n
		}
	})
	return nil
}

// topKRun finds the indices for every line along the axis.
func topKRun[T kit.RealNumber](c *ir.Call, at []int64, src []T, s kit.AxisSpan, k int, o *topKOrder[T]) error {
	lines := s.Outer * s.Inner
	const perTask = 8 // lines that share their memory
	tasks := (lines + perTask - 1) / perTask
	const entry = int(unsafe.Sizeof(topKEntry{}))
	if err := c.Reserve(int64(entry) * int64(k) * int64(min(tasks, 64))); err != nil {
		return err
	}
	groups := s.N / topKGroup
	grouped := o.groups != nil && s.Inner == 1 && k > 1 && k <= listK && groups >= max(vec.LeastRowsF32, 4*k) &&
		s.N <= 1<<20
	kit.ParallelEach(c, tasks, perTask*s.N, func(task int) {
		var first [listK]topKFirst[T]
		var extremes []T
		if grouped {
			extremes = make([]T, groups)
		}
		// clearing it takes long if k is large
		best := topKList{k: k, entries: memory.FromRaw[topKEntry](memory.Uninitialized(entry * k))}
		for line := task * perTask; line < min(lines, (task+1)*perTask); line++ {
			outer, j := line/s.Inner, line%s.Inner
			in, out := src[outer*s.N*s.Inner+j:], at[outer*k*s.Inner+j:]
			var found []topKFirst[T]
			if grouped {
				found = topKGroups(c, first[:0], extremes, in[:s.N], k, o)
			}
			if len(found) == 0 && k <= fewK {
				found = topKFew(c, first[:0], in, s.N, s.Inner, k, o)
			}
			if len(found) > 0 {
				for i, e := range found {
					out[i*s.Inner] = int64(e.index)
				}
			} else {
				best.entries = best.entries[:0]
				topKLine(c, &best, in, s.N, s.Inner, o)
				best.sort(c)
				for i, e := range best.entries {
					out[i*s.Inner] = e.index
				}
			}
			if c.Err() != nil {
				return
			}
		}
	})
	return nil
}

const (
	fewK  = 8  // the largest k for which comparing the elements takes less time than finding their orders
	listK = 64 // the largest k for which inserting into a list takes less time than a heap

	topKGroup = 16 // the elements of a group
)

type topKFirst[T any] struct {
	value T
	index int
}

// topKFew returns the best k of n elements in order, for k from 1 to listK.
func topKFew[T kit.RealNumber](c *ir.Call, list []topKFirst[T], x []T, n, stride, k int,
	o *topKOrder[T]) []topKFirst[T] {
	for from := 0; from < n && (from&0xfff != 0 || c.Err() == nil); from += topKBlock {
		part, pos := x[:(min(n, from+topKBlock)-1)*stride+1], from*stride
		if o.best != nil && stride == 1 && (len(list) == k || k == 1) {
			b := o.best(cpu.Active(), part[pos:])
			if len(list) == k && b == b && !o.ahead(b, list[k-1].value) {
				continue
			}
			if k == 1 && b == b { // the first of the best
				for part[pos] != b {
					pos++
				}
				list = append(list[:0], topKFirst[T]{b, pos})
				continue
			}
		}
		list = topKInsert(list, part, pos, stride, k, o)
	}
	for i := range list {
		list[i].index /= stride
	}
	return list
}

// topKInsert inserts the elements of x from pos on into a list of the best k elements before them,
// after those that are equal.
func topKInsert[T kit.RealNumber](list []topKFirst[T], x []T, pos, stride, k int, o *topKOrder[T]) []topKFirst[T] {
	for ; pos < len(x); pos += stride {
		at := len(list)
		if at == k {
			at--
			last := list[at].value
			if o.largest {
				for pos < len(x) && x[pos] <= last {
					pos += stride
				}
			} else {
				for pos < len(x) && x[pos] >= last {
					pos += stride
				}
			}
			if pos >= len(x) {
				break
			}
			if !o.ahead(x[pos], last) { // one of them is NaN
				continue
			}
		}
		list = list[:at+1]
		v := x[pos]
		if o.largest {
			for ; at > 0 && v > list[at-1].value; at-- {
				list[at] = list[at-1]
			}
		} else {
			for ; at > 0 && v < list[at-1].value; at-- {
				list[at] = list[at-1]
			}
		}
		for ; at > 0 && o.ahead(v, list[at-1].value); at-- { // one of them is NaN
			list[at] = list[at-1]
		}
		list[at] = topKFirst[T]{v, pos}
	}
	return list
}

// topKGroups is topKFew for adjacent elements: the best k are in the k groups of topKGroup elements
// whose best elements are the best, of equal ones the first. No later group contains one of them.
// best has an element for each group. It returns an empty list if an element is NaN.
func topKGroups[T kit.RealNumber](c *ir.Call, list []topKFirst[T], best, x []T, k int, o *topKOrder[T]) []topKFirst[T] {
	o.groups(best, x)
	if b := o.best(cpu.Active(), best); b != b {
		return list[:0]
	}
	list = topKFew(c, list[:0], best, len(best), 1, k, o)
	if len(list) < k { // the run ends
		return list[:0]
	}
	var groups [listK]int
	found, last := groups[:k], list[k-1].value
	for i, e := range list {
		at := i
		for ; at > 0 && found[at-1] > e.index; at-- {
			found[at] = found[at-1]
		}
		found[at] = e.index
	}
	list = list[:0]
	for _, g := range found {
		end := (g + 1) * topKGroup
		for at := g * topKGroup; at < end; at++ {
			if !o.ahead(last, x[at]) {
				list = topKInsert(list, x[:at+1], at, 1, k, o)
			}
		}
	}
	return topKInsert(list, x, len(best)*topKGroup, 1, k, o)
}

// extremesOf returns the function that finds the extremes of groups of topKGroup elements with a
// kernel for rows.
func extremesOf(rows func(l cpu.Level, dst, x []float32, n, first int)) func(best, x []float32) {
	return func(best, x []float32) { rows(cpu.Active(), best, x, topKGroup, 0) }
}

// largestInts finds the largest of every topKGroup elements.
func largestInts(best, x []int64) {
	for i := range best {
		v := (*[topKGroup]int64)(x[i*topKGroup:])
		a, b := max(v[0], v[1], v[2], v[3]), max(v[4], v[5], v[6], v[7])
		c, d := max(v[8], v[9], v[10], v[11]), max(v[12], v[13], v[14], v[15])
		best[i] = max(a, b, c, d)
	}
}

// smallestInts finds the smallest of every topKGroup elements.
func smallestInts(best, x []int64) {
	for i := range best {
		v := (*[topKGroup]int64)(x[i*topKGroup:])
		a, b := min(v[0], v[1], v[2], v[3]), min(v[4], v[5], v[6], v[7])
		c, d := min(v[8], v[9], v[10], v[11]), min(v[12], v[13], v[14], v[15])
		best[i] = min(a, b, c, d)
	}
}

// topKBlock is the number of elements that are skipped together.
const topKBlock = 256

// topKLine adds the n elements of a line to an empty list.
func topKLine[T kit.RealNumber](c *ir.Call, best *topKList, x []T, n, stride int, o *topKOrder[T]) {
	for from := 0; from < n && (from&0xfff != 0 || c.Err() == nil); from += topKBlock {
		part, pos := x[:(min(n, from+topKBlock)-1)*stride+1], from*stride
		worst := best.worst()
		if o.best != nil && stride == 1 && worst != nil {
			b := o.best(cpu.Active(), part[pos:])
			if b == b && o.of(b) <= worst.order {
				continue
			}
		}
		for ; pos < len(part); pos += stride {
			worst := best.worst()
			if worst != nil {
				last := x[int(worst.index)*stride]
				if pos += skipWorse(part[pos:], last, stride, o.largest); pos >= len(part) {
					break
				}
			}
			// A later equal element never replaces an earlier one.
			if n := o.of(part[pos]); worst == nil || n > worst.order {
				at := pos
				if stride > 1 {
					at /= stride
				}
				best.add(topKEntry{n, int64(at)})
			}
		}
	}
}

// skipWorse returns the number of leading elements that are known to be equal to last or to follow
// it, between multiples of stride.
func skipWorse[T kit.RealNumber](x []T, last T, stride int, largest bool) int {
	i := 0
	if largest {
		for ; stride == 1 && i+4 <= len(x); i += 4 {
			if a := (*[4]T)(x[i:]); !(a[0] <= last && a[1] <= last && a[2] <= last && a[3] <= last) {
				break
			}
		}
		for i < len(x) && x[i] <= last {
			i += stride
		}
		return i
	}
	for ; stride == 1 && i+4 <= len(x); i += 4 {
		if a := (*[4]T)(x[i:]); !(a[0] >= last && a[1] >= last && a[2] >= last && a[3] >= last) {
			break
		}
	}
	for i < len(x) && x[i] >= last {
		i += stride
	}
	return i
}
