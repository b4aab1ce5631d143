package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/onnx"
)

// table is a table of the page.
type table struct {
	title   string
	rows    []*measure.Row
	missing []string // a sentence for each model that is not measured
	fixed   bool
}

// fix replaces the models that have free dimensions by copies in a folder, in which these have the
// sizes of the inputs. The others leave the table.
func (t *table) fix(dir string) error {
	t.title, t.fixed = t.title+", fixed", true
	var rows []*measure.Row
	for i, r := range t.rows {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.onnx", t.title, i))
		free, err := fixModel(r.File, file, r.Args)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		if free {
			r.File = file
			rows = append(rows, r)
		}
	}
	t.rows = rows
	return nil
}

// fixModel writes a model whose inputs have the shapes that the arguments of onward bench give. It
// reports whether one of them was free.
func fixModel(from, to string, args []string) (free bool, err error) {
	m, err := onnx.ReadFile(from, nil)
	if err != nil {
		return false, err
	}
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] != "--shape" {
			continue
		}
		name, sizes := cut(args[i+1])
		k := slices.IndexFunc(m.Graph.Inputs, func(in *onnx.ValueInfo) bool { return in.Name == name })
		if k < 0 {
			return false, fmt.Errorf("it has no input %q", name)
		}
		dims := m.Graph.Inputs[k].Type.Tensor.Shape.Dims
		for d, s := range strings.Split(sizes, "x") {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || d >= len(dims) {
				return false, fmt.Errorf("input %q has %d dimensions, want those of %s", name, len(dims), sizes)
			}
			free = free || dims[d].Kind != onnx.DimValue || dims[d].Value < 0
			dims[d] = onnx.Dim{Kind: onnx.DimValue, Value: n}
		}
	}
	if !free {
		return false, nil
	}
	return true, onnx.WriteFile(to, m, nil)
}

// lowest is the number of rows of a table with fixed dimensions.
const lowest = 20

// report returns the text of the table.
func (t *table) report() string {
	columns := measure.Columns{First: "package, file, inputs", Alone: "ort", Load: !t.fixed}
	var b strings.Builder
	if t.fixed {
		columns.Lowest = lowest
		fmt.Fprintf(&b, "The rows are the %d with the lowest ratios of %d.\n\n", min(lowest, len(t.rows)), len(t.rows))
	}
	b.WriteString(measure.Table(t.rows, columns))
	reasons := t.missing
	for _, r := range t.rows {
		failed := map[string]bool{}
		for _, m := range r.By {
			for _, x := range m.Results {
				if x.Error != "" && !failed[x.Provider] {
					failed[x.Provider] = true
					reasons = append(reasons, fmt.Sprintf("%s: %s fails: %s", r.Name, x.Provider, brief(x.Error)))
				}
			}
		}
	}
	if len(reasons) > 0 {
		b.WriteString("\nNot measured:\n\n")
	}
	for _, s := range reasons {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	return b.String()
}
