// Package measure runs `onward bench` on lists of models, for each provider and number of threads,
// and formats the results as tables.
package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
)

// Measured is the output of `onward bench --json`.
type Measured struct {
	Threads int      `json:"threads"`
	Results []Result `json:"results"`
}

// Result holds the times of a provider, or the error for which it has none.
type Result struct {
	Provider  string  `json:"provider"`
	LoadMS    float64 `json:"load_ms"`
	FirstMS   float64 `json:"first_ms"`
	MinMS     float64 `json:"min_ms"`
	MedianMS  float64 `json:"median_ms"`
	PeakRSSMB float64 `json:"peak_rss_mb"`
	Error     string  `json:"error"`

	rounds []Result // whose medians it holds
}

// Minimum returns the time of the fastest run.
func (r *Result) Minimum() float64 { return r.MinMS }

// Median returns the median time of a run.
func (r *Result) Median() float64 { return r.MedianMS }

// Ratio returns the time of the fastest of other providers divided by that of cpu, the first one;
// 0 if cpu or all others failed. The name of a provider leaves out the others.
func (m *Measured) Ratio(time func(*Result) float64, provider string) float64 {
	best := 0.0
	for i := range m.Results {
		if r := &m.Results[i]; i > 0 && r.Error == "" && (provider == "" || r.Provider == provider) &&
			(best == 0 || time(r) < best) {
			best = time(r)
		}
	}
	if best == 0 || m.Results[0].Error != "" || time(&m.Results[0]) == 0 {
		return 0
	}
	return best / time(&m.Results[0])
}

// FirstUse returns the time that cpu takes to load and to run for the first time, divided by that
// of another provider; 0 if one of them failed.
func (m *Measured) FirstUse(provider string) float64 {
	for i := range m.Results {
		if r := &m.Results[i]; r.Provider == provider && r.Error == "" && m.Results[0].Error == "" {
			return (m.Results[0].LoadMS + m.Results[0].FirstMS) / (r.LoadMS + r.FirstMS)
		}
	}
	return 0
}

// Add adds the results of a round.
func (m *Measured) Add(round *Measured) {
	for _, r := range round.Results {
		i := slices.IndexFunc(m.Results, func(x Result) bool { return x.Provider == r.Provider })
		if i < 0 {
			i = len(m.Results)
			m.Results = append(m.Results, Result{Provider: r.Provider, MinMS: r.MinMS})
		}
		all := &m.Results[i]
		if all.rounds = append(all.rounds, r); r.Error != "" {
			all.Error = r.Error
		}
		all.MinMS = min(all.MinMS, r.MinMS)
		for _, field := range []func(r *Result) *float64{
			func(r *Result) *float64 { return &r.LoadMS },
			func(r *Result) *float64 { return &r.FirstMS },
			func(r *Result) *float64 { return &r.MedianMS },
			func(r *Result) *float64 { return &r.PeakRSSMB },
		} {
			var values []float64
			for k := range all.rounds {
				values = append(values, *field(&all.rounds[k]))
			}
			slices.Sort(values)
			*field(all) = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
		}
	}
}

// Row is a model file with its measurements by number of threads.
type Row struct {
	Group     string // before the name in recorded ratios; may be empty
	Name      string
	File      string
	Args      []string // additional arguments of onward bench
	Providers []string // cpu is the first
	By        []Measured
}

// Threads returns an empty measurement for each number of threads of a list as "1,2".
func Threads(list string) ([]Measured, error) {
	var by []Measured
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("-threads %s: %w", list, err)
		}
		by = append(by, Measured{Threads: n})
	}
	return by, nil
}

// Providers returns cpu and the others whose libraries are on the machine, in the order ort,
// openvino. It sets the environment variables with which the command finds the libraries, and
// writes to stderr which one is left out. The names in skip are not looked for.
func Providers(skip ...string) []string {
	list := []string{"cpu"}
	for _, native := range []struct {
		provider, env string
		find          func() (string, error)
	}{{"ort", ortlib.Env, ortlib.Find}, {"openvino", openvinolib.Env, openvinolib.Find}} {
		if slices.Contains(skip, native.provider) {
			continue
		}
		lib, err := native.find()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v: %s is left out\n", err, native.provider)
			continue
		}
		os.Setenv(native.env, lib)
		list = append(list, native.provider)
	}
	return list
}

// Program is the onward command with the settings of its blocks.
type Program struct {
	Path     string
	Duration time.Duration // how long a block is timed
}

// Rounds measures all rows and numbers of threads, one round after another, and prints a line for
// each. The order of the providers alternates between rounds.
func (p *Program) Rounds(ctx context.Context, rows []*Row, rounds int) error {
	for round := range rounds {
		for _, r := range rows {
			for i := range r.By {
				m := &r.By[i]
				order := slices.Clone(r.Providers)
				if round%2 == 1 {
					slices.Reverse(order)
				}
				one, err := p.Run(ctx, r, m.Threads, order, 1)
				if err != nil {
					return fmt.Errorf("%s: %w", r.Name, err)
				}
				m.Add(one)
				fmt.Println(line(r.Name, m))
			}
		}
	}
	return nil
}

// Run measures a model by one call of the command. The result has the error of a provider that
// failed.
func (p *Program) Run(ctx context.Context, r *Row, threads int, providers []string, rounds int) (*Measured, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, p.Path, append([]string{"bench", r.File, "--json",
		"--provider", strings.Join(providers, ","), "--threads", strconv.Itoa(threads),
		"--duration", p.Duration.String(), "--rounds", strconv.Itoa(rounds)}, r.Args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	m := new(Measured)
	return m, json.Unmarshal(out, m)
}

// Gate compares the rows' ratios of ONNX Runtime's minimal time to that of cpu with recorded ones,
// or records them. A case whose ratio fell is measured again in as many rounds.
func (p *Program) Gate(ctx context.Context, g *gate.Program, rows []*Row, rounds int) error {
	ratios, again := map[string]float64{}, map[string]func() (*Measured, error){}
	for _, r := range rows {
		for _, m := range r.By {
			if ratio := m.Ratio((*Result).Minimum, "ort"); ratio > 0 {
				name := fmt.Sprintf("%s, %dT", r.Name, m.Threads)
				if r.Group != "" {
					name = r.Group + ": " + name
				}
				ratios[name], again[name] = ratio, func() (*Measured, error) {
					return p.Run(ctx, r, m.Threads, r.Providers, rounds)
				}
			}
		}
	}
	return g.Finish(ratios, func(name string) (float64, error) {
		x, err := again[name]()
		if err != nil {
			return 0, err
		}
		return x.Ratio((*Result).Minimum, "ort"), nil
	})
}
