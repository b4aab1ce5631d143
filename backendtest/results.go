package backendtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Status is the outcome of a case.
type Status string

// The outcomes.
const (
	Passed          Status = "passed"
	Failed          Status = "failed"
	Skipped         Status = "skipped"
	ExpectedFailure Status = "expected failure" // it failed and matches [Runner.XFail]
)

// Result is the outcome of one case on one device.
type Result struct {
	Category string // as [Category] names it
	Kind     string
	Case     string // as in the suite: "test_abs"
	Name     string // with the device: "test_abs_cpu"
	Device   string
	Status   Status
	Reason   string // why it was skipped
	Err      error  // why it failed
	// MaxAbs and MaxRel are the largest differences from the expected outputs over all
	// data sets, NaN if a NaN was compared with a number. They are 0 for a case that is
	// tested by distribution, see [Check].
	MaxAbs, MaxRel float64
	Checked        string // [Check.Why] if the case was tested by distribution, else empty
	// Against is the provider whose results the outputs were compared with, for a light
	// model without a file of expected outputs; otherwise empty.
	Against  string
	Duration time.Duration
}

// ErrUnexpectedSuccess is the error of a case that passed and matches [Runner.XFail].
var ErrUnexpectedSuccess = errors.New("unexpected success")

// Results runs all cases, [Options.Parallel] at a time, and returns the outcomes sorted by
// category and name. The error is that of an invalid pattern or of the context.
func (r *Runner) Results(ctx context.Context) ([]Result, error) {
	items, err := r.plan()
	if err != nil {
		return nil, err
	}
	workers := r.opts.Parallel
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results := make([]Result, len(items))
	var (
		next, done int
		mu         sync.Mutex
		wg         sync.WaitGroup
	)
	for range min(workers, len(items)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(items) || ctx.Err() != nil {
					return
				}
				results[i] = r.run(ctx, items[i])
				mu.Lock()
				done++
				if r.opts.Progress != nil {
					r.opts.Progress(done, len(items), results[i])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return results, nil
}

// Run runs all cases as parallel subtests CATEGORY/NAME. It logs and returns the counts of
// each category.
func (r *Runner) Run(t *testing.T) map[string]Tally {
	t.Helper()
	counts := map[string]Tally{}
	items, err := r.plan()
	if err != nil {
		t.Fatal(err)
	}
	for len(items) > 0 {
		n := slices.IndexFunc(items, func(it *item) bool { return it.category != items[0].category })
		if n < 0 {
			n = len(items)
		}
		counts[items[0].category] = r.runCategory(t, items[:n])
		items = items[n:]
	}
	return counts
}

func (r *Runner) runCategory(t *testing.T, items []*item) Tally {
	results := make([]Result, len(items))
	t.Run(items[0].category, func(t *testing.T) {
		for i, it := range items {
			t.Run(it.name, func(t *testing.T) {
				t.Parallel()
				results[i] = r.run(t.Context(), it)
				switch res := &results[i]; res.Status {
				case Failed:
					t.Error(res.Err)
				case Skipped:
					t.Skip(res.Reason)
				case ExpectedFailure:
					t.Skipf("expected failure: %v", res.Err)
				}
			})
		}
	})
	c := Count(results)
	t.Logf("%s on %s: %s; %d of the passed tested by distribution, %d compared with another provider",
		items[0].category, r.backend.Name(), c, CountChecked(results), CountAgainst(results))
	return c
}

// Tally counts results.
type Tally struct{ Passed, Failed, Skipped, ExpectedFailures int }

// CountChecked returns how many of the passed cases were tested by the distribution of
// their results instead of a comparison, see [Check].
func CountChecked(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Status == Passed && r.Checked != "" {
			n++
		}
	}
	return n
}

// CountAgainst returns how many of the passed cases were compared with a provider, because
// the suite has no expected outputs for them, see [Result.Against].
func CountAgainst(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Status == Passed && r.Against != "" {
			n++
		}
	}
	return n
}

// Count counts results by their status.
func Count(results []Result) Tally {
	var c Tally
	for _, r := range results {
		switch r.Status {
		case Passed:
			c.Passed++
		case Failed:
			c.Failed++
		case Skipped:
			c.Skipped++
		case ExpectedFailure:
			c.ExpectedFailures++
		}
	}
	return c
}

// String returns "N passed, N failed, N skipped", followed by the number of expected
// failures unless it is 0.
func (c Tally) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
	if c.ExpectedFailures > 0 {
		s += fmt.Sprintf(", %d failed as expected", c.ExpectedFailures)
	}
	return s
}

// run runs an item or skips it.
func (r *Runner) run(ctx context.Context, it *item) (res Result) {
	res = Result{Category: it.category, Kind: it.test.Kind, Case: it.test.Name, Name: it.name,
		Device: it.device, Status: Passed}
	if res.Reason = r.skip(it); res.Reason != "" {
		res.Status = Skipped
		return res
	}
	if r.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.opts.Timeout)
		defer cancel()
	}
	start := time.Now()
	err := r.runCase(ctx, it, &res)
	res.Duration = time.Since(start)
	var skip *skipError
	switch {
	case errors.As(err, &skip):
		res.Status, res.Reason = Skipped, skip.reason
	case r.expectedToFail(it):
		if err == nil {
			res.Status, res.Err = Failed, ErrUnexpectedSuccess
		} else {
			res.Status, res.Err = ExpectedFailure, err
		}
	case err != nil:
		res.Status, res.Err = Failed, err
	}
	return res
}

// skipError ends a case that the backend does not support.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }
