package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/trace"
	"github.com/onward-ml/onward/tensor"
)

// profileJSON is the output of --json. Times are means over the runs in milliseconds.
type profileJSON struct {
	Model    string        `json:"model"`
	Provider string        `json:"provider"`
	Runs     int           `json:"runs"`
	RunMS    float64       `json:"run_ms"`   // a run, observed
	NodesMS  float64       `json:"nodes_ms"` // the sum over its nodes
	Ops      []profileLine `json:"operators"`
	Nodes    []profileLine `json:"nodes"`
}

type profileLine struct {
	Index  int     `json:"index,omitempty"` // of a node, in the order of execution
	Name   string  `json:"name,omitempty"`
	Op     string  `json:"op_type"`
	Domain string  `json:"domain,omitempty"`
	Count  int     `json:"count"` // times per run
	TimeMS float64 `json:"time_ms"`
	Share  float64 `json:"share"` // of nodes_ms
	Shapes string  `json:"shapes,omitempty"`
}

func profileCommand() *cobra.Command {
	var (
		in                  inputs.Flags
		threads             int
		mapWeights          bool
		provider, traceFile string
		runs, top           int
		asJSON              bool
		own                 session.ProviderOptions
	)
	c := &cobra.Command{
		Use:   "profile MODEL",
		Short: "Show where a model's time goes",
		Long: `Show the time of each operator and each node: the mean of several runs after two
warm-up runs. Fused nodes appear as the operator that replaced them. The time of a node
with subgraphs includes the nodes of the subgraphs, which are listed too. The nodes of a
native library are those of its own profile, without shapes.

--trace writes the last run for a trace viewer: https://ui.perfetto.dev or
chrome://tracing.

` + inputs.Help,
		Example: `  onward profile model.onnx
  onward profile model.onnx --provider reference --top 5 --trace run.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if runs < 1 || top < 0 {
				return cli.Usagef("--runs is %d and --top %d, want at least 1 and 0", runs, top)
			}
			opts, err := session.Options(provider, threads, own)
			if err != nil {
				return err
			}
			if !driver.TraitsOf(driver.Lookup(provider)).Operators {
				if traceFile != "" {
					return cli.Usagef("--trace is for the providers cpu and reference, got --provider %s", provider)
				}
				r, err := profileNative(cmd.Context(), args[0], provider, opts, &in, runs)
				if err != nil {
					return err
				}
				if asJSON {
					return text.JSON(cmd.OutOrStdout(), r)
				}
				return printProfile(cmd.OutOrStdout(), r, top)
			}
			opts.MapWeights = mapWeights
			sess, err := session.Open(args[0], opts)
			if err != nil {
				return err
			}
			defer sess.Close()
			drawn, err := drawInputs(args[0], &in, true)
			if err != nil {
				return err
			}
			feed := drawn.Values
			for range 2 {
				if _, err := sess.Run(cmd.Context(), feed, nil); err != nil {
					return err
				}
			}
			p := profiler{shapes: map[int]string{}}
			var last *trace.Profile
			for range runs {
				last = trace.New(provider)
				start := time.Now()
				_, err := sess.Run(cmd.Context(), feed, &onward.RunOptions{Observe: func(n onward.NodeRun) {
					if traceFile != "" {
						last.Node(n)
					}
					p.node(n)
				}})
				if err != nil {
					return err
				}
				p.total += time.Since(start)
				last.Session("model_run", start, time.Since(start))
			}
			if traceFile != "" {
				if err := last.WriteFile(traceFile); err != nil {
					return err
				}
			}
			r := p.summary(runs)
			r.Model, r.Provider = args[0], provider
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			return printProfile(cmd.OutOrStdout(), r, top)
		},
	}
	f := c.Flags()
	session.ProviderFlag(f, &provider)
	session.OptionFlag(f, &own)
	session.ThreadsFlag(f, &threads)
	session.MapWeightsFlag(f, &mapWeights)
	in.Register(f)
	f.IntVar(&runs, "runs", 10, "number of timed runs")
	f.IntVar(&top, "top", 20, "number of nodes to list; 0 for all")
	f.StringVar(&traceFile, "trace", "", "write the last run to this file, in the trace event format")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// profileNative takes the nodes from the profile that a native library writes.
func profileNative(ctx context.Context, path, provider string, opts *onward.SessionOptions, in *inputs.Flags, runs int) (*profileJSON, error) {
	rep, err := openRep(ctx, path, provider, &backend.Options{Session: opts, Profile: true})
	if err != nil {
		return nil, err
	}
	defer rep.Close()
	feed, err := drawInputs(path, in, true)
	if err != nil {
		return nil, err
	}
	const warmUps = 2
	p := profiler{}
	for i := range warmUps + runs {
		start := time.Now()
		if _, err := rep.Run(ctx, backend.Named(feed.Values), nil); err != nil {
			return nil, err
		}
		if i >= warmUps {
			p.total += time.Since(start)
		}
	}
	events, _, err := rep.Profiling()
	if err != nil {
		return nil, err
	}
	// A profile does not tell runs apart, and a first run can have other nodes than later ones,
	// such as those that reorder weights. Of each node, the share of the warm-up runs is dropped.
	byName := map[[2]string][]onward.NodeRun{}
	for _, e := range events {
		key := [2]string{e.Name, e.OpType}
		index := len(byName)
		if l := byName[key]; l != nil {
			index = l[0].Index
		}
		byName[key] = append(byName[key], onward.NodeRun{Index: index, Name: e.Name, OpType: e.OpType, Duration: e.Duration})
	}
	for _, l := range byName {
		p.all = append(p.all, l[len(l)-len(l)*runs/(warmUps+runs):]...)
	}
	r := p.summary(runs)
	r.Model, r.Provider = path, provider
	return r, nil
}

// profiler collects the runs of nodes that the provider reports.
type profiler struct {
	all    []onward.NodeRun // without values
	shapes map[int]string
	total  time.Duration
}

func (p *profiler) node(n onward.NodeRun) {
	if _, ok := p.shapes[n.Index]; !ok {
		p.shapes[n.Index] = shapesOf(n.In) + " -> " + shapesOf(n.Out)
	}
	n.In, n.Out = nil, nil // valid only during the call
	p.all = append(p.all, n)
}

func shapesOf(values []tensor.Value) string {
	s := make([]string, 0, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			s = append(s, "-")
		case *tensor.Tensor:
			s = append(s, v.String())
		default:
			s = append(s, v.Type().String())
		}
	}
	return strings.Join(s, " ")
}

func (p *profiler) summary(runs int) *profileJSON {
	r := &profileJSON{Runs: runs, RunMS: text.Milliseconds(p.total) / float64(runs)}
	ops, nodes := map[string]*profileLine{}, map[int]*profileLine{}
	for _, n := range p.all {
		t := text.Milliseconds(n.Duration) / float64(runs)
		r.NodesMS += t
		key := n.Domain + "\x00" + n.OpType
		if ops[key] == nil {
			ops[key] = &profileLine{Op: n.OpType, Domain: n.Domain}
		}
		if nodes[n.Index] == nil {
			nodes[n.Index] = &profileLine{Index: n.Index, Name: n.Name, Op: n.OpType, Domain: n.Domain, Shapes: p.shapes[n.Index]}
		}
		for _, l := range []*profileLine{ops[key], nodes[n.Index]} {
			l.Count++
			l.TimeMS += t
		}
	}
	finish := func(l *profileLine) profileLine {
		l.Count = (l.Count + runs - 1) / runs
		if r.NodesMS > 0 {
			l.Share = l.TimeMS / r.NodesMS
		}
		return *l
	}
	for _, l := range ops {
		r.Ops = append(r.Ops, finish(l))
	}
	for _, l := range nodes {
		r.Nodes = append(r.Nodes, finish(l))
	}
	slices.SortFunc(r.Ops, func(a, b profileLine) int { return cmp.Or(cmp.Compare(b.TimeMS, a.TimeMS), cmp.Compare(a.Op, b.Op)) })
	slices.SortFunc(r.Nodes, func(a, b profileLine) int { return cmp.Or(cmp.Compare(b.TimeMS, a.TimeMS), a.Index-b.Index) })
	return r
}

func printProfile(w io.Writer, r *profileJSON, top int) error {
	fmt.Fprintf(w, "%s on %s: %.4g ms a run, %.4g ms in its nodes, mean of %d runs\n\n", text.Name(r.Model), r.Provider, r.RunMS, r.NodesMS, r.Runs)
	t := text.NumberTable(w)
	fmt.Fprintln(t, "ms\tshare\tcount\toperator\t")
	for _, l := range r.Ops {
		fmt.Fprintf(t, "%.4f\t%.1f%%\t%d\t%s\t\n", l.TimeMS, 100*l.Share, l.Count, text.Name(opName(l)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	nodes := r.Nodes
	if top > 0 && len(nodes) > top {
		nodes = nodes[:top]
	}
	fmt.Fprintf(w, "\nthe %d slowest of %d nodes\n", len(nodes), len(r.Nodes))
	t = text.Table(w)
	fmt.Fprintln(t, "ms\tshare\t#\toperator\tname\tshapes")
	for _, l := range nodes {
		fmt.Fprintf(t, "%.4f\t%.1f%%\t%d\t%s\t%s\t%s\n", l.TimeMS, 100*l.Share, l.Index, text.Name(opName(l)), text.Name(l.Name), l.Shapes)
	}
	return t.Flush()
}

func opName(l profileLine) string {
	if l.Domain != "" {
		return l.Domain + "." + l.Op
	}
	return l.Op
}
