package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/bench/internal/measure"
)

// table returns the content of docs/performance.md.
func table(ctx context.Context, exe string, rows []row, how, load, chart string) (string, error) {
	var b strings.Builder
	machine, err := measure.Describe(ctx, exe)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, `# Performance

This page compares the speed and memory of Onward's cpu engine with those of ONNX Runtime and
OpenVINO. It is written by `+"`make bench`"+`.

- Ratios are the median time of the faster of the two, in the same run, divided by that of the
  cpu engine: above 1, Onward is faster than both.
- OpenVINO computes in float32, as the others do, except in the table for bfloat16. Its own
  default is bfloat16 on processors that have it, and 8-bit integers for the activations of
  MatMulNBits, as accuracy level 4 permits. It keeps that default for level 4 (acc4) only.
- The providers alternate in %s. The blocks are divided into four parts that
  alternate, too, each after the others' threads are idle. Warm-up is not timed.
- Times are those of Session.Run in Go. For ONNX Runtime they include 2 to 5 µs of calls
  through its C API, which matters for small graphs only.
- The ratio of minima compares the fastest runs, which other processes disturb less.
- The models are benchmarks of this project, and it is tuned for them. Measure a file of yours with
  `+"`onward bench model.onnx --provider cpu,ort`"+`.
- Models of one convolution include ONNX Runtime's reorders between layouts. The ratios of
  networks are more significant.
- ViT's classifier reads one token. Onward computes most of the last layer for this token only (pass advance-gather), which
  is 40 %% of the work of 2 layers and would be 7 %% of 12.

%s
`, how, machine)
	fmt.Fprintf(&b, "%s\n![Ratios of all models](%s)\n", load, chart)
	var groups []string
	for _, r := range rows {
		if !slices.Contains(groups, r.group) {
			groups = append(groups, r.group)
		}
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g)
		b.WriteString(groupTable(g, rows))
	}
	return b.String(), nil
}

// groupTable returns the table of a group.
func groupTable(g string, rows []row) string {
	var group []*measure.Row
	load := false
	for i := range rows {
		if r := &rows[i]; r.group == g {
			group, load = append(group, &r.Row), r.isNetwork()
		}
	}
	return measure.Table(group, measure.Columns{Load: load})
}
