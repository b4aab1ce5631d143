package measure

import (
	"bytes"
	"cmp"
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
func line(name string, m *Measured) string {
	s := fmt.Sprintf("%-40s %dT", name, m.Threads)
	for _, r := range m.Results {
		if r.Error != "" {
			s += fmt.Sprintf("  %s FAILED: %s", r.Provider, strings.ReplaceAll(r.Error, "\n", " "))
			continue
		}
		s += fmt.Sprintf("  %s %s", r.Provider, number(r.MedianMS))
	}
	if ratio := m.Ratio((*Result).Median, ""); ratio > 0 {
		s += fmt.Sprintf("  ratio %.2f, of minima %.2f", ratio, m.Ratio((*Result).Minimum, ""))
	}
	return s
}

// Columns describes the columns of a table beside the times and the ratios.
type Columns struct {
	First string // title of the first column, "model" if empty
	Alone string // a provider: adds the ratio with it alone
	Load  bool   // adds time to load, first run and peak memory, and compares the former with Alone
	// Lowest, if not 0, is the number of rows that are printed: those with the lowest ratios.
	Lowest int
}

// Table returns the table of the rows, and below it the means for each number of threads against
// all providers and against each one.
func Table(rows []*Row, columns Columns) string {
	var b bytes.Buffer
	ratios := map[int]map[string][]float64{} // by number of threads and provider; "" is the fastest
	var uses, firsts []float64               // ratios of the first use, see Columns.Load
	first := true
	printed := lowestRows(rows, columns.Lowest)
	for _, r := range rows {
		start := b.Len()
		if first {
			first = false
			title := columns.First
			if title == "" {
				title = "model"
			}
			head, rule := "| "+title+" |", "|---|"
			for _, m := range r.By {
				for _, x := range m.Results {
					head += fmt.Sprintf(" %s %dT |", x.Provider, m.Threads)
					rule += "---:|"
				}
				if columns.Alone != "" {
					head += fmt.Sprintf(" to %s |", columns.Alone)
					rule += "---:|"
				}
				head += " ratio | of minima |"
				rule += "---:|---:|"
			}
			if columns.Load {
				head += " load, first run, peak memory |"
				rule += "---|"
				if columns.Alone != "" {
					head += fmt.Sprintf(" load and first run of %s's | first run of median |", columns.Alone)
					rule += "---:|---:|"
				}
			}
			fmt.Fprintf(&b, "%s\n%s\n", head, rule)
			start = b.Len()
		}
		fmt.Fprintf(&b, "| %s |", r.Name)
		for _, m := range r.By {
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
				if one := m.Ratio((*Result).Median, x.Provider); i > 0 && one > 0 {
					by[x.Provider] = append(by[x.Provider], one)
				}
			}
			if alone := m.Ratio((*Result).Median, columns.Alone); columns.Alone != "" && alone > 0 {
				fmt.Fprintf(&b, " %.2f |", alone)
			} else if columns.Alone != "" {
				b.WriteString(" – |")
			}
			ratio := m.Ratio((*Result).Median, "")
			if ratio == 0 {
				b.WriteString(" – | – |")
				continue
			}
			fmt.Fprintf(&b, " %.2f | %.2f |", ratio, m.Ratio((*Result).Minimum, ""))
			by[""] = append(by[""], ratio)
		}
		if columns.Load {
			var parts []string
			for _, x := range r.By[0].Results {
				if x.Error == "" {
					parts = append(parts,
						fmt.Sprintf("%s %s, %s, %.0f MB", x.Provider, number(x.LoadMS), number(x.FirstMS), x.PeakRSSMB))
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(parts, "; "))
			if columns.Alone != "" {
				m := &r.By[0]
				for _, use := range []struct {
					ratio float64
					all   *[]float64
				}{{m.FirstUse(columns.Alone), &uses}, {m.Results[0].FirstMS / m.Results[0].MedianMS, &firsts}} {
					if !(use.ratio > 0) || m.Results[0].Error != "" {
						b.WriteString(" – |")
						continue
					}
					fmt.Fprintf(&b, " %.2f |", use.ratio)
					*use.all = append(*use.all, use.ratio)
				}
			}
		}
		b.WriteString("\n")
		if !printed[r] {
			b.Truncate(start)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(ratios)) {
		by := ratios[t]
		if len(by[""]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%dT: geometric mean %.2f, lowest %.2f, over %d models", t, mean(by[""]),
			slices.Min(by[""]), len(by[""]))
		models := len(by[""])
		delete(by, "")
		for _, p := range slices.Sorted(maps.Keys(by)) {
			if len(by) > 1 {
				fmt.Fprintf(&b, "; against %s alone %.2f and %.2f", p, mean(by[p]), slices.Min(by[p]))
				if len(by[p]) < models {
					fmt.Fprintf(&b, " over %d", len(by[p]))
				}
			}
		}
		b.WriteString(".\n")
	}
	if len(uses) > 0 && len(firsts) > 0 {
		fmt.Fprintf(&b, "\nFirst use: load and first run take %.2f of %s's sum (geometric mean), highest %.2f; "+
			"the first run takes %.2f of the median run, highest %.2f.\n", mean(uses), columns.Alone, slices.Max(uses),
			mean(firsts), slices.Max(firsts))
	}
	return b.String()
}

// lowestRows returns n rows with the lowest ratios, all if n is 0.
func lowestRows(rows []*Row, n int) map[*Row]bool {
	list := slices.Clone(rows)
	if n > 0 {
		lowest := func(r *Row) float64 {
			least := math.Inf(1)
			for _, m := range r.By {
				if ratio := m.Ratio((*Result).Median, ""); ratio > 0 {
					least = min(least, ratio)
				}
			}
			return least
		}
		slices.SortStableFunc(list, func(a, b *Row) int { return cmp.Compare(lowest(a), lowest(b)) })
		list = list[:min(n, len(list))]
	}
	r := map[*Row]bool{}
	for _, x := range list {
		r[x] = true
	}
	return r
}

// mean returns the geometric mean.
func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(x)))
}

// Describe returns a sentence with the processor, the kernels, and the versions of the providers.
func Describe(ctx context.Context, exe string) (string, error) {
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
