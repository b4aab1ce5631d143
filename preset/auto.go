package preset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

// Auto runs a model on the fastest of several presets. It measures each of them with
// the example, in blocks that take turns, and closes its session between the blocks.
// A preset whose results are not those of the reference engine is not chosen; nor is
// one that fails, whose library is missing, or that does not come to an end. The
// choice is remembered for the model and the machine.
//
//	best, report, err := preset.Auto{Model: preset.From("model.onnx"), InputExample: example}.Open(ctx)
type Auto struct {
	Model Model // see Preset
	// InputExample is what is measured with. It also fixes the open axes of the inputs
	// for the presets that say so.
	InputExample backend.Inputs
	// Candidates are what is measured. Their own models and examples, if any, win over
	// those here. Default: those of TypeAuto.
	Candidates []Preset
	// NoCache measures anew, and remembers nothing.
	NoCache bool
	// CacheDir is where choices are remembered. Default: onward/tune in the user's
	// cache folder.
	CacheDir string
	// MinDuration is how long each candidate is timed. Default: 300 ms.
	MinDuration time.Duration
	// Timeout is how long a block of one candidate may take, with loading the model.
	// TensorRT builds its engines then. Default: 10 minutes.
	Timeout time.Duration
	// Tolerance is the largest error of a result, relative to the largest magnitude in
	// its output. Default: 1e-3, and 2e-2 where the output is float16 or bfloat16.
	// Results that are integers or text must be equal, but bytes may differ by 1.
	Tolerance float64
	// Progress is told which candidate is measured next; may be nil.
	Progress func(candidate string)
}

// Status is what became of a candidate.
type Status string

// The statuses.
const (
	StatusOK      Status = "ok"      // it was measured
	StatusSkipped Status = "skipped" // its library, its device or its driver is missing
	StatusFailed  Status = "failed"  // it does not load or run the model
	StatusWrong   Status = "wrong"   // its results are not the reference engine's
)

// Result is what [Auto] found out about a candidate.
type Result struct {
	Name     string        `json:"name"`
	Provider string        `json:"provider"`
	Status   Status        `json:"status"`
	Reason   string        `json:"reason,omitempty"`    // why it was left out
	Err      error         `json:"-"`                   // the same as an error; nil when it was remembered
	Median   time.Duration `json:"median_ns,omitempty"` // of a run
	FPS      float64       `json:"fps,omitempty"`       // runs per second
	Open     time.Duration `json:"open_ns,omitempty"`   // for the first loading
	Runs     int           `json:"runs,omitempty"`
	// MaxError is the largest error of its results against Report.Baseline, relative to
	// the largest magnitude in the output.
	MaxError float64 `json:"max_error"`
}

// Report says how [Auto] chose.
type Report struct {
	Best string `json:"best"` // name of the fastest
	// Baseline is whose results the others were compared with: the reference engine, or
	// the first candidate that ran where that cannot run the model.
	Baseline string   `json:"baseline"`
	Cached   bool     `json:"cached"` // whether it was remembered
	Results  []Result `json:"results"`
	// CacheError says why the choice could not be remembered; empty if it could.
	CacheError string `json:"cache_error,omitempty"`
}

// Result returns the result of a candidate, nil if there is none of that name.
func (r *Report) Result(name string) *Result {
	for i := range r.Results {
		if r.Results[i].Name == name {
			return &r.Results[i]
		}
	}
	return nil
}

// String writes the report as a table.
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
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.2g\t%.4g\t%s%s\n", x.Name, milliseconds(x.Median), x.FPS, x.MaxError, milliseconds(x.Open), x.Status, mark)
	}
	t.Flush()
	for reason, names := range r.leftOut() {
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(names, ", "), reason)
	}
	return b.String()
}

// leftOut returns the reasons in their order, each with the candidates that it is for:
// those of one provider lack the same.
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

// blocks is how often each candidate is measured.
const blocks = 3

// Open measures the candidates, or remembers the choice, and opens the fastest. The
// report is there in either case, unless the model itself is at fault.
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
	if _, ok := a.Model.source.(string); ok {
		defer m.Close() // what runs it reads the file itself
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
	if cache != nil {
		if err := cache.write(report); err != nil {
			report.CacheError = err.Error()
		}
	}
	rep, err := a.openBest(ctx, list, report.Best)
	return rep, report, err
}

// load reads the model and checks the example.
func (a *Auto) load() (m *onnx.Model, err error) {
	switch x := a.Model.source.(type) {
	case nil:
		return nil, errNoModel
	case string:
		m, err = onnx.ReadFile(x, &onnx.ReadOptions{Map: true})
	case backend.Stream: // it can be read only once
		if m, err = a.Model.load(); err == nil {
			a.Model = From(m)
		}
	default:
		m, err = a.Model.load()
	}
	if err != nil {
		return nil, err
	}
	d, err := onward.Describe(m)
	if err == nil && a.InputExample == nil && len(d.Inputs) > 0 {
		err = fmt.Errorf("give an InputExample to measure with, for %v", d.Inputs)
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

// candidates gives the presets their model and distinct names, and finds out which of
// them can work here.
func (a *Auto) candidates() []*candidate {
	seen := map[string]int{}
	var list []*candidate
	for _, p := range a.Candidates {
		name := p.Name()
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		config := p.plan().config
		c := &candidate{preset: p, model: a.Model, example: a.InputExample, Result: Result{Name: name, Provider: config.Name, Status: StatusOK}}
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

// openBest opens the candidate of that name.
func (a *Auto) openBest(ctx context.Context, list []*candidate, name string) (*backend.Rep, error) {
	for _, c := range list {
		if c.Name == name {
			return bounded(ctx, a.Timeout, c.open, func(r *backend.Rep) { r.Close() })
		}
	}
	return nil, fmt.Errorf("there is no candidate %q", name)
}

// tune measures the candidates and names the fastest.
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
	var best time.Duration
	for round := range blocks {
		for i := range list {
			c := list[i]
			if round%2 == 1 { // a drift of the machine hits all alike
				c = list[len(list)-1-i]
			}
			// What is far behind after one block will not catch up.
			const hopeless = 4
			if c.Status != StatusOK || round > 0 && c.blocks[0] > hopeless*best {
				continue
			}
			tell(c.Name)
			t, err := bounded(ctx, a.Timeout, func(ctx context.Context) (timing, error) {
				return measure(ctx, c.open, a.InputExample, a.MinDuration/blocks)
			}, nil)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				c.leaveOut(StatusFailed, err)
				continue
			}
			if round == 0 {
				c.Open = t.open
				if want == nil {
					want, report.Baseline = t.out, c.Name
				}
			}
			e, err := differ(t.out, want, a.Tolerance)
			c.MaxError = max(c.MaxError, e)
			if err != nil {
				c.leaveOut(StatusWrong, err)
				continue
			}
			c.blocks, c.Runs = append(c.blocks, t.median), c.Runs+t.runs
			if best == 0 || t.median < best {
				best = t.median
			}
		}
	}
	var fastest *candidate
	var errs []error
	for _, c := range list {
		if c.Status != StatusOK {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Reason))
			continue
		}
		c.Median = max(median(c.blocks), 1)
		c.FPS = float64(time.Second) / float64(c.Median)
		if fastest == nil || c.Median < fastest.Median {
			fastest = c
		}
	}
	if fastest == nil {
		if len(list) == 0 {
			return errors.New("there are no candidates")
		}
		return fmt.Errorf("no backend here runs the model: %w", errors.Join(errs...))
	}
	report.Best = fastest.Name
	return nil
}
