package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/cpu"
)

// htmlFlag adds --html.
func htmlFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "html", "", "write a page for a browser to this file, which needs no network")
}

// writePage writes a page to the file of --html; an empty path writes none.
//
// It is inlined, so that a program without pages does not contain what computes them.
func writePage(ctx context.Context, path string, p func() *page.Page) error {
	if !pagesLinked || path == "" {
		return nil
	}
	return writePageFile(ctx, path, p)
}

func writePageFile(ctx context.Context, path string, p func() *page.Page) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := p()
	q.Facts = append(q.Facts, originFacts()...)
	return page.Write(path, q)
}

// originFacts says where and when a page was made.
func originFacts() []page.Fact {
	info, _ := debug.ReadBuildInfo()
	v, rest, _ := strings.Cut(version(info), "\n")
	if commit, _, _ := strings.Cut(rest, "\n"); strings.HasPrefix(commit, "commit") {
		v += ", " + strings.Join(strings.Fields(commit), " ")
	}
	return facts("processor", cmp.Or(cpu.Name(), "unknown"), "kernels", cpu.Active().String(), "version", v,
		"date", time.Now().Format("2006-01-02 15:04"))
}

func facts(nameValue ...string) []page.Fact {
	var r []page.Fact
	for i := 0; i < len(nameValue); i += 2 {
		r = append(r, page.Fact{Name: nameValue[i], Value: nameValue[i+1]})
	}
	return r
}

func columns(names string) []page.Column { // "#": the next one is a number
	var r []page.Column
	for n := range strings.SplitSeq(names, ",") {
		name, number := strings.CutPrefix(n, "#")
		r = append(r, page.Column{Name: name, Number: number})
	}
	return r
}

func milliseconds(x float64) string { return fmt.Sprintf("%.4g ms", x) }

// maxFrames bounds the frames of a flame chart: the longest are drawn.
const maxFrames = 20_000

// flameOf returns a chart of nodes one after the other.
func flameOf(nodes []profileLine) *page.Flame {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b profileLine) int { return a.Index - b.Index })
	var run []onward.NodeRun
	var begin, end time.Time
	for _, l := range nodes {
		took := time.Duration(l.TimeMS * 1e6)
		run = append(run,
			onward.NodeRun{Index: l.Index, Name: l.Name, OpType: l.Op, Domain: l.Domain, Start: end, Duration: took})
		end = end.Add(took)
	}
	return flame(run, begin, end.Sub(begin))
}

// flame returns a chart of the nodes of one run.
func flame(run []onward.NodeRun, start time.Time, total time.Duration) *page.Flame {
	nodes := slices.Clone(run)
	if len(nodes) > maxFrames {
		slices.SortFunc(nodes, func(a, b onward.NodeRun) int { return cmp.Compare(b.Duration, a.Duration) })
		nodes = nodes[:maxFrames]
	}
	slices.SortStableFunc(nodes, func(a, b onward.NodeRun) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Duration, a.Duration))
	})
	whole := max(total.Seconds(), 1e-12)
	f := &page.Flame{Depth: 1,
		Frames: []page.Frame{{Label: "run", Title: "run, " + milliseconds(text.Milliseconds(total)),
			Width: 1, Color: 7}}}
	var open []time.Time // the ends of the nodes around
	for _, n := range nodes {
		for len(open) > 0 && !n.Start.Before(open[len(open)-1]) {
			open = open[:len(open)-1]
		}
		open = append(open, n.Start.Add(n.Duration))
		f.Depth = max(f.Depth, len(open)+1)
		label := opName(profileLine{Op: n.OpType, Domain: n.Domain})
		title := fmt.Sprintf("%s, %s, %.1f%%", label, milliseconds(text.Milliseconds(n.Duration)),
			100*n.Duration.Seconds()/whole)
		if n.Name != "" {
			title += ", " + n.Name
		}
		f.Frames = append(f.Frames, page.Frame{Label: label, Title: title, Left: n.Start.Sub(start).Seconds() / whole,
			Width: n.Duration.Seconds() / whole,
			Level: len(open), Color: page.Color(n.OpType)})
	}
	return f
}

