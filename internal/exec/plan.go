// Package exec runs typed graphs. A Plan is an immutable program for a graph; a state holds the
// values of one running request. The memory of intermediate results is planned once per signature
// of input shapes and reused between runs.
package exec

import (
	"context"
	"reflect"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Options selects the engine.
type Options struct {
	// Generic selects the reference engine: generic kernels, no packing, and separate memory for
	// every intermediate result.
	Generic bool
	// Pool runs the parallel sections of operators; nil runs them serially.
	Pool *Pool
	// Unplanned allocates separate memory for every intermediate result.
	Unplanned bool
	// BFloat16 lets operators round the operands of products to bfloat16.
	BFloat16 bool
	// Split lets float32 GEMM multiply the bfloat16 parts of its operands.
	Split bool
	// Mapped is the mapped memory of constants, or nil.
	Mapped Mapped
	// Packs holds the prepared operators that the plan shares with others; nil: none.
	Packs *ir.Packs
	// Arenas holds the idle memory that the plan shares with others; nil: it has its own.
	Arenas *Arenas

	body bool // outputs need not outlive the state
}

// Plan is a compiled graph. It is safe for concurrent use.
type Plan struct {
	graph   *ir.Graph
	opts    Options
	steps   []step
	consts  []constant
	inputs  []ir.ValueID
	outputs []ir.ValueID
	caps    []ir.Capture

	group    []int32 // per value: index of the group that starts with it, else −1
	groups   []group
	isOutput []bool       // per value: it is returned to the caller
	staged   []ir.ValueID // inputs that are copied to planned memory for capture
	// keepsInput says, per graph input, if a result other than a tensor may contain it.
	keepsInput []bool
	dynamic    []ir.ValueID // values that are not constants
	// grown says, per graph input, that only a step with grows uses it.
	grown    []bool
	constant []bool  // per value: it is one of consts
	signed   []bool  // per value: its shape is in the signature of a run
	target   []int32 // per value: output whose memory it can be written to, else −1

	allSteps []int32 // 0, 1, 2, …

	layouts layoutCache
	states  statePool
}

type constant struct {
	id ir.ValueID
	v  tensor.Value
}

type step struct {
	node *ir.Node
	op   ir.Operator
	in   []ir.ValueID
	out  []ir.ValueID
	dead []ir.ValueID // last used by this step
	// release lists the values whose memory no later step uses, including through views.
	release []ir.ValueID
	subs    []*Plan
	view    bool // output 0 may alias an input
	grows   bool // see ir.Call.Grows
}

// group is a set of values that share memory, because they are views of one another.
type group struct {
	first, last int // steps of the first write and the last use
	// edge says that the group contains an input or output of the graph, which is planned only if
	// it is small. Outputs of the body of a loop are like intermediate results.
	edge bool
}

// edgeLimit is the size in bytes up to which inputs and outputs are copied to and
// from planned memory.
const edgeLimit = 16 << 10

// Compile returns a plan for a graph with inferred types. It fails if the context ends.
func Compile(ctx context.Context, g *ir.Graph, opts Options) (*Plan, error) {
	if opts.Arenas == nil {
		opts.Arenas = new(Arenas)
	}
	p := &Plan{graph: g, opts: opts, inputs: g.Inputs, outputs: g.Outputs, caps: g.Captures}
	p.isOutput = make([]bool, len(g.Values))
	for _, o := range g.Outputs {
		p.isOutput[o] = true
	}
	p.steps = make([]step, 0, len(g.Nodes))
	p.dynamic = make([]ir.ValueID, 0, len(g.Values))
	needed := make([]bool, len(g.Values))
	copy(needed, p.isOutput)
	var exact []bool
	if opts.BFloat16 {
		exact = unrounded(g)
	}
	for i, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := step{node: n, op: n.Op, in: n.In, out: n.Out}
		if pr, ok := n.Op.(ir.Preparer); ok && !opts.Generic {
			if err := prepare(g, &s, pr, opts); err != nil {
				return nil, err
			}
		}
		if r, ok := s.op.(ir.Rounder); ok && opts.BFloat16 && !exact[i] {
			if op := r.Rounded(); op != nil {
				if s.op == n.Op {
					n.Op = op // the graph must not keep the weights
				}
				s.op = op
			}
		}
		_, s.view = s.op.(ir.View)
		inner := opts
		if _, ok := n.Op.(ir.Recurrent); ok {
			inner.BFloat16 = false
		}
		_, inner.body = n.Op.(ir.Iterating)
		for _, sub := range n.Graphs {
			sp, err := Compile(ctx, sub, inner)
			if err != nil {
				return nil, err
			}
			if op, ok := n.Op.(ir.Carrying); ok {
				sp.planGrowth(op)
			}
			s.subs = append(s.subs, sp)
			for _, c := range sub.Captures {
				needed[c.Outer] = true
			}
		}
		for _, id := range s.in {
			if id != ir.None {
				needed[id] = true
			}
		}
		p.steps = append(p.steps, s)
	}
	given := make([]bool, len(g.Values)) // set by the caller
	for _, c := range g.Captures {
		given[c.Inner] = true
	}
	for _, id := range g.Inputs {
		given[id] = true
	}
	for id := range g.Values {
		if v := g.Values[id].Const; v != nil && !given[id] && needed[id] {
			p.consts = append(p.consts, constant{ir.ValueID(id), v})
		} else if v == nil || given[id] {
			p.dynamic = append(p.dynamic, ir.ValueID(id))
		}
	}
	p.constant, p.signed = make([]bool, len(g.Values)), given
	for _, c := range p.consts {
		p.constant[c.id] = true
	}
	p.allSteps = make([]int32, len(p.steps))
	for i := range p.allSteps {
		p.allSteps[i] = int32(i)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.planLifetimes()
	for id := range g.Values {
		if !needed[id] {
			g.Values[id].Const = nil // packed into an operator, or folded
		}
	}
	return p, nil
}

// Prune returns a plan for some of the outputs, in their order, without the nodes that they do
// not need. The plans share operators and constants.
func (p *Plan) Prune(wanted []bool) *Plan {
	q := &Plan{graph: p.graph, opts: p.opts, consts: p.consts, inputs: p.inputs, caps: p.caps, dynamic: p.dynamic,
		constant: p.constant, signed: p.signed}
	q.isOutput = make([]bool, len(p.isOutput))
	for i, id := range p.outputs {
		if wanted[i] {
			q.outputs = append(q.outputs, id)
			q.isOutput[id] = true
		}
	}
	live := append([]bool(nil), q.isOutput...)
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := p.steps[i]
		used := false
		for _, id := range s.out {
			used = used || id != ir.None && live[id]
		}
		if !used {
			continue
		}
		s.dead, s.release = nil, nil
		s.node.EachUse(func(id ir.ValueID) { live[id] = true })
		q.steps = append(q.steps, s)
	}
	slices.Reverse(q.steps)
	for i := range q.steps {
		q.allSteps = append(q.allSteps, int32(i))
	}
	q.planLifetimes()
	return q
}

