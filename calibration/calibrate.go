package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Options configure [Calibrate]. Nil and the zero value select the defaults.
type Options struct {
	Method Method
	// OpTypes are the operators whose inputs and outputs are measured. Default: all.
	OpTypes []string
	// Symmetric makes ranges symmetric about zero.
	Symmetric bool
	// Window is the number of batches that are processed together. Default: all. Entropy
	// and Percentile then make two passes over the data, for the extent of the histograms
	// and for their counts. With a Window they make one pass, keep the values of a window
	// in memory, and widen the histograms after each window.
	Window int
	// MovingAverage makes MinMax take the mean of the smallest and of the largest values
	// of the batches in a window, and an exponential average over windows.
	MovingAverage bool
	// AveragingConstant is the weight of a new window in that average. Default: 0.01.
	AveragingConstant float64
	// Bins is the number of bins of a new histogram, an even number. Default: 128 for
	// Entropy, 2048 for Percentile.
	Bins int
	// MaxBins is the largest number of bins of a widened histogram. Above it, pairs of
	// neighbouring bins are merged. Default: 8192 for Entropy, 65536 for Percentile.
	MaxBins int
	// QuantizedBins is the number of bins of the quantized histograms of Entropy. Default: 128.
	QuantizedBins int
	// Percent is the percentage of the values that Percentile keeps. Default: 99.999.
	Percent float64
	// MaxBatches bounds the number of batches. Default: no limit.
	MaxBatches int
	// Session holds the options of the session. Default: the provider cpu.
	Session *onward.SessionOptions
	// Progress is called after each batch.
	Progress func(Progress)
}

// Progress is the state of a calibration.
type Progress struct {
	Pass, Passes int // counted from 1
	Batch        int // completed batches of this pass
}

// withDefaults returns the options with their defaults, or an error for invalid ones.
func (o *Options) withDefaults() (*Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	or := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if d.Method == Entropy {
		or(&d.Bins, 128)
	}
	or(&d.Bins, 2048)
	if d.Method == Entropy {
		or(&d.MaxBins, max(1<<13, d.Bins)) // the time is quadratic in the number of bins
	}
	or(&d.MaxBins, max(1<<16, d.Bins))
	or(&d.QuantizedBins, 128)
	if d.Percent == 0 {
		d.Percent = 99.999
	}
	if d.AveragingConstant == 0 {
		d.AveragingConstant = 0.01
	}
	switch {
	case d.Method < MinMax || d.Method > Percentile:
		return nil, fmt.Errorf("method is %d, want MinMax, Entropy or Percentile", int(d.Method))
	case d.Window < 0 || d.MaxBatches < 0:
		return nil, fmt.Errorf("Window is %d and MaxBatches %d, want 0 or more", d.Window, d.MaxBatches)
	case d.Bins < 2 || d.Bins%2 != 0 || d.Bins > d.MaxBins || d.MaxBins > 1<<24:
		return nil, fmt.Errorf("Bins is %d and MaxBins %d, want Bins even and at most MaxBins, and MaxBins at most %d",
			d.Bins, d.MaxBins, 1<<24)
	case d.QuantizedBins < 2 || d.Method == Entropy && d.QuantizedBins > d.Bins:
		return nil, fmt.Errorf("QuantizedBins is %d, want 2 to Bins, which is %d", d.QuantizedBins, d.Bins)
	case !(d.Percent > 0 && d.Percent <= 100):
		return nil, fmt.Errorf("Percent is %g, want more than 0 and at most 100", d.Percent)
	case !(d.AveragingConstant >= 0 && d.AveragingConstant <= 1):
		return nil, fmt.Errorf("AveragingConstant is %g, want 0 to 1", d.AveragingConstant)
	case d.MovingAverage && d.Method != MinMax:
		return nil, fmt.Errorf("MovingAverage requires MinMax, got %s", d.Method)
	}
	return &d, nil
}

