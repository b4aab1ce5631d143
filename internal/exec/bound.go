package exec

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Bound is a plan whose inputs and outputs have fixed memory across runs. Operators read the inputs
// and write the results in place: a run copies nothing and, once it has seen its shapes, allocates
// nothing. It supports one run at a time.
type Bound struct {
	plan *Plan
	in   []tensor.Value
	out  []boundOutput

	gen      uint64 // changes with the binding; unique in the process
	stale    bool   // the binding has changed since the last run
	overlaps bool   // an output overlaps an input or another output
	skip     []bool // steps that no wanted output needs; nil if all outputs are wanted

	// The states of the last two runs, if they can replay: memory of cells changes places after
	// each run.
	states [2]*state
	phase  int

	cells  []*cell
	cellOf []*cell // per value of the plan: the cell that its operator extends; nil without cells
	grows  bool    // the shape of a cell has changed in a run
	layout *layout // if grows is set: the layout for all shapes

	unassigned bool // cells or the plan have changed
}

type boundOutput struct {
	wanted bool
	fixed  bool           // the memory belongs to the caller and has a fixed shape
	t      *tensor.Tensor // destination of the result; nil until it is known
	direct bool           // an operator may write directly to t
	result tensor.Value   // result of the last run
	cell   *cell          // the output is a state
}

var generations atomic.Uint64

// ErrBoundShape is the error for a result whose type or shape differs from the memory bound for it.
var ErrBoundShape = errors.New("bound memory has another type or shape")

// NewBound returns a Bound without bound inputs and outputs.
func (p *Plan) NewBound() *Bound {
	return &Bound{plan: p, in: make([]tensor.Value, len(p.inputs)), out: make([]boundOutput, len(p.outputs)),
		stale: true}
}

// Inputs returns the bound inputs in the order of the graph, nil for defaults. The caller
// must not change them.
func (b *Bound) Inputs() []tensor.Value { return b.in }

// Use changes the plan to one with the same inputs and outputs, such as one for known input shapes.
func (b *Bound) Use(p *Plan) {
	if p != b.plan {
		b.plan, b.states, b.layout, b.stale, b.unassigned = p, [2]*state{}, nil, true, true
	}
}

// SetInput binds graph input i; nil selects its default. The value of a state is copied; nil ends
// the state.
func (b *Bound) SetInput(i int, v tensor.Value) {
	if c := b.cell(i); c != nil {
		if t, ok := v.(*tensor.Tensor); ok {
			c.load(t)
			b.stale = true
			return
		}
		b.endState(c)
	}
	b.in[i], b.stale = v, true
}

// SetOutput requests graph output k: written to t or, if t is nil, to memory that the first run
// allocates and later runs reuse while the shape is the same.
func (b *Bound) SetOutput(k int, t *tensor.Tensor) {
	b.ClearOutput(k)
	b.out[k], b.stale = boundOutput{wanted: true, fixed: t != nil, t: t}, true
}

// ClearOutput marks graph output k as not wanted. The input of a state is bound to its value.
func (b *Bound) ClearOutput(k int) {
	for _, c := range b.cells {
		if c.out == k {
			b.in[c.in] = c.value()
			b.endState(c)
			break
		}
	}
	b.out[k], b.stale = boundOutput{}, true
}

// Result returns the result of the last run for graph output k. The next run overwrites it.
func (b *Bound) Result(k int) tensor.Value { return b.out[k].result }

func (b *Bound) generation() uint64 {
	if b == nil {
		return 0
	}
	return b.gen + uint64(b.phase)
}

// Run runs the plan. The request's inputs and outputs are ignored. After an error
// the contents of the outputs are undefined.
func (b *Bound) Run(ctx context.Context, req *Request) error {
	if b.plan.opts.Mapped != nil {
		return b.plan.guarded(func() error { return b.run(ctx, req) })
	}
	return b.run(ctx, req)
}

func (b *Bound) run(ctx context.Context, req *Request) error {
	p := b.plan
	if p.opts.Pool != nil {
		p.opts.Pool.enter(req.Serial)
		defer p.opts.Pool.leave(req.Serial)
	}
	s := b.states[b.phase]
	if b.states[b.phase] = nil; s == nil {
		s = p.state(Team{})
		if t := b.states[1-b.phase]; t != nil && s.arena == nil {
			s.arena = t.arena // runs of a binding are serial
		}
	}
	s.start(ctx, req)
	s.bound = b
	defer b.finish(s, b.phase)
	if err := b.prepareCells(s); err != nil {
		return err
	}
	if b.stale {
		b.settle()
	}
	if err := s.set(b.in); err != nil {
		return err
	}
	if err := s.exec(); err != nil {
		return err
	}
	return b.deliver(s)
}

// finish ends a run. A state with planned memory is kept with the binding, since its steps refer to
// the bound memory.
func (b *Bound) finish(s *state, phase int) {
	if s.layout != nil {
		s.reset()
		b.states[phase] = s
		return
	}
	s.finish()
}

