// Package scores counts how many cases of the ONNX backend suite a provider passes.
package scores

import (
	"context"
	"errors"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
)

// Kinds are the kinds of cases, in the order of tables. The cases of real are the
// light models, whose weights are made up.
var Kinds = []string{"node", "simple", "pytorch-converted", "pytorch-operator", "real"}

// Score says how cases ended.
type Score struct {
	Passed  int
	Refused int // an error says that the provider cannot run it
	Differ  int // the results are others
}

// Total is the number of cases.
func (s Score) Total() int { return s.Passed + s.Refused + s.Differ }

// Report is how a provider did.
type Report struct {
	Provider string
	ByKind   map[string]Score
	Differ   []string // the cases whose results differ, sorted by kind and name
	Errors   []string // the first errors, one line each
}

// All is the score over all kinds.
func (r *Report) All() Score {
	var all Score
	for _, s := range r.ByKind {
		all.Passed += s.Passed
		all.Refused += s.Refused
		all.Differ += s.Differ
	}
	return all
}

// maxErrors is how many errors a report keeps.
const maxErrors = 5

// Run runs the suite in dir on a provider. Cases that match a pattern of exclude are
// left out.
func Run(ctx context.Context, dir, provider, device string, exclude ...string) (*Report, error) {
	r, err := backendtest.New(backend.Provider(provider), backendtest.Options{Dir: dir, Devices: []string{device},
		Prepare: &backend.Options{SkipCheck: true, Session: &onward.SessionOptions{Threads: 1}}})
	if err != nil {
		return nil, err
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
		case res.Status == backendtest.Skipped && len(exclude) > 0 && res.Err == nil && excluded(res.Reason):
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

// excluded reports whether a case was left out by a pattern.
func excluded(reason string) bool {
	return len(reason) > 7 && reason[:7] == "matched"
}
