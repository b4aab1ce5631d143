package exec

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// Observer is called for every node that has run, with its inputs, results and duration. The values
// are valid only during the call.
type Observer func(g *ir.Graph, n *ir.Node, in, out []tensor.Value, start time.Time, d time.Duration)

// Request is one run of a plan.
type Request struct {
	Inputs      []tensor.Value // one per graph input; nil selects its default
	Outputs     []tensor.Value // nil, or per graph output a tensor to fill if type and size match
	MemoryLimit int64          // limit of intermediate results in bytes; 0: no limit
	Budget      Budget         // shared with other runs; nil: none
	Observe     Observer       // may be nil
	Seed        uint64         // seed for random operators that have none
	Serial      bool           // parallel sections run in the caller's goroutine
	Team        Team           // in a part of Pool.Divide; zero: all threads
}

// run is the part that all states of one request share.
type run struct {
	ctx     context.Context
	done    <-chan struct{}
	account account
	observe Observer
	seed    uint64
	serial  bool
	team    Team
	turn    time.Time // in serial runs: when other goroutines were last let run
	seeds   atomic.Uint64
	sizes   sizes
}

func (r *run) err() error {
	if r.done == nil || r.ctx.Err() == nil {
		return nil
	}
	return context.Cause(r.ctx)
}

// state holds the values of a running plan. It implements ir.Env.
type state struct {
	plan    *Plan
	run     *run
	team    Team // of the last run
	values  []tensor.Value
	charged []hold           // per value: its own memory
	alloc   []*tensor.Tensor // per value: result of Alloc in this run
	owned   []bool           // per value: it owns its memory
	headers []tensor.Tensor
	block   []block // per value: its own memory in blocks
	calls   []ir.Call
	current int            // the step that runs its operator
	given   []tensor.Value // per graph output: the tensor to fill, or nil
	bound   *Bound         // memory of inputs and outputs, or nil

	request run // reused between requests
	layout  *layout
	arena   []byte
	blocks  blocks
	capture capture
	sizes   []int // bytes per group in this run
	sig     []byte

	memory   hold       // arena and scratch
	results  hold       // copies for the caller
	strings  hold       // what calls have reserved whose results are strings
	held     []hold     // per step: reserved by its call
	repeated []repeated // subgraphs of the calls that run

	scratch []byte
	used    int   // bytes of scratch in use
	want    int   // largest number of scratch bytes of a call
	grown   int64 // bytes of the scratch block that are reserved

	lent lent
}

// lent is the memory of a state that it has given to Arenas after its last run.
type lent struct{ arena, scratch []byte }

// statePool holds idle states: as many as ran concurrently, up to maxIdle.
type statePool struct {
	mu   sync.Mutex
	idle []*state
}

// maxIdle returns the number of concurrent runs whose states and captures are kept.
func maxIdle() int { return max(16, runtime.GOMAXPROCS(0)) }

// state returns a state for a run of a team: one whose memory that team has written, if it is idle,
// since its cache or memory node may hold it.
func (p *Plan) state(team Team) *state {
	p.states.mu.Lock()
	if n := len(p.states.idle); n > 0 {
		at := n - 1
		for i := at; i >= 0; i-- {
			if p.states.idle[i].team == team {
				at = i
				break
			}
		}
		s := p.states.idle[at]
		p.states.idle = slices.Delete(p.states.idle, at, at+1)
		p.states.mu.Unlock()
		s.team = team
		return s
	}
	p.states.mu.Unlock()
	n := len(p.graph.Values)
	s := &state{plan: p, team: team, values: make([]tensor.Value, n),
		charged: make([]hold, n), alloc: make([]*tensor.Tensor, n),
		owned: make([]bool, n), headers: make([]tensor.Tensor, n), block: make([]block, n),
		calls: make([]ir.Call, len(p.steps)),
		held:  make([]hold, len(p.steps)), sizes: make([]int, len(p.groups))}
	for i := range p.consts {
		s.values[p.consts[i].id] = p.consts[i].v
	}
	for i := range p.steps {
		st := &p.steps[i]
		s.calls[i] = ir.Call{In: make([]tensor.Value, len(st.in)), Out: make([]tensor.Value, len(st.out)),
			Generic: p.opts.Generic, BFloat16: p.opts.BFloat16, Split: p.opts.Split, Grows: st.grows, Node: st.node,
			Index: i, Env: s}
	}
	return s
}

// finish clears all values and returns a state to the pool.
func (s *state) finish() {
	s.reset()
	s.giveMemory()
	p := s.plan
	p.states.mu.Lock()
	if len(p.states.idle) < maxIdle() {
		p.states.idle = append(p.states.idle, s)
	}
	p.states.mu.Unlock()
}

// reset ends a run and keeps what a replay needs.
func (s *state) reset() {
	if s.capture.captured && !s.capture.disabled {
		s.forget(s.capture.unfixed, s.capture.eager)
	} else {
		s.forget(s.plan.dynamic, s.plan.allSteps)
	}
	if len(s.blocks.chunks) > 0 {
		s.blocks.reset(s.plan.opts.Arenas)
		clear(s.block)
	}
	a := &s.run.account
	a.recycle(&s.memory)
	a.release(&s.results)
	a.release(&s.strings)
	if s.run == &s.request {
		// The next run starts at 0 anyway; tests want to know.
		n := a.used.Swap(0)
		if n > 0 && a.budget != nil {
			a.budget.Release(n)
		}
		a.budget = nil
		if n != 0 && crashOnPanic {
			panic(fmt.Sprintf("exec: a run has ended with %d bytes reserved", n))
		}
	}
	s.run, s.given, s.bound = nil, nil, nil
}

