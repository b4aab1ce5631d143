package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/peak"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/trace"
)

// profileJSON is the output of --json. Times are milliseconds of one run, the one with the median
// total.
type profileJSON struct {
	Model      string         `json:"model"`
	Provider   string         `json:"provider"`
	Threads    int            `json:"threads"`
	Precision  string         `json:"precision,omitempty"`  // "" for float32
	Plan       string         `json:"plan,omitempty"`       // "general", or input shapes that it is specialized to; "": one plan
	Dimensions map[string]int `json:"dimensions,omitempty"` // sizes of free dimensions, if inputs were generated
	Runs       int            `json:"runs"`
	RunMS      float64        `json:"run_ms"`   // a run, observed
	NodesMS    float64        `json:"nodes_ms"` // all nodes of this run
	FastestMS  float64        `json:"fastest_ms"`
	SlowestMS  float64        `json:"slowest_ms"`
	Busy       string         `json:"busy,omitempty"` // signs that other processes disturbed the measurement
	FLOPs      int64          `json:"flops"`
	Peak       *peak.Peak     `json:"peak,omitempty"` // what the threads reach at most, measured
	Ops        []profileLine  `json:"operators"`
	Nodes      []profileLine  `json:"nodes"`

	sizes string         // Dimensions in the order of the model
	chart *page.Flame    // of one run
	last  *trace.Profile // the last run
}

type profileLine struct {
	Index  int     `json:"index,omitempty"` // of a node, in the order of execution
	Name   string  `json:"name,omitempty"`
	Op     string  `json:"op_type"`
	Domain string  `json:"domain,omitempty"`
	Count  int     `json:"count"` // times per run
	TimeMS float64 `json:"time_ms"`
	Share  float64 `json:"share"` // of the times of all nodes
	// Computes are the nodes of the model that the node computes, and Shapes the types of what they
	// read and make together in the model's own layout, without parameters of rank 0 and 1.
	Computes []modelNode `json:"computes,omitempty"`
	Shapes   string      `json:"shapes,omitempty"`
	FLOPs    int64       `json:"flops"`
	Bytes    int64       `json:"bytes"` // of inputs, weights and results
	GFLOPS   float64     `json:"gflops"`
	// OfPeak is the least time for the arithmetic in float32 and the memory accesses at the
	// measured peak, divided by TimeMS; absent if it is unknown.
	OfPeak *float64 `json:"of_peak,omitempty"`

	ceiling float64 // milliseconds; −1: unknown
}

type modelNode struct {
	Name string `json:"name"`
	Op   string `json:"op_type"`
}

// profileOptions holds the flags of the verb.
type profileOptions struct {
	in               inputs.Flags
	session          *onward.SessionOptions
	provider, trace  string
	runs             int
	mapWeights, peak bool
}