// Calibrate runs a model on data and returns the ranges of its activations: the float and
// float16 tensors of the main graph that are inputs or outputs of the chosen operators and
// not initializers. NaN is ignored. A tensor without elements, of only NaN, or with an
// infinite element has no range, and [QuantizeStatic] leaves it in float.
func Calibrate(ctx context.Context, m *onnx.Model, data Data, o *Options) (*Table, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if data == nil {
		return nil, errors.New("calibration: the data is nil: make it with Batches")
	}
	names, err := activations(m, opts.OpTypes)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("calibration: the chosen operators have no activations of type float or float16")
	}
	run, err := newObserver(ctx, m, names, opts.Session)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	defer run.Close()
	c := &calibrator{Options: opts, run: run, data: data}
	t := NewTable(opts.Method)
	switch {
	case opts.Method == MinMax:
		err = c.minMax(ctx, t)
	case opts.Window == 0:
		err = c.twoPasses(ctx, t)
	default:
		err = c.widening(ctx, t)
	}
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	return t, nil
}

// activations returns the names of the tensors to measure, in the order of their first
// occurrence in the nodes.
func activations(m *onnx.Model, opTypes []string) ([]string, error) {
	types, err := floatValues(m)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range m.Graph.Nodes {
		if len(opTypes) > 0 && !slices.Contains(opTypes, n.OpType) {
			continue
		}
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			if types[name] {
				names = append(names, name)
				types[name] = false
			}
		}
	}
	return names, nil
}

// floatValues returns for each value of the main graph, except for initializers, whether it
// is a tensor of float or float16.
func floatValues(m *onnx.Model) (map[string]bool, error) {
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	types := map[string]bool{}
	for _, v := range a.Values {
		t := v.ElementType()
		types[v.Name] = t.Kind == tensor.KindTensor && (t.Elem == tensor.TypeFloat32 || t.Elem == tensor.TypeFloat16)
	}
	for _, t := range m.Graph.Initializers {
		delete(types, t.Name)
	}
	for _, s := range m.Graph.SparseInitializers {
		if s.Values != nil {
			delete(types, s.Values.Name)
		}
	}
	return types, nil
}

// observer runs a model with activations as additional outputs.
type observer struct {
	*onward.Session
	names  []string
	inputs map[string]bool
	opts   *onward.RunOptions
}

func newObserver(ctx context.Context, m *onnx.Model, names []string, so *onward.SessionOptions) (*observer, error) {
	c, g := *m, *m.Graph
	g.Outputs = slices.Clone(g.Outputs)
	isOutput := map[string]bool{}
	for _, v := range g.Outputs {
		isOutput[v.Name] = true
	}
	r := &observer{names: names, inputs: map[string]bool{}, opts: &onward.RunOptions{}}
	for _, v := range g.Inputs {
		r.inputs[v.Name] = true
	}
	declared := map[string]*onnx.ValueInfo{}
	for _, v := range g.ValueInfo {
		declared[v.Name] = v
	}
	for _, name := range names {
		if r.inputs[name] {
			continue
		}
		r.opts.Outputs = append(r.opts.Outputs, name)
		if isOutput[name] {
			continue
		}
		v := declared[name]
		if v == nil {
			v = &onnx.ValueInfo{Name: name}
		}
		g.Outputs = append(g.Outputs, v)
	}
	c.Graph = &g
	var err error
	r.Session, err = onward.OpenModel(ctx, &c, so)
	return r, err
}

