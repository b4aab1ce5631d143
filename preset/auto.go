package preset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// Auto runs a model on the fastest of several presets. It measures each preset with the example
// in alternating blocks and closes the session between blocks. A preset is not chosen if its
// results differ from those of the reference engine, if it fails, if its library is missing, or
// if it exceeds the timeout. The choice is cached for the model and the machine, unless noise
// decided it.
//
//	best, report, err := preset.Auto{Model: preset.From("model.onnx"), InputExample: example}.Open(ctx)
type Auto struct {
	Model Model // of all presets
	// InputExample is the input of the measured runs. It also fixes the dynamic axes of
	// the inputs for presets with such a field.
	InputExample backend.Inputs
	// Candidates are the presets to measure. A model or example that one of them sets
	// takes precedence over those here. Default: the candidates of TypeAuto.
	Candidates []Preset
	// NoCache neither reads nor writes the cache of choices.
	NoCache bool
	// CacheDir is the folder of the cache. Default: onward/tune in the user's cache
	// folder.
	CacheDir string
	// MinDuration is the time for which each candidate runs. Default: 300 ms.
	MinDuration time.Duration
	// Timeout bounds a block of one candidate, including the loading of the model, during
	// which TensorRT builds its engines. Default: 10 minutes.
	Timeout time.Duration
	// Tolerance bounds the error of floating-point results relative to the largest
	// magnitude in the output. Default: 1e-3, 2e-2 for float16 and bfloat16, and 5e-2 for all
	// outputs of a model that quantizes activations: sums that differ in their last bit are
	// rounded to different integers. 8-bit integers may differ by 1; other integers and
	// strings must be equal.
	Tolerance float64
	// Progress is called with the name of each candidate before it is measured.
	Progress func(candidate string)
	// Try, if set, is called once for each provider that calls a native library, before its
	// candidates are measured. An error makes them fail. A crash of a native library ends the
	// process, so a program may run the model in another process here.
	Try func(ctx context.Context, provider string) error
}

// Status is the outcome for a candidate.
type Status string

// The statuses.
const (
	StatusOK      Status = "ok"      // it was measured
	StatusSkipped Status = "skipped" // its provider, library or device is missing
	StatusFailed  Status = "failed"  // it failed to load or run the model, or took too long
	StatusWrong   Status = "wrong"   // its results differ from the reference engine's
)

// Result holds the measurements of a candidate of [Auto].
type Result struct {
	Name     string        `json:"name"`
	Provider string        `json:"provider"`
	Status   Status        `json:"status"`
	Reason   string        `json:"reason,omitempty"`    // why it was not measured
	Err      error         `json:"-"`                   // the reason as an error; nil if Report.Cached
	Median   time.Duration `json:"median_ns,omitempty"` // of a run
	FPS      float64       `json:"fps,omitempty"`       // runs per second
	Open     time.Duration `json:"open_ns,omitempty"`   // of the first loading
	Runs     int           `json:"runs,omitempty"`
	// MaxError is the largest difference from the results of Report.Baseline, relative
	// to the largest magnitude in the output.
	MaxError float64 `json:"max_error"`
}

// Report holds the measurements of [Auto] and its choice.
type Report struct {
	Best string `json:"best"` // name of the fastest
	// Baseline is the preset whose results the others were compared with: the reference
	// engine, or the first candidate that ran if that engine cannot run the model.
	Baseline string `json:"baseline"`
	Cached   bool   `json:"cached"` // whether the choice is from the cache
	// Undecided holds the names of the candidates that may be as fast as Best: the differences
	// of their times are noise. Such a choice is not cached.
	Undecided []string `json:"undecided,omitempty"`
	Results   []Result `json:"results"`
	// CacheError says why the cache could not be used; empty if it could.
	CacheError string `json:"cache_error,omitempty"`
}

// Result returns the result of a candidate by its name, or nil.
func (r *Report) Result(name string) *Result {
	for i := range r.Results {
		if r.Results[i].Name == name {
			return &r.Results[i]
		}
	}
	return nil
}

// String formats the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "backend\tmedian ms\truns/s\tmax error\tload ms\tstatus")
	for _, x := range r.Results {
		mark := ""
		if x.Name == r.Best {
			mark = " (fastest)"
		}
		if x.Median == 0 {
			fmt.Fprintf(t, "%s\t\t\t\t\t%s\n", x.Name, x.Status)
			continue
		}
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.2g\t%.4g\t%s%s\n", x.Name, milliseconds(x.Median), x.FPS, x.MaxError,
			milliseconds(x.Open), x.Status, mark)
	}
	t.Flush()
	if len(r.Undecided) > 0 {
		fmt.Fprintf(&b, "%s may be as fast as %s: the difference is noise, and the choice is not cached\n",
			strings.Join(r.Undecided, ", "), r.Best)
	}
	for reason, names := range r.leftOut() {
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(names, ", "), reason)
	}
	return b.String()
}