// prepare lets an operator specialize for constant inputs.
func prepare(g *ir.Graph, s *step, pr ir.Preparer, opts Options) error {
	in := make([]tensor.Value, len(s.in))
	types := make([]ir.Type, len(s.in))
	any := false
	for i, id := range s.in {
		if id == ir.None {
			continue
		}
		in[i], types[i] = g.Values[id].Const, g.Values[id].Type
		any = any || in[i] != nil
	}
	if !any {
		return nil
	}
	if t, ok := pr.(ir.Threaded); ok {
		t.SetThreads(opts.Pool.Threads())
	}
	op, drop, err := preparedOp(pr, in, types, opts.Packs)
	if err != nil {
		return &ir.NodeError{Stage: "preparation", Node: s.node.Label(g), OpType: s.node.OpType, Domain: s.node.Domain,
			Opset: s.node.Opset, Inputs: ir.InputTypes(in), Err: err}
	}
	if op == nil {
		return nil
	}
	s.op = op
	s.in = append([]ir.ValueID(nil), s.in...)
	for _, i := range drop {
		if i < len(s.in) {
			s.in[i] = ir.None
		}
	}
	return nil
}

// prepared is the result of [ir.Preparer.Prepare].
type prepared struct {
	op   ir.Operator
	drop []int
}

// preparation is the way in which an operator is prepared.
type preparation struct {
	op    ir.Operator
	types string // "" if the operator suits all types of a graph with free dimensions
}

// preparedOp calls Prepare, or returns an operator that another plan has prepared: for the same
// types, or for a graph with free dimensions if that has packed constants.
func preparedOp(pr ir.Preparer, in []tensor.Value, types []ir.Type, packs *ir.Packs) (ir.Operator, []int, error) {
	var w [2]*tensor.Tensor // the first constants
	k := 0
	for _, v := range in {
		if t, ok := v.(*tensor.Tensor); ok && k < len(w) {
			w[k] = t
			k++
		}
	}
	if packs == nil || k == 0 || !reflect.TypeOf(pr).Comparable() {
		return pr.Prepare(in, types)
	}
	derive := func() (prepared, int64, error) {
		op, drop, err := pr.Prepare(in, types)
		var n int64
		for _, i := range drop {
			n += tensor.SizeOf(in[i])
		}
		return prepared{op, drop}, n, err
	}
	how := preparation{op: pr}
	if packs.Forked() {
		if p, ok := ir.Peek[prepared](packs, how, w[0], w[1]); ok && len(p.drop) > 0 {
			return p.op, p.drop, nil
		}
		how.types = ir.JoinTypes(types)
	}
	p, err := ir.Packed(packs, how, w[0], w[1], derive)
	return p.op, p.drop, err
}

