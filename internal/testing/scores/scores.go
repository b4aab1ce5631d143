// Package scores counts how many cases of the ONNX backend suite a provider passes.
package scores

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
)

// Kinds are the kinds of cases, in the order of the table. The cases of real are the light
// models, whose weights are generated.
var Kinds = []string{"node", "simple", "pytorch-converted", "pytorch-operator", "real"}

// Score counts cases by their outcome.
type Score struct {
	Passed  int
	Refused int // the provider returned an error
	Differ  int // the results differ
}

// Total returns the number of cases.
func (s Score) Total() int { return s.Passed + s.Refused + s.Differ }

// Report holds the results of a provider.
type Report struct {
	Provider string
	ByKind   map[string]Score
	Differ   []string // the cases whose results differ, sorted by kind and name
	Errors   []string // the first errors, one line each
	refused  []string // the errors of the refused cases, with their names
}

// All returns the sum of the scores of all kinds.
func (r *Report) All() Score {
	var all Score
	for _, s := range r.ByKind {
		all.Passed += s.Passed
		all.Refused += s.Refused
		all.Differ += s.Differ
	}
	return all
}

// maxErrors is the number of errors that a report keeps.
const maxErrors = 5

// Run runs the suite in dir on a provider: all cases but those that match a pattern of exclude,
// or, if there are patterns in include, those that match one of these.
func Run(ctx context.Context, dir, provider string, include, exclude []string) (*Report, error) {
	p := backend.Provider(provider)
	r, err := backendtest.New(p, &backendtest.Options{Dir: dir, Devices: []string{strings.ToUpper(p.Device(nil).Type)},
		Prepare: &backend.Options{SkipCheck: true, Session: &onward.SessionOptions{Threads: 1}}})
	if err != nil {
		return nil, err
	}
	for _, p := range include {
		r.Include(p)
	}
	for _, p := range exclude {
		r.Exclude(p)
	}
	results, err := r.Results(ctx)
	if err != nil {
		return nil, err
	}
	rep := &Report{Provider: provider, ByKind: map[string]Score{}}
	for _, res := range results {
		s := rep.ByKind[res.Kind]
		var st *onward.StatusError
		switch {
		case res.Status == backendtest.Passed:
			s.Passed++
		case res.Status == backendtest.Skipped && len(include) > 0 && res.Err == nil &&
			res.Reason == "no matched include pattern":
			continue
		case res.Status == backendtest.Skipped, errors.As(res.Err, &st):
			s.Refused++
			rep.refused = append(rep.refused, rep.note(res.Case, res.Reason, res.Err))
		default:
			s.Differ++
			rep.Differ = append(rep.Differ, res.Case)
			rep.note(res.Case, "", res.Err)
		}
		rep.ByKind[res.Kind] = s
	}
	return rep, nil
}

func (r *Report) note(name, reason string, err error) string {
	if err != nil {
		reason = err.Error()
	}
	text := name + ": " + reason
	if len(r.Errors) < maxErrors {
		r.Errors = append(r.Errors, text)
	}
	return text
}

// Class is a set of cases that a provider is known not to pass.
type Class struct {
	Why string
	// of the name of a case that differs; of the name and the error, separated by ": ", of
	// one that is refused
	Match *regexp.Regexp
	Some  bool // the cases depend on the processor: there may be none
}

// Check fails a test unless at least passed cases pass, and each other one is of a class.
func (r *Report) Check(t *testing.T, passed int, differ, refused []Class) {
	t.Helper()
	for what, of := range map[string]struct {
		classes []Class
		cases   []string
	}{"differs": {differ, r.Differ}, "is refused": {refused, r.refused}} {
		counts := make([]int, len(of.classes))
		for _, c := range of.cases {
			i := slices.IndexFunc(of.classes, func(k Class) bool { return k.Match.MatchString(c) })
			if i < 0 {
				t.Errorf("%s %s", c, what)
				continue
			}
			counts[i]++
		}
		for i, k := range of.classes {
			t.Logf("%s: %d cases: %s", what, counts[i], k.Why)
			if counts[i] == 0 && !k.Some {
				t.Errorf("%s: no case any more: %s", what, k.Why)
			}
		}
	}
	if all := r.All(); all.Passed < passed {
		t.Errorf("%d of %d cases pass, want at least %d", all.Passed, all.Total(), passed)
	} else {
		t.Logf("%d of %d cases pass", all.Passed, all.Total())
	}
}