// start begins a run.
func (s *state) start(ctx context.Context, req *Request) {
	r := &s.request
	r.ctx, r.done, r.account.limit, r.account.budget = ctx, ctx.Done(), req.MemoryLimit, req.Budget
	r.observe, r.seed, r.serial, r.team = req.Observe, req.Seed, req.Serial, req.Team
	if r.serial {
		r.turn = clock()
	}
	r.seeds.Store(0)
	r.sizes.clear()
	s.run = r
}

// set stores the inputs of the graph.
func (s *state) set(in []tensor.Value) error {
	p := s.plan
	if len(in) != len(p.inputs) {
		return fail.Errorf("got %d inputs, want %d", len(in), len(p.inputs))
	}
	for i, id := range p.inputs {
		v := in[i]
		if v == nil {
			v = p.graph.Defaults[id]
		}
		if v == nil {
			return fail.Errorf("input %q is missing", p.graph.Values[id].Name)
		}
		s.values[id] = v
	}
	return nil
}

// forget clears values, and the reservations of the calls of steps.
func (s *state) forget(values []ir.ValueID, steps []int32) {
	for _, id := range values {
		s.uncharge(id)
		s.values[id], s.alloc[id], s.owned[id] = nil, nil, false
	}
	for _, i := range steps {
		s.drop(&s.calls[i])
	}
}

// Run runs the plan and returns one value per graph output. The values belong to the caller: they
// share no memory with inputs, constants or later runs.
func (p *Plan) Run(ctx context.Context, req *Request) ([]tensor.Value, error) {
	out := make([]tensor.Value, len(p.outputs))
	return out, p.RunInto(ctx, req, out)
}

// RunInto is Run that stores the results in out.
func (p *Plan) RunInto(ctx context.Context, req *Request, out []tensor.Value) error {
	if p.opts.Mapped != nil {
		return p.guarded(func() error { return p.runInto(ctx, req, out) })
	}
	return p.runInto(ctx, req, out)
}

func (p *Plan) runInto(ctx context.Context, req *Request, out []tensor.Value) error {
	if p.opts.Pool != nil && req.Team.Size == 0 {
		p.opts.Pool.enter(req.Serial)
		defer p.opts.Pool.leave(req.Serial)
	}
	s := p.state(req.Team)
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
		v, err := s.own(i, id)
		if err != nil {
			return err
		}
		out[i] = v
	}
	return nil
}

// own returns output i as a value that shares no memory with other values.
func (s *state) own(i int, id ir.ValueID) (tensor.Value, error) {
	v := s.values[id]
	var given *tensor.Tensor
	if i < len(s.given) {
		given, _ = s.given[i].(*tensor.Tensor)
	}
	switch v := v.(type) {
	case *tensor.Tensor:
		if v == given {
			return v, nil
		}
		if given != nil && given.DType() == v.DType() && v.DType() != tensor.TypeString &&
			len(given.Bytes()) == len(v.Bytes()) {
			copy(given.Bytes(), v.Bytes())
			given.Reset(v.DType(), given.Bytes(), v.Shape())
			return given, nil
		}
		if s.owned[id] && int(s.plan.target[id]) == i { // the value's first output
			return v, nil
		}
	case *tensor.Map:
		if s.plan.opts.Mapped == nil {
			return v, nil
		}
	case *tensor.Sequence:
		if v.Elem.Kind == tensor.KindMap && s.plan.opts.Mapped == nil {
			return v, nil
		}
	}
	return s.copyOf(v)
}

// copyOf returns a copy for the caller.
func (s *state) copyOf(v tensor.Value) (tensor.Value, error) {
	if err := s.run.account.reserve(&s.results, s.run.sizes.of(v)); err != nil {
		return nil, fail.Errorf("copy of an output: %w", err)
	}
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString {
		return tensor.Clone(v), nil
	}
	b := memory.Uninitialized(len(t.Bytes()))
	const piece = 1 << 20
	for at := 0; at < len(b); at += piece {
		if err := s.run.err(); err != nil {
			return nil, err
		}
		copy(b[at:min(len(b), at+piece)], t.Bytes()[at:])
	}
	c := new(tensor.Tensor)
	c.Reset(t.DType(), b, t.Shape())
	return c, nil
}

func (s *state) exec() (err error) {
	at := 0
	p := s.plan
	defer func() {
		if err != nil && (s.capture.replaying || s.capture.capturing) {
			s.invalidate() // kernels may have recorded the cancellation
		}
	}()
	if !p.opts.Generic {
		s.begin()
	}
	defer func() {
		if e := recover(); e == errStopped {
			err = s.run.err()
		} else if e != nil {
			err = p.nodeError(at, s.calls[at].In, p.panicked(e))
		}
	}()
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
