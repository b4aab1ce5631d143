package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/onward-ml/onward/bench/internal/machine"
)

// number formats milliseconds with three digits.
func number(ms float64) string {
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.3g ms", ms)
	}
	return fmt.Sprintf("%.3g µs", ms*1e3)
}

// line formats one measurement for a terminal.
func line(name string, m *measured) string {
	s := fmt.Sprintf("%-40s %dT", name, m.Threads)
	for _, r := range m.Results {
		if r.Error != "" {
			s += fmt.Sprintf("  %s FAILED: %s", r.Provider, strings.ReplaceAll(r.Error, "\n", " "))
			continue
		}
		s += fmt.Sprintf("  %s %s", r.Provider, number(r.MedianMS))
	}
	if ratio := m.ratio((*result).median, ""); ratio > 0 {
		s += fmt.Sprintf("  ratio %.2f, of minima %.2f", ratio, m.ratio((*result).minimum, ""))
	}
	return s
}

// table returns the content of docs/performance.md.
func table(ctx context.Context, exe string, rows []row, how, load, chart string) (string, error) {
	var b strings.Builder
	machine, err := describe(ctx, exe)
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

// groupTable returns the table of a group, and below it the means for each number of threads
// against all engines and against each one.
func groupTable(g string, rows []row) string {
	var b strings.Builder
	ratios := map[int]map[string][]float64{} // by number of threads and provider; "" is the fastest
	first := true
	for _, r := range rows {
		if r.group != g {
			continue
		}
		if first {
			first = false
			head, rule := "| model |", "|---|"
			for _, m := range r.by {
				for _, x := range m.Results {
					head += fmt.Sprintf(" %s %dT |", x.Provider, m.Threads)
					rule += "---:|"
				}
				head += " ratio | of minima |"
				rule += "---:|---:|"
			}
			if r.isNetwork() {
				head += " load, first run, peak memory |"
				rule += "---|"
			}
			fmt.Fprintf(&b, "%s\n%s\n", head, rule)
		}
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, m := range r.by {
			by := ratios[m.Threads]
			if by == nil {
				by = map[string][]float64{}
				ratios[m.Threads] = by
			}
			for i, x := range m.Results {
				if x.Error != "" {
					b.WriteString(" failed |")
					continue
				}
				fmt.Fprintf(&b, " %s |", number(x.MedianMS))
				if one := m.ratio((*result).median, x.Provider); i > 0 && one > 0 {
					by[x.Provider] = append(by[x.Provider], one)
				}
			}
			ratio := m.ratio((*result).median, "")
			if ratio == 0 {
				b.WriteString(" – | – |")
				continue
			}
			fmt.Fprintf(&b, " %.2f | %.2f |", ratio, m.ratio((*result).minimum, ""))
			by[""] = append(by[""], ratio)
		}
		if r.isNetwork() {
			var parts []string
			for _, x := range r.by[0].Results {
				if x.Error == "" {
					parts = append(parts,
						fmt.Sprintf("%s %s, %s, %.0f MB", x.Provider, number(x.LoadMS), number(x.FirstMS), x.PeakRSSMB))
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(parts, "; "))
		}
		b.WriteString("\n")
	}
	for _, t := range slices.Sorted(maps.Keys(ratios)) {
		by := ratios[t]
		if len(by[""]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%dT: geometric mean %.2f, lowest %.2f, over %d models", t, mean(by[""]),
			slices.Min(by[""]), len(by[""]))
		delete(by, "")
		for _, p := range slices.Sorted(maps.Keys(by)) {
			if len(by) > 1 {
				fmt.Fprintf(&b, "; against %s alone %.2f and %.2f", p, mean(by[p]), slices.Min(by[p]))
			}
		}
		b.WriteString(".\n")
	}
	return b.String()
}

// mean returns the geometric mean.
func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(x)))
}

// describe returns a description of the machine.
func describe(ctx context.Context, exe string) (string, error) {
	out, err := exec.CommandContext(ctx, exe, "doctor", "--json").Output()
	if err != nil {
		return "", fmt.Errorf("onward doctor: %w", err)
	}
	var d struct {
		System string `json:"system"`
		Go     string `json:"go"`
		CPU    struct {
			Active string `json:"active"`
			VNNI   bool   `json:"vnni"`
			AMX    bool   `json:"amx"`
		} `json:"cpu"`
		Providers []struct {
			Name    string `json:"name"`
			Library *struct {
				Version string `json:"version"`
			} `json:"library"`
		} `json:"providers"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return "", fmt.Errorf("onward doctor: %w", err)
	}
	s := fmt.Sprintf("Measured on %s (%s, %d cores), kernels %s", machine.CPU(), d.System,
		runtime.NumCPU(), d.CPU.Active)
	switch {
	case d.CPU.AMX:
		s += " with VNNI and AMX"
	case d.CPU.VNNI:
		s += " with VNNI"
	}
	s += ", " + d.Go
	for _, p := range d.Providers {
		if name := map[string]string{"ort": "ONNX Runtime", "openvino": "OpenVINO"}[p.Name]; name != "" &&
			p.Library != nil {
			s += ", " + name + " " + p.Library.Version
		}
	}
	return s + ".", nil
}
