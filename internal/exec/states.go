package exec

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// SetState makes graph output k the value of graph input i in the next run. The first value is a
// copy of the tensor that is bound to the input. Its type must be that of the output, and its
// elements must have whole bytes.
func (b *Bound) SetState(k, i int) error {
	t, ok := b.in[i].(*tensor.Tensor)
	if c := b.cell(i); c != nil {
		t = c.value()
	}
	if !ok || t.DType().Bits()%8 != 0 || t.DType() == tensor.TypeString {
		return fail.Errorf("a state must be a tensor of numbers of whole bytes, got %v", b.in[i])
	}
	b.SetInput(i, nil) // ends another state of the input
	b.SetOutput(k, nil)
	c := &cell{in: i, out: k}
	c.load(t)
	b.cells = append(b.cells, c)
	b.in[i], b.out[k] = &c.headers[0], boundOutput{wanted: true, cell: c}
	b.stale, b.unassigned, b.grows = true, true, false
	return nil
}

// Grows reports whether the shape of a state has changed in a run.
func (b *Bound) Grows() bool { return b.grows }

// State returns a copy of the state that is graph input i, or nil if the input has none.
func (b *Bound) State(i int) *tensor.Tensor {
	if c := b.cell(i); c != nil {
		return c.value()
	}
	return nil
}

// TruncateState keeps the first n elements along an axis of the state that is graph input i.
func (b *Bound) TruncateState(i, axis, n int) error {
	c := b.cell(i)
	b.stale = b.stale || !c.appends
	return c.truncate(axis, n)
}

// cell returns the cell of graph input i, or nil.
func (b *Bound) cell(i int) *cell {
	for _, c := range b.cells {
		if c.in == i {
			return c
		}
	}
	return nil
}

// endState removes a cell. The output stays wanted.
func (b *Bound) endState(c *cell) {
	b.cells = slices.DeleteFunc(b.cells, func(x *cell) bool { return x == c })
	b.out[c.out] = boundOutput{wanted: true}
	b.stale, b.unassigned = true, true
}

// assign determines which cells operators of the plan extend in place.
func (b *Bound) assign() {
	p := b.plan
	b.cellOf = make([]*cell, len(p.graph.Values))
	for _, c := range b.cells {
		axis, ok := p.extends(p.inputs[c.in], p.outputs[c.out], c.shape)
		if c.setMode(ok, axis); ok {
			b.cellOf[p.outputs[c.out]] = c
		}
	}
	b.unassigned = false
}

// extends reports whether a step computes an output by extending an input along an axis, and
// whether all other steps that read one of them find its elements in memory with gaps, or need
// none. shape is that of the input.
func (p *Plan) extends(in, out ir.ValueID, shape []int) (axis int, ok bool) {
	if p.opts.Generic || slices.Contains(p.outputs, in) || slices.Index(p.outputs, out) < 0 {
		return 0, false
	}
	by, from := -1, -1
	for i := range p.steps {
		for k, id := range p.steps[i].out {
			if id != out {
				continue
			}
			a, isAppender := p.steps[i].op.(ir.Appender)
			if !isAppender {
				return 0, false
			}
			if from, axis, ok = a.Extends(k); !ok {
				return 0, false
			}
			by = i
		}
	}
	if axis < 0 {
		axis += len(shape)
	}
	if by < 0 || axis < 0 || axis >= len(shape) || from >= len(p.steps[by].in) || p.steps[by].in[from] != in {
		return 0, false
	}
	outer := 1
	for _, d := range shape[:axis] {
		outer *= d
	}
	for i := range p.steps {
		st := &p.steps[i]
		_, shapes := st.op.(ir.ShapeReader)
		reader, _ := st.op.(ir.CacheReader)
		for k, id := range st.in {
			switch {
			case shapes:
			case id == in && (i != by || k != from):
				return 0, false
			case id == out && outer > 1 && (reader == nil || !reader.ReadsCache(k, axis)):
				return 0, false
			}
		}
		for _, sub := range st.node.Graphs {
			for _, c := range sub.Captures {
				if c.Outer == in || c.Outer == out && outer > 1 {
					return 0, false
				}
			}
		}
	}
	count := 0
	for _, id := range p.outputs {
		if id == out {
			count++
		}
	}
	return axis, count == 1
}

// reserve charges memory of cells to the run that allocates it.
func (s *state) reserve(n int) error { return s.run.account.reserve(&s.results, int64(n)) }