func profilePage(r *profileJSON) *page.Page {
	ops := &page.Table{Caption: "operators", Columns: columns("operator,#ms,#share,#nodes,#GFLOP/s,#of peak")}
	for _, l := range r.Ops {
		share := page.Number("%.1f%%", 100*l.Share)
		share.Bar = l.Share
		ops.Rows = append(ops.Rows, []page.Cell{page.Text(opName(l)), page.Number("%.4f", l.TimeMS), share,
			page.Number("%.0f", float64(l.Count)), rate(l), ofPeak(l)})
	}
	nodes := &page.Table{Caption: "nodes",
		Columns: columns("#index,operator,name,#ms,#share,#GFLOP/s,#of peak,computes,types and shapes")}
	for _, l := range r.Nodes {
		share := page.Number("%.2f%%", 100*l.Share)
		share.Bar = l.Share
		nodes.Rows = append(nodes.Rows, []page.Cell{page.Number("%.0f", float64(l.Index)), page.Text(opName(l)),
			page.Text(l.Name), page.Number("%.4f", l.TimeMS), share,
			rate(l), ofPeak(l), page.Text(l.computes()), page.Text(l.Shapes)})
	}
	p := &page.Page{Verb: "profile", Title: r.Model,
		Facts: facts("provider", r.Provider, "a run", milliseconds(r.RunMS), "in its nodes", milliseconds(r.NodesMS),
			"threads", strconv.Itoa(r.Threads), "runs", strconv.Itoa(r.Runs), "nodes", strconv.Itoa(len(r.Nodes))),
		Sections: []page.Section{
			{Title: "One run", Note: "Each node as wide as its time; nodes of subgraphs are below the node that runs " +
				"them. Arrow keys go from node to node, Enter or a double click zooms.", Flame: r.chart},
			{Title: "Operators", Note: "The run with the median time. " + r.Busy, Table: ops},
			{Title: "Nodes", Table: nodes}}}
	if r.Plan != "" {
		p.Facts = append(p.Facts, page.Fact{Name: "plan", Value: r.planText()})
	}
	if r.FLOPs > 0 && r.RunMS > 0 {
		p.Facts = append(p.Facts, page.Fact{Name: "GFLOP/s", Value: tick(float64(r.FLOPs) / r.RunMS / 1e6)})
	}
	if r.Peak != nil {
		p.Facts = append(p.Facts, page.Fact{Name: "peak", Value: peakText(r.Peak)})
	}
	return p
}

func rate(l profileLine) page.Cell {
	if l.GFLOPS == 0 {
		return page.Optional("", nil)
	}
	return page.Number("%.4g", l.GFLOPS)
}

func ofPeak(l profileLine) page.Cell {
	if l.OfPeak == nil {
		return page.Optional("", nil)
	}
	return page.Number("%.0f%%", 100**l.OfPeak)
}

func comparePage(c *compareJSON) *page.Page {
	bad := 0
	noise := &page.Line{Label: "largest absolute difference of each value, in the order of the nodes",
		XName: "value, in the order of the nodes", Log: true}
	snr := &page.Line{Label: "signal-to-noise ratio of each value in decibels",
		XName: "value, in the order of the nodes"}
	t := &page.Table{Caption: "values",
		Columns: columns("#index,result,value,node,operator,type,#max abs,#max rel,#SNR dB,#passes with rtol,#or atol")}
	for i, v := range c.Values {
		result := page.Cell{Text: "ok", Class: "ok"}
		if !v.Agree {
			bad++
			result = page.Cell{Text: "differs", Class: "bad"}
		}
		name, op := v.Name, v.Op
		if v.With != "" {
			name += " / " + v.With
		}
		if v.Initializer {
			op = "weight of " + op
		}
		t.Rows = append(t.Rows, []page.Cell{page.Number("%.0f", float64(i)), result, page.Text(name), page.Text(v.Node),
			page.Text(op), page.Text(v.Type),
			page.Optional("%.3g", v.MaxAbs), page.Optional("%.3g", v.MaxRel), page.Optional("%.1f", v.SNR),
			page.Optional("%.3g", v.NeedRtol), page.Optional("%.3g", v.NeedAtol)})
		point := page.Point{X: float64(i), Y: math.NaN(), Title: name + " (" + op + ")", Bad: !v.Agree}
		for chart, y := range map[*page.Line]*float64{noise: v.MaxAbs, snr: v.SNR} {
			if y != nil {
				point.Y = *y
			} else {
				point.Y = math.NaN()
			}
			chart.Points = append(chart.Points, point)
		}
		if c.First != nil && c.First.Value == v.Name && noise.MarkText == "" {
			for _, chart := range []*page.Line{noise, snr} {
				chart.Mark, chart.MarkText = float64(i), "first difference: "+v.Name
			}
		}
	}
	with := c.Providers[1]
	if c.With != "" {
		with = strings.TrimSuffix(c.With+" on "+c.Providers[1], " on ")
	}
	p := &page.Page{Verb: "compare", Title: c.Model,
		Facts: facts("on", c.Providers[0], "against", with, "rtol", fmt.Sprint(c.Rtol), "atol", fmt.Sprint(c.Atol),
			"values that agree", fmt.Sprintf("%d of %d", len(c.Values)-bad, len(c.Values)))}
	if f := c.First; f != nil {
		p.Facts = append(p.Facts,
			page.Fact{Name: "first difference", Value: fmt.Sprintf("%s of %s", f.Value, nodeLabel(f.Node, f.Op))})
	}
	if len(c.Values) > 1 {
		p.Sections = append(p.Sections,
			page.Section{Title: "Error along the layers", Note: "The largest absolute difference; values that are " +
				"equal have no point, those outside the tolerance are red.", Charts: []page.Chart{{SVG: noise.Draw()}}},
			page.Section{Title: "Signal-to-noise ratio", Note: "In decibels: 20 dB are one digit.",
				Charts: []page.Chart{{SVG: snr.Draw()}}})
	}
	if len(c.Losses) > 0 {
		l := &page.Table{Caption: "largest losses of signal",
			Columns: columns("node,value,#SNR of the inputs,#SNR of the value")}
		for _, x := range c.Losses {
			l.Rows = append(l.Rows, []page.Cell{page.Text(nodeLabel(x.Node, x.Op)), page.Text(x.Value),
				page.Number("%.0f dB", x.Before), page.Number("%.0f dB", x.After)})
		}
		p.Sections = append(p.Sections, page.Section{Title: "Largest losses of signal", Table: l})
	}
	p.Sections = append(p.Sections, page.Section{Title: "Values", Table: t})
	return p
}