func profileCommand() *cobra.Command {
	var (
		o         profileOptions
		threads   int
		top       int
		html      string
		asJSON    bool
		own       session.ProviderOptions
		precision onward.Precision
	)
	c := &cobra.Command{
		Use:   "profile MODEL",
		Short: "Show the time of each node, and its share of the machine's peak",
		Long: `Show the time of each operator and each node in one run: of several runs after two
warm-up runs, the one with the median time. A fused node is listed with the nodes of the model that it computes and
with their shapes. The time of a node with subgraphs includes their nodes, which are
listed too. The nodes of a native library are those of its own profile; nodes of the
model are found by name.

GFLOP/s count two operations per multiply-add. The peak is measured: GEMM in the
first-level cache, and copies in the caches and in memory. Arithmetic and memory accesses
each give a lower bound of the time. The share of the peak is the larger bound divided by
the time; arithmetic counts for float32 only.

--trace writes the last run for a trace viewer: https://ui.perfetto.dev or
chrome://tracing. --html writes a page with a flame chart of one run and sortable tables.

` + inputs.Help,
		Example: `  onward profile model.onnx
  onward profile model.onnx --html profile.html
  onward profile model.onnx --dimension batch=8 --threads 1
  onward profile model.onnx --provider reference --top 5 --trace run.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.runs < 1 || top < 0 {
				return cli.Usagef("--runs is %d and --top %d, want at least 1 and 0", o.runs, top)
			}
			var err error
			if o.session, err = session.Options(o.provider, threads, own); err != nil {
				return err
			}
			o.session.Precision = precision
			r, err := profile(cmd.Context(), args[0], &o)
			if err != nil {
				return err
			}
			if err := writePage(cmd.Context(), html, func() *page.Page { return profilePage(r) }); err != nil {
				return err
			}
			if o.trace != "" { // after the page, which an interrupt may prevent
				if err := r.last.WriteFile(o.trace); err != nil {
					return err
				}
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			printProfile(cmd.OutOrStdout(), r, top)
			return nil
		},
	}
	f := c.Flags()
	session.ProviderFlag(f, &o.provider)
	session.OptionFlag(f, &own)
	session.ThreadsFlag(f, &threads)
	session.MapWeightsFlag(f, &o.mapWeights)
	session.PrecisionFlag(f, &precision)
	o.in.Register(f)
	f.IntVar(&o.runs, "runs", 10, "number of timed runs")
	f.IntVar(&top, "top", 20, "number of nodes to list; 0 for all")
	f.BoolVar(&o.peak, "peak", true, "measure the peak of the machine")
	f.StringVar(&o.trace, "trace", "", "write the last run to this file, in the trace event format")
	htmlFlag(f, &html)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// warmUps is the number of runs before those that are timed.
const warmUps = 2

// profile measures the nodes of a model.
func profile(ctx context.Context, path string, o *profileOptions) (*profileJSON, error) {
	feed, err := drawInputs(ctx, path, &o.in, true)
	if err != nil {
		return nil, err
	}
	p, last := newProfiler(), trace.New(o.provider)
	if driver.TraitsOf(driver.Lookup(o.provider)).Operators {
		err = p.observe(ctx, path, o, feed, last)
	} else {
		err = p.library(ctx, path, o, feed, last)
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := p.summary()
	r.last = last
	if r.chart = p.chart; pagesLinked && r.chart == nil { // a library reports no start times
		r.chart = flameOf(r.Nodes)
	}
	r.Model, r.Provider, r.Threads = path, o.provider, threadsOf(o.session.Threads)
	r.Precision = session.PrecisionName(o.session.Precision)
	r.Plan = p.plan
	r.Dimensions, r.sizes = feed.Dimensions, feed.Sizes()
	if o.peak {
		m := peak.Measure(r.Threads, nil)
		r.Peak = &m
	}
	costs := costsOf(path, feed.Values) // nil if the model cannot be analyzed; it has been run
	r.addCosts(costs, p.nodes)
	r.Busy = r.busy()
	return r, nil
}

// observe runs the model on a provider that reports its nodes.
func (p *profiler) observe(ctx context.Context, path string, o *profileOptions, feed *feed, last *trace.Profile) error {
	o.session.MapWeights = o.mapWeights
	o.session.Deterministic = true // all runs have the same plan
	sess, err := session.Open(ctx, path, o.session)
	if err != nil {
		return err
	}
	defer sess.Close()
	for range warmUps {
		if _, err := sess.Run(ctx, feed.Values, nil); err != nil {
			return err
		}
	}
	var run []onward.NodeRun
	for i := range o.runs {
		start := time.Now()
		_, err := sess.Run(ctx, feed.Values, &onward.RunOptions{Observe: func(n onward.NodeRun) {
			if o.trace != "" && i == o.runs-1 {
				last.Node(n)
			}
			p.node(n)
			p.plan = n.Plan
			if i == o.runs-1 {
				n.In, n.Out = nil, nil // valid only during the call
				run = append(run, n)
			}
		}})
		if err != nil {
			return err
		}
		took := time.Since(start)
		p.endRun(took)
		if i == o.runs-1 {
			last.Session("model_run", start, took)
			if pagesLinked {
				p.chart = flame(run, start, took)
			}
		}
	}
	return nil
}

// library runs the model on a native library and takes the nodes from the profile that it writes.
func (p *profiler) library(ctx context.Context, path string, o *profileOptions, feed *feed, last *trace.Profile) error {
	rep, err := openRep(ctx, path, o.provider, &backend.Options{Session: o.session, Profile: true})
	if err != nil {
		return err
	}
	defer rep.Close()
	for i := range warmUps + o.runs {
		start := time.Now()
		if _, err := rep.Run(ctx, backend.Named(feed.Values), nil); err != nil {
			return err
		}
		if i >= warmUps {
			p.endRun(time.Since(start))
		}
	}
	events, _, err := rep.Profiling()
	if err != nil {
		return err
	}
	p.events(events, o.runs, last)
	return nil
}

func printProfile(w io.Writer, r *profileJSON, top int) {
	fmt.Fprintf(w, "%s on %s, threads: %d", text.Name(r.Model), r.Provider, r.Threads)
	if r.Precision != "" {
		fmt.Fprintf(w, ", precision: %s", r.Precision)
	}
	if r.sizes != "" {
		fmt.Fprintf(w, ", free dimensions: %s", text.Name(r.sizes))
	}
	if r.Plan != "" {
		fmt.Fprintf(w, ", %s", text.Name(r.planText()))
	}
	fmt.Fprintf(w, "\n%.4g ms a run, %.4g ms in its nodes; the median of %d runs", r.RunMS, r.NodesMS, r.Runs)
	if r.FLOPs > 0 && r.RunMS > 0 {
		fmt.Fprintf(w, "; %sFLOP, %.4g GFLOP/s", text.Scaled(r.FLOPs), float64(r.FLOPs)/r.RunMS/1e6)
	}
	fmt.Fprintln(w)
	if r.Peak != nil {
		fmt.Fprintf(w, "peak: %s\n", peakText(r.Peak))
	}
	if r.Busy != "" {
		fmt.Fprintln(w, r.Busy)
	}
	fmt.Fprintln(w)
	t := text.NumberTable(w)
	fmt.Fprintln(t, "ms\tshare\tcount\tGFLOP/s\tof peak\toperator\t")
	for _, l := range r.Ops {
		fmt.Fprintf(t, "%.4f\t%.1f%%\t%d\t%s\t%s\t\n", l.TimeMS, 100*l.Share, l.Count, l.figures(),
			text.Name(opName(l)))
	}
	t.Flush()
	nodes := r.Nodes
	if top > 0 && len(nodes) > top {
		nodes = nodes[:top]
	}
	fmt.Fprintf(w, "\nthe %d slowest of %d nodes\n", len(nodes), len(r.Nodes))
	t = text.Table(w)
	fmt.Fprintln(t, "ms\tshare\tGFLOP/s\tof peak\t#\toperator\tname\tcomputes\tshapes")
	for _, l := range nodes {
		fmt.Fprintf(t, "%.4f\t%.1f%%\t%s\t%d\t%s\t%s\t%s\t%s\n", l.TimeMS, 100*l.Share, l.figures(), l.Index,
			text.Name(opName(l)), text.Name(l.Name), text.Name(l.computes()), l.Shapes)
	}
	t.Flush()
}

// planText says which plan ran.
func (r *profileJSON) planText() string {
	if r.Plan == driver.GeneralPlan {
		return "general plan"
	}
	return "plan specialized to " + r.Plan
}

// figures returns the rate and the share of the peak as two cells.
func (l *profileLine) figures() string {
	rate, share := "-", "-"
	if l.GFLOPS > 0 {
		rate = fmt.Sprintf("%.4g", l.GFLOPS)
	}
	if l.OfPeak != nil {
		share = fmt.Sprintf("%.0f%%", 100**l.OfPeak)
	}
	return rate + "\t" + share
}

// computes lists the operators of the model that a node computes.
func (l *profileLine) computes() string {
	const most = 5
	var ops []string
	for i, n := range l.Computes {
		if i == most {
			ops = append(ops, fmt.Sprintf("%d more", len(l.Computes)-most))
			break
		}
		ops = append(ops, n.Op)
	}
	return cmp.Or(strings.Join(ops, "+"), "-")
}

func opName(l profileLine) string {
	if l.Domain != "" {
		return l.Domain + "." + l.Op
	}
	return l.Op
}

// peakText describes a measured peak.
func peakText(p *peak.Peak) string {
	s := fmt.Sprintf("%.4g GFLOP/s in float32", p.GFLOPS)
	for i, c := range p.Copies {
		where := "in " + text.Bytes(c.Bytes)
		if i == len(p.Copies)-1 {
			where = "in memory"
		}
		s += fmt.Sprintf(", %.4g GB/s %s", c.GBs, where)
	}
	return s
}