// prepareCells binds the memory of the cells for a run.
func (b *Bound) prepareCells(s *state) error {
	if b.unassigned {
		b.assign()
	}
	for _, c := range b.cells {
		c.extended = false
		b.in[c.in] = c.current(s.run.observe != nil)
		if c.appends {
			b.out[c.out].t = nil
			continue
		}
		t, moved, err := c.target(c.shape, len(c.headers[0].Bytes()), s.reserve)
		if err != nil {
			return fail.Errorf("state of input %q: %w", b.plan.graph.Values[b.plan.inputs[c.in]].Name, err)
		}
		b.out[c.out].t, b.stale = t, b.stale || moved
	}
	return nil
}

// commitCells makes the results of a run the values of the cells. If it fails, none changes.
func (b *Bound) commitCells(s *state) error {
	if len(b.cells) == 0 {
		return nil
	}
	result := func(c *cell) *tensor.Tensor {
		t, _ := s.values[b.plan.outputs[c.out]].(*tensor.Tensor)
		return t
	}
	for _, c := range b.cells {
		t := result(c)
		var err error
		if t == nil || t.DType() != c.dtype {
			err = fail.Errorf("output is %v, want a tensor of %s", t, c.dtype)
		} else {
			var moved bool
			moved, err = c.stage(t, s.reserve)
			b.stale = b.stale || moved
		}
		if err != nil {
			return fail.Errorf("state of input %q: %w", b.plan.graph.Values[b.plan.inputs[c.in]].Name, err)
		}
	}
	swapped := 0
	for _, c := range b.cells {
		b.grows = c.commit(result(c)) || b.grows
		if !c.appends {
			swapped = 1
		}
	}
	b.phase ^= swapped
	return nil
}

// retarget returns memory of another size for the next value of a cell, or nil.
func (b *Bound) retarget(s *state, k int32, shape []int, n int) *tensor.Tensor {
	c := b.out[k].cell
	if c == nil || c.appends {
		return nil
	}
	t, moved, err := c.target(shape, n, s.reserve)
	if err != nil {
		return nil // Alloc fails too
	}
	b.stale = b.stale || moved
	return t
}

// Extend implements ir.Env.
func (s *state) Extend(c *ir.Call, out, length int) (*ir.Cache, error) {
	if s.bound == nil || s.bound.cellOf == nil || s.run.observe != nil {
		return nil, nil
	}
	id := s.plan.steps[c.Index].out[out]
	h := s.bound.cellOf[id]
	if h == nil {
		return nil, nil
	}
	if length < h.shape[h.axis] {
		return nil, fail.Errorf("output %d extends a state of %d elements, got %d", out, h.shape[h.axis], length)
	}
	if err := h.grow(length, s.reserve); err != nil {
		return nil, fail.Errorf("state of %d elements: %w", length, err)
	}
	h.next = append(h.next[:0], h.shape...)
	h.next[h.axis], h.extended = length, true
	n, err := tensor.ByteLen(h.dtype, h.next)
	if err != nil {
		return nil, err
	}
	t := &s.headers[id]
	t.Reset(h.dtype, h.mem[0][:n:n], h.next)
	s.alloc[id], s.owned[id] = t, false
	c.Set(out, t)
	return &h.cache, nil
}

// Cache implements ir.Env.
func (s *state) Cache(c *ir.Call, i int) *ir.Cache {
	if st := &s.plan.steps[c.Index]; s.bound != nil && s.bound.cellOf != nil && i < len(st.in) && st.in[i] != ir.None {
		if h := s.bound.cellOf[st.in[i]]; h != nil && h.extended {
			return &h.cache
		}
	}
	return nil
}

// beginGrowing selects the layout for a run with a state that grows. Each run has other shapes, so
// that one layout with spare room serves all of them.
func (s *state) beginGrowing() {
	l := s.bound.layout
	if l == nil || s.run.account.reserve(&s.memory, int64(l.total)) != nil {
		return
	}
	if len(s.arena) < l.total {
		s.arena = s.plan.opts.Arenas.take(l.total)
	}
	s.layout = l
}

// endGrowing makes a larger layout if values of this run did not fit.
func (s *state) endGrowing() {
	l := s.bound.layout
	fits := func(g, n int) bool { return l != nil && n <= l.size[g] }
	for g, n := range s.sizes {
		if fits(g, n) {
			continue
		}
		sizes := slices.Clone(s.sizes)
		for g, n := range sizes {
			if fits(g, n) {
				sizes[g] = l.size[g]
			} else {
				sizes[g] = n + n/2
			}
		}
		s.bound.layout = newLayout(s.plan.groups, sizes, s.run.err)
		return
	}
}
