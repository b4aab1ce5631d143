package exec

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// begin selects the memory layout for the shapes of this run.
func (s *state) begin() {
	p := s.plan
	was := s.layout
	s.layout = nil
	defer func() { s.prepareCapture(was) }()
	if len(p.groups) == 0 || len(p.groups) > maxPlanned {
		return
	}
	clear(s.sizes)
	if s.bound != nil && s.bound.grows {
		s.beginGrowing()
		return
	}
	s.sig = s.sig[:0]
	for _, id := range p.inputs {
		s.sig = signature(s.sig, s.values[id])
	}
	for _, c := range p.caps {
		s.sig = signature(s.sig, s.values[c.Inner])
	}
	for _, id := range p.staged {
		if t, ok := s.values[id].(*tensor.Tensor); ok && p.group[id] >= 0 {
			s.sizes[p.group[id]] = len(t.Bytes())
		}
	}
	l := p.layouts.get(s.sig)
	if l == nil {
		if sizes := p.staticSizes(); sizes != nil {
			l = newLayout(p.groups, sizes, s.run.err)
			p.layouts.put(s.sig, l)
		}
	}
	if l == nil || s.run.account.reserve(&s.memory, int64(l.total)) != nil {
		return // buffers are allocated separately and freed after their last use
	}
	if !s.takeBack(was == l) {
		was = nil
	}
	if len(s.arena) < l.total {
		s.arena = p.opts.Arenas.take(l.total)
		was = nil
	}
	s.layout = l
}

// end records the layout of a new signature.
func (s *state) end() {
	p := s.plan
	if s.bound != nil && s.bound.grows {
		s.endGrowing()
		return
	}
	if s.layout == nil && len(p.groups) > 0 && len(p.groups) <= maxPlanned && p.layouts.get(s.sig) == nil {
		p.layouts.put(s.sig, newLayout(p.groups, slices.Clone(s.sizes), s.run.err))
	}
}

// step runs one node.
func (s *state) step(i int) error {
	p := s.plan
	st := &p.steps[i]
	if s.bound != nil && s.bound.skip != nil && s.bound.skip[i] {
		s.free(st)
		return nil
	}
	c := &s.calls[i]
	s.current = i
	for k, id := range st.in {
		if id != ir.None {
			c.In[k] = s.values[id]
		}
	}
	clear(c.Out)
	var start time.Time
	if s.run.observe != nil {
		start = time.Now()
	}
	c.Bound = s.bound != nil
	c.Start(s.capture.capturing || checkReplay && !p.opts.Generic)
	err := st.op.Run(c)
	if err == nil {
		err = s.launch(c)
	}
	if err == nil && checkReplay {
		err = s.checkCapture(i)
	}
	if err != nil {
		if e := s.run.err(); e != nil {
			return e
		}
		return p.nodeError(i, c.In, err)
	}
	if s.run.observe != nil {
		s.run.observe(p.graph, st.node, c.In, c.Out, start, time.Since(start))
	}
	strings := false // of memory that the call has reserved
	for k, id := range st.out {
		if id == ir.None {
			continue
		}
		v := c.Out[k]
		if v == nil {
			return p.nodeError(i, c.In, fail.Errorf("output %d was not computed", k))
		}
		if err := p.checkKind(id, v); err != nil {
			return p.nodeError(i, c.In, err)
		}
		if t, ok := v.(*tensor.Tensor); !ok || t != s.alloc[id] {
			var err error
			if v, err = s.takeOwnership(st, k, id, v, c.In); err != nil {
				return p.nodeError(i, c.In, err)
			}
		} else {
			strings = strings || t.DType() == tensor.TypeString
		}
		s.values[id] = v
	}
	if strings { // other values may share them after this one
		s.strings.n, s.held[c.Index].n = s.strings.n+s.held[c.Index].n, 0
	}
	s.drop(c)
	if s.capture.capturing {
		s.captureStep(i)
	}
	s.free(st)
	return nil
}

// launch runs the kernels that a call has deferred to the engine.
func (s *state) launch(c *ir.Call) error {
	pending := c.Pending()
	if len(pending) == 0 {
		return nil
	}
	for i := range pending {
		l := &pending[i]
		s.Parallel(l.N, l.Grain, l.Kernel)
	}
	return s.run.err()
}

// free frees the values whose last use is this step, and releases memory that no later view reads.
func (s *state) free(st *step) {
	for _, id := range st.dead {
		if !s.capture.keeps(id) {
			s.values[id] = nil
		}
	}
	for _, id := range st.release {
		s.release(id)
	}
}

