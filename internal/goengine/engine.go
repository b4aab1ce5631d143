package goengine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// engine runs the plans of a graph. The inputs of the graph are in the order of the
// file; index maps them to the inputs of a request.
type engine struct {
	graph   *ir.Graph
	general *program
	special *specializer // nil if the engine has no specialized programs
	divider *divider     // nil if runs are not divided
	pool    *exec.Pool   // workers of this session; nil if it uses the shared ones or none
	limit   int64

	budget exec.Budget // shared with other sessions; nil: none

	mapping *onnx.Mapping // mapping that holds constants, or nil

	once  sync.Once
	index []int
}

// order returns, for each graph input, its index in a request: required inputs come
// first, then those with defaults.
func (e *engine) order() []int {
	e.once.Do(func() {
		required := 0
		for _, id := range e.graph.Inputs {
			if e.graph.Defaults[id] == nil {
				required++
			}
		}
		r, d := 0, required
		for _, id := range e.graph.Inputs {
			if e.graph.Defaults[id] == nil {
				e.index = append(e.index, r)
				r++
			} else {
				e.index = append(e.index, d)
				d++
			}
		}
	})
	return e.index
}

func (e *engine) Run(ctx context.Context, req *driver.Request) error {
	in := req.In
	if len(in) != len(e.graph.Inputs) {
		return fail.Errorf("got %d inputs, want %d", len(in), len(e.graph.Inputs))
	}
	if len(e.graph.Defaults) > 0 {
		in = make([]tensor.Value, len(req.In))
		for i, k := range e.order() {
			in[i] = req.In[k]
		}
	}
	r := &exec.Request{Inputs: in, MemoryLimit: e.limit, Budget: e.budget, Seed: req.Options.Seed,
		Serial: req.Options.Serial}
	if e.divider != nil && req.Options.Observe == nil && !req.Options.Serial && !req.Options.OnlyPathToFetches {
		if parts := e.divider.divide(in); parts != nil {
			if ok, err := e.runDivided(ctx, r, parts, req.Out); ok || err != nil {
				return err
			}
		}
	}
	prog := e.program(ctx, in)
	plan, index := prog.planFor(req)
	if index != nil {
		if fn := req.Options.Observe; fn != nil {
			r.Observe = observer(fn, e.planName(prog))
		}
		out := make([]tensor.Value, len(index))
		r.Outputs = make([]tensor.Value, len(index))
		for k, i := range index {
			r.Outputs[k] = req.Out[i]
		}
		if err := plan.RunInto(ctx, r, out); err != nil {
			return err
		}
		for k, i := range index {
			req.Out[i] = out[k]
		}
		return nil
	}
	if slices.ContainsFunc(req.Out, func(v tensor.Value) bool { return v != nil }) {
		r.Outputs = slices.Clone(req.Out)
	}
	if fn := req.Options.Observe; fn != nil {
		r.Observe = observer(fn, e.planName(prog))
	}
	return plan.RunInto(ctx, r, req.Out)
}

// observer returns an observer that numbers the nodes of a run of a plan and calls fn for each.
func observer(fn func(driver.NodeRun), plan string) exec.Observer {
	i := 0
	return func(g *ir.Graph, n *ir.Node, in, out []tensor.Value, start time.Time, d time.Duration) {
		fn(driver.NodeRun{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, InNames: valueNames(g, n.In),
			OutNames: valueNames(g, n.Out),
			In:       in, Out: out, Start: start, Duration: d, Plan: plan})
		i++
	}
}

// valueNames returns the names of values, "" for omitted ones. They are copies, so that
// they do not refer to the model file.
func valueNames(g *ir.Graph, ids []ir.ValueID) []string {
	r := make([]string, len(ids))
	for i, id := range ids {
		if id != ir.None {
			r[i] = strings.Clone(g.Values[id].Name)
		}
	}
	return r
}

func (e *engine) Close() error {
	if e.special != nil {
		e.special.close()
	}
	if e.pool != nil {
		e.pool.Close()
	}
	if e.mapping != nil {
		return e.mapping.Close()
	}
	return nil
}
