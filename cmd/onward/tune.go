package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/nativelib"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/preset"
)

// tuneJSON is the output of --json.
type tuneJSON struct {
	Model string `json:"model"`
	Best  string `json:"best,omitempty"`
	// Reference is the backend whose results the others were compared with.
	Reference string `json:"reference,omitempty"`
	Cached    bool   `json:"cached"` // whether the choice came from the cache
	// Undecided are the backends that may be as fast as Best. The choice is then not cached.
	Undecided []string     `json:"undecided,omitempty"`
	Results   []tuneResult `json:"results"`
	Error     string       `json:"error,omitempty"`
}

type tuneResult struct {
	Backend  string        `json:"backend"`
	Provider string        `json:"provider"`
	Status   preset.Status `json:"status"`
	Reason   string        `json:"reason,omitempty"`
	MedianMS float64       `json:"median_ms,omitempty"`
	FPS      float64       `json:"fps,omitempty"`
	LoadMS   float64       `json:"load_ms,omitempty"`
	Runs     int           `json:"runs,omitempty"`
	MaxError float64       `json:"max_error"`

	err error // Reason as an error, nil if the choice came from the cache
}

type tuneOptions struct {
	inputs    inputs.Flags
	providers string
	threads   int
	own       session.ProviderOptions
	noCache   bool
	duration  time.Duration
	timeout   time.Duration
	tolerance float64
}

