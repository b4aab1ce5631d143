package preset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
)

// Benchmark measures a model on one preset after the other, as ENOT Lite's Benchmark does: after
// warm-up runs it times Repeat series of Number runs. [Auto] is faster and less sensitive to
// drift; Benchmark gives figures that can be compared with ENOT Lite's.
type Benchmark struct {
	BatchSize int            // samples in one input; default 1
	Model     Model          // of all presets
	Input     backend.Inputs // of every run; also the InputExample of the presets
	// Backends are the presets to measure, such as TypeAutoCPU.Candidates(nil). Default:
	// the candidates of TypeAuto.
	Backends []Preset
	Warmup   int // runs before the timed ones; default 50; no runs if negative
	Repeat   int // series of runs; default 50
	Number   int // runs in a series; default 50
	Threads  int // of one run, for the default of Backends
	// Verbose writes a line for each preset to Output.
	Verbose bool
	Output  io.Writer // default: standard output

	results []BenchmarkResult
	date    time.Time
}

// BenchmarkResult holds the figures of one preset.
type BenchmarkResult struct {
	Name        string  `json:"name"`
	FPS         float64 `json:"fps"`           // samples per second
	MSPerSample float64 `json:"ms_per_sample"` // mean
	MSPerBatch  float64 `json:"ms_per_batch"`  // mean
	StdevMS     float64 `json:"stdev_ms"`      // standard deviation of MSPerBatch between the series
	Err         error   `json:"-"`             // why there are no figures
}

func (b *Benchmark) defaults() {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&b.BatchSize, 1)
	set(&b.Warmup, 50)
	set(&b.Repeat, 50)
	set(&b.Number, 50)
	if b.Backends == nil {
		b.Backends = TypeAuto.Candidates(&CreateOptions{IntraOpThreads: b.Threads})
	}
	if b.Output == nil {
		b.Output = os.Stdout
	}
}

// Run measures all presets. The failure of a preset is recorded in its result and does
// not stop the others. The error is that of the options, of reading a stream, or of ctx.
func (b *Benchmark) Run(ctx context.Context) error {
	b.defaults()
	if b.BatchSize < 0 || b.Repeat < 0 || b.Number < 0 || b.Threads < 0 {
		return fmt.Errorf("preset: Benchmark with BatchSize %d, Repeat %d, Number %d, Threads %d: the numbers must "+
			"not be negative", b.BatchSize, b.Repeat, b.Number, b.Threads)
	}
	model := b.Model
	if _, ok := model.Form().(backend.Stream); ok { // it can be read only once
		m, err := backend.Load(model)
		if err != nil {
			return err
		}
		model = From(m)
	}
	b.results, b.date = nil, time.Now()
	for _, p := range b.Backends {
		if b.Verbose {
			fmt.Fprintf(b.Output, "Benchmarking: %s... ", p.Name())
		}
		r, err := bounded(ctx, 0, func(ctx context.Context) (BenchmarkResult, error) {
			return b.one(ctx, p.plan().on(model, b.Input))
		}, nil)
		r.Name, r.Err = p.Name(), err
		b.results = append(b.results, r)
		if b.Verbose {
			status := "OK"
			if err != nil {
				status = fmt.Sprintf("FAILED (%s=%s)", class(err), err)
			}
			fmt.Fprintln(b.Output, status)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// one measures one preset.
func (b *Benchmark) one(ctx context.Context, p *plan) (r BenchmarkResult, err error) {
	rep, err := p.open(ctx)
	if err != nil {
		return r, err
	}
	defer rep.Close()
	free := context.WithoutCancel(ctx)
	runs := func(n int) error {
		for range n {
			if _, err := rep.Run(free, b.Input, nil); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := runs(max(b.Warmup, 0)); err != nil {
		return r, err
	}
	times := make([]float64, b.Repeat)
	for i := range times {
		start := system.now()
		if err := runs(b.Number); err != nil {
			return r, err
		}
		times[i] = float64(system.since(start).Nanoseconds()) / 1e6 / float64(b.Number)
		r.MSPerBatch += times[i] / float64(b.Repeat)
	}
	for _, t := range times {
		r.StdevMS += (t - r.MSPerBatch) * (t - r.MSPerBatch) / float64(max(b.Repeat-1, 1))
	}
	r.StdevMS = math.Sqrt(r.StdevMS)
	r.MSPerSample = r.MSPerBatch / float64(b.BatchSize)
	r.FPS = 1000 / r.MSPerSample
	return r, nil
}

// Results returns the figures of the last Run in the order of Backends.
func (b *Benchmark) Results() []BenchmarkResult { return b.results }

// Print writes the parameters and the figures of the last Run as tables.
func (b *Benchmark) Print() error {
	b.defaults()
	t := tabwriter.NewWriter(b.Output, 0, 0, 2, ' ', 0)
	if path, ok := b.Model.Form().(string); ok {
		fmt.Fprintf(t, "Model\t%s\n", path)
	}
	fmt.Fprintf(t, "Batch size\t%d\nWarmup\t%d\nRepeat\t%d\nNumber\t%d\n", b.BatchSize, max(b.Warmup, 0),
		b.Repeat, b.Number)
	if b.Threads != 0 {
		fmt.Fprintf(t, "Threads\t%d\n", b.Threads)
	}
	fmt.Fprintf(t, "System\t%s/%s, %d cores\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if !b.date.IsZero() {
		fmt.Fprintf(t, "Date\t%s\n", b.date.Format(time.DateTime))
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, "backend\tFPS\tms per sample\tms per batch\tstdev ms")
	for _, r := range b.results {
		if r.Err != nil {
			fmt.Fprintf(t, "%s (FAILED)\n", r.Name)
			continue
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.3f\t%.3f\t%.3f\n", r.Name, r.FPS, r.MSPerSample, r.MSPerBatch, r.StdevMS)
	}
	return t.Flush()
}

// class returns a name for the kind of an error: for a status the exception of ONNX
// Runtime's Python package, else the type of the first error in the chain with an
// exported type.
func class(err error) string {
	if st, ok := errors.AsType[*onward.StatusError](err); ok {
		var b strings.Builder
		for word := range strings.SplitSeq(st.Code.String(), "_") {
			if word != "EP" {
				word = word[:1] + strings.ToLower(word[1:])
			}
			b.WriteString(word)
		}
		return b.String()
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		t := reflect.TypeOf(e)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if n := t.Name(); n != "" && n[0] >= 'A' && n[0] <= 'Z' {
			return n
		}
	}
	return "Error"
}
