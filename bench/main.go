// Command bench measures the Go engine, ONNX Runtime and OpenVINO on models that it builds, on the
// nine light networks of the ONNX suite, and on an example. It writes the table and the chart in
// docs/performance.md.
//
// It builds the onward command and runs `onward bench` for every model and number of threads, so
// that the figures are those that users get; see its documentation for the method. Each round
// goes through the whole list, so that minutes pass between the rounds of a model, and other work
// on the machine disturbs few of them. A line is printed for every model in each round, of the
// rounds so far. It leaves out an engine whose library is not on the machine; `make bench`
// fetches both and the suite.
//
// -record writes the ratios of ONNX Runtime's minima to a file; -check compares them with it, as
// bench/sweep does. Both leave out OpenVINO.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
)

// measured is the output of `onward bench --json`.
type measured struct {
	Threads int      `json:"threads"`
	Results []result `json:"results"`
}

type result struct {
	Provider  string  `json:"provider"`
	LoadMS    float64 `json:"load_ms"`
	FirstMS   float64 `json:"first_ms"`
	MinMS     float64 `json:"min_ms"`
	MedianMS  float64 `json:"median_ms"`
	PeakRSSMB float64 `json:"peak_rss_mb"`
	Error     string  `json:"error"`

	rounds []result // whose medians it holds
}

func (r *result) minimum() float64 { return r.MinMS }
func (r *result) median() float64  { return r.MedianMS }