// benchPage shows the providers side by side.
func benchPage(results []*benchJSON) *page.Page {
	p := &page.Page{Verb: "bench", Title: results[0].Model}
	if len(results) > 1 {
		p.Title = fmt.Sprintf("%d measurements", len(results))
	}
	p.Facts = facts("concurrent runs", strconv.Itoa(results[0].Concurrency))
	if len(results) == 1 {
		p.Facts = append(p.Facts, page.Fact{Name: "threads", Value: strconv.Itoa(results[0].Threads)})
	}
	if results[0].sizes != "" {
		p.Facts = append(p.Facts, page.Fact{Name: "free dimensions", Value: results[0].sizes})
	}
	if results[0].Rate > 0 {
		p.Facts = append(p.Facts, page.Fact{Name: "runs per second", Value: fmt.Sprint(results[0].Rate)})
	}
	for _, r := range results {
		t := &page.Table{Caption: "times of " + r.Model,
			Columns: columns(
				"provider,#median ms,#min,#p90,#p95,#p99,#mean,#stdev,#runs,#runs/s,#load ms,#first ms,#peak MB")}
		s := page.Section{Title: "Times",
			Note: "The distribution of the times in milliseconds, on one scale, up to the largest 99th percentile."}
		if len(results) > 1 {
			s.Title = fmt.Sprintf("%s, threads: %d", r.Model, r.Threads)
		}
		lo, hi := math.Inf(1), 0.0
		for _, x := range r.Results {
			if x.Error == "" {
				lo, hi = min(lo, x.MinMS), max(hi, x.P99MS)
			}
		}
		for k, x := range r.Results {
			row := []page.Cell{page.Text(x.Provider)}
			for _, v := range []float64{x.MedianMS, x.MinMS, x.P90MS, x.P95MS, x.P99MS, x.MeanMS, x.StdevMS,
				float64(x.Runs), x.RunsPerS, x.LoadMS, x.FirstMS, x.PeakRSSMB} {
				if x.Error != "" {
					v = math.NaN()
				}
				format := "%.4g"
				if v >= 1000 {
					format = "%.0f"
				}
				row = append(row, page.Number(format, v))
			}
			t.Rows = append(t.Rows, row)
			if x.Error != "" {
				s.Note += fmt.Sprintf(" %s failed: %s.", x.Provider, x.Error)
				continue
			}
			h := page.Histogram{Label: "times of " + x.Provider, Unit: "ms", Lo: lo, Hi: hi,
				Log: hi > 10*lo, Color: k % 8,
				Marks: []page.Mark{{X: x.MedianMS, Text: "median " + tick(x.MedianMS)},
					{X: x.P95MS, Text: "p95 " + tick(x.P95MS)}, {X: x.P99MS, Text: "p99 " + tick(x.P99MS)}}}
			h.Edges, h.Counts = page.Bins(r.times[k], lo, hi, 100, h.Log)
			s.Charts = append(s.Charts,
				page.Chart{Caption: fmt.Sprintf("%s, %d runs", x.Provider, x.Runs), SVG: h.Draw()})
		}
		if r.Ratio != 0 {
			s.Note += fmt.Sprintf(" %s takes %.3f of the time of %s.", r.Results[0].Provider, 1/r.Ratio,
				r.Results[1].Provider)
		}
		p.Sections = append(p.Sections, s, page.Section{Table: t})
	}
	return p
}

func tick(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
