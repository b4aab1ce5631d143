package opfuzz

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// runModel runs a model with several feeds in order on one session. It returns the results
// up to the first error. A panic is returned as an error.
func runModel(m *onnx.Model, feeds []map[string]tensor.Value,
	opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	return runWanted(m, feeds, make([][]string, len(feeds)), opts)
}

// runWanted is runModel with a selection of outputs for each feed.
func runWanted(m *onnx.Model, feeds []map[string]tensor.Value, outputs [][]string,
	opts *onward.SessionOptions) (out []map[string]tensor.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	o := *opts
	o.Limits = onward.Limits{MaxMemory: 1 << 28}
	s, err := onward.OpenModel(context.Background(), m, &o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, f := range feeds {
		r, err := s.Run(ctx, f, &onward.RunOptions{Outputs: outputs[i]})
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Run runs a chain with its feeds, and with the first one again, on one session. It returns
// the results up to the first error. A panic is returned as an error.
func (c *Chain) Run(opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	return c.RunModel(c.Model, opts)
}

// RunModel is Run for another form of the chain's model.
func (c *Chain) RunModel(m *onnx.Model, opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	out, err := runModel(m, append(slices.Clone(c.Feeds), c.Feeds[0]), opts)
	if err == nil {
		last := len(out) - 1
		for name, v := range out[0] {
			if err := tensor.Equal(out[last][name], v); err != nil {
				return out, fmt.Errorf("output %s differs when the same feed runs again: %w", name, err)
			}
		}
		out = out[:last]
	}
	return out, err
}

// Schedule lists the runs of a chain on one session.
type Schedule struct {
	Feed    []int      // index of each run's feed
	Outputs [][]string // wanted outputs of each run, nil for all
}

// DrawSchedule draws runs with some of the first n feeds. Most feeds are repeated at
// once, because sessions capture repeated runs.
func (c *Chain) DrawSchedule(t *rapid.T, n int) Schedule {
	var r Schedule
	for range rapid.IntRange(3, 6).Draw(t, "feeds") {
		feed := rapid.IntRange(0, n-1).Draw(t, "feed")
		var names []string
		if rapid.IntRange(0, 2).Draw(t, "some") == 0 {
			for _, o := range c.Model.Graph.Outputs {
				if rapid.Bool().Draw(t, "wanted") {
					names = append(names, o.Name)
				}
			}
		}
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			r.Feed, r.Outputs = append(r.Feed, feed), append(r.Outputs, names)
		}
	}
	return r
}

// RunSchedule runs a chain by a schedule. It returns the results up to the first error. A
// panic is returned as an error.
func (c *Chain) RunSchedule(schedule Schedule, opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	feeds := make([]map[string]tensor.Value, len(schedule.Feed))
	for i, f := range schedule.Feed {
		feeds[i] = c.Feeds[f]
	}
	return runWanted(c.Model, feeds, schedule.Outputs, opts)
}

// Nodes returns the nodes of the main graph as cases, with their operands under a feed.
func (c *Chain) Nodes(feed int) ([]*Case, error) {
	values, err := c.all(feed)
	if err != nil {
		return nil, err
	}
	var r []*Case
	for _, n := range c.Model.Graph.Nodes {
		d := &Case{Domain: kit.NormalDomain(n.Domain), Op: n.OpType, Attrs: n.Attributes}
		for _, o := range c.Model.OpsetImports {
			if o.Domain == n.Domain {
				d.Opset = int(o.Version)
			}
		}
		for _, in := range n.Inputs {
			d.In = append(d.In, values[in])
		}
		for _, out := range n.Outputs {
			d.Out = append(d.Out, out != "")
		}
		r = append(r, d)
	}
	return r, nil
}

// all returns every value of the main graph under a feed.
func (c *Chain) all(feed int) (map[string]tensor.Value, error) {
	m := *c.Model
	g := *m.Graph
	g.Outputs = nil
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			if out != "" {
				g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: out})
			}
		}
	}
	m.Graph = &g
	out, err := runModel(&m, c.Feeds[feed:feed+1], reference)
	if err != nil {
		return nil, err
	}
	values := out[0]
	maps.Copy(values, c.Feeds[feed])
	for _, t := range g.Initializers {
		v, err := t.Decode(nil)
		if err != nil {
			return nil, err
		}
		values[t.Name] = v
	}
	return values, nil
}

var reference = &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}}

// Excused counts results that differ by more than one rounding and are accepted.
type Excused struct {
	Elements int // within the perturbation bound
	Shapes   int // tensors not compared: perturbation changes shapes
	Large    int // tensors whose elements are not compared: products leave float32
}

// String returns the counts for a test's log.
func (e Excused) String() string {
	return fmt.Sprintf("%d elements differ within the perturbation bound; not compared: %d tensors because "+
		"perturbation changes shapes, %d because products leave float32",
		e.Elements, e.Shapes, e.Large)
}