// ratio returns the time of the fastest of other providers divided by that of cpu, the first one;
// 0 if cpu or all others failed. The name of a provider leaves out the others.
func (m *measured) ratio(time func(*result) float64, provider string) float64 {
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

// add adds the results of a round.
func (m *measured) add(round *measured) {
	for _, r := range round.Results {
		i := slices.IndexFunc(m.Results, func(x result) bool { return x.Provider == r.Provider })
		if i < 0 {
			i = len(m.Results)
			m.Results = append(m.Results, result{Provider: r.Provider, MinMS: r.MinMS})
		}
		all := &m.Results[i]
		if all.rounds = append(all.rounds, r); r.Error != "" {
			all.Error = r.Error
		}
		all.MinMS = min(all.MinMS, r.MinMS)
		for _, field := range []func(r *result) *float64{
			func(r *result) *float64 { return &r.LoadMS },
			func(r *result) *float64 { return &r.FirstMS },
			func(r *result) *float64 { return &r.MedianMS },
			func(r *result) *float64 { return &r.PeakRSSMB },
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

// row is a model with its measurements by number of threads.
type row struct {
	model
	by []measured
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	quick := flag.Bool("quick", false, "one thread and blocks of 100 ms: a few minutes in all")
	out := flag.String("out", "", "write the table to this file and an image beside it, besides printing lines")
	only := flag.String("only", "", "only models whose group and name match this regular expression")
	threads := flag.String("threads", "1,2", "numbers of threads")
	duration := flag.Duration("duration", time.Second, "how long a block is timed")
	rounds := flag.Int("rounds", 3, "how often the list of models is measured, with one block per provider")
	save := flag.String("save", "", "write the models to this folder instead of measuring them")
	p := gate.Program{Section: "bench", Limit: .1, Retries: 4, Processor: machine.CPU(), Kernels: cpu.Active().String()}
	flag.StringVar(&p.Check, "check", "",
		"compare the ratios with those of this file, and name the models that fell by more than 10 %")
	flag.StringVar(&p.Record, "record", "", "write the ratios to this file")
	flag.Parse()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if *quick {
		if !set["threads"] {
			*threads = "1"
		}
		if !set["duration"] {
			*duration = 100 * time.Millisecond
		}
	}
	re, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "onward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe, err := machine.Onward(ctx, dir)
	if err != nil {
		return err
	}
	if *save != "" {
		return saveModels(ctx, exe, *save, re)
	}
	gated := p.Check != "" || p.Record != ""
	providers := []string{"cpu"}
	for _, engine := range []struct {
		provider, env string
		find          func() (string, error)
		leave         bool
	}{{"ort", ortlib.Env, ortlib.Find, false}, {"openvino", openvinolib.Env, openvinolib.Find, gated}} {
		if engine.leave {
			continue
		}
		lib, err := engine.find()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v: %s is left out\n", err, engine.provider)
			continue
		}
		os.Setenv(engine.env, lib)
		providers = append(providers, engine.provider)
	}
	load := machine.Load()
	ratios, again := map[string]float64{}, map[string]func() (*measured, error){}
	var rows []row
	for _, m := range append(light(), models()...) {
		if !re.MatchString(m.group+" "+m.name) || m.group == gBF16 && (gated || !cpu.BFloat16(cpu.Active())) {
			continue
		}
		r := row{model: m}
		if r.file, err = m.write(ctx, exe, dir); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for n := range strings.SplitSeq(*threads, ",") {
			n, err := strconv.Atoi(n)
			if err != nil {
				return fmt.Errorf("-threads %s: %w", *threads, err)
			}
			r.by = append(r.by, measured{Threads: n})
		}
		rows = append(rows, r)
	}
	for round := range *rounds {
		for _, r := range rows {
			with := slices.Clone(providers)
			if r.group == gBF16 { // ONNX Runtime has no bfloat16 for float32 models on this architecture
				with = slices.DeleteFunc(with, func(p string) bool { return p == "ort" })
			}
			for i := range r.by {
				m := &r.by[i]
				run := func(with []string, rounds int) (*measured, error) {
					return measure(ctx, exe,
						append([]string{"bench", r.file, "--json", "--provider", strings.Join(with, ","), "--threads",
							strconv.Itoa(m.Threads),
							"--duration", duration.String(), "--rounds", strconv.Itoa(rounds)}, r.args...))
				}
				order := slices.Clone(with)
				if round%2 == 1 {
					slices.Reverse(order)
				}
				one, err := run(order, 1)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				m.add(one)
				fmt.Println(line(r.name, m))
				if ratio := m.ratio((*result).minimum, "ort"); ratio > 0 {
					name := fmt.Sprintf("%s: %s, %dT", r.group, r.name, m.Threads)
					ratios[name], again[name] = ratio, func() (*measured, error) { return run(with, *rounds) }
				}
			}
		}
	}
	if gated {
		return p.Finish(ratios, func(name string) (float64, error) {
			x, err := again[name]()
			if err != nil {
				return 0, err
			}
			return x.ratio((*result).minimum, "ort"), nil
		})
	}
	if *out == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o777); err != nil {
		return err
	}
	chart := strings.TrimSuffix(*out, filepath.Ext(*out)) + ".svg"
	svg, err := drawRatios(rows)
	if err != nil {
		return err
	}
	if err := os.WriteFile(chart, svg, 0o666); err != nil {
		return err
	}
	text, err := table(ctx, exe, rows, fmt.Sprintf("blocks of %s, in %d rounds through all models", *duration, *rounds),
		load, filepath.Base(chart))
	if err != nil {
		return err
	}
	return os.WriteFile(*out, []byte(text), 0o666)
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// saveModels writes the models that this program builds.
func saveModels(ctx context.Context, exe, dir string, only *regexp.Regexp) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, m := range models() {
		if m.build == nil || !only.MatchString(m.group+" "+m.name) {
			continue
		}
		path, err := m.write(ctx, exe, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Println(path)
	}
	return nil
}

// light returns the light networks of the suite, or none if the suite is not there.
func light() []model {
	s, err := suite.Find()
	var files []string
	if err == nil {
		files, err = filepath.Glob(filepath.Join(s.Dir, "light", "light_*.onnx"))
	}
	if err != nil || len(files) == 0 {
		fmt.Fprintln(os.Stderr, "bench: the light networks are skipped:",
			errors.Join(err, errors.New("the ONNX suite is not available")))
		return nil
	}
	var list []model
	for _, f := range files {
		list = append(list, model{group: gNetworks, name: strings.TrimSuffix(filepath.Base(f), ".onnx"), file: f})
	}
	return list
}

// write writes the model file and, if the model asks for it, quantizes it.
func (m *model) write(ctx context.Context, exe, dir string) (string, error) {
	if m.build == nil {
		return m.file, nil
	}
	path := filepath.Join(dir, unsafeInNames.ReplaceAllString(m.group+" "+m.name, "_")+".onnx")
	if err := onnx.WriteFile(path, m.build(), nil); err != nil || !m.int8 {
		return path, err
	}
	small := strings.TrimSuffix(path, ".onnx") + ".int8.onnx"
	out, err := exec.CommandContext(ctx, exe, "quantize", path, "-o", small, "--data", "random:2", "--per-channel").
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("onward quantize: %w\n%s", err, out)
	}
	return small, nil
}

func measure(ctx context.Context, exe string, args []string) (*measured, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	m := new(measured) // the output reports a provider that failed
	return m, json.Unmarshal(out, m)
}
