package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// row is a case with its outcomes.
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

// brief formats an error on one line of limited length.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

func cell(s string) string { return strings.ReplaceAll(brief(s), "|", "\\|") }

// report is the content of docs/exports.md: for each family the rows of its table and how its
// models were made, and the models that exporters refuse.
type report struct {
	families map[string]*family
	refused  map[string]string // line by FAMILY/NAME
}

type family struct {
	how   []string
	lines map[string]string // by name
}

const (
	refusedTitle   = "What the exporters refuse"
	explainedTitle = "Why some models fail or differ"
)

// explained is the section with the reasons for cases that differ.
const explained = `- torchvision_detection/fasterrcnn_resnet50_* differ from torch by up to 0.03 of a pixel. That is rounding, which these networks with
  random weights amplify, as the two torchscript exports show (not examined for retinanet_resnet50_* and fcos_resnet50_*). With the model in float64 as the truth, the relative error of the
  features grows block by block on every engine, for fasterrcnn_resnet50_fpn_v2 from 2.2e-7 (cpu), 1.4e-7 (ONNX Runtime) and 0.4e-7
  (reference) after the first convolution to 1.7e-4, 1.2e-4 and 0.2e-4 after stage 3; the boxes are off by at most 0.030 on cpu, 0.021 in ONNX Runtime, 0.011 in
  torch and 0.002 on reference. No layer stands out, and without Winograd's convolutions cpu's errors are the same (1.8e-4 and 0.028).
- xgboost/regressor_outputs: the converter gives every leaf to target 0. base_values are for all targets, after the votes are joined,
  says the specification; ONNX Runtime leaves them out for a target that no leaf votes for.
- classifiers/GaussianProcessClassifier: the converter writes com.microsoft.Solve, which ONNX Runtime does not define either.
- classifiers/RadiusNeighborsClassifier, regressors/RadiusNeighborsRegressor: the converter marks points outside the radius by the
  index -1 and hands it to ArrayFeatureExtractor, whose indices start at 0; ONNX Runtime refuses it with the same index.
`

// earlier parses a report, so that a run over some of the models keeps the rows of the others.
func earlier(text string) *report {
	r := &report{families: map[string]*family{}, refused: map[string]string{}}
	var f *family
	refused := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		title, isTitle := strings.CutPrefix(line, "## ")
		switch name := firstCell(line); {
		case isTitle && title == refusedTitle:
			refused = true
		case isTitle && title == explainedTitle:
			f = nil
		case isTitle:
			f, refused = r.family(title), false
		case name == "model" || strings.HasPrefix(name, "---"):
		case refused && name != "":
			r.refused[name] = line
		case f != nil && name != "":
			f.lines[name] = line
		case f != nil && !refused && line != "":
			f.how = strings.Split(strings.TrimSuffix(line, "."), "; ")
		}
	}
	return r
}

func firstCell(line string) string {
	if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-") {
		return ""
	}
	name, _, _ := strings.Cut(line[1:], "|")
	return strings.TrimSpace(name)
}

func (r *report) family(name string) *family {
	if r.families[name] == nil {
		r.families[name] = &family{lines: map[string]string{}}
	}
	return r.families[name]
}

// add adds the row of a case, or replaces an earlier one.
func (r *report) add(c row) {
	f, name := r.family(c.family), c.family+"/"+c.name
	delete(f.lines, c.name)
	delete(r.refused, name)
	if c.NotExported != "" {
		why, _, _ := strings.Cut(c.NotExported, " [Caused by") // torch's exporter appends file paths of its machine
		r.refused[name] = fmt.Sprintf("| %s | %s | %s |", name, c.Exporter, cell(why))
		return
	}
	if how := fmt.Sprintf("%s, %s (rtol %g, atol %g)", c.Library, c.Exporter, c.RTol, c.ATol); !slices.Contains(f.how,
		how) {
		f.how = append(f.how, how)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %d | %d |", c.name, c.nodes, c.kinds)
	for _, e := range engines {
		if o := c.outcomes[e]; o.asORT && o.err != nil {
			b.WriteString(" as ONNX Runtime |")
		} else if o.err != nil {
			fmt.Fprintf(&b, " FAILS: %s |", cell(o.err.Error()))
		} else {
			fmt.Fprintf(&b, " %.2g |", o.maxAbs)
		}
	}
	if c.ONNXRuntime == "" {
		b.WriteString(" agrees |")
	} else {
		fmt.Fprintf(&b, " %s |", cell(c.ONNXRuntime))
	}
	f.lines[c.name] = b.String()
}

func (r *report) String() string {
	var b strings.Builder
	b.WriteString(`# Exported models

This page is a test record for looking up one exporter or model. It compares exported models on both engines with the results of the
library that exported them. It is written by
` + "`go run ./bench/exports`" + `; the scripts ` + "`bench/exports/export_*.py`" + ` export the models with fixed seeds.

- Numbers are the largest absolute difference over all results. The tolerance of a family is rtol·|want| + atol. Integers and
  text must be equal.
- Nodes include those of subgraphs and functions.
- The last column says whether ONNX Runtime's results equal those of the library.
- "as ONNX Runtime" marks results that equal ONNX Runtime's but not the library's: the exporter wrote another model, or
  elements with equal scores have no defined order.
- The families ort_* are models that ONNX Runtime's tools derive from the others. Their expected results are those of ONNX
  Runtime without graph optimizations.

| family | models | pass on both engines | where ONNX Runtime agrees with the library |
|---|---|---|---|
`)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.families)), func(n string) bool {
		return len(r.families[n].lines) == 0
	})
	var all []string
	sum := func(name string, lines []string) {
		pass, agree, both := 0, 0, 0
		for _, l := range lines {
			ok := !strings.Contains(l, "| FAILS: ") && !strings.Contains(l, "| as ONNX Runtime |")
			agrees := strings.HasSuffix(l, "| agrees |")
			if ok {
				pass++
			}
			if agrees {
				agree++
			}
			if ok && agrees {
				both++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d of %d |\n", name, len(lines), pass, both, agree)
	}
	for _, n := range names {
		lines := slices.Collect(maps.Values(r.families[n].lines))
		all = append(all, lines...)
		sum(n, lines)
	}
	sum("all", all)
	for _, n := range names {
		f := r.families[n]
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n| model | nodes | kinds | cpu | reference | ONNX Runtime |\n"+
			"|---|---|---|---|---|---|\n", n, strings.Join(f.how, "; "))
		for _, name := range slices.Sorted(maps.Keys(f.lines)) {
			b.WriteString(f.lines[name] + "\n")
		}
	}
	b.WriteString("\n## " + explainedTitle + "\n\n" + explained)
	if len(r.refused) > 0 {
		b.WriteString("\n## " + refusedTitle + "\n\n| model | exporter | error |\n|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(r.refused)) {
			b.WriteString(r.refused[name] + "\n")
		}
	}
	return b.String()
}
