package goengine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// engine runs a plan. Its graph's inputs are in the file's order; index says
// which entry of a request each one is.
type engine struct {
	graph *ir.Graph
	plan  *exec.Plan
	pool  *exec.Pool // of this session only, else nil
	limit int64

	mapping *onnx.Mapping // that constants lie in, else nil

	once   sync.Once
	index  []int
	pruned sync.Map // text of a mask of outputs → *exec.Plan
}

// planFor returns the plan of a run, and the wanted outputs where it does not
// compute all.
func (e *engine) planFor(req *driver.Request) (*exec.Plan, []int) {
	if !req.Options.OnlyPathToFetches || req.Wanted == nil || !slices.Contains(req.Wanted, false) {
		return e.plan, nil
	}
	key := make([]byte, len(req.Wanted))
	var index []int
	for i, w := range req.Wanted {
		if w {
			key[i] = 1
			index = append(index, i)
		}
	}
	p, ok := e.pruned.Load(string(key))
	if !ok {
		p, _ = e.pruned.LoadOrStore(string(key), e.plan.Prune(req.Wanted))
	}
	return p.(*exec.Plan), index
}

// order maps graph inputs to the order of a session: required inputs first, then
// those with defaults.
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
		return fmt.Errorf("%d inputs, want %d", len(in), len(e.graph.Inputs))
	}
	if len(e.graph.Defaults) > 0 {
		in = make([]tensor.Value, len(req.In))
		for i, k := range e.order() {
			in[i] = req.In[k]
		}
	}
	r := &exec.Request{Inputs: in, MemoryLimit: e.limit, Seed: req.Options.Seed}
	plan, index := e.planFor(req)
	if index != nil {
		if fn := req.Options.Observe; fn != nil {
			r.Observe = observer(fn)
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
		r.Observe = observer(fn)
	}
	return e.plan.RunInto(ctx, r, req.Out)
}

func observer(fn func(driver.NodeRun)) exec.Observer {
	i := 0
	return func(g *ir.Graph, n *ir.Node, in, out []tensor.Value, start time.Time, d time.Duration) {
		fn(driver.NodeRun{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, InNames: valueNames(g, n.In), OutNames: valueNames(g, n.Out),
			In: in, Out: out, Start: start, Duration: d})
		i++
	}
}

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
	if e.pool != nil {
		e.pool.Close()
	}
	if e.mapping != nil {
		return e.mapping.Close()
	}
	return nil
}
