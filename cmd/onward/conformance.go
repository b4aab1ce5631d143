//go:build !core && !server

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// conformanceJSON is the output of --json.
type conformanceJSON struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	// Passed cases whose results are random and tested by their distribution.
	CheckedByDistribution int `json:"checked_by_distribution"`
	// Passed cases without expected outputs, compared with another provider.
	ComparedWithProvider int        `json:"compared_with_provider"`
	Cases                []caseJSON `json:"cases"`
}

type caseJSON struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
	Error  string `json:"error"` // the failure, or the reason of the skip
	// The largest differences from the expected outputs; null if nothing was compared or
	// only one of two values is NaN.
	MaxAbs *float64 `json:"max_abs"`
	MaxRel *float64 `json:"max_rel"`
	// Why the results were tested by distribution instead of compared.
	Checked string `json:"checked,omitempty"`
	// The provider whose results took the place of missing expected outputs.
	Against string `json:"against,omitempty"`
}

const howToGetSuite = `the ONNX backend suite is not on this machine. Get it in one of these ways:
  pip download --no-deps onnx==` + suite.Version + ` && unzip -q onnx-*.whl 'onnx/backend/test/data/*'
    then: onward conformance --data onnx/backend/test/data
  make test in a checkout of Onward, which keeps it in the user's cache folder
  set ` + suite.Env + ` to a folder that has it`

func init() { large = append(large, conformanceCommand) }

