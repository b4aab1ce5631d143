// Package ranges finds the ranges of a model's activations for calibrate and quantize.
package ranges

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/batches"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/onnx"
)

// Flags holds the calibration flags. Verbs set Symmetric and OpTypes by flags of their own.
type Flags struct {
	Data      batches.Flags
	method    string
	percent   float64
	Symmetric bool
	average   bool
	window    int
	bins      int
	OpTypes   []string
	Provider  string
	Threads   int
	Own       session.ProviderOptions
}

// Register adds the flags.
func (o *Flags) Register(f *pflag.FlagSet) {
	o.Data.Register(f)
	f.StringVar(&o.method, "method", "minmax", "calibration method: minmax, entropy or percentile")
	f.Float64Var(&o.percent, "percentile", 99.999, "percentage of values inside the range, with --method percentile")
	f.BoolVar(&o.average, "moving-average", false, "average the ends of ranges over batches, with --method minmax")
	f.IntVar(&o.window, "window", 0,
		"batches that are processed together (default all; histograms then read the data twice)")
	f.IntVar(&o.bins, "bins", 0, "bins of a histogram (default 128 for entropy, 2048 for percentile)")
	f.StringVarP(&o.Provider, "provider", "p", "cpu", "the provider that runs the model")
	session.OptionFlag(f, &o.Own)
	session.ThreadsFlag(f, &o.Threads)
}

// Options returns the calibration options that the flags select.
func (o *Flags) Options() (*calibration.Options, error) {
	methods := map[string]calibration.Method{"minmax": calibration.MinMax, "entropy": calibration.Entropy,
		"percentile": calibration.Percentile}
	method, ok := methods[strings.ToLower(o.method)]
	if !ok {
		return nil, cli.Usagef("--method is %q, want minmax, entropy or percentile", o.method)
	}
	if !(o.percent > 0 && o.percent <= 100) {
		return nil, cli.Usagef("--percentile is %g, want more than 0 and at most 100", o.percent)
	}
	if o.average && method != calibration.MinMax {
		return nil, cli.Usagef("--moving-average needs --method minmax")
	}
	if o.window < 0 || o.bins < 0 || o.bins%2 != 0 {
		return nil, cli.Usagef("--window is %d and --bins %d, want 0 or more and an even number of bins",
			o.window, o.bins)
	}
	opts, err := session.Options(o.Provider, o.Threads, o.Own)
	if err != nil {
		return nil, err
	}
	return &calibration.Options{
		Method: method, Percent: o.percent, Symmetric: o.Symmetric, MovingAverage: o.average,
		Window: o.window, Bins: o.bins,
		OpTypes: o.OpTypes, MaxBatches: o.Data.MaxBatches, Session: opts,
	}, nil
}

// Histograms returns a table with the histograms of the tensors of t, which is t if it has them.
// Ranges by the smallest and largest values have none; then the data is read again.
func (o *Flags) Histograms(ctx context.Context, w io.Writer, m *onnx.Model, data calibration.Data,
	t *calibration.Table) (*calibration.Table, error) {
	if t.Method != calibration.MinMax {
		return t, nil
	}
	all := *o
	all.method, all.percent, all.average, all.Symmetric, all.bins, all.window = "percentile", 100, false, false, 128, 0
	h, _, err := all.Find(ctx, w, m, data)
	return h, err
}

// Find returns the ranges and the number of batches. It shows progress on w.
func (o *Flags) Find(ctx context.Context, w io.Writer, m *onnx.Model,
	data calibration.Data) (*calibration.Table, int, error) {
	opts, err := o.Options()
	if err != nil {
		return nil, 0, err
	}
	bar := progress.New(w, "calibrating", "batches")
	defer bar.Finish()
	count := 0
	opts.Progress = func(p calibration.Progress) {
		if p.Pass == 1 {
			count = p.Batch
		}
		bar.Step((p.Pass-1)*count+p.Batch, 0, "")
	}
	t, err := calibration.Calibrate(ctx, m, data, opts)
	return t, count, err
}
