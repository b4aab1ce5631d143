package main

import (
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/cost"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/peak"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/trace"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// profiler collects the runs of nodes that a provider reports.
type profiler struct {
	chart  *page.Flame     // of the last run, if the provider reports start times
	nodes  []*profiledNode // in the order of their first run
	by     map[int]*profiledNode
	totals []float64 // of the runs, in milliseconds
	sums   []float64 // of the nodes of each run
	run    int       // runs that have ended
	plan   string    // of the last run
}

// profiledNode is a node with its times.
type profiledNode struct {
	onward.NodeRun // without values
	shapes         string
	elements       int64     // of the first output
	times          []float64 // of each run, in milliseconds; a node in a loop runs several times
	count          int       // over all runs
}

func newProfiler() *profiler { return &profiler{by: map[int]*profiledNode{}} }

// node adds a run of a node to the current run of the model.
func (p *profiler) node(n driver.NodeRun) {
	x := p.by[n.Index]
	if x == nil {
		x = &profiledNode{NodeRun: n, shapes: shapesOf(n.In) + " -> " + shapesOf(n.Out)}
		if len(n.Out) > 0 {
			if t, ok := n.Out[0].(*tensor.Tensor); ok {
				x.elements = int64(t.Len())
			}
		}
		x.In, x.Out = nil, nil // valid only during the call
		p.by[n.Index] = x
		p.nodes = append(p.nodes, x)
	}
	for len(x.times) <= p.run {
		x.times = append(x.times, 0)
	}
	ms := text.Milliseconds(n.Duration)
	x.times[p.run] += ms
	x.count++
	for len(p.sums) <= p.run {
		p.sums = append(p.sums, 0)
	}
	p.sums[p.run] += ms
}

// endRun ends a run of the model.
func (p *profiler) endRun(total time.Duration) {
	p.totals = append(p.totals, text.Milliseconds(total))
	p.run++
}

// events adds the nodes of the profile of a native library over the warm-up runs and the given
// number of runs.
//
// A profile does not tell runs apart, and a first run can have other nodes than later ones, such as
// those that reorder weights. Of each node, the share of the warm-up runs is dropped, and the rest
// is divided into runs of equal length.
func (p *profiler) events(events []backend.ProfileEvent, runs int, last *trace.Profile) {
	byName := map[[2]string][]backend.ProfileEvent{}
	var order [][2]string
	for _, e := range events {
		key := [2]string{e.Name, e.OpType}
		if byName[key] == nil {
			order = append(order, key)
		}
		byName[key] = append(byName[key], e)
	}
	for index, key := range order {
		list := byName[key]
		list = list[len(list)-len(list)*runs/(warmUps+runs):]
		for i, e := range list {
			p.run = i * runs / len(list)
			n := driver.NodeRun{Index: index, Name: e.Name, OpType: e.OpType, Start: last.Start().Add(e.Start),
				Duration: e.Duration}
			p.node(n)
			if p.run == runs-1 {
				last.Node(n)
			}
		}
		if x := p.by[index]; x != nil {
			x.shapes = ""
		}
	}
	p.run = runs
}

func shapesOf(values []tensor.Value) string {
	s := make([]string, 0, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			s = append(s, "-")
		case *tensor.Tensor:
			s = append(s, v.String())
		default:
			s = append(s, v.Type().String())
		}
	}
	return strings.Join(s, " ")
}

// summary returns the times of one run, so that they add up: that with the median total.
func (p *profiler) summary() *profileJSON {
	at := slices.Index(p.totals, slices.Sorted(slices.Values(p.totals))[(p.run-1)/2])
	r := &profileJSON{Runs: p.run, RunMS: p.totals[at], FastestMS: slices.Min(p.totals),
		SlowestMS: slices.Max(p.totals)}
	if at < len(p.sums) {
		r.NodesMS = p.sums[at]
	}
	for _, n := range p.nodes {
		for len(n.times) < p.run { // it did not run
			n.times = append(n.times, 0)
		}
		r.Nodes = append(r.Nodes,
			profileLine{Index: n.Index, Name: n.Name, Op: n.OpType, Domain: n.Domain, Shapes: n.shapes,
				Count: (n.count + p.run - 1) / p.run, TimeMS: n.times[at], ceiling: -1})
	}
	return r
}

// costsOf returns the costs of a model for inputs of these shapes, or nil.
func costsOf(path string, feed onward.Values) *cost.Costs {
	m, err := modelfile.Load(path)
	if err != nil {
		return nil
	}
	defer m.Close()
	c, err := cost.Of(withShapes(m, feed))
	if err != nil {
		return nil
	}
	return c
}