// leftOut yields each reason once, with the candidates that it applies to. Those of one
// provider lack the same library.
func (r *Report) leftOut() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		seen := map[string]bool{"": true}
		for i, x := range r.Results {
			if seen[x.Reason] {
				continue
			}
			seen[x.Reason] = true
			var names []string
			for _, y := range r.Results[i:] {
				if y.Reason == x.Reason {
					names = append(names, y.Name)
				}
			}
			if !yield(x.Reason, names) {
				return
			}
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// candidate is a preset that [Auto] may choose.
type candidate struct {
	Result
	preset  Preset
	model   Model          // for a preset without its own
	example backend.Inputs // for a preset without its own
	blocks  []time.Duration
}

func (c *candidate) open(ctx context.Context) (*backend.Rep, error) {
	return c.preset.plan().on(c.model, c.example).open(ctx)
}

// blocks is the number of blocks in which each candidate is measured, unless more are needed to
// separate the fastest ones from noise.
const blocks = 3

// Open opens the fastest candidate, which it measures or takes from the cache. The report
// is nil if the model cannot be read or the example does not fit it.
func (a Auto) Open(ctx context.Context) (*backend.Rep, *Report, error) {
	rep, report, err := a.open(ctx)
	if err != nil {
		err = fmt.Errorf("Auto: %w", err)
	}
	return rep, report, err
}

func (a Auto) open(ctx context.Context) (*backend.Rep, *Report, error) {
	if a.MinDuration <= 0 {
		a.MinDuration = 300 * time.Millisecond
	}
	if a.Timeout <= 0 {
		a.Timeout = 10 * time.Minute
	}
	if a.Candidates == nil {
		a.Candidates = TypeAuto.Candidates(nil)
	}
	m, err := a.load()
	if err != nil {
		return nil, nil, err
	}
	if a.Tolerance == 0 && quantizesActivations(m) {
		a.Tolerance = 5e-2
	}
	if _, ok := a.Model.Form().(string); ok {
		defer m.Close() // candidates read the file themselves
	}
	list := a.candidates()
	var cache *tuneCache
	report := &Report{}
	if !a.NoCache {
		if cache, err = a.cache(m, list); err != nil {
			report.CacheError = err.Error()
		} else if r := cache.read(list); r != nil {
			if rep, err := a.openBest(ctx, list, r.Best); err == nil {
				return rep, r, nil
			} else if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
		}
	}
	err = a.tune(ctx, list, report)
	for _, c := range list {
		report.Results = append(report.Results, c.Result)
	}
	if err != nil {
		return nil, report, err
	}
	if cache != nil && len(report.Undecided) == 0 {
		if err := cache.write(report); err != nil {
			report.CacheError = err.Error()
		}
	}
	rep, err := a.openBest(ctx, list, report.Best)
	return rep, report, err
}

// quantizesActivations reports whether the main graph has operators that round to 8-bit integers.
func quantizesActivations(m *onnx.Model) bool {
	return slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool {
		return n.OpType == "QuantizeLinear" || strings.HasPrefix(n.OpType, "DynamicQuantize") ||
			strings.HasPrefix(n.OpType, "QLinear")
	})
}