func tuneCommand() *cobra.Command {
	var (
		o      tuneOptions
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "tune MODEL",
		Short: "Find the fastest backend on this machine for a model",
		Long: `Find the fastest backend on this machine for a model.

All backends are measured in alternating blocks, and their results are compared with
those of the provider reference. A backend is rejected if its results differ, if it
fails, or if its library is missing.

The choice is cached for the model, the shapes of the inputs and the machine. It is not
cached if the difference to another backend is noise: after three blocks, such backends
are measured in up to six more. A backend is faster if the order of the medians of the
blocks has a probability of at most 5 % by chance.

` + inputs.Help + `

` + text.Wrap("A backend is a provider, or a preset: "+typeNames()+".", 87),
		Example: `  onward tune model.onnx
  onward tune model.onnx --shape data=8x3x224x224
  onward tune model.onnx --provider cpu,ort_cpu,ort:cuda --no-cache --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, temp, err := o.auto(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			bar, steps := progress.New(cmd.ErrOrStderr(), "measuring", "steps"), 0
			a.Progress = func(candidate string) {
				bar.Step(steps, 0, candidate)
				steps++
			}
			r, err := tune(cmd.Context(), args[0], a)
			bar.Finish()
			if r == nil {
				return err
			}
			if asJSON {
				if e := text.JSON(cmd.OutOrStdout(), r); e != nil {
					return e
				}
			} else {
				printTune(cmd.OutOrStdout(), r)
			}
			if err != nil {
				return cli.Printed{Err: err}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&o.providers, "provider", "p", "",
		"backends to measure, such as cpu,ort_cpu,ort:cuda (default all presets)")
	session.OptionFlag(f, &o.own)
	session.ThreadsFlag(f, &o.threads)
	o.inputs.Register(f)
	f.DurationVar(&o.duration, "duration", 300*time.Millisecond, "measured time of each backend")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "largest time for loading and measuring a backend")
	f.Float64Var(&o.tolerance, "tolerance", 0,
		"largest error relative to an output's largest value "+
			"(default 1e-3; 2e-2 for half precision, 5e-2 if the model quantizes activations)")
	f.BoolVar(&o.noCache, "no-cache", false, "ignore the cache and do not write it")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func typeNames() string {
	var names []string
	for _, t := range preset.Types() {
		if t.Preset(nil) != nil {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, ", ")
}

// auto returns the measurement that the flags describe, and a folder that the caller removes.
func (o *tuneOptions) auto(ctx context.Context, path string) (a *preset.Auto, temp string,
	err error) {
	if o.threads < 0 || o.duration <= 0 || o.timeout <= 0 || o.tolerance < 0 {
		return nil, "", cli.Usagef(
			"--threads is %d, --duration %s, --timeout %s, --tolerance %g: want positive numbers", o.threads,
			o.duration, o.timeout, o.tolerance)
	}
	a = &preset.Auto{Model: preset.From(path), NoCache: o.noCache, MinDuration: o.duration, Timeout: o.timeout,
		Tolerance: o.tolerance}
	create := &preset.CreateOptions{IntraOpThreads: o.threads}
	a.Candidates = preset.TypeAuto.Candidates(create)
	if o.providers != "" {
		a.Candidates = nil
		for n := range strings.SplitSeq(o.providers, ",") {
			t, err := preset.ParseType(n)
			switch {
			case driver.Lookup(n) != nil:
				own, err := o.own.For(n)
				if err != nil {
					return nil, "", err
				}
				a.Candidates = append(a.Candidates,
					preset.Registered{Provider: n, ProviderOptions: own, Threads: o.threads})
			case err == nil && t.Preset(create) != nil:
				a.Candidates = append(a.Candidates, t.Preset(create))
			default:
				if _, known := driver.PackageOf(n); known {
					return nil, "", cli.NotLinked{What: fmt.Sprintf("provider %q", n)}
				}
				return nil, "", cli.Usagef("unknown backend %q, want one of %s, %s", n, typeNames(),
					strings.Join(onward.Providers(), ", "))
			}
		}
	}
	m, err := modelfile.Load(path)
	if err != nil {
		return nil, "", err
	}
	if _, err := os.Stat(path); err != nil {
		a.Model = preset.From(m) // an example
	} else {
		defer m.Close()
	}
	f, err := o.inputs.Feed(ctx, m, true)
	if err != nil {
		return nil, "", err
	}
	a.InputExample = backend.Named(f.Values)
	d, err := onward.Describe(m)
	if err != nil {
		return nil, "", err
	}
	if temp, err = (&feed{Feed: f, args: slices.Concat(d.Inputs, d.OverridableInitializers)}).tempFolder(); err != nil {
		return nil, "", err
	}
	a.Try = func(ctx context.Context, provider string) error {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		_, err := runProbe(ctx, path, provider, &benchOptions{threads: o.threads, own: o.own, feedDir: temp})
		return err
	}
	return a, temp, nil
}

// tune measures. The result may be set even if there is an error.
func tune(ctx context.Context, path string, a *preset.Auto) (*tuneJSON, error) {
	best, report, err := a.Open(ctx)
	if err == nil {
		err = best.Close()
	}
	if report == nil || errors.Is(err, context.Canceled) {
		return nil, err
	}
	r := &tuneJSON{Model: path, Best: report.Best, Reference: report.Baseline, Cached: report.Cached,
		Undecided: report.Undecided, Results: []tuneResult{}}
	if err != nil {
		r.Error = err.Error()
		if report.Best == "" {
			r.Error = "no backend here runs the model"
			if slices.ContainsFunc(report.Results,
				func(x preset.Result) bool { return x.Status == preset.StatusWrong }) {
				r.Error = fmt.Sprintf("no backend here gives the results of %s; --tolerance allows larger differences",
					report.Baseline)
			}
		}
	}
	for _, x := range report.Results {
		r.Results = append(r.Results, tuneResult{Backend: x.Name, Provider: x.Provider, Status: x.Status,
			Reason: tuneReason(x, onward.Providers()), err: x.Err,
			MedianMS: text.Milliseconds(x.Median), FPS: x.FPS, LoadMS: text.Milliseconds(x.Open), Runs: x.Runs,
			MaxError: x.MaxError})
	}
	return r, err
}

// tuneReason returns why a backend was not measured. A user of the command cannot import a provider
// that build tags leave out, as the error of the library says.
func tuneReason(x preset.Result, linked []string) string {
	if _, known := driver.PackageOf(x.Provider); known && !slices.Contains(linked, x.Provider) {
		return cli.NotLinked{What: "the provider"}.Error()
	}
	return x.Reason
}

func printTune(w io.Writer, r *tuneJSON) {
	fmt.Fprintln(w, text.Name(r.Model))
	t := text.Table(w)
	fmt.Fprintln(t, "backend\tprovider\tmedian ms\truns/s\tmax error\tload ms\tstatus")
	var best, own, second *tuneResult
	for i, x := range r.Results {
		figures := "\t\t\t"
		if x.MedianMS > 0 {
			figures = fmt.Sprintf("%.4g\t%s\t%.2g\t%.4g", x.MedianMS, text.Number(x.FPS), x.MaxError, x.LoadMS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", x.Backend, x.Provider, figures, x.Status)
		if x.Backend == r.Best {
			best = &r.Results[i]
		}
		if x.Provider == "cpu" && x.MedianMS > 0 {
			own = &r.Results[i]
		}
	}
	t.Flush()
	for i, x := range r.Results {
		if x.MedianMS > 0 && x.Backend != r.Best && (second == nil || x.MedianMS < second.MedianMS) {
			second = &r.Results[i]
		}
	}
	switch {
	case best == nil:
		fmt.Fprintln(w, text.Escape(r.Error))
	case own != nil && own != best:
		fmt.Fprintf(w, "fastest: %s, in %.3f of the time of %s\n", best.Backend,
			best.MedianMS/own.MedianMS, own.Backend)
	case second != nil:
		fmt.Fprintf(w, "fastest: %s, in %.3f of the time of %s\n", best.Backend, best.MedianMS/second.MedianMS,
			second.Backend)
	default:
		fmt.Fprintf(w, "fastest: %s\n", best.Backend)
	}
	if len(r.Undecided) > 0 {
		fmt.Fprintf(w, "not cached: noise decided between it and %s; a longer --duration may tell them apart\n",
			strings.Join(r.Undecided, ", "))
	}
	if r.Cached {
		fmt.Fprintln(w, "from the cache; --no-cache measures again")
	}
	// Backends of one provider fail for the same reason: print it once.
	var reasons []tuneResult
	backends := map[string][]string{}
	for _, x := range r.Results {
		if x.Reason == "" {
			continue
		}
		if backends[x.Reason] == nil {
			reasons = append(reasons, x)
		}
		backends[x.Reason] = append(backends[x.Reason], x.Backend)
	}
	for _, x := range reasons {
		lines, absent := nativelib.PresentPaths(x.Reason, x.err)
		_, lines[0], _ = nativelib.CutStatus(lines[0])
		fmt.Fprintf(w, "\n%s: %s\n", strings.Join(backends[x.Reason], ", "), strings.Join(lines, "\n  "))
		if absent > 0 {
			fmt.Fprintf(w, "  %d more paths do not exist; onward doctor --json lists them.\n", absent)
		}
	}
}