// release gives back the memory that Alloc has charged for a value.
func (s *state) release(id ir.ValueID) {
	if s.charged[id].n != 0 {
		s.uncharge(id)
		s.alloc[id], s.owned[id], s.headers[id] = nil, false, tensor.Tensor{}
		s.blocks.give(s.block[id])
		s.block[id] = block{}
	}
}

// uncharge releases what has been charged for a value.
func (s *state) uncharge(id ir.ValueID) {
	if s.block[id].n > 0 {
		s.run.account.recycle(&s.charged[id])
	} else {
		s.run.account.release(&s.charged[id])
	}
}

// takeOwnership takes ownership of a result that the operator did not allocate through the state: a
// view, an input that is returned unchanged, or a value other than a tensor.
func (s *state) takeOwnership(st *step, k int, id ir.ValueID, v tensor.Value, in []tensor.Value) (tensor.Value, error) {
	// Release what Alloc may have charged for the output.
	s.run.account.release(&s.charged[id])
	s.owned[id] = false
	t, ok := v.(*tensor.Tensor)
	if ok && len(st.subs) == 0 {
		view := -1
		if st.view && k == 0 {
			view = st.op.(ir.View).ViewOf()
		}
		for j, x := range in {
			xt, isTensor := x.(*tensor.Tensor)
			if !isTensor || !overlap(t, xt) {
				continue
			}
			if j != view {
				if err := s.run.account.reserve(&s.charged[id], tensor.SizeOf(t)); err != nil {
					return nil, err
				}
				s.owned[id] = true
				return t.Clone(), nil
			}
			// Move ownership of the memory to the view, so that a graph output that is a view of an
			// intermediate result need not be copied.
			if src := st.in[j]; s.owned[src] && !s.plan.isOutput[src] {
				s.owned[src], s.owned[id] = false, true
			}
			return v, nil
		}
	}
	h := &s.charged[id]
	if len(st.subs) > 0 && hasStrings(v.Type()) { // which others may share after this value
		h = &s.strings
	}
	if err := s.run.account.reserve(h, s.run.sizes.of(v)); err != nil {
		return nil, err
	}
	return v, nil
}

// hasStrings reports whether values of a type contain strings.
func hasStrings(t tensor.Type) bool {
	return t.Elem == tensor.TypeString || t.Of != nil && hasStrings(*t.Of)
}

func overlap(a, b *tensor.Tensor) bool { return overlapping(a.Bytes(), b.Bytes()) }

func overlapping(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return p < q+uintptr(len(y)) && q < p+uintptr(len(x))
}

// drop ends a call: its scratch and reservations are given back, and it refers to no values.
func (s *state) drop(c *ir.Call) {
	clear(c.In)
	clear(c.Out)
	s.endRepeated(c.Index)
	s.run.account.release(&s.held[c.Index])
	s.used, s.want = 0, 0
}

// Context implements ir.Env.
func (s *state) Context() context.Context { return s.run.ctx }

// Alloc implements ir.Env.
func (s *state) Alloc(c *ir.Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	t, err := s.allocate(c, i, dtype, shape)
	if checkReplay && err == nil {
		noise(t)
	}
	return t, err
}

func (s *state) allocate(c *ir.Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	if err := s.run.err(); err != nil {
		return nil, err
	}
	n, err := tensor.ByteLen(dtype, shape)
	if err != nil {
		return nil, err
	}
	st := &s.plan.steps[c.Index]
	if i >= len(st.out) || st.out[i] == ir.None {
		if err := s.Reserve(c, int64(n)); err != nil {
			return nil, err
		}
		return tensor.Zeros(dtype, shape...)
	}
	id := st.out[i]
	g := s.plan.group[id]
	if g >= 0 {
		s.sizes[g] = max(s.sizes[g], n)
	}
	if t := s.place(id, dtype, n, shape); t != nil {
		return t, nil
	}
	if g >= 0 {
		if l := s.layout; l != nil && l.offset[g] >= 0 && n <= l.size[g] {
			t := &s.headers[id]
			t.Reset(dtype, s.arena[l.offset[g]:l.offset[g]+n:l.offset[g]+n], shape)
			s.alloc[id] = t
			s.owned[id] = false
			return t, nil
		}
	}
	if s.plan.isOutput[id] && s.given != nil {
		if t := s.givenFor(id, dtype, n); t != nil {
			t.Reset(dtype, t.Bytes(), shape)
			s.alloc[id] = t
			return t, nil
		}
	}
	was := s.charged[id].n // charged by an earlier Alloc in this call
	if err := s.run.account.reserve(&s.charged[id], int64(n)); err != nil {
		return nil, fail.Errorf("output %d, %s%v: %w", i, dtype, shape, err)
	}
	s.run.account.reduce(&s.charged[id], was)
	var t *tensor.Tensor
	if g >= 0 && !s.plan.groups[g].edge && dtype != tensor.TypeString {
		b, at := s.blocks.take(s.plan.opts.Arenas, n)
		t = &s.headers[id]
		t.Reset(dtype, b, shape)
		s.block[id] = at
	} else if dtype == tensor.TypeString {
		if t, err = tensor.Zeros(dtype, shape...); err != nil {
			return nil, err
		}
	} else {
		t = new(tensor.Tensor)
		t.Reset(dtype, memory.Result(n), shape)
	}
	s.alloc[id], s.owned[id] = t, true
	return t, nil
}