// withShapes returns a copy of a model whose inputs have the shapes of the values.
func withShapes(m *onnx.Model, feed onward.Values) *onnx.Model {
	c, g := *m, *m.Graph
	g.Inputs = slices.Clone(g.Inputs)
	for i, v := range g.Inputs {
		t, ok := feed[v.Name].(*tensor.Tensor)
		if !ok || v.Type == nil || v.Type.Tensor == nil {
			continue
		}
		dims := make([]any, t.Rank())
		for k, d := range t.Shape() {
			dims[k] = d
		}
		if typ, err := onnx.NewTensorType(onnx.DataType(t.DType()), dims...); err == nil {
			g.Inputs[i] = &onnx.ValueInfo{Name: v.Name, Type: typ}
		}
	}
	c.Graph = &g
	return &c
}

// addCosts adds the costs of the nodes and their shares of the time and of the peak, sums the nodes
// of each operator and sorts by time. nodes are in the order of r.Nodes.
func (r *profileJSON) addCosts(c *cost.Costs, nodes []*profiledNode) {
	if c != nil {
		run := make([]cost.Executed, len(nodes))
		for i, n := range nodes {
			run[i] = cost.Executed{Name: n.Name, Op: n.OpType, Outputs: n.OutNames, Elements: n.elements}
		}
		r.FLOPs = c.FLOPs
		for i, g := range c.Attribute(run) {
			r.Nodes[i].addGroup(c, &g, r.Peak)
			if g.Part > 0 {
				r.FLOPs -= int64(float64(g.FLOPs) * (1/g.Part - 1))
			}
		}
	}
	sum := 0.0
	for _, l := range r.Nodes {
		sum += l.TimeMS
	}
	ops := map[[2]string]*profileLine{}
	for i := range r.Nodes {
		l := &r.Nodes[i]
		key := [2]string{l.Domain, l.Op}
		o := ops[key]
		if o == nil {
			o = &profileLine{Op: l.Op, Domain: l.Domain}
			ops[key] = o
		}
		o.Count += l.Count
		o.TimeMS += l.TimeMS
		o.FLOPs += l.FLOPs
		o.Bytes += l.Bytes
		if l.ceiling < 0 || o.ceiling < 0 {
			o.ceiling = -1
		} else {
			o.ceiling += l.ceiling
		}
		l.finish(sum)
	}
	for _, o := range ops {
		o.finish(sum)
		r.Ops = append(r.Ops, *o)
	}
	sort.Slice(r.Ops, func(i, k int) bool {
		a, b := &r.Ops[i], &r.Ops[k]
		return a.TimeMS > b.TimeMS || a.TimeMS == b.TimeMS && a.Op < b.Op
	})
	sort.SliceStable(r.Nodes, func(i, k int) bool { return r.Nodes[i].TimeMS > r.Nodes[k].TimeMS })
}

// addGroup adds the costs of the model's nodes behind a node.
func (l *profileLine) addGroup(c *cost.Costs, g *cost.Group, p *peak.Peak) {
	if len(g.Nodes) == 0 {
		return
	}
	times := int64(max(l.Count, 1))
	l.FLOPs, l.Bytes = g.FLOPs*times, g.Bytes*times
	float := true // arithmetic is in float32
	for _, k := range g.Nodes {
		n := c.Layers[k]
		l.Computes = append(l.Computes, modelNode{n.Name, n.OpType})
		float = float && (n.MACs == 0 || strings.HasPrefix(c.Shape(n.Inputs[0]), "float["))
	}
	shapes := func(names []string) string {
		var s []string
		for _, name := range names {
			if !c.Parameter(name) {
				s = append(s, c.Shape(name))
			}
		}
		return strings.Join(s, " ")
	}
	if g.Part == 1 {
		l.Shapes = shapes(g.Inputs) + " -> " + shapes(g.Outputs)
	}
	if p != nil && float {
		l.ceiling = p.Ceiling(g.FLOPs, g.Bytes) * float64(times) * 1e3
	}
}

// finish computes the shares and rates of a line from its sums.
func (l *profileLine) finish(total float64) {
	if total > 0 {
		l.Share = l.TimeMS / total
	}
	if l.TimeMS > 0 {
		l.GFLOPS = float64(l.FLOPs) / l.TimeMS / 1e6
		if l.ceiling > 0 {
			l.OfPeak = text.Finite(l.ceiling / l.TimeMS)
		}
	}
}

// busy says what other processes probably did to the figures, "" if there is no sign of them.
func (r *profileJSON) busy() string {
	const most = 1.25 // of the fastest run
	s := ""
	if r.RunMS > most*r.FastestMS {
		s = fmt.Sprintf("Other processes seem to slow the runs down, which took %.4g to %.4g ms.", r.FastestMS,
			r.SlowestMS)
	}
	if slices.ContainsFunc(r.Nodes, func(l profileLine) bool { return l.OfPeak != nil && *l.OfPeak > most }) {
		s += " Nodes above the peak show that it was measured too low, while other processes ran."
	}
	return strings.TrimSpace(s)
}

// threadsOf returns the number of threads that a flag stands for.
func threadsOf(flag int) int {
	if flag == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return flag
}
