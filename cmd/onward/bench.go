package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/bandwidth"
	"github.com/onward-ml/onward/internal/testing/cputime"
)

// benchOptions holds the flags of the verb.
type benchOptions struct {
	providers  []string
	threads    int
	own        session.ProviderOptions
	inputs     inputs.Flags
	load       load
	rounds     int
	csv        string // file for the times of all runs
	mapWeights bool
	precision  onward.Precision
	probe      bool   // measure loading and memory in a process of its own
	feedDir    string // holds the inputs for that process
}

// benchJSON is the output of --json for a model.
type benchJSON struct {
	Model     string `json:"model"`
	Threads   int    `json:"threads"`
	Precision string `json:"precision,omitempty"` // "" for float32
	// Dimensions are the sizes of the free dimensions, if inputs were generated.
	Dimensions  map[string]int `json:"dimensions,omitempty"`
	Concurrency int            `json:"concurrency"`
	Rate        float64        `json:"rate,omitempty"` // runs per second that were asked for
	// ReadBytes is the number of bytes of weights and inputs that a run reads, and BandwidthGBPerS
	// the measured bandwidth of the memory with as many threads. They are missing for models that
	// read less than 16 MiB, and with Rate.
	ReadBytes       int64         `json:"read_bytes,omitempty"`
	BandwidthGBPerS float64       `json:"bandwidth_gb_per_s,omitempty"`
	Results         []benchResult `json:"results"`
	// Ratio is the second provider's median divided by the first's; over 1, the first is
	// faster. It is missing if only one provider was measured.
	Ratio float64 `json:"ratio,omitempty"`

	sizes string      // Dimensions in the order of the model
	times [][]float64 // of the runs of each provider, in milliseconds
}

type benchResult struct {
	Provider string  `json:"provider"`
	LoadMS   float64 `json:"load_ms"`  // from the file to the ready session
	FirstMS  float64 `json:"first_ms"` // the first run of a fresh session
	MinMS    float64 `json:"min_ms"`
	MedianMS float64 `json:"median_ms"` // of the blocks' medians
	P90MS    float64 `json:"p90_ms"`
	P95MS    float64 `json:"p95_ms"`
	P99MS    float64 `json:"p99_ms"`
	MeanMS   float64 `json:"mean_ms"`
	StdevMS  float64 `json:"stdev_ms"`
	Runs     int     `json:"runs"`
	// RunsPerS is the number of runs per second, the median of the blocks.
	RunsPerS float64 `json:"runs_per_s"`
	// ReadGBPerS is the rate at which runs of the median time read ReadBytes, and BandwidthShare
	// its share of the bandwidth. They are missing for devices with memory of their own.
	ReadGBPerS     float64 `json:"read_gb_per_s,omitempty"`
	BandwidthShare float64 `json:"bandwidth_share,omitempty"`
	// PeakRSSMB is the peak resident memory, in 2^20 bytes, of a process that only loads
	// the model and runs it; 0 if the system does not report it.
	PeakRSSMB float64 `json:"peak_rss_mb"`
	Error     string  `json:"error,omitempty"`
}