// planLifetimes determines, for each value, the step of its last use, and the groups of values
// whose memory can be planned: plain tensors that no operator keeps and that do not leave the
// graph.
func (p *Plan) planLifetimes() {
	g := p.graph
	last := make([]int, len(g.Values))
	for i := range last {
		last[i] = -1
	}
	kept := make([]bool, len(g.Values)) // the value may be kept by someone
	root := make([]ir.ValueID, len(g.Values))
	for i := range root {
		root[i] = ir.ValueID(i)
	}
	first := make([]int, len(g.Values))
	for i := range first {
		first[i] = -1
	}
	for i := range p.steps {
		s := &p.steps[i]
		keeps := len(s.subs) > 0
		_, copies := s.op.(ir.Copying)
		for _, o := range s.out {
			if o == ir.None {
				continue
			}
			first[o], last[o] = i, i
			if g.Values[o].Type.Kind != tensor.KindTensor || g.Values[o].Type.Elem == tensor.TypeString {
				keeps = keeps || !copies
				kept[o] = true
			}
		}
		for _, id := range s.in {
			if id != ir.None {
				last[id] = i
				kept[id] = kept[id] || keeps
			}
		}
		for _, sub := range s.node.Graphs {
			for _, c := range sub.Captures {
				last[c.Outer] = i
				kept[c.Outer] = true
			}
		}
		if len(s.subs) > 0 {
			for _, o := range s.out {
				if o != ir.None {
					kept[o] = true // the memory belongs to the subgraph
				}
			}
		}
		if v, ok := s.op.(ir.View); ok && len(s.out) > 0 && s.out[0] != ir.None {
			if k := v.ViewOf(); k < len(s.in) && s.in[k] != ir.None {
				root[s.out[0]] = root[s.in[k]]
			}
		}
	}
	edge := make([]bool, len(g.Values))
	for id, out := range p.isOutput {
		if out {
			last[id], edge[id] = len(p.steps), !p.opts.body
		}
	}
	for _, id := range p.inputs {
		if t := g.Values[id].Type; !kept[id] && !p.opts.Generic && t.Kind == tensor.KindTensor &&
			t.Elem != tensor.TypeString && last[id] >= 0 {
			first[id], edge[id] = 0, true
			p.staged = append(p.staged, id)
		}
	}
	for id := range g.Values {
		r := root[id]
		kept[r] = kept[r] || kept[id]
		edge[r] = edge[r] || edge[id]
	}
	p.keepsInput = make([]bool, len(p.inputs))
	for i, id := range p.inputs {
		p.keepsInput[i] = kept[id]
	}
	p.planTargets(root, first)
	p.group = make([]int32, len(g.Values))
	index := map[ir.ValueID]int32{}
	for id := range g.Values {
		r := root[id]
		p.group[id] = -1
		if p.opts.Generic || p.opts.Unplanned || first[r] < 0 || kept[r] || first[id] < 0 {
			continue
		}
		k, ok := index[r]
		if !ok {
			k = int32(len(p.groups))
			index[r] = k
			p.groups = append(p.groups, group{first: first[r], last: last[r], edge: edge[r]})
		}
		if ir.ValueID(id) == r {
			p.group[id] = k
		}
		p.groups[k].last = max(p.groups[k].last, last[id])
	}
	lastOfRoot := slices.Clone(last)
	for id, r := range root {
		lastOfRoot[r] = max(lastOfRoot[r], last[id])
	}
	for _, id := range p.dynamic {
		if l := last[id]; l >= 0 && !p.isOutput[id] {
			p.steps[l].dead = append(p.steps[l].dead, id)
		}
		if l := lastOfRoot[root[id]]; l >= 0 && l < len(p.steps) {
			p.steps[l].release = append(p.steps[l].release, id)
		}
	}
}

// label returns the name of a step for messages.
func (p *Plan) label(i int) string { return p.steps[i].node.Label(p.graph) }

func (p *Plan) nodeError(i int, in []tensor.Value, err error) error {
	n := p.steps[i].node
	return &ir.NodeError{Stage: "run", Node: p.label(i), OpType: n.OpType, Domain: n.Domain, Opset: n.Opset,
		Inputs: ir.InputTypes(in), Err: err}
}

// checkKind checks that an output has the inferred kind and element type.
func (p *Plan) checkKind(id ir.ValueID, v tensor.Value) error {
	want := p.graph.Values[id].Type
	if t, ok := v.(*tensor.Tensor); ok && want.Kind == tensor.KindTensor {
		if t.DType() != want.Elem {
			return fail.Errorf("output %q is %s, but %s was inferred", p.graph.Values[id].Name, t.Type(), want.Base())
		}
		return nil
	}
	if got := v.Type(); got.Kind != want.Kind {
		return fail.Errorf("output %q is %s, but %s was inferred", p.graph.Values[id].Name, got, want.Base())
	}
	return nil
}
