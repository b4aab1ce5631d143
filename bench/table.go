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
	if m.Ratio > 0 {
		s += fmt.Sprintf("  ratio %.2f, of minima %.2f", m.Ratio, m.minRatio())
	}
	return s
}

// table returns the content of docs/performance.md.
func table(ctx context.Context, exe string, rows []row, how, load, picture string) (string, error) {
	var b strings.Builder
	machine, err := describe(ctx, exe)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, `# Performance

This page compares the speed and memory of Onward's cpu engine with ONNX Runtime's. It is
written by `+"`make bench`"+`.

- Ratios are ONNX Runtime's median time divided by that of the cpu engine in the same run:
  above 1, Onward is faster.
- The providers alternate in %s. A session is closed before the next one is opened, and
  warm-up is not timed.
- Times are those of Session.Run in Go. For ONNX Runtime they include 2 to 5 µs of calls
  through its C API, which matters for small graphs only.
- The ratio of minima compares the fastest runs, which other processes disturb less.
- Models of one convolution include ONNX Runtime's reorders between layouts. The ratios of
  networks are more significant.

%s
`, how, machine)
	fmt.Fprintf(&b, "%s\n![Ratios of all models](%s)\n", load, picture)
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

func groupTable(g string, rows []row) string {
	var b strings.Builder
	logs, counts := map[int]float64{}, map[int]int{}
	lowest := map[int]float64{}
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
			if g == gNetworks {
				head += " load, first run, peak memory |"
				rule += "---|"
			}
			fmt.Fprintf(&b, "%s\n%s\n", head, rule)
		}
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, m := range r.by {
			for _, x := range m.Results {
				if x.Error != "" {
					b.WriteString(" failed |")
				} else {
					fmt.Fprintf(&b, " %s |", number(x.MedianMS))
				}
			}
			if m.Ratio == 0 {
				b.WriteString(" – | – |")
				continue
			}
			fmt.Fprintf(&b, " %.2f | %.2f |", m.Ratio, m.minRatio())
			logs[m.Threads] += math.Log(m.Ratio)
			counts[m.Threads]++
			if l, ok := lowest[m.Threads]; !ok || m.Ratio < l {
				lowest[m.Threads] = m.Ratio
			}
		}
		if g == gNetworks {
			var parts []string
			for _, x := range r.by[0].Results {
				if x.Error == "" {
					parts = append(parts, fmt.Sprintf("%s %s, %s, %.0f MB", x.Provider, number(x.LoadMS), number(x.FirstMS), x.PeakRSSMB))
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(parts, "; "))
		}
		b.WriteString("\n")
	}
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "\n%dT: geometric mean %.2f, lowest %.2f, over %d models.\n", t, math.Exp(logs[t]/float64(counts[t])), lowest[t], counts[t])
	}
	return b.String()
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
	s := fmt.Sprintf("Measured on %s (%s, %d cores), kernels %s", machine.CPU(), d.System, runtime.NumCPU(), d.CPU.Active)
	if d.CPU.VNNI {
		s += " with VNNI"
	}
	s += ", " + d.Go
	for _, p := range d.Providers {
		if p.Name == "ort" && p.Library != nil {
			s += ", ONNX Runtime " + p.Library.Version
		}
	}
	return s + ".", nil
}
