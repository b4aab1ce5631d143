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
// -decode measures steps of a decoder on the Go engine and ONNX Runtime instead: of the files that
// follow the flags, or of one that it builds with each format of weights.
//
// -record writes the ratios of ONNX Runtime's minima to a file; -check compares them with it, as
// bench/sweep does. Both leave out OpenVINO.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/bench/internal/page"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
)

// row is a model with its measurements.
type row struct {
	model
	measure.Row
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
	decode := flag.Bool("decode", false,
		"measure steps of a decoder whose caches are states, and print the share of the memory's bandwidth")
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
	if *decode {
		by, err := measure.Threads(*threads)
		if err != nil {
			return err
		}
		return measureDecode(ctx, flag.Args(), re, by, *duration, *rounds)
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
	var skip []string
	if gated {
		skip = []string{"openvino"}
	}
	providers := measure.Providers(skip...)
	load := machine.Load()
	var rows []row
	for _, m := range append(light(), models()...) {
		if !re.MatchString(m.group+" "+m.name) || m.group == gBF16 && (gated || !cpu.BFloat16(cpu.Active())) {
			continue
		}
		r := row{model: m, Row: measure.Row{Group: m.group, Name: m.name, Args: m.args, Providers: providers}}
		if m.group == gBF16 { // ONNX Runtime has no bfloat16 for float32 models on this architecture
			r.Providers = slices.DeleteFunc(slices.Clone(providers), func(p string) bool { return p == "ort" })
		}
		if r.File, err = m.write(ctx, exe, dir); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if r.By, err = measure.Threads(*threads); err != nil {
			return err
		}
		rows = append(rows, r)
	}
	program := measure.Program{Path: exe, Duration: *duration}
	measured := make([]*measure.Row, len(rows))
	for i := range rows {
		measured[i] = &rows[i].Row
	}
	if err := program.Rounds(ctx, measured, *rounds); err != nil {
		return err
	}
	if gated {
		return program.Gate(ctx, &p, measured, *rounds)
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
	if old, err := os.ReadFile(*out); err == nil { // bench/real and bench/scale write these sections
		for _, heading := range []string{page.Real, page.Scale, page.Cores} {
			if section := page.Section(string(old), heading); section != "" {
				text = page.Replace(text, heading, section, page.Networks)
			}
		}
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