func conformanceCommand() *cobra.Command {
	var (
		data, provider, report string
		html                   string
		kinds, include         []string
		exclude                []string
		runs                   int
		asJSON                 bool
		own                    session.ProviderOptions
	)
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Run the ONNX backend suite",
		Long: `Run the ONNX backend suite and count the cases that pass. Models with unsupported
operators are skipped. The exit code is 1 if a case fails.

The name of a case ends in its device: test_abs_cpu.

--html writes a page that shows how many cases of each operator pass. --provider may then
list several providers.`,
		Example: `  onward conformance
  onward conformance --kind node --include '^test_conv' --provider reference
  onward conformance --provider cpu,ort --html conformance.html
  onward conformance --data onnx/backend/test/data --report out --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := findSuite(data)
			if err != nil {
				return err
			}
			providers := strings.Split(provider, ",")
			if len(providers) > 1 && (html == "" || asJSON || report != "") {
				return cli.Usagef("--provider is %q, want one, or --html without --json and --report", provider)
			}
			all := make([]backendtest.Options, len(providers))
			for i, p := range providers {
				if all[i], err = conformanceOptions(s.Dir, p, own, kinds, runs); err != nil {
					return err
				}
			}
			for _, p := range slices.Concat(include, exclude) {
				if _, err := regexp.Compile(p); err != nil {
					return cli.UsageError{Err: err}
				}
			}
			var results [][]backendtest.Result
			for i, p := range providers {
				r, err := runConformance(cmd, p, all[i], include, exclude, report)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			if err := writePage(cmd.Context(), html, func() *page.Page {
				return conformancePage(s.Dir, providers, results)
			}); err != nil {
				return err
			}
			err = nil
			for i, r := range results {
				if len(providers) > 1 {
					fmt.Fprintf(cmd.OutOrStdout(), "provider %s\n", providers[i])
				}
				err = cmp.Or(err, showConformance(cmd.OutOrStdout(), r, asJSON))
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&data, "data", "", "the suite's data folder, which holds node/ (default: $"+suite.Env+
		", else the cache)")
	f.StringArrayVar(&kinds, "kind", nil,
		"run only this kind: node, real, simple, pytorch-converted, pytorch-operator; repeat for more")
	f.StringArrayVar(&include, "include", nil, "run only cases that match this regular expression; repeat for more")
	f.StringArrayVar(&exclude, "exclude", nil, "skip cases that match this regular expression; repeat for more")
	session.ProviderFlag(f, &provider)
	session.OptionFlag(f, &own)
	f.StringVar(&report, "report", "", "write report.txt, nodes.csv, models.csv and metadata.csv to this folder")
	f.IntVar(&runs, "runs", 1, "number of runs of each data set")
	htmlFlag(f, &html)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// runConformance runs the cases on a provider.
func runConformance(cmd *cobra.Command, provider string, o backendtest.Options, include, exclude []string,
	report string) ([]backendtest.Result, error) {
	bar := progress.New(cmd.ErrOrStderr(), "running", "cases")
	o.Progress = func(done, total int, r backendtest.Result) { bar.Step(done, total, r.Name) }
	r, err := backendtest.New(backend.Provider(provider), &o)
	if err != nil {
		return nil, err
	}
	for _, p := range include {
		r.Include(p)
	}
	for _, p := range exclude {
		r.Exclude(p)
	}
	if report != "" {
		r.EnableReport()
	}
	results, err := r.Results(cmd.Context())
	bar.Finish()
	if err == nil && report != "" {
		err = writeReport(r.Coverage(), report, provider)
	}
	return results, err
}

func findSuite(data string) (suite.Suite, error) {
	if data != "" {
		s, err := suite.At(data)
		if err != nil {
			return s, cli.Usagef("--data %w", err)
		}
		return s, nil
	}
	s, err := suite.Find()
	if errors.Is(err, suite.ErrAbsent) {
		return s, errors.New(howToGetSuite)
	}
	return s, err
}

func conformanceOptions(dir, provider string, own session.ProviderOptions, kinds []string,
	runs int) (backendtest.Options, error) {
	o := backendtest.Options{Dir: dir, Kinds: kinds, Runs: runs}
	opts, err := session.Options(provider, 0, own)
	if err != nil {
		return o, err
	}
	if len(own) > 0 {
		o.Prepare = &backend.Options{Session: opts}
	}
	if runs < 1 {
		return o, cli.Usagef("--runs is %d, want 1 or more", runs)
	}
	known, err := backendtest.Kinds(dir)
	if err != nil {
		return o, err
	}
	for _, k := range kinds {
		if !slices.Contains(known, k) {
			return o, cli.Usagef("--kind %q: there are %s", k, strings.Join(known, ", "))
		}
	}
	o.Devices = []string{strings.ToUpper(backend.Provider(provider).Device(nil).Type)}
	return o, nil
}

func showConformance(w io.Writer, results []backendtest.Result, asJSON bool) error {
	c := backendtest.Count(results)
	var err error
	if asJSON {
		err = text.JSON(w, conformanceResult(results, c))
	} else {
		printConformance(w, results)
		if n := backendtest.CountChecked(results); n > 0 {
			fmt.Fprintf(w, "%d of the passed cases have random results and were tested by their distribution\n", n)
		}
		if n := backendtest.CountAgainst(results); n > 0 {
			fmt.Fprintf(w, "%d of the passed cases have no expected outputs and were compared with the provider %s\n",
				n, against(results))
		}
		fmt.Fprintln(w, c)
	}
	switch {
	case err != nil:
		return err
	case c.Failed > 0:
		return cli.Printed{Err: fmt.Errorf("%d cases failed", c.Failed)}
	case c.Passed == 0 && !slices.ContainsFunc(results, func(r backendtest.Result) bool { return !filtered(r) }):
		return cli.Usagef("no case matches --include and --exclude")
	}
	return nil
}

// against returns the provider that took the place of missing expected outputs.
func against(results []backendtest.Result) string {
	i := slices.IndexFunc(results, func(r backendtest.Result) bool { return r.Against != "" })
	return results[i].Against
}

// filtered reports whether --include or --exclude left a case out.
func filtered(r backendtest.Result) bool {
	return r.Status == backendtest.Skipped &&
		(r.Reason == "no matched include pattern" || strings.HasPrefix(r.Reason, "matched exclude pattern"))
}

func conformanceResult(results []backendtest.Result, c backendtest.Tally) conformanceJSON {
	j := conformanceJSON{Passed: c.Passed, Failed: c.Failed, Skipped: c.Skipped,
		CheckedByDistribution: backendtest.CountChecked(results),
		ComparedWithProvider:  backendtest.CountAgainst(results), Cases: make([]caseJSON, len(results))}
	for i, r := range results {
		k := &j.Cases[i]
		k.Name, k.Kind, k.Status, k.Error, k.Checked, k.Against = r.Case, r.Kind, string(r.Status), r.Reason,
			r.Checked, r.Against
		if r.Err != nil {
			k.Error = r.Err.Error()
		}
		if r.Status != backendtest.Skipped && r.Checked == "" {
			k.MaxAbs, k.MaxRel = text.Finite(r.MaxAbs), text.Finite(r.MaxRel)
		}
	}
	return j
}

// printConformance lists the failed cases, the reasons of skips and the counts of each
// category.
func printConformance(w io.Writer, results []backendtest.Result) {
	reasons := map[string]int{}
	categories := map[string][]backendtest.Result{}
	for _, r := range results {
		categories[r.Category] = append(categories[r.Category], r)
		switch {
		case r.Status == backendtest.Failed:
			fmt.Fprintf(w, "FAIL %s/%s: %s\n", text.Name(r.Category), text.Name(r.Name),
				text.Indent(r.Err.Error(), "       "))
		case r.Status == backendtest.Skipped:
			reasons[r.Reason]++
		}
	}
	for i, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		if d := reasons[b] - reasons[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	}) {
		if i == 0 {
			fmt.Fprintln(w, "skipped:")
		}
		fmt.Fprintf(w, "%6d %s\n", reasons[why], text.Indent(why, "       "))
	}
	for _, k := range slices.Sorted(maps.Keys(categories)) {
		fmt.Fprintf(w, "%s: %s\n", text.Name(k), backendtest.Count(categories[k]))
	}
}

func writeReport(c *backendtest.Coverage, dir, provider string) error {
	column := os.Getenv("BACKEND") // as ONNX's own report takes it
	if column == "" {
		column = "onward-" + provider
	}
	if err := c.WriteCSV(dir, column); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "report.txt"), 0o644, c.WriteText)
}
