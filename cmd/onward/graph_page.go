package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/modelgraph"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
)

// writeGraphPage writes a page that shows a model as a drawing, with tables of its
// operators, nodes and weights.
func writeGraphPage(ctx context.Context, html, path string, m *onnx.Model) error {
	g, err := modelgraph.Of(m)
	if err != nil {
		return err
	}
	view, err := g.View("drawing of " + path)
	if err != nil {
		return err
	}
	type total struct {
		count           int
		macs, flops, ws int64
	}
	ops := map[string]*total{}
	nodes := &page.Table{Caption: "nodes", Items: true,
		Columns: columns("#index,operator,name,in,reads,makes,#MACs,#parameters,#share of FLOPs")}
	var sum total
	for i, x := range g.Items {
		if x.Kind != modelgraph.Node {
			continue
		}
		op := x.Title
		if x.Domain != "" {
			op = x.Domain + "." + op
		}
		t := ops[op]
		if t == nil {
			t = &total{}
			ops[op] = t
		}
		sum.count++
		t.count, t.macs, t.flops, t.ws = t.count+1, t.macs+x.MACs, t.flops+x.FLOPs, t.ws+x.Parameters
		sum.macs += x.MACs
		var around []string
		for p := x.Parent; p >= 0; p = g.Items[p].Parent {
			around = append(around, g.Items[p].Title)
		}
		slices.Reverse(around)
		nodes.Rows = append(nodes.Rows, []page.Cell{{Text: strconv.Itoa(sum.count), Value: strconv.Itoa(i)},
			page.Text(op), page.Text(x.Name), page.Text(strings.Join(around, " › ")),
			page.Text(valuesText(g, x.In)), page.Text(valuesText(g, x.Out)), countCell(x.MACs), countCell(x.Parameters),
			shareCell(x.FLOPs, g.FLOPs)})
	}
	operators := &page.Table{Caption: "operators",
		Columns: columns("operator,#nodes,#MACs,#parameters,#share of FLOPs")}
	for _, op := range text.SortedFunc(maps.Keys(ops), func(a, b string) int {
		return cmp.Or(cmp.Compare(ops[b].flops, ops[a].flops), ops[b].count-ops[a].count, strings.Compare(a, b))
	}) {
		t := ops[op]
		operators.Rows = append(operators.Rows, []page.Cell{page.Text(op), page.Number("%.0f", float64(t.count)),
			countCell(t.macs), countCell(t.ws), shareCell(t.flops, g.FLOPs)})
	}
	weights := &page.Table{Caption: "weights", Columns: columns("name,type,#bytes,#min,#max,#mean,#std,#zeros")}
	var bytes, parameters int64
	for _, w := range g.Weights {
		bytes, parameters = bytes+w.Bytes, parameters+w.Count
		s := [5]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		if w.Stats != nil {
			s = *w.Stats
		}
		weights.Rows = append(weights.Rows,
			[]page.Cell{page.Text(w.Name), page.Text(w.Type),
				{Text: text.Bytes(w.Bytes), Value: strconv.FormatInt(w.Bytes, 10)},
				page.Number("%.4g", s[0]), page.Number("%.4g", s[1]), page.Number("%.4g", s[2]),
				page.Number("%.4g", s[3]),
				page.Number("%.1f%%", 100*s[4])})
	}
	opsets := make([]string, 0, len(m.OpsetImports))
	for _, o := range m.OpsetImports {
		opsets = append(opsets, fmt.Sprintf("%s %d", cmp.Or(onnx.NormalizeDomain(o.Domain), "ai.onnx"), o.Version))
	}
	p := &page.Page{Verb: "graph", Title: path, Facts: facts("nodes", nodesText(sum.count, g.Constants), "parameters",
		text.Count(parameters), "weights", text.Bytes(bytes), "opsets", strings.Join(opsets, ", "))}
	if g.Unknown == "" {
		name := "MACs of a run"
		if slices.ContainsFunc(g.Items, func(x modelgraph.Item) bool { return x.Kind == modelgraph.Body }) {
			name = "MACs of a run, without bodies"
		}
		p.Facts = append(p.Facts, page.Fact{Name: name, Value: text.Count(sum.macs)})
	}
	if made := strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion); made != "" {
		p.Facts = append(p.Facts, page.Fact{Name: "made by", Value: made})
	}
	p.Sections = []page.Section{{View: view},
		{Title: "Operators", Table: operators},
		{Title: "Nodes", Note: "A click on a row shows the node in the drawing. Free dimensions count as 1, and " +
			"bodies of control flow are not counted.", Table: nodes}}
	if len(weights.Rows) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Weights", Table: weights})
	}
	return writePageFile(ctx, html, func() *page.Page { return p })
}

// nodesText counts the nodes of a model, as onward inspect does.
func nodesText(drawn, constants int) string {
	if constants == 0 {
		return strconv.Itoa(drawn)
	}
	return fmt.Sprintf("%d, of which %d are constants and listed as weights", drawn+constants, constants)
}

func countCell(n int64) page.Cell {
	if n == 0 {
		return page.Number("", math.NaN())
	}
	return page.Cell{Text: text.Count(n), Value: strconv.FormatInt(n, 10)}
}

func shareCell(n, of int64) page.Cell {
	if n == 0 || of == 0 {
		return page.Number("", math.NaN())
	}
	c := page.Number("%.2f%%", 100*float64(n)/float64(of))
	c.Bar = float64(n) / float64(of)
	return c
}

// valuesText lists values with their types.
func valuesText(g *modelgraph.Graph, list []int) string {
	var parts []string
	for _, v := range list {
		if v >= 0 {
			parts = append(parts, strings.TrimSpace(g.Values[v].Name+" "+g.Values[v].Type))
		}
	}
	return strings.Join(parts, "; ")
}
