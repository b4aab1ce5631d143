package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ErrMemoryLimit is the cause when a run would pass its memory limit.
var ErrMemoryLimit = errors.New("memory limit exceeded")

// Observer sees every node that has run: with its inputs, its results and how
// long it took. The values are valid only during the call.
type Observer func(g *ir.Graph, n *ir.Node, in, out []tensor.Value, start time.Time, d time.Duration)

// Request is one run of a plan.
type Request struct {
	Inputs      []tensor.Value // one per graph input; nil takes the input's default
	Outputs     []tensor.Value // nil, or per graph output a tensor to fill where type and size fit
	MemoryLimit int64          // bytes that intermediate results may take; 0: no limit
	Observe     Observer       // may be nil
	Seed        uint64         // seed for random operators without one
}

// run is what all states of one request share.
type run struct {
	ctx     context.Context
	done    <-chan struct{}
	limit   int64
	used    atomic.Int64
	observe Observer
	seed    uint64
	seeds   atomic.Uint64
}

func (r *run) reserve(n int64) error {
	u := r.used.Add(n)
	if r.limit > 0 && (u > r.limit || u < 0) {
		r.used.Add(-n)
		return fmt.Errorf("%w: %d bytes more than the %d in use pass the limit of %d", ErrMemoryLimit, n, u-n, r.limit)
	}
	return nil
}

func (r *run) release(n int64) { r.used.Add(-n) }

func (r *run) err() error {
	if r.done == nil {
		return nil
	}
	select {
	case <-r.done:
		return context.Cause(r.ctx)
	default:
		return nil
	}
}

// state holds the values of one running plan. It implements ir.Env.
type state struct {
	plan    *Plan
	run     *run
	values  []tensor.Value
	charged []int64          // bytes charged to the limit, per value
	alloc   []*tensor.Tensor // what Alloc returned for a value in this run
	owned   []bool           // per value: its memory is nobody else's
	headers []tensor.Tensor
	calls   []ir.Call
	given   []tensor.Value // tensors to fill, per graph output
	bound   *Bound         // memory of inputs and outputs, nil in other runs

	request run // reused between requests
	layout  *layout
	arena   []byte
	capture capture
	sizes   []int // bytes that each group took in this run
	sig     []byte
	fixed   int64 // bytes charged for arena and scratch

	scratch []byte
	used    int // of scratch
	want    int // bytes of scratch that the largest call wanted
}

// statePool keeps idle states; at most as many as ran at once, and few.
type statePool struct {
	mu   sync.Mutex
	idle []*state
}

const maxIdle = 16

func (p *Plan) state() *state {
	p.states.mu.Lock()
	if n := len(p.states.idle); n > 0 {
		s := p.states.idle[n-1]
		p.states.idle = p.states.idle[:n-1]
		p.states.mu.Unlock()
		return s
	}
	p.states.mu.Unlock()
	n := len(p.graph.Values)
	s := &state{plan: p, values: make([]tensor.Value, n), charged: make([]int64, n), alloc: make([]*tensor.Tensor, n),
		owned: make([]bool, n), headers: make([]tensor.Tensor, n), calls: make([]ir.Call, len(p.steps)), sizes: make([]int, len(p.groups))}
	for i := range p.consts {
		s.values[p.consts[i].id] = p.consts[i].v
	}
	for i := range p.steps {
		st := &p.steps[i]
		s.calls[i] = ir.Call{In: make([]tensor.Value, len(st.in)), Out: make([]tensor.Value, len(st.out)),
			Generic: p.opts.Generic, Node: st.node, Index: i, Env: s}
	}
	return s
}

// finish returns a state to the pool, forgetting all values.
func (s *state) finish() {
	s.reset()
	p := s.plan
	p.states.mu.Lock()
	if len(p.states.idle) < maxIdle {
		p.states.idle = append(p.states.idle, s)
	}
	p.states.mu.Unlock()
}

// reset ends a run. What the next one replays stays.
func (s *state) reset() {
	if s.capture.replaying || s.capture.captured {
		s.forget(s.capture.unfixed, s.capture.eager)
	} else {
		s.forget(s.plan.dynamic, s.plan.allSteps)
	}
	s.run.release(s.fixed)
	s.fixed = 0
	s.run, s.given, s.bound = nil, nil, nil
}

