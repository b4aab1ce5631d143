//go:build !core && !server

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/onnx"
)

// conformancePage shows operators by providers. operators has the operators of a case by its
// name in the suite.
func conformancePage(dir string, providers []string, results [][]backendtest.Result) *page.Page {
	p := &page.Page{Verb: "conformance", Title: "ONNX backend suite", Facts: facts("suite", dir)}
	operators := operatorsOfCases(dir, results[0])
	type score struct{ passed, failed, skipped int }
	matrix := map[string][]score{}
	failed := &page.Table{Caption: "failed cases", Columns: columns("provider,case,kind,error")}
	skipped := &page.Table{Caption: "reasons of skips", Columns: columns("provider,reason,#cases")}
	for k, list := range results {
		count, reasons := backendtest.Count(list), map[string]int{}
		p.Facts = append(p.Facts, page.Fact{Name: providers[k], Value: count.String()})
		for _, r := range list {
			switch r.Status {
			case backendtest.Failed:
				failed.Rows = append(failed.Rows, []page.Cell{page.Text(providers[k]), page.Text(r.Name),
					page.Text(r.Kind), {Text: r.Err.Error(), Class: "bad"}})
			case backendtest.Skipped:
				if filtered(r) {
					continue
				}
				reasons[r.Reason]++
			}
			for _, op := range operators[r.Kind+"/"+r.Case] {
				if matrix[op] == nil {
					matrix[op] = make([]score, len(providers))
				}
				s := &matrix[op][k]
				switch r.Status {
				case backendtest.Passed:
					s.passed++
				case backendtest.Failed:
					s.failed++
				default:
					s.skipped++
				}
			}
		}
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			skipped.Rows = append(skipped.Rows,
				[]page.Cell{page.Text(providers[k]), page.Text(why), page.Number("%.0f", float64(reasons[why]))})
		}
	}
	t := &page.Table{Caption: "operators by providers",
		Columns: columns("operator,#cases,#" + strings.Join(providers, ",#"))}
	for _, op := range slices.Sorted(maps.Keys(matrix)) {
		row := []page.Cell{page.Text(op), {}}
		for k, s := range matrix[op] {
			all := s.passed + s.failed + s.skipped
			if k == 0 {
				row[1] = page.Number("%.0f", float64(all))
			}
			c := page.Cell{Text: fmt.Sprintf("%d passed", s.passed),
				Value: fmt.Sprint(float64(s.passed) / float64(max(all, 1))), Class: "ok"}
			if s.skipped > 0 {
				c.Text, c.Class = c.Text+fmt.Sprintf(", %d skipped", s.skipped), "dim"
			}
			if s.failed > 0 {
				c.Text, c.Class = c.Text+fmt.Sprintf(", %d failed", s.failed), "bad"
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	p.Sections = []page.Section{{Title: "Operators", Note: "A case counts for each operator of its model.", Table: t}}
	if len(failed.Rows) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Failed cases", Table: failed})
	}
	if len(skipped.Rows) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Skipped cases", Table: skipped})
	}
	return p
}

// operatorsOfCases returns the operators of the main graph of each case, by kind and name. A case
// whose model cannot be read has none.
func operatorsOfCases(dir string, results []backendtest.Result) map[string][]string {
	kinds, r := map[string]bool{}, map[string][]string{}
	for _, x := range results {
		if !filtered(x) {
			kinds[x.Kind], r[x.Kind+"/"+x.Case] = true, nil
		}
	}
	for kind := range kinds {
		cases, err := backendtest.LoadModelTests(dir, kind)
		if err != nil {
			continue // the runner has reported it
		}
		for _, c := range cases {
			key := kind + "/" + c.Name
			if _, ok := r[key]; !ok || c.ModelDir == "" {
				continue
			}
			data, err := os.ReadFile(filepath.Join(c.ModelDir, "model.onnx"))
			if err != nil {
				continue
			}
			if m, err := onnx.Unmarshal(data, nil); err == nil && m.Graph != nil {
				ops := map[string]bool{}
				for _, n := range m.Graph.Nodes {
					ops[opName(profileLine{Op: n.OpType, Domain: onnx.NormalizeDomain(n.Domain)})] = true
				}
				r[key] = slices.Sorted(maps.Keys(ops))
			}
		}
	}
	return r
}
