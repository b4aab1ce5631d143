package onward

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward/internal/autodiff"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func init() {
	RegisterProvider(native{name: "cpu"})
	RegisterProvider(native{name: "reference", generic: true})
}

// native is the provider of the two pure Go engines. cpu optimizes graphs, plans
// memory and uses assembly; reference does none of it and is the oracle.
type native struct {
	name    string
	generic bool
}

func (n native) Name() string     { return n.name }
func (n native) Available() error { return nil }

// AppliesOptions says that Compile does.
func (n native) AppliesOptions() {}

// sharedPool serves all sessions that do not ask for a number of threads.
var sharedPool = sync.OnceValue(func() *exec.Pool { return exec.NewPool(runtime.GOMAXPROCS(0)) })

// compile makes an engine. That of a mapped model holds the mapping where it reads weights in it.
func (n native) compile(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig, owned bool) (e *engine, err error) {
	mapping := m.Mapping()
	if mapping == nil {
		return n.build(ctx, m, opts, config, owned)
	}
	err = mapping.Check(mapping.Guard(func() (err error) {
		e, err = n.build(ctx, m, opts, config, owned)
		return err
	}))
	if err != nil {
		return nil, err
	}
	mapping.Drop() // what has been packed is not read again
	if mapping.Used() {
		mapping.Retain()
		e.mapping = mapping
	}
	return e, nil
}

func (n native) build(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig, owned bool) (*engine, error) {
	for k := range config.Options {
		return nil, statusf(InvalidArgument, "provider %s has no option %q", n.name, k)
	}
	custom, err := customDefs(opts.CustomOperators)
	if err != nil {
		return nil, err
	}
	fo := frontend.Options{Limits: opts.Limits.frontend(), Custom: custom}
	if m, fo.Initializers, err = prepareModel(m, opts); err != nil {
		return nil, err
	}
	if opts.OptimizedModelPath != "" {
		level := optimize.None
		if !n.generic {
			level = opts.OptimizationLevel.passLevel()
		}
		if err := saveOptimized(ctx, m, opts, fo, level); err != nil {
			return nil, err
		}
	}
	fo.Release = owned
	g, err := convert(m, fo)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &engine{limit: opts.Limits.memory()}
	eo := exec.Options{Generic: n.generic, Unplanned: opts.DisableMemoryPattern || opts.DisableMemoryReuse}
	if mapping := m.Mapping(); mapping != nil && mapping.Used() {
		eo.Mapped = mapping
	}
	if !n.generic {
		switch {
		case opts.Config[ConfigAllowSpinning] == "0" && opts.Threads != 1:
			e.pool = exec.NewParkingPool(cmp.Or(opts.Threads, runtime.GOMAXPROCS(0)))
			eo.Pool = e.pool
		case opts.Threads == 0:
			eo.Pool = sharedPool()
		case opts.Threads > 1:
			e.pool = exec.NewPool(opts.Threads)
			eo.Pool = e.pool
		}
		if level := opts.OptimizationLevel.passLevel(); level > optimize.None {
			if err := optimizeGraph(ctx, g, opts, level, false, nil); err != nil {
				return nil, err
			}
		}
	}
	if e.plan, err = exec.Compile(g, eo); err != nil {
		return nil, err
	}
	e.graph = g
	return e, nil
}

// convert returns the typed graph of a model, with its gradients expanded.
func convert(m *onnx.Model, opts frontend.Options) (*ir.Graph, error) {
	opts.Limits = opts.Limits.OrDefault()
	m, err := autodiff.Expand(m, opts.MaxDepth)
	if err != nil {
		return nil, err
	}
	return frontend.Convert(m, opts)
}

// engine runs a plan. Its graph's inputs are in the file's order; index says
// which entry of a request each one is.
type engine struct {
	graph *ir.Graph
	plan  *exec.Plan
	pool  *exec.Pool // of this session only, else nil
	limit int64

	mapping *onnx.Mapping // that constants lie in, else nil

	once  sync.Once
	index []int
	only  sync.Map // text of a mask of outputs → *exec.Plan
}

// planFor returns the plan of a run, and the wanted outputs where it does not
// compute all.
func (e *engine) planFor(req *Request) (*exec.Plan, []int) {
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
	p, ok := e.only.Load(string(key))
	if !ok {
		p, _ = e.only.LoadOrStore(string(key), e.plan.Only(req.Wanted))
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

func (e *engine) Run(ctx context.Context, req *Request) error {
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
	if r.Seed == 0 {
		r.Seed = DefaultSeed()
	}
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

func observer(fn func(NodeRun)) exec.Observer {
	i := 0
	return func(g *ir.Graph, n *ir.Node, in, out []tensor.Value, start time.Time, d time.Duration) {
		fn(NodeRun{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, InNames: valueNames(g, n.In), OutNames: valueNames(g, n.Out),
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