// start begins a run.
func (s *state) start(ctx context.Context, req *Request) {
	r := &s.request
	r.ctx, r.done, r.limit, r.observe, r.seed = ctx, ctx.Done(), req.MemoryLimit, req.Observe, req.Seed
	r.used.Store(0)
	r.seeds.Store(0)
	s.run = r
}

// set gives the graph's inputs their values.
func (s *state) set(in []tensor.Value) error {
	p := s.plan
	if len(in) != len(p.inputs) {
		return fmt.Errorf("%d inputs, want %d", len(in), len(p.inputs))
	}
	for i, id := range p.inputs {
		v := in[i]
		if v == nil {
			v = p.graph.Defaults[id]
		}
		if v == nil {
			return fmt.Errorf("input %q is missing", p.graph.Values[id].Name)
		}
		s.values[id] = v
	}
	return nil
}

// forget drops values, and what the calls of steps hold.
func (s *state) forget(values []ir.ValueID, steps []int32) {
	for _, id := range values {
		if c := s.charged[id]; c != 0 {
			s.run.release(c)
			s.charged[id] = 0
		}
		s.values[id], s.alloc[id], s.owned[id] = nil, nil, false
	}
	for _, i := range steps {
		c := &s.calls[i]
		clear(c.In)
		clear(c.Out)
		s.drop(c)
	}
}

// Run runs the plan and returns one value per graph output. The values are the
// caller's: they share no memory with inputs, constants or later runs.
func (p *Plan) Run(ctx context.Context, req *Request) ([]tensor.Value, error) {
	out := make([]tensor.Value, len(p.outputs))
	return out, p.RunInto(ctx, req, out)
}

// RunInto is Run with the results stored in out.
func (p *Plan) RunInto(ctx context.Context, req *Request, out []tensor.Value) error {
	if p.opts.Mapped != nil {
		return p.guarded(func() error { return p.runInto(ctx, req, out) })
	}
	return p.runInto(ctx, req, out)
}

func (p *Plan) runInto(ctx context.Context, req *Request, out []tensor.Value) error {
	if p.opts.Pool != nil {
		p.opts.Pool.enter()
		defer p.opts.Pool.leave()
	}
	s := p.state()
	s.start(ctx, req)
	s.given = req.Outputs
	defer s.finish()
	if err := s.set(req.Inputs); err != nil {
		return err
	}
	if err := s.exec(); err != nil {
		return err
	}
	for i, id := range p.outputs {
		out[i] = s.own(i, id)
	}
	return nil
}

// own returns output i as a value that shares no memory with anything else.
func (s *state) own(i int, id ir.ValueID) tensor.Value {
	v := s.values[id]
	var given *tensor.Tensor
	if i < len(s.given) {
		given, _ = s.given[i].(*tensor.Tensor)
	}
	switch v := v.(type) {
	case *tensor.Tensor:
		if v == given {
			return v
		}
		if given != nil && given.DType() == v.DType() && v.DType() != tensor.TypeString && len(given.Bytes()) == len(v.Bytes()) {
			copy(given.Bytes(), v.Bytes())
			given.Reset(v.DType(), given.Bytes(), v.Shape())
			return given
		}
		for _, o := range s.plan.outputs[:i] {
			if o == id {
				return v.Clone()
			}
		}
		if s.owned[id] {
			return v
		}
		return v.Clone()
	case *tensor.Map:
		if s.plan.opts.Mapped == nil {
			return v
		}
	case *tensor.Sequence:
		if v.Elem.Kind == tensor.KindMap && s.plan.opts.Mapped == nil {
			return v
		}
	}
	return tensor.Clone(v)
}

func (s *state) exec() (err error) {
	at := 0
	p := s.plan
	defer func() {
		if err != nil && (s.capture.replaying || s.capture.capturing) {
			s.invalidate() // kernels may remember that they were stopped
		}
	}()
	if !p.opts.Generic {
		s.begin()
	}
	if !crashOnPanic || p.opts.Mapped != nil {
		defer func() {
			if e := recover(); e != nil {
				err = p.nodeError(at, s.calls[at].In, p.panicked(e))
			}
		}()
	}
	if s.capture.replaying {
		if err := s.replay(&at); err != nil {
			return err
		}
	} else {
		for i := range p.steps {
			at = i
			if err := s.run.err(); err != nil {
				return err
			}
			if err := s.step(i); err != nil {
				return err
			}
		}
		if s.capture.capturing {
			s.finishCapture()
		}
	}
	if err := s.run.err(); err != nil {
		return err
	}
	if !p.opts.Generic {
		s.end()
	}
	return nil
}
