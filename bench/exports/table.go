package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is a case with what came of it.
type row struct {
	*exported
	nodes, kinds int
	outcomes     map[string]outcome
}

func (r row) failed() bool {
	for _, o := range r.outcomes {
		if o.err != nil {
			return true
		}
	}
	return false
}

// brief is an error on one line of limited length.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

// table writes docs/exports.md. left are the cases that the exporter cannot export.
func table(rows, left []row) string {
	var b strings.Builder
	b.WriteString(`# Exported models

Written by ` + "`go run ./bench/exports`" + ` over models that ` + "`bench/exports/export_*.py`" + ` make with fixed seeds: real exports of
other libraries, run on both engines and compared with the library's own results. Numbers are the largest absolute
difference over all results, integers and text must be equal, and the tolerance is rtol·|want| + atol as given for the
family. Nodes counts those of subgraphs and functions too. The last column says whether ONNX Runtime's results are those of the
library. "As ONNX Runtime" marks results that are equal to its, and not to the library's: the exporter wrote
another model, or equal scores leave an order open, as saturated ones of detectors do.

| family | models | pass on both engines | where ONNX Runtime agrees with the library |
|---|---|---|---|
`)
	var families []string
	for _, r := range rows {
		if !slices.Contains(families, r.family) {
			families = append(families, r.family)
		}
	}
	of := func(f string) (in []row) {
		for _, r := range rows {
			if r.family == f {
				in = append(in, r)
			}
		}
		return in
	}
	sum := func(name string, rs []row) {
		pass, agree, both := 0, 0, 0
		for _, r := range rs {
			if !r.failed() {
				pass++
			}
			if r.ONNXRuntime == "" {
				agree++
				if !r.failed() {
					both++
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d of %d |\n", name, len(rs), pass, both, agree)
	}
	for _, f := range families {
		sum(f, of(f))
	}
	sum("all", rows)
	for _, f := range families {
		in := of(f)
		var how []string
		for _, r := range in {
			if s := fmt.Sprintf("%s, %s", r.Library, r.Exporter); !slices.Contains(how, s) {
				how = append(how, s)
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n| model | nodes | kinds | rtol | atol | cpu | reference | ONNX Runtime |\n|---|---|---|---|---|---|---|---|\n", f, strings.Join(how, "; "))
		for _, r := range in {
			fmt.Fprintf(&b, "| %s | %d | %d | %g | %g |", r.name, r.nodes, r.kinds, r.RTol, r.ATol)
			for _, e := range engines {
				if o := r.outcomes[e]; o.asORT && o.err != nil {
					b.WriteString(" as ONNX Runtime |")
				} else if o.err != nil {
					fmt.Fprintf(&b, " FAILS: %s |", cell(o.err.Error()))
				} else {
					fmt.Fprintf(&b, " %.2g |", o.maxAbs)
				}
			}
			if r.ONNXRuntime == "" {
				b.WriteString(" agrees |\n")
			} else {
				fmt.Fprintf(&b, " %s |\n", cell(r.ONNXRuntime))
			}
		}
	}
	if len(left) > 0 {
		b.WriteString("\n## What the exporters refuse\n\n| model | exporter | error |\n|---|---|---|\n")
		for _, r := range left {
			fmt.Fprintf(&b, "| %s/%s | %s | %s |\n", r.family, r.name, r.Exporter, cell(r.NotExported))
		}
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(brief(s), "|", "\\|") }