// each runs the model on each batch and passes the values of the tensors to f, which must
// not keep them. It calls batch after each batch.
func (c *calibrator) each(ctx context.Context, pass, passes int, f func(name string, v []float32) error,
	batch func() error) error {
	done := 0
	var scratch []float32
	for feed, err := range c.data {
		if err != nil {
			return fmt.Errorf("batch %d: %w", done+1, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		out := onward.Values{}
		if len(c.run.opts.Outputs) > 0 {
			if out, err = c.run.Run(ctx, feed, c.run.opts); err != nil {
				return fmt.Errorf("batch %d: %w", done+1, err)
			}
		}
		for _, name := range c.run.names {
			v := out[name]
			if c.run.inputs[name] {
				v = feed[name]
			}
			t, ok := v.(*tensor.Tensor)
			if !ok {
				return fmt.Errorf("batch %d: tensor %q is missing", done+1, name)
			}
			var values []float32
			switch t.DType() {
			case tensor.TypeFloat32:
				values = tensor.MustData[float32](t)
			case tensor.TypeFloat16:
				scratch = slices.Grow(scratch[:0], t.Len())[:t.Len()]
				tensor.Float16sToFloat32s(scratch, tensor.MustData[tensor.Float16](t))
				values = scratch
			default:
				return fmt.Errorf("batch %d: tensor %q is %s, want float or float16", done+1, name, t.Type())
			}
			if err := f(name, values); err != nil {
				return fmt.Errorf("batch %d: tensor %q: %w", done+1, name, err)
			}
		}
		done++
		if batch != nil {
			if err := batch(); err != nil {
				return err
			}
		}
		if c.Progress != nil {
			c.Progress(Progress{Pass: pass, Passes: passes, Batch: done})
		}
		if done == c.MaxBatches {
			break
		}
	}
	if done == 0 {
		return errors.New("the data has no batches")
	}
	if pass == 1 {
		c.batches = done
	} else if done != c.batches {
		return fmt.Errorf("the data has %d batches on the first pass and %d on the second: give data that can be "+
			"iterated twice, or set Window", c.batches, done)
	}
	return nil
}

type calibrator struct {
	*Options
	run     *observer
	data    Data
	batches int
}

// extent holds the smallest and the largest value.
type extent struct {
	lo, hi float32
	some   bool // whether there was a value other than NaN
}

func (e *extent) add(v []float32) {
	lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, x := range v {
		if x < lo {
			lo = x
		}
		if x > hi {
			hi = x
		}
	}
	if lo > hi {
		return // no values, or only NaN
	}
	if !e.some {
		e.lo, e.hi, e.some = lo, hi, true
		return
	}
	e.lo, e.hi = min(e.lo, lo), max(e.hi, hi)
}

func (e *extent) finite() bool { return e.lo-e.lo == 0 && e.hi-e.hi == 0 }

// minMaxState holds the state of a tensor for MinMax: the extent of the window or the sums
// of the extents of its batches, and the result of the previous windows.
type minMaxState struct {
	window       extent
	sumLo, sumHi float64
	n            int
	lo, hi       float32
	some         bool
}

func (c *calibrator) minMax(ctx context.Context, t *Table) error {
	state := map[string]*minMaxState{}
	for _, name := range c.run.names {
		state[name] = &minMaxState{}
	}
	inWindow := 0
	endWindow := func() {
		inWindow = 0
		for _, s := range state {
			s.endWindow(c.Options)
		}
	}
	err := c.each(ctx, 1, 1, func(name string, v []float32) error {
		s := state[name]
		if !c.MovingAverage {
			s.window.add(v)
			return nil
		}
		var e extent
		e.add(v)
		if e.some {
			s.sumLo, s.sumHi, s.n = s.sumLo+float64(e.lo), s.sumHi+float64(e.hi), s.n+1
		}
		return nil
	}, func() error {
		if inWindow++; inWindow == c.Window {
			endWindow()
		}
		return nil
	})
	if err != nil {
		return err
	}
	endWindow()
	for name, s := range state {
		if e := (extent{s.lo, s.hi, s.some}); e.some && e.finite() {
			t.Ranges[name] = Range{Lowest: s.lo, Highest: s.hi}
		}
	}
	return nil
}

func (s *minMaxState) endWindow(o *Options) {
	lo, hi := s.window.lo, s.window.hi
	if o.MovingAverage {
		if s.n == 0 {
			return
		}
		lo, hi = float32(s.sumLo/float64(s.n)), float32(s.sumHi/float64(s.n))
	} else if !s.window.some {
		return
	}
	if o.Symmetric {
		hi = max(-lo, lo, hi, -hi)
		lo = -hi
	}
	s.window, s.sumLo, s.sumHi, s.n = extent{}, 0, 0, 0
	switch {
	case !s.some:
		s.lo, s.hi, s.some = lo, hi, true
	case o.MovingAverage:
		k := float32(o.AveragingConstant)
		s.lo += float32(k * (lo - s.lo))
		s.hi += float32(k * (hi - s.hi))
	default:
		s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
	}
}

// twoPasses measures the extents of the histograms in a first pass and counts in a second.
func (c *calibrator) twoPasses(ctx context.Context, t *Table) error {
	extents := map[string]*extent{}
	magnitudes := map[string]*extent{}
	for _, name := range c.run.names {
		extents[name], magnitudes[name] = &extent{}, &extent{}
	}
	var abs []float32
	err := c.each(ctx, 1, 2, func(name string, v []float32) error {
		extents[name].add(v)
		if c.absolute() {
			abs = magnitude(abs, v)
			magnitudes[name].add(abs)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	hists := map[string]*histogram{}
	for name, e := range extents {
		if !e.finite() {
			continue
		}
		if hists[name], err = newHistogram(c.Options, *e, *magnitudes[name]); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	err = c.each(ctx, 2, 2, func(name string, v []float32) error {
		if c.absolute() {
			abs = magnitude(abs, v)
			v = abs
		}
		if h := hists[name]; h != nil {
			h.count(v)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	c.results(t, hists)
	return nil
}

// widening counts in one pass and widens the histograms after each window.
func (c *calibrator) widening(ctx context.Context, t *Table) error {
	hists := map[string]*histogram{}
	window := map[string][]float32{}
	infinite := map[string]bool{}
	inWindow := 0
	endWindow := func() error {
		inWindow = 0
		for name, v := range window {
			var e, a extent
			e.add(v)
			if !e.finite() {
				infinite[name] = true
			}
			if infinite[name] {
				delete(hists, name)
				delete(window, name)
				continue
			}
			var err error
			if c.absolute() {
				v = magnitude(v, v)
				a.add(v)
			}
			if h := hists[name]; h != nil {
				err = h.widen(c.Options, e, a)
			} else {
				hists[name], err = newHistogram(c.Options, e, a)
			}
			if err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			hists[name].count(v)
			window[name] = window[name][:0]
		}
		return nil
	}
	err := c.each(ctx, 1, 1, func(name string, v []float32) error {
		window[name] = append(window[name], v...)
		return nil
	}, func() error {
		if inWindow++; inWindow == c.Window {
			return endWindow()
		}
		return nil
	})
	if err == nil && inWindow > 0 {
		err = endWindow()
	}
	if err != nil {
		return err
	}
	c.results(t, hists)
	return nil
}

func (c *calibrator) results(t *Table, hists map[string]*histogram) {
	for name, h := range hists {
		if !h.some {
			continue
		}
		r := Range{Hist: h.counts, Edges: h.edges}
		if c.Method == Entropy {
			r.Lowest, r.Highest = h.entropyRange(c.QuantizedBins)
		} else {
			r.Lowest, r.Highest = h.percentileRange(c.Percent, c.Symmetric)
		}
		t.Ranges[name] = r
	}
}

// absolute reports whether histograms count absolute values.
func (o *Options) absolute() bool { return o.Method == Percentile && o.Symmetric }

func magnitude(dst, v []float32) []float32 {
	dst = slices.Grow(dst[:0], len(v))[:len(v)]
	for i, x := range v {
		dst[i] = float32(math.Abs(float64(x)))
	}
	return dst
}
