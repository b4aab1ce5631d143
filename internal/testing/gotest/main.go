// Command gotest runs `go test` and prints how many tests passed, failed and were skipped,
// and the reasons of the skips.
//
//	gotest [-tally FILE] ARGUMENTS-OF-GO-TEST…
//	gotest -total FILE
//
// The last line is "N passed, N failed, N skipped". It counts the tests and
// subtests that have no subtests; a package that fails otherwise (it does not
// build, it runs out of time) counts as one failure, and so does a -run that
// selects no test. -tally appends the counts to a file, -total prints the sum over
// such a file. The exit code is 1 if anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// limit is the time of one package unless -timeout says another. Go's default of 10 minutes is too
// short for the race detector and for the suite without vector instructions on a busy machine.
const limit = "40m"

func main() {
	code, err := command(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	os.Exit(code)
}

func command(args []string, out io.Writer) (int, error) {
	if len(args) == 2 && args[0] == "-total" {
		c, err := readTally(args[1])
		if err != nil {
			return 1, err
		}
		fmt.Fprintln(out, c)
		return exitCode(c), nil
	}
	var tally string
	if len(args) >= 2 && args[0] == "-tally" {
		tally, args = args[1], args[2:]
	}
	// make vet checks all packages.
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off", "-timeout=" + limit}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(out)
	readErr := r.read(pipe)
	waitErr := cmd.Wait()
	c := r.finish()
	if readErr == nil && waitErr != nil && c.Failed == 0 {
		c.Failed++ // go test failed before it ran a package
	}
	if filter, ok := runFilter(args); ok && c.Failed == 0 && !r.matched(filter) {
		fmt.Fprintf(out, "no test matches -run %s\n", filter)
		c.Failed++
	}
	fmt.Fprintln(out, c)
	if tally != "" {
		if err := appendTally(tally, c); err != nil {
			return 1, err
		}
	}
	return exitCode(c), readErr
}

// runFilter returns the last value of the flag -run. It reports false without the flag, or if
// the arguments run benchmarks or fuzz targets, for which -run deselects the tests.
func runFilter(args []string) (filter string, ok bool) {
	for i, a := range args {
		name, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		name = strings.TrimPrefix(name, "test.")
		switch {
		case a == "-args" || a == "--args":
			return filter, ok
		case !strings.HasPrefix(a, "-"):
		case name == "bench" || name == "fuzz":
			return "", false
		case name == "run" && has:
			filter, ok = value, true
		case name == "run" && i+1 < len(args):
			filter, ok = args[i+1], true
		}
	}
	return filter, ok
}

// matched reports whether a test at the depth of the filter ran: a parent runs to find out
// whether it has the subtest that the filter names.
func (r *report) matched(filter string) bool {
	depth := -1
	for alternative := range strings.SplitSeq(filter, "|") {
		n, inClass := 0, false
		for _, c := range alternative {
			switch {
			case c == '[' || c == ']':
				inClass = c == '['
			case c == '/' && !inClass:
				n++
			}
		}
		if depth < 0 || n < depth {
			depth = n
		}
	}
	for id := range r.result {
		if strings.Count(id.test, "/") >= depth {
			return true
		}
	}
	return false
}

func exitCode(c counts) int { return min(c.Failed, 1) }

type counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

func appendTally(path string, c counts) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(c), f.Close())
}

func readTally(path string) (counts, error) {
	var sum counts
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var c counts
		if err := d.Decode(&c); err == io.EOF {
			return sum, nil
		} else if err != nil {
			return sum, fmt.Errorf("%s: %w", path, err)
		}
		sum.Passed += c.Passed
		sum.Failed += c.Failed
		sum.Skipped += c.Skipped
	}
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type testID struct{ pkg, test string }

// report gathers the events of a run. Output of a test is kept until the test
// ends, and shown if it fails.
type report struct {
	out      io.Writer
	output   map[testID][]string
	result   map[testID]string // pass, fail or skip
	parents  map[testID]bool   // tests that have subtests
	packages map[string]string // result of a package
	reasons  map[string]int    // number of skips by reason
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[testID][]string{}, result: map[testID]string{}, parents: map[testID]bool{},
		packages: map[string]string{}, reasons: map[string]int{}}
}

func (r *report) read(in io.Reader) error {
	br := bufio.NewReader(in)
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.event(e)
			} else {
				fmt.Fprint(r.out, line) // output of the go command, such as "go: downloading"
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var framing = regexp.MustCompile(`^(=== |\s*--- |PASS\n|FAIL\n|coverage: )`)

func (r *report) event(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "run":
		for t := e.Test; strings.Contains(t, "/"); {
			t = t[:strings.LastIndexByte(t, '/')]
			r.parents[testID{e.Package, t}] = true
		}
	case "output":
		if e.Test == "" {
			if !framing.MatchString(e.Output) {
				fmt.Fprint(r.out, e.Output)
			}
			return
		}
		r.output[id] = append(r.output[id], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packages[e.Package] = e.Action
			return
		}
		r.result[id] = e.Action
		if e.Action == "fail" {
			for _, s := range r.output[id] {
				if !strings.HasPrefix(s, "=== ") {
					fmt.Fprint(r.out, s)
				}
			}
		}
		if e.Action == "skip" {
			r.reasons[reason(r.output[id])]++
		}
		delete(r.output, id)
	}
}

var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason returns what a test printed before it was skipped, without file and line.
func reason(output []string) string {
	var b strings.Builder
	for _, s := range output {
		if !framing.MatchString(s) {
			b.WriteString(position.ReplaceAllString(s, " "))
		}
	}
	if s := strings.Join(strings.Fields(b.String()), " "); s != "" {
		return s
	}
	return "no reason given"
}

// finish prints the output of tests that did not end and the reasons of the skips, and
// returns the counts.
func (r *report) finish() counts {
	var c counts
	failedIn := map[string]bool{}
	for id, result := range r.result {
		if result == "fail" && !r.parents[id] {
			failedIn[id.pkg] = true
		}
		switch {
		case r.parents[id]:
		case result == "pass":
			c.Passed++
		case result == "fail":
			c.Failed++
		case result == "skip":
			c.Skipped++
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.output), func(a, b testID) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	}) {
		if r.packages[id.pkg] == "fail" {
			fmt.Fprintf(r.out, "%s %s did not end:\n%s", id.pkg, id.test, strings.Join(r.output[id], ""))
		}
	}
	for pkg, result := range r.packages {
		if result == "fail" && !failedIn[pkg] {
			c.Failed++
		}
	}
	const most = 25
	why := slices.SortedFunc(maps.Keys(r.reasons), func(a, b string) int {
		if d := r.reasons[b] - r.reasons[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(why) > 0 {
		fmt.Fprintln(r.out, "\nskipped:")
	}
	for i, s := range why {
		if i == most {
			fmt.Fprintf(r.out, "%6s and %d more reasons\n", "", len(why)-most)
			break
		}
		fmt.Fprintf(r.out, "%6d %s\n", r.reasons[s], s)
	}
	return c
}
