// Command bench measures the Go engine and ONNX Runtime on models that it builds, on the nine light
// networks of the ONNX suite, and on an example. It writes the table and the chart in
// docs/performance.md.
//
// It builds the onward command and runs `onward bench` for every model and number of threads, so
// that the figures are those that users get; see its documentation for the method. Without ONNX
// Runtime's library it measures cpu only; `make bench` fetches the library and the suite.
//
// -record writes the ratios of minima to a file; -check compares them with it, as bench/sweep does.
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
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
)

// measured is the output of `onward bench --json`.
type measured struct {
	Threads int     `json:"threads"`
	Ratio   float64 `json:"ratio"`
	Results []struct {
		Provider  string  `json:"provider"`
		LoadMS    float64 `json:"load_ms"`
		FirstMS   float64 `json:"first_ms"`
		MinMS     float64 `json:"min_ms"`
		MedianMS  float64 `json:"median_ms"`
		PeakRSSMB float64 `json:"peak_rss_mb"`
		Error     string  `json:"error"`
	} `json:"results"`
}

// minRatio returns the ratio of the fastest runs, which other load on the machine affects least; 0
// if there is none.
func (m *measured) minRatio() float64 {
	if m.Ratio == 0 || len(m.Results) < 2 || m.Results[0].MinMS == 0 {
		return 0
	}
	return m.Results[1].MinMS / m.Results[0].MinMS
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
	out := flag.String("out", "", "write the table to this file and a picture beside it, besides printing lines")
	only := flag.String("only", "", "only models whose group and name match this regular expression")
	threads := flag.String("threads", "1,2", "numbers of threads")
	duration := flag.Duration("duration", time.Second, "how long a block is timed")
	rounds := flag.Int("rounds", 3, "blocks per provider")
	save := flag.String("save", "", "write the models to this folder instead of measuring them")
	p := gate.Program{Section: "bench", Limit: .1, Retries: 4, Processor: machine.CPU(), Kernels: cpu.Active().String()}
	flag.StringVar(&p.Check, "check", "", "compare the ratios with those of this file, and name the models that fell by more than 10 %")
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
	if *save != "" {
		return saveModels(*save, re)
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
	providers := "cpu,ort"
	switch lib, err := ortlib.Find(); {
	case err == nil:
		os.Setenv(ortlib.Env, lib)
	default:
		providers = "cpu"
		fmt.Fprintf(os.Stderr, "bench: %v: cpu is measured alone\n", err)
	}
	load := machine.Load()
	ratios, again := map[string]float64{}, map[string]func() (*measured, error){}
	var rows []row
	for _, m := range append(light(), models()...) {
		if !re.MatchString(m.group + " " + m.name) {
			continue
		}
		r := row{model: m}
		for n := range strings.SplitSeq(*threads, ",") {
			run := func() (*measured, error) {
				file, err := m.write(dir)
				if err != nil {
					return nil, err
				}
				return measure(ctx, exe, append([]string{"bench", file, "--json", "--provider", providers, "--threads", n,
					"--duration", duration.String(), "--rounds", fmt.Sprint(*rounds)}, m.args...))
			}
			x, err := run()
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			r.by = append(r.by, *x)
			fmt.Println(line(m.name, x))
			if ratio := x.minRatio(); ratio > 0 {
				name := fmt.Sprintf("%s: %s, %sT", m.group, m.name, n)
				ratios[name], again[name] = ratio, run
			}
		}
		rows = append(rows, r)
	}
	if p.Check != "" || p.Record != "" {
		return p.Finish(ratios, func(name string) (float64, error) {
			x, err := again[name]()
			if err != nil {
				return 0, err
			}
			return x.minRatio(), nil
		})
	}
	if *out == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o777); err != nil {
		return err
	}
	picture := strings.TrimSuffix(*out, filepath.Ext(*out)) + ".svg"
	svg, err := drawRatios(rows)
	if err != nil {
		return err
	}
	if err := os.WriteFile(picture, svg, 0o666); err != nil {
		return err
	}
	text, err := table(ctx, exe, rows, fmt.Sprintf("blocks of %s, %d rounds", *duration, *rounds), load, filepath.Base(picture))
	if err != nil {
		return err
	}
	return os.WriteFile(*out, []byte(text), 0o666)
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// saveModels writes the models that this program builds.
func saveModels(dir string, only *regexp.Regexp) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, m := range models() {
		if m.build == nil || !only.MatchString(m.group+" "+m.name) {
			continue
		}
		path := filepath.Join(dir, unsafeInNames.ReplaceAllString(m.name, "_")+".onnx")
		if err := onnx.WriteFile(path, m.build(), nil); err != nil {
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
		fmt.Fprintln(os.Stderr, "bench: the light networks are skipped:", errors.Join(err, errors.New("the ONNX suite is not available")))
		return nil
	}
	var list []model
	for _, f := range files {
		list = append(list, model{group: gNetworks, name: strings.TrimSuffix(filepath.Base(f), ".onnx"), file: f})
	}
	return list
}

// write writes the model file.
func (m *model) write(dir string) (string, error) {
	if m.build == nil {
		return m.file, nil
	}
	path := filepath.Join(dir, "model.onnx")
	return path, onnx.WriteFile(path, m.build(), nil)
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
