package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
)

// TestTypicalCasesAreValid checks that every line of cases.txt gives valid models of registered
// operators, and no model twice.
func TestTypicalCasesAreValid(t *testing.T) {
	groups, _ := parse("cases.txt", typical)
	var all []*opfuzz.Case
	for _, g := range groups {
		cases, err := g.cases()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cases...)
	}
	seen := map[string]bool{}
	for _, c := range all {
		name := label(c)
		if kit.Registered(c.Domain, c.Op) == nil {
			t.Errorf("%s: the operator is not registered", name)
		}
		if key := fmt.Sprint(name, c.Opset, c.Constant); seen[key] {
			t.Errorf("%s is listed twice", name)
		} else {
			seen[key] = true
		}
		if _, feed, err := c.Model(); err != nil || len(feed) == 0 {
			t.Errorf("%s: %d inputs, %v", name, len(feed), err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"Relu":               "1 fields",
		"Relu | f32 | T x":   `input "T x"`,
		"Relu | f32 | f31 4": `unknown type "f31"`,
		"Relu | f32 | =a":    `"a"`,
		"Relu@x | f32 | T 4": `"x"`,
	} {
		groups, _ := parse("cases.txt", "# a comment\n"+line)
		if _, err := groups[0].cases(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "cases.txt:2") {
			t.Errorf("%s: error %v, want one with %q and cases.txt:2", line, err, want)
		}
	}
}

func TestReport(t *testing.T) {
	text := report([]*result{
		{name: "Relu float 4", min: [2]float64{1e-5, 4e-5}, median: [2]float64{2e-5, 4e-5}},
		{name: "Abs float 4", min: [2]float64{4e-5, 1e-5}, median: [2]float64{4e-5, 2e-5}},
		{name: "Abs float 9", min: [2]float64{3e-5, 3e-5}, median: [2]float64{3e-5, 3e-5}},
	}, 7, &options{below: .9, shortest: 8 * time.Microsecond})
	for _, want := range []string{"3 cases of 2 operators: geometric mean 1.00 (of medians 1.00), 1 below 0.9.",
		"7 cases that", "| Abs float 4 | 40 µs | 10 µs | 0.25 | 0.50 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Relu") || strings.Contains(text, "float 9") {
		t.Errorf("the report lists cases that are not slower:\n%s", text)
	}
}

// TestBlockTimesRuns checks that a block runs once before it times, and times once at least.
func TestBlockTimesRuns(t *testing.T) {
	runs := 0
	times, err := block(func() error { runs++; return nil }, 0)
	if err != nil || len(times) != 1 || runs < 2 {
		t.Errorf("%d times of %d runs, error %v; want one time after a run that is not timed", len(times), runs, err)
	}
}