// Add adds the counts of another comparison.
func (e *Excused) Add(o Excused) {
	e.Elements, e.Shapes, e.Large = e.Elements+o.Elements, e.Shapes+o.Shapes, e.Large+o.Large
}

// Compare returns an error if the results for a feed differ by more than one rounding and by
// more than the perturbation bound.
//
// The bound of an element is a multiple of its largest change over many runs of the chain
// with every value perturbed. loose perturbs more, because ONNX Runtime approximates
// functions with an error proportional to their range.
func (c *Chain) Compare(feed int, got, want map[string]tensor.Value, loose bool) (excused Excused, err error) {
	var s *perturbed
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		rtol, atol := chainTolerance(w)
		first := tensor.AllClose(got[name], w, rtol, atol)
		if first == nil {
			continue
		}
		if s == nil {
			if s, err = c.perturb(feed, loose); err != nil {
				return excused, fmt.Errorf("output %s: %w; and perturbed runs: %w", name, first, err)
			}
		}
		n, err := s.excuse(name, got[name], w)
		if err != nil {
			return excused, fmt.Errorf("output %s: %w: %w\n  got  %s\n  want %s", name, first, err,
				Show(got[name]), Show(w))
		}
		excused.Add(n)
	}
	return excused, nil
}

// chainTolerance returns the tolerance of a result before the perturbation bound is computed.
func chainTolerance(v tensor.Value) (rtol, atol float64) {
	t, ok := v.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() {
		return 0, 0
	}
	switch t.DType() {
	case tensor.TypeFloat64:
		rtol = 1e-12
	case tensor.TypeFloat32:
		rtol = 2e-5
	case tensor.TypeFloat16:
		rtol = 2e-3
	case tensor.TypeBFloat16:
		rtol = 1.6e-2
	default:
		return 0, 0
	}
	return rtol, rtol / 4 * most(t)
}

// anyElement reports whether like is true for an element of a tensor of floats.
func anyElement(v tensor.Value, like func(float64) bool) bool {
	t, ok := v.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() {
		return false
	}
	f, err := Floats(t)
	return err == nil && slices.ContainsFunc(f, like)
}

// most returns the largest finite magnitude.
func most(t *tensor.Tensor) float64 {
	f, err := Floats(t)
	if err != nil {
		return 0
	}
	m := 0.0
	for _, v := range f {
		if v = math.Abs(v); v > m && !math.IsInf(v, 0) {
			m = v
		}
	}
	return m
}

// excuse compares an output within the perturbation bound, and counts the elements that
// need it.
func (s *perturbed) excuse(name string, got, want tensor.Value) (Excused, error) {
	w, ok := want.(*tensor.Tensor)
	g, ok2 := got.(*tensor.Tensor)
	if !ok || !ok2 || w.DType() == tensor.TypeString {
		for _, o := range s.results {
			if tensor.Equal(o[name], want) != nil {
				return Excused{Elements: 1}, nil
			}
		}
		return Excused{}, fmt.Errorf("the output does not change under perturbation")
	}
	for _, o := range s.results {
		if t, ok := o[name].(*tensor.Tensor); !ok || !slices.Equal(t.Shape(), w.Shape()) {
			return Excused{Shapes: 1}, nil // its shape depends on the last bits
		}
	}
	if s.shapesVary {
		return Excused{Shapes: 1}, nil
	}
	if g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
		return Excused{}, fmt.Errorf("type or shape differs")
	}
	if s.large {
		return Excused{Large: 1}, nil
	}
	gf, err := Floats(g)
	if err != nil {
		return Excused{}, err
	}
	wf, err := Floats(w)
	if err != nil {
		return Excused{}, err
	}
	spread := make([]float64, len(wf))
	for _, o := range s.results {
		f, err := Floats(o[name].(*tensor.Tensor))
		if err != nil {
			return Excused{}, err
		}
		for i, v := range f {
			switch d := math.Abs(v - wf[i]); {
			case v == wf[i] || v != v && wf[i] != wf[i]:
			case d == d:
				spread[i] = max(spread[i], d)
			default:
				spread[i] = math.Inf(1)
			}
		}
	}
	rtol, atol := chainTolerance(w)
	n := 0
	for i, v := range gf {
		if v == wf[i] || v != v && wf[i] != wf[i] {
			continue
		}
		d := math.Abs(v - wf[i])
		if d <= atol+rtol*math.Abs(wf[i]) {
			continue
		}
		n++
		switch {
		case math.IsInf(spread[i], 1), s.infinite && (v != v) != (wf[i] != wf[i]):
		case !w.DType().IsFloat() && spread[i] > 0:
		case !(d <= 8*spread[i]+atol+rtol*math.Abs(wf[i])):
			return Excused{}, fmt.Errorf("element %d is %v, want %v, which changes by at most %.3g under perturbation",
				i, v, wf[i], spread[i])
		}
	}
	return Excused{Elements: n}, nil
}
