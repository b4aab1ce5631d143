// Package ranges finds the ranges of a model's activations as the flags of the verbs say.
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

// Flags are the flags that onward calibrate and quantize share.
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
}

// Register adds the flags.
func (o *Flags) Register(f *pflag.FlagSet) {
	o.Data.Register(f)
	f.StringVar(&o.method, "method", "minmax", "how ranges are found: minmax, entropy or percentile")
	f.Float64Var(&o.percent, "percentile", 99.999, "with --method percentile, how much of the values to keep")
	f.BoolVar(&o.average, "moving-average", false, "with --method minmax, average the ends over batches")
	f.IntVar(&o.window, "window", 0, "look at so many batches together (default all; histograms then read the data twice)")
	f.IntVar(&o.bins, "bins", 0, "bins of a histogram (default 128 for entropy, 2048 for percentile)")
	f.StringVarP(&o.Provider, "provider", "p", "cpu", "the engine that runs the model")
	f.IntVar(&o.Threads, "threads", 0, "threads of one run (default all cores)")
}

// Options returns the options that the flags say.
func (o *Flags) Options() (*calibration.Options, error) {
	methods := map[string]calibration.Method{"minmax": calibration.MinMax, "entropy": calibration.Entropy, "percentile": calibration.Percentile}
	method, ok := methods[strings.ToLower(o.method)]
	if !ok {
		return nil, cli.Usagef("--method is %q, want minmax, entropy or percentile", o.method)
	}
	if !(o.percent > 0 && o.percent <= 100) {
		return nil, cli.Usagef("--percentile is %g, want more than 0 and 100 at most", o.percent)
	}
	if o.average && method != calibration.MinMax {
		return nil, cli.Usagef("--moving-average is for --method minmax")
	}
	if o.window < 0 || o.bins < 0 || o.bins%2 != 0 {
		return nil, cli.Usagef("--window is %d and --bins %d, want 0 or more, and an even number of bins", o.window, o.bins)
	}
	opts, err := session.Options(o.Provider, o.Threads)
	if err != nil {
		return nil, err
	}
	return &calibration.Options{
		Method: method, Percent: o.percent, Symmetric: o.Symmetric, MovingAverage: o.average, Window: o.window, Bins: o.bins,
		OpTypes: o.OpTypes, MaxBatches: o.Data.MaxBatches, Session: opts,
	}, nil
}

// Find returns the ranges and the number of batches. It shows progress on w.
func (o *Flags) Find(ctx context.Context, w io.Writer, m *onnx.Model, data calibration.Data) (*calibration.Table, int, error) {
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