// givenFor returns the caller's tensor for the first output of a value if type and size match.
func (s *state) givenFor(id ir.ValueID, dtype tensor.DType, n int) *tensor.Tensor {
	k := int(s.plan.target[id])
	if k >= len(s.given) {
		return nil
	}
	if t, ok := s.given[k].(*tensor.Tensor); ok && t != nil && t.DType() == dtype && dtype != tensor.TypeString &&
		len(t.Bytes()) == n {
		return t
	}
	return nil
}

// Scratch implements ir.Env.
func (s *state) Scratch(c *ir.Call, n int) ([]byte, error) {
	if n < 0 {
		return nil, fail.Errorf("scratch memory of %d bytes overflows", n)
	}
	if err := s.run.err(); err != nil {
		return nil, err
	}
	need := (n + align - 1) &^ (align - 1)
	s.want += need
	if s.used+need > len(s.scratch) {
		grow := int64(s.want)
		if s.bound != nil && s.bound.grows {
			grow += grow / 2 // each run needs a little more
		}
		if err := s.run.account.reserve(&s.memory, grow); err != nil {
			return nil, fail.Errorf("scratch memory of %d bytes: %w", n, err)
		}
		// Slices of the old block keep it alive.
		s.scratch = s.plan.opts.Arenas.take(int(grow))
		s.used, s.grown = 0, grow
	}
	b := s.scratch[s.used : s.used+n : s.used+need]
	s.used += need
	return b, nil
}

// Reserve implements ir.Env.
func (s *state) Reserve(c *ir.Call, n int64) error {
	if err := s.run.err(); err != nil {
		return err
	}
	return s.run.account.reserve(&s.held[c.Index], n)
}

// Sections, if it is set, runs the launches of parallel sections instead of the pool: those of a
// step of the plan with its operator. joined says that the launch is in the section of the one
// before it. bench/scale records them.
var Sections func(step int, op ir.Operator, l ir.Launch, joined bool)

// Parallel implements ir.Env. It does not return if the run must stop.
func (s *state) Parallel(n, grain int, fn func(lo, hi int)) {
	if n <= 0 {
		return
	}
	if Sections != nil && n > grain {
		Sections(s.current, s.plan.steps[s.current].op, ir.Launch{N: n, Grain: grain, Kernel: fn}, false)
		return
	}
	if s.plan.opts.Pool == nil || s.run.serial || s.run.team.Size == 1 || n <= grain {
		s.Serial(n, grain, fn)
		return
	}
	s.section(ir.Launch{N: n, Grain: grain, Kernel: fn}, nil, nil)
}

// section runs a launch, maybe the first one of a program, in the pool, and returns how many
// instructions it has run. It does not return if the run must stop.
func (s *state) section(l ir.Launch, program []instruction, at *int) int {
	r := s.run
	if r.done == nil {
		r = nil
	}
	n, ok, failure := s.plan.opts.Pool.run(r, s.run.team, l, program, s.plan.opts.Mapped != nil)
	if len(program) > 0 {
		*at = int(program[n-1].step)
	}
	if failure != nil {
		panic(*failure)
	}
	if !ok {
		panic(errStopped)
	}
	return n
}

// Threads implements ir.Env.
func (s *state) Threads() int {
	if s.run.serial {
		return 1
	}
	return s.run.team.of(s.plan.opts.Pool.Threads())
}

// Serial implements ir.Env. It does not return if the run must stop.
func (s *state) Serial(n, grain int, fn func(lo, hi int)) {
	if s.run.serial && n > grain {
		s.run.yield()
	}
	switch {
	case n <= 0:
	case s.run.done == nil:
		fn(0, n)
	case !s.run.pieces(0, n, grain, fn):
		panic(errStopped)
	}
}

// Release implements ir.Env.
func (s *state) Release(c *ir.Call, v tensor.Value) {
	if v != nil {
		s.run.account.reduce(&s.held[c.Index], s.run.sizes.of(v))
	}
}

// Seed implements ir.Env.
func (s *state) Seed() uint64 {
	// SplitMix64 (Steele, Lea, Flood 2014) converts a counter to seeds.
	z := s.run.seed + s.run.seeds.Add(1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
