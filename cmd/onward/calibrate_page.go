//go:build !core

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
)

// calibratePage shows the histograms of a table with the ranges of another, which may be the same.
func calibratePage(r *calibrateJSON, hist *calibration.Table) *page.Page {
	p := &page.Page{Verb: "calibrate", Title: r.Model,
		Facts: facts("method", r.Method, "batches", strconv.Itoa(r.Batches), "tensors", strconv.Itoa(len(r.Tensors)),
			"files", strings.Join(r.Files, ", "))}
	t := &page.Table{Caption: "ranges",
		Columns: columns("tensor,#lowest,#highest,#smallest value,#largest value,#values outside")}
	charts := page.Section{Title: "Histograms", Note: "How often the values occur; the chosen range is shaded."}
	for _, x := range r.Tensors {
		row := []page.Cell{page.Text(x.Name), page.Number("%.5g", float64(x.Lowest)),
			page.Number("%.5g", float64(x.Highest))}
		h, ok := hist.Ranges[x.Name]
		if !ok || len(h.Hist) == 0 {
			t.Rows = append(t.Rows,
				append(row, page.Number("", math.NaN()), page.Number("", math.NaN()), page.Number("", math.NaN())))
			continue
		}
		edges, counts := occupied(h)
		outside, all := 0.0, 0.0
		for i, n := range counts {
			all += n
			if middle := (edges[i] + edges[i+1]) / 2; middle < float64(x.Lowest) || middle > float64(x.Highest) {
				outside += n
			}
		}
		first, last := edges[0], edges[len(edges)-1]
		t.Rows = append(t.Rows, append(row, page.Number("%.5g", first), page.Number("%.5g", last),
			page.Number("%.3g%%", 100*outside/max(all, 1))))
		lo, hi := float64(x.Lowest), float64(x.Highest)
		g := page.Histogram{Label: "values of " + x.Name, Edges: edges, Counts: counts, Lo: min(first, lo),
			Hi: max(last, hi), Shade: &[2]float64{lo, hi}, Width: 420}
		charts.Charts = append(charts.Charts,
			page.Chart{Caption: fmt.Sprintf("%s: %.4g to %.4g", x.Name, x.Lowest, x.Highest), SVG: g.Draw()})
	}
	p.Sections = []page.Section{charts, {Title: "Ranges", Note: "Values and shares are those of the bins.", Table: t}}
	return p
}

// occupied returns a histogram from the first to the last bin with values, in at most 80 bins.
func occupied(r calibration.Range) (edges, counts []float64) {
	first := max(slices.IndexFunc(r.Hist, func(n int64) bool { return n > 0 }), 0)
	last := len(r.Hist) - 1
	for last > first && r.Hist[last] == 0 {
		last--
	}
	step := (last-first)/80 + 1
	edges = []float64{float64(r.Edges[first])}
	for i := first; i <= last; i += step {
		end, sum := min(i+step, last+1), 0.0
		for _, n := range r.Hist[i:end] {
			sum += float64(n)
		}
		edges, counts = append(edges, float64(r.Edges[end])), append(counts, sum)
	}
	return edges, counts
}