// load reads the model and checks the example against it.
func (a *Auto) load() (m *onnx.Model, err error) {
	switch x := a.Model.Form().(type) {
	case nil:
		return nil, errNoModel
	case string:
		m, err = onnx.ReadFile(x, &onnx.ReadOptions{Map: true})
	case backend.Stream: // it can be read only once
		if m, err = backend.Load(a.Model); err == nil {
			a.Model = From(m)
		}
	default:
		m, err = backend.Load(a.Model)
	}
	if err != nil {
		return nil, err
	}
	d, err := onward.Describe(m)
	if err == nil && a.InputExample == nil && len(d.Inputs) > 0 {
		err = fmt.Errorf("InputExample is required for the inputs %v", d.Inputs)
	}
	if err == nil && a.InputExample == nil {
		a.InputExample = backend.List{}
	}
	if err == nil {
		if _, err = exampleValues(a.InputExample, d); err != nil {
			err = fmt.Errorf("InputExample: %w", err)
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// candidates returns the candidates with distinct names. Those that cannot work on this
// machine are marked as skipped.
func (a *Auto) candidates() []*candidate {
	seen := map[string]int{}
	var list []*candidate
	for _, p := range a.Candidates {
		name := p.Name()
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		config := p.plan().config
		c := &candidate{preset: p, model: a.Model, example: a.InputExample,
			Result: Result{Name: name, Provider: config.Name, Status: StatusOK}}
		if err := available(config); err != nil {
			c.leaveOut(StatusSkipped, err)
		}
		list = append(list, c)
	}
	return list
}

func (c *candidate) leaveOut(s Status, err error) {
	c.Status, c.Err, c.Reason = s, err, strings.TrimPrefix(err.Error(), c.preset.Name()+": ")
	c.Median, c.FPS = 0, 0
}

// openBest opens the candidate with the given name.
func (a *Auto) openBest(ctx context.Context, list []*candidate, name string) (*backend.Rep, error) {
	for _, c := range list {
		if c.Name == name {
			return bounded(ctx, a.Timeout, c.open, func(r *backend.Rep) { r.Close() })
		}
	}
	return nil, fmt.Errorf("unknown candidate %q", name)
}

// try calls a.Try and marks the candidates of providers for which it fails.
func (a *Auto) try(ctx context.Context, list []*candidate, tell func(string)) error {
	if a.Try == nil {
		return nil
	}
	tried := map[string]error{}
	for _, c := range list {
		if _, native := driver.Lookup(c.Provider).(driver.LibraryUser); !native || c.Status != StatusOK {
			continue
		}
		err, done := tried[c.Provider]
		if !done {
			tell(c.Provider)
			err = a.Try(ctx, c.Provider)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			tried[c.Provider] = err
		}
		if err != nil {
			c.leaveOut(StatusFailed, err)
		}
	}
	return nil
}

// tune measures the candidates and sets report.Best.
func (a *Auto) tune(ctx context.Context, list []*candidate, report *Report) error {
	tell := a.Progress
	if tell == nil {
		tell = func(string) {}
	}
	reference := OnwardReference{Model: a.Model, InputExample: a.InputExample}
	tell(reference.Name())
	want, err := bounded(ctx, a.Timeout, func(ctx context.Context) (*backend.Outputs, error) {
		rep, err := reference.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer rep.Close()
		return rep.Run(ctx, a.InputExample, nil)
	}, nil)
	switch {
	case err == nil:
		report.Baseline = reference.Name()
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err := a.try(ctx, list, tell); err != nil {
		return err
	}
	var best *candidate // with the fastest block
	block := func(c *candidate) error {
		tell(c.Name)
		t, err := bounded(ctx, a.Timeout, func(ctx context.Context) (timing, error) {
			return measure(ctx, c.open, a.InputExample, a.MinDuration/blocks)
		}, nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.leaveOut(StatusFailed, err)
			return nil
		}
		if len(c.blocks) == 0 {
			c.Open = t.open
			if want == nil {
				want, report.Baseline = t.out, c.Name
			}
		}
		e, err := differ(t.out, want, a.Tolerance)
		c.MaxError = max(c.MaxError, e)
		if err != nil {
			c.leaveOut(StatusWrong, err)
			return nil
		}
		c.blocks, c.Runs = append(c.blocks, t.median), c.Runs+t.runs
		if best == nil || t.median < slices.Min(best.blocks) {
			best = c
		}
		return nil
	}
	inOrder := func(list []*candidate, round int) error {
		list = slices.Clone(list)
		if round%2 == 1 { // a drift of the clock frequency affects all candidates alike
			slices.Reverse(list)
		}
		for _, c := range list {
			if c.Status != StatusOK || len(c.blocks) > 0 && hopeless(c, best) {
				continue
			}
			if err := block(c); err != nil {
				return err
			}
		}
		return nil
	}
	for round := range blocks {
		if err := inOrder(list, round); err != nil {
			return err
		}
	}
	first := contenders(list)
	for round := blocks; len(first) > 1 && round < maxBlocks; round++ {
		if err := inOrder(first, round); err != nil {
			return err
		}
		first = contenders(list)
	}
	var errs []error
	for _, c := range list {
		if c.Status != StatusOK {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Reason))
			continue
		}
		c.Median = max(median(c.blocks), 1)
		c.FPS = float64(time.Second) / float64(c.Median)
	}
	if len(first) == 0 {
		if len(list) == 0 {
			return errors.New("the list of candidates is empty")
		}
		return fmt.Errorf("no backend here runs the model: %w", errors.Join(errs...))
	}
	report.Best = first[0].Name
	for _, c := range first[1:] {
		report.Undecided = append(report.Undecided, c.Name)
	}
	return nil
}