func benchCommand() *cobra.Command {
	var (
		o         benchOptions
		providers string
		threads   []int
		save      string
		html      string
		asJSON    bool
	)
	c := &cobra.Command{
		Use:   "bench MODEL...",
		Short: "Measure the speed of providers on a model",
		Long: `Measure the speed of providers on a model, side by side.

Each round has one block per provider. Blocks are divided into parts that alternate, so
that a temporarily slow machine slows all providers. Each part warms up before it is
timed. With several threads, a part begins when the process is idle, because workers of
some providers spin after a run. Times include the call from Go.

--concurrency runs one session several times concurrently. --rate starts runs at fixed
times, even if earlier runs are in progress; their times include the wait for a start.
load_ms, first_ms and peak_rss_mb are medians over one fresh process per round that
loads the model and runs it. Before each, the file is read, and memory is taken and freed:
a virtual machine returns free memory to its host, and the process that takes it waits.

` + inputs.Help + `

If weights and inputs are at least 16 MiB, the share of the bandwidth of the memory at which
runs read them is printed. Products of few rows, as in the steps of decoders, are as fast as
the memory at 100 %; models that read weights several times, such as convolutions, have small
shares. Shares above 100 % say that processor caches hold a part of the weights. Embeddings,
of which a run reads some rows, are not included.

With several --threads, each model is measured with each of them. --save writes the
results as a JSON array, as --json prints them one by one.

--html writes a page with the distributions of the times.

The ratio is the second provider's median divided by the first's; over 1, the first is
faster.`,
		Example: `  onward bench model.onnx
  onward bench model.onnx --provider cpu,ort --html bench.html
  onward bench model.onnx --provider cpu,ort --threads 1 --shape data=1x3x224x224
  onward bench model.onnx --threads 1,2,4 --save results.json
  onward bench model.onnx --concurrency 4
  onward bench model.onnx --rate 200 --concurrency 16 --csv times.csv
  onward bench a.onnx b.onnx --duration 500ms --rounds 5 --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.providers = nil
			if len(threads) == 0 {
				threads = []int{0}
			}
			for p := range strings.SplitSeq(providers, ",") {
				for _, n := range threads {
					if _, err := session.Options(p, n, o.own); err != nil {
						return err
					}
				}
				if slices.Contains(o.providers, p) {
					return cli.Usagef("provider %s is named twice", p)
				}
				o.providers = append(o.providers, p)
			}
			if o.rounds < 1 || o.load.duration <= 0 {
				return cli.Usagef("--rounds is %d and --duration %s, want at least 1 and a positive duration", o.rounds,
					o.load.duration)
			}
			if err := o.load.check(); err != nil {
				return err
			}
			o.probe = true
			times := timesFile{path: o.csv}
			failed := false
			var all []*benchJSON
			for _, path := range args {
				for _, o.threads = range threads {
					r, err := bench(cmd.Context(), path, &o, &times)
					if err != nil {
						return err
					}
					failed = failed || slices.ContainsFunc(r.Results, func(r benchResult) bool { return r.Error != "" })
					if asJSON {
						err = text.JSON(cmd.OutOrStdout(), r)
					} else {
						if len(all) > 0 {
							fmt.Fprintln(cmd.OutOrStdout())
						}
						printBench(cmd.OutOrStdout(), r)
					}
					if err != nil {
						return err
					}
					all = append(all, r)
				}
			}
			if !slices.ContainsFunc(all, func(b *benchJSON) bool {
				return slices.ContainsFunc(b.Results, func(r benchResult) bool { return r.Error == "" })
			}) {
				return cli.Printed{Err: errors.New("all providers failed")}
			}
			if err := times.write(); err != nil {
				return err
			}
			if save != "" {
				err := atomicfile.Write(save, 0o644, func(w io.Writer) error { return text.JSON(w, all) })
				if err != nil {
					return err
				}
			}
			if err := writePage(cmd.Context(), html, func() *page.Page { return benchPage(all) }); err != nil {
				return err
			}
			if failed {
				return cli.Printed{Err: errors.New("a provider failed")}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&providers, "provider", "p", "cpu",
		"the providers, such as cpu,ort: "+strings.Join(onward.Providers(), ", "))
	session.OptionFlag(f, &o.own)
	f.IntSliceVar(&threads, "threads", nil, "threads per run, or several numbers: 1,2,4 (default all cores)")
	session.MapWeightsFlag(f, &o.mapWeights)
	session.PrecisionFlag(f, &o.precision)
	o.inputs.Register(f)
	o.load.register(f)
	f.IntVar(&o.rounds, "rounds", 3, "number of blocks of each provider")
	f.StringVar(&save, "save", "", "write the results to this file")
	f.StringVar(&o.csv, "csv", "", "write the time of every run to this file")
	htmlFlag(f, &html)
	f.BoolVar(&asJSON, "json", false, "print JSON, one object for each model and number of threads")
	return c
}

// samples holds the times of one provider in milliseconds.
type samples struct {
	all     []float64
	medians []float64 // of blocks
	rates   []float64 // of blocks, runs per second
	runs    int
	load    []float64
	first   []float64
	rss     []float64
	err     error
}

// bench measures a model on all providers.
func bench(ctx context.Context, path string, o *benchOptions, times *timesFile) (*benchJSON, error) {
	feed, err := drawInputs(ctx, path, &o.inputs, true)
	if err != nil {
		return nil, err
	}
	if o.probe {
		dir, err := feed.tempFolder()
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		o.feedDir = dir
	}
	r := &benchJSON{Model: path, Dimensions: feed.Dimensions, sizes: feed.Sizes(), Threads: threadsOf(o.threads),
		Precision: session.PrecisionName(o.precision), Concurrency: o.load.concurrency, Rate: o.load.rate}
	all := make([]samples, len(o.providers))
	for round := range o.rounds {
		if feed.read >= 16<<20 && r.Rate == 0 {
			r.ReadBytes = feed.read
			threads := min(r.Threads*o.load.concurrency, runtime.NumCPU())
			r.BandwidthGBPerS = max(r.BandwidthGBPerS, bandwidth.NewMeter().Rate(threads)/1e9)
		}
		// so that drift of the machine affects all providers alike
		benchRound(ctx, path, feed.Values, o, all, round&1 != 0)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	for k, p := range o.providers {
		times.add(path, p, r.Threads, all[k].all)
		x := all[k].result(p)
		if r.ReadBytes > 0 && x.Error == "" && inMemory(p) {
			x.ReadGBPerS = float64(r.ReadBytes) * float64(r.Concurrency) / x.MedianMS / 1e6
			x.BandwidthShare = x.ReadGBPerS / r.BandwidthGBPerS
		}
		r.Results, r.times = append(r.Results, x), append(r.times, all[k].all)
	}
	if len(all) > 1 && all[0].err == nil && all[1].err == nil {
		r.Ratio = median(all[1].medians) / median(all[0].medians)
	}
	return r, nil
}

// inMemory reports whether weights are in the processor's memory and not in that of a device.
func inMemory(provider string) bool {
	_, device, _ := strings.Cut(provider, ":")
	return device == "" || device == "cpu"
}

// openForBench opens a model by its path, so that a provider that reads files itself does so.
func openForBench(ctx context.Context, path, provider string, o *benchOptions) (*onward.Session, error) {
	opts, err := session.Options(provider, o.threads, o.own)
	if err != nil {
		return nil, err
	}
	opts.MapWeights, opts.Precision = o.mapWeights, o.precision
	if _, err := os.Stat(path); err != nil {
		return session.Open(ctx, path, opts) // an example
	}
	return onward.Open(ctx, path, opts)
}

// benchRound measures one block of each provider that has not failed, in order or backwards.
func benchRound(ctx context.Context, path string, feed onward.Values, o *benchOptions, all []samples, backwards bool) {
	blocks := make([]benchBlock, len(all))
	defer func() {
		for i := range blocks {
			if sess := blocks[i].sess; sess != nil {
				sess.Close()
			}
		}
		debug.FreeOSMemory()
	}()
	l := o.load
	if len(all) > 1 && l.iterations == 0 && l.concurrency == 1 && l.rate == 0 {
		l.parts = 4
		l.duration /= time.Duration(l.parts)
	}
	// Fresh processes measure loading before any session is open.
	for part := -2; part < max(1, l.parts); part++ {
		for k := range all {
			if backwards != (part&1 != 0) {
				k = len(all) - 1 - k
			}
			s, b, p := &all[k], &blocks[k], o.providers[k]
			switch {
			case s.err != nil:
			case part == -2:
				s.err = s.probe(ctx, path, p, o)
			case part == -1:
				s.err = b.open(ctx, path, p, feed, o)
			default:
				if len(all) > 1 && o.threads != 1 {
					settle()
				}
				s.err = b.measure(&l)
			}
		}
		if part == 0 && l.parts > 1 && l.warmup == 0 {
			l.warmup = 1 // fills the caches again
		}
	}
	for k := range all {
		if s, b := &all[k], &blocks[k]; s.err == nil {
			s.runs += b.runs
			s.all = append(s.all, b.times...)
			s.medians = append(s.medians, median(b.times))
			s.rates = append(s.rates, float64(b.runs)/b.elapsed.Seconds())
		}
	}
}

// settle waits until the process is idle, but not longer than 0.2 seconds: workers of ONNX Runtime
// spin for 40 ms after a run.
func settle() {
	settleBy(func(window time.Duration) time.Duration {
		start := cputime.Now()
		time.Sleep(window)
		return start.Elapsed()
	})
}

// settleBy is settle with a function that returns the time that the process runs during a window.
func settleBy(busy func(window time.Duration) time.Duration) {
	const window = 20 * time.Millisecond // systems count the time of a running thread every 1 to 10 ms
	for range 10 {
		if busy(window) < window/4 {
			return
		}
	}
}

// probe measures loading and memory in a fresh process.
func (s *samples) probe(ctx context.Context, path, provider string, o *benchOptions) error {
	if !o.probe {
		return nil
	}
	preheat(path)
	p, err := runProbe(ctx, path, provider, o)
	if err == nil {
		s.load, s.first, s.rss = append(s.load, p.LoadMS), append(s.first, p.FirstMS), append(s.rss, p.PeakRSSMB)
	}
	return err
}

// preheat reads the file, so that no provider waits for the disk, and takes and frees more memory
// than most processes need that open it. A virtual machine returns free memory to its host up to
// once per second, and the process that takes it again waits for the host.
func preheat(path string) {
	n := int64(512 << 20)
	if f, err := os.Open(path); err == nil {
		size, _ := io.Copy(io.Discard, f)
		f.Close()
		n += 4 * size
	}
	b := make([]byte, min(n, memory.Default()/4))
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	debug.FreeOSMemory() // b is not used any more
}

// benchBlock is a block of a provider.
type benchBlock struct {
	block
	sess *onward.Session
	run  func() error
}

// open opens the session and runs it once.
func (b *benchBlock) open(ctx context.Context, path, provider string, feed onward.Values, o *benchOptions) (err error) {
	if b.sess, err = openForBench(ctx, path, provider, o); err != nil {
		return err
	}
	timed := ctx
	b.run = func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := b.sess.Run(timed, feed, nil)
		return err
	}
	start := time.Now()
	err = b.run()
	if time.Since(start) < time.Second { // else a run is too long to wait for its end after Ctrl-C
		timed = context.WithoutCancel(ctx) // a context that can end costs some providers a watcher per run
	}
	return err
}

// measure measures a part of the block.
func (b *benchBlock) measure(l *load) error {
	part, err := l.measure(b.run)
	if err == nil {
		b.times = append(b.times, part.times...)
		b.runs += part.runs
		b.elapsed += part.elapsed
	}
	return err
}

func (s *samples) result(provider string) benchResult {
	r := benchResult{Provider: provider, Runs: s.runs}
	if s.err != nil {
		r.Error = s.err.Error()
		return r
	}
	all := slices.Sorted(slices.Values(s.all))
	n := float64(len(all))
	for _, x := range all {
		r.MeanMS += x / n
	}
	for _, x := range all {
		r.StdevMS += (x - r.MeanMS) * (x - r.MeanMS) / n
	}
	r.StdevMS = math.Sqrt(r.StdevMS)
	percentile := func(p int) float64 { return all[min(len(all)-1, len(all)*p/100)] }
	r.MinMS, r.P90MS, r.P95MS, r.P99MS = all[0], percentile(90), percentile(95), percentile(99)
	r.MedianMS, r.RunsPerS = median(s.medians), median(s.rates)
	r.LoadMS, r.FirstMS, r.PeakRSSMB = median(s.load), median(s.first), median(s.rss)
	return r
}

// median returns the median of x without reordering it; 0 if x is empty.
func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

func printBench(w io.Writer, r *benchJSON) {
	fmt.Fprintf(w, "%s, threads: %d", text.Name(r.Model), r.Threads)
	if r.Precision != "" {
		fmt.Fprintf(w, ", precision: %s", r.Precision)
	}
	if r.Concurrency > 1 {
		fmt.Fprintf(w, ", concurrent runs: %d", r.Concurrency)
	}
	if r.Rate > 0 {
		fmt.Fprintf(w, ", runs per second: %g", r.Rate)
	}
	if r.sizes != "" {
		fmt.Fprintf(w, ", free dimensions: %s", text.Name(r.sizes))
	}
	fmt.Fprintln(w)
	t := text.NumberTable(w)
	fmt.Fprintln(t, "provider\tmedian ms\tmin\tp90\tp95\tp99\tmean\tstdev\truns\truns/s\tload ms\tfirst ms\tpeak MB\t")
	for _, x := range r.Results {
		if x.Error != "" {
			continue
		}
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.2g\t%d\t%s\t%.4g\t%.4g\t%.1f\t\n", x.Provider,
			x.MedianMS, x.MinMS, x.P90MS, x.P95MS, x.P99MS, x.MeanMS, x.StdevMS, x.Runs, text.Number(x.RunsPerS),
			x.LoadMS, x.FirstMS, x.PeakRSSMB)
	}
	t.Flush()
	for _, x := range r.Results {
		if x.Error != "" {
			fmt.Fprintf(w, "%s failed: %s\n", x.Provider, text.Escape(x.Error))
		} else if x.BandwidthShare > 0 {
			fmt.Fprintf(w, "%s reads %s of weights and inputs per run, %.1f GB/s: %.0f %% of the memory's %.1f GB/s\n",
				x.Provider, text.Bytes(r.ReadBytes), x.ReadGBPerS, 100*x.BandwidthShare, r.BandwidthGBPerS)
		}
	}
	if r.Ratio != 0 {
		fmt.Fprintf(w, "ratio %.3f: %s takes %.3f of the time of %s\n", r.Ratio, r.Results[0].Provider, 1/r.Ratio,
			r.Results[1].Provider)
	}
}
