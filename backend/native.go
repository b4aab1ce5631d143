package backend

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// A native library does not report the nodes of a run. Their results come from a second session,
// of the model with these results as outputs, and their times from the library's own profile.

// reports says whether the session's provider reports the nodes of its runs.
func (r *Rep) reports() bool {
	return driver.TraitsOf(driver.Lookup(r.Session.Provider())).Operators
}

// widened is a Rep whose outputs are the results of all nodes of the main graph.
type widened struct {
	mu  sync.Mutex
	rep *Rep
}

func (w *widened) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rep == nil {
		return nil
	}
	return w.rep.Close()
}

// widen returns the Rep with all results as outputs. It is opened once.
func (r *Rep) widen(ctx context.Context) (*Rep, error) {
	w := &r.wide
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rep != nil {
		return w.rep, nil
	}
	m, err := r.nativeModel("results")
	if err != nil {
		return nil, err
	}
	var names []string
	add := func(n string) {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range m.Graph.Nodes {
		for _, o := range n.Outputs {
			add(o)
		}
	}
	for _, o := range m.Graph.Outputs {
		add(o.Name)
	}
	if m, err = selectOutputs(m, names); err != nil {
		return nil, err
	}
	w.rep, err = r.with(false).prepareAgain(ctx, m)
	return w.rep, err
}

// with returns a Rep without a session, to prepare models with or without a profile.
func (r *Rep) with(profile bool) *Rep {
	c := &Rep{Device: r.Device, Backend: r.Backend, opts: r.opts}
	c.opts.Profile = profile
	return c
}

// nativeModel returns the model, or an error that says that it is needed.
func (r *Rep) nativeModel(what string) (*onnx.Model, error) {
	m, err := r.model()
	if err != nil {
		return nil, driver.Errorf(driver.CodeNotImplemented,
			"provider %s does not report the %s of nodes, and the Rep has no model to open a session that does: %w",
			r.Session.Provider(), what, err)
	}
	return m, nil
}

// args returns the names of a session's inputs, with those that have a default.
func args(s *onward.Session) (names []string) {
	for _, a := range slices.Concat(s.Inputs(), s.OverridableInitializers()) {
		names = append(names, a.Name)
	}
	return names
}

// observed runs the model with all results as outputs and calls opts.Observe for each node of the
// main graph, without times. It returns the outputs by name.
func (r *Rep) observed(ctx context.Context, feed onward.Values, opts *onward.RunOptions) (onward.Values, error) {
	for _, name := range opts.Outputs {
		if !slices.ContainsFunc(r.Session.Outputs(), func(a onward.NodeArg) bool { return a.Name == name }) {
			return nil, invalid("Invalid output name:%s", name)
		}
	}
	wide, err := r.widen(ctx)
	if err != nil {
		return nil, err
	}
	// The wide model lacks the inputs that no node reads.
	feed = maps.Clone(feed)
	for i, a := range slices.Backward(opts.Adapters) {
		if a == nil {
			return nil, invalid("RunOptions.Adapters[%d] is nil", i)
		}
		maps.Copy(feed, a.Parameters)
	}
	for _, n := range args(r.Session) {
		if !slices.Contains(args(wide.Session), n) {
			delete(feed, n)
		}
	}
	o := *opts
	o.Observe, o.Outputs, o.Adapters = nil, nil, nil
	values, err := wide.Session.Run(ctx, feed, &o)
	if err != nil {
		return nil, err
	}
	g, byName := wide.Model.Graph, onward.Values{}
	for _, t := range g.Initializers {
		if byName[t.Name], err = t.Decode(&onnx.DecodeOptions{External: wide.Model.External()}); err != nil {
			return nil, driver.LoadError(err)
		}
	}
	maps.Copy(byName, feed)
	maps.Copy(byName, values)
	of := func(names []string) []tensor.Value {
		list := make([]tensor.Value, len(names))
		for i, n := range names {
			list[i] = byName[n]
		}
		return list
	}
	var scopes onnx.Scopes
	nodes, err := scopes.Sort(g)
	if err != nil {
		return nil, driver.LoadError(err)
	}
	for i, n := range nodes {
		if ctx.Err() != nil {
			return nil, &onward.StatusError{Code: onward.CodeFail, Message: "the run was stopped: " + ctx.Err().
				Error(), Err: ctx.Err()}
		}
		opts.Observe(onward.NodeRun{Index: i, Name: n.Name, OpType: n.OpType, Domain: onnx.NormalizeDomain(n.Domain),
			InNames: n.Inputs, OutNames: n.Outputs, In: of(n.Inputs), Out: of(n.Outputs)})
	}
	return values, nil
}

// timed runs the model in a new session that writes a profile, and returns the outputs and the
// nodes of the profile.
func (r *Rep) timed(ctx context.Context, in Inputs) (*Outputs, []ProfileEvent, error) {
	m, err := r.nativeModel("times")
	if err != nil {
		return nil, nil, err
	}
	p, err := r.with(true).prepareAgain(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	out, err := p.Run(ctx, in, nil)
	if err != nil {
		return nil, nil, err
	}
	events, _, err := p.Profiling()
	return out, events, err
}