// settle examines the binding after a change. Outputs that overlap other bound memory are written
// after all operators have run.
func (b *Bound) settle() {
	b.gen, b.stale, b.overlaps = generations.Add(2)-1, false, false
	b.skip = nil
	if slices.ContainsFunc(b.out, func(o boundOutput) bool { return !o.wanted }) {
		b.skip = b.plan.unneeded(func(k int) bool { return b.out[k].wanted })
	}
	for k := range b.out {
		o := &b.out[k]
		o.direct = o.t != nil
		if !o.direct {
			continue
		}
		for _, v := range b.in {
			o.direct = o.direct && !shares(v, o.t)
		}
		for j := range b.out {
			o.direct = o.direct && (j == k || b.out[j].t == nil || !overlap(b.out[j].t, o.t))
		}
		b.overlaps = b.overlaps || !o.direct
	}
}

// unneeded returns the steps that only unwanted outputs need.
func (p *Plan) unneeded(wanted func(k int) bool) []bool {
	needed := make([]bool, len(p.graph.Values))
	for k, id := range p.outputs {
		needed[id] = needed[id] || wanted(k)
	}
	skip := make([]bool, len(p.steps))
	for i := len(p.steps) - 1; i >= 0; i-- {
		st := &p.steps[i]
		skip[i] = !slices.ContainsFunc(st.out, func(id ir.ValueID) bool { return id != ir.None && needed[id] })
		if skip[i] {
			continue
		}
		for _, id := range st.in {
			if id != ir.None {
				needed[id] = true
			}
		}
		for _, sub := range st.subs {
			for _, c := range sub.caps {
				needed[c.Outer] = true
			}
		}
	}
	return skip
}

// shares reports whether a tensor of the value overlaps t.
func shares(v tensor.Value, t *tensor.Tensor) bool {
	switch v := v.(type) {
	case *tensor.Tensor:
		return v != nil && overlap(v, t)
	case *tensor.Sequence:
		return slices.ContainsFunc(v.Items, func(it tensor.Value) bool { return shares(it, t) })
	case *tensor.Optional:
		return shares(v.Value, t)
	case *tensor.Map:
		return shares(v.Keys, t) || shares(v.Values, t)
	case *tensor.Sparse:
		return shares(v.Values, t) || shares(v.Indices, t)
	}
	return false
}

// deliver copies results that are not in the memory of their outputs to it.
func (b *Bound) deliver(s *state) error {
	p := b.plan
	values := s.values
	if b.overlaps {
		// Writing one output may overwrite the source of another.
		values = slices.Clone(values)
		for k, id := range p.outputs {
			if t, ok := values[id].(*tensor.Tensor); ok && b.out[k].wanted && !s.placed(id, t) {
				v, err := s.copyOf(t)
				if err != nil {
					return err
				}
				values[id] = v
			}
		}
	}
	for k, id := range p.outputs {
		o := &b.out[k]
		if !o.wanted || o.cell != nil {
			continue
		}
		v := values[id]
		t, ok := v.(*tensor.Tensor)
		switch {
		case o.t != nil && ok && t.DType() == o.t.DType() && slices.Equal(t.Shape(), o.t.Shape()):
			if !sameMemory(t, o.t) {
				copy(o.t.Bytes(), t.Bytes())
			}
			o.result = o.t
		case o.fixed:
			got := v.Type().String()
			if ok {
				got = t.String()
			}
			return fail.Errorf("output %q is %s: %w, %s", p.graph.Values[id].Name, got, ErrBoundShape, o.t)
		default:
			var err error
			if o.result, err = s.own(k, id); err != nil {
				return err
			}
			was := o.t
			o.t = nil
			if ok && t.DType() != tensor.TypeString {
				o.t = o.result.(*tensor.Tensor)
			}
			b.stale = b.stale || was != o.t
		}
	}
	return b.commitCells(s)
}

// planTargets finds the values that can be written to the memory of an output: the outputs
// themselves and the values that they are views of.
func (p *Plan) planTargets(root []ir.ValueID, first []int) {
	p.target = make([]int32, len(root))
	for i := range p.target {
		p.target[i] = -1
	}
	for k, id := range p.outputs {
		if p.target[id] < 0 {
			p.target[id] = int32(k)
		}
	}
	for k, id := range p.outputs {
		if r := root[id]; p.target[r] < 0 && first[r] >= 0 {
			p.target[r] = int32(k)
		}
	}
}

// boundFor returns the memory bound for a value, or nil.
func (s *state) boundFor(id ir.ValueID) *tensor.Tensor {
	if s.bound == nil || s.plan.target[id] < 0 {
		return nil
	}
	if o := &s.bound.out[s.plan.target[id]]; o.direct {
		return o.t
	}
	return nil
}

// place returns a tensor for a value in the memory bound for it, or nil if it does not match.
func (s *state) place(id ir.ValueID, dtype tensor.DType, n int, shape []int) *tensor.Tensor {
	b := s.boundFor(id)
	if b != nil && len(b.Bytes()) != n {
		b = s.bound.retarget(s, s.plan.target[id], shape, n)
	}
	if b == nil || dtype == tensor.TypeString {
		return nil
	}
	s.run.account.release(&s.charged[id])
	t := &s.headers[id]
	t.Reset(dtype, b.Bytes(), shape)
	s.alloc[id], s.owned[id] = t, false
	return t
}

// placed reports whether a value is in the memory bound for it.
func (s *state) placed(id ir.ValueID, t *tensor.Tensor) bool {
	b := s.boundFor(id)
	return b != nil && sameMemory(t, b)
}

func sameMemory(a, b *tensor.Tensor) bool {
	return len(a.Bytes()) == len(b.Bytes()) && unsafe.SliceData(a.Bytes()) == unsafe.SliceData(b.Bytes())
}
