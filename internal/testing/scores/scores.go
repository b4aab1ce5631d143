// Package scores counts how many cases of the ONNX backend suite a provider passes.
package scores

import (
	"context"
	"errors"

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

// Run runs the suite in dir on a provider: all cases, or those that match a pattern of
// include.
func Run(ctx context.Context, dir, provider, device string, include ...string) (*Report, error) {
	r, err := backendtest.New(backend.Provider(provider), backendtest.Options{Dir: dir, Devices: []string{device},
		Prepare: &backend.Options{SkipCheck: true, Session: &onward.SessionOptions{Threads: 1}}})
	if err != nil {
		return nil, err
	}
	for _, p := range include {
		r.Include(p)
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
		case res.Status == backendtest.Skipped && len(include) > 0 && res.Err == nil && res.Reason == "no matched include pattern":
			continue
		case res.Status == backendtest.Skipped, errors.As(res.Err, &st):
			s.Refused++
			rep.note(res.Case, res.Reason, res.Err)
		default:
			s.Differ++
			rep.Differ = append(rep.Differ, res.Case)
			rep.note(res.Case, "", res.Err)
		}
		rep.ByKind[res.Kind] = s
	}
	return rep, nil
}

func (r *Report) note(name, reason string, err error) {
	if len(r.Errors) == maxErrors {
		return
	}
	if err != nil {
		reason = err.Error()
	}
	r.Errors = append(r.Errors, name+": "+reason)
}
