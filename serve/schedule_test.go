package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// fakeRun is a model y = x that takes some time and fails for negative elements.
type fakeRun struct {
	mu      sync.Mutex
	time    time.Duration
	sizes   []int // of the runs, in order
	values  []float32
	stopped int // runs that a cancellation stopped
	scalar  bool
}

func (f *fakeRun) Close() error { return nil }

// runs returns the number of runs so far.
func (f *fakeRun) runs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sizes)
}

func (f *fakeRun) Run(ctx context.Context, feed onward.Values, _ *onward.RunOptions) (onward.Values, error) {
	x := feed["x"].(*tensor.Tensor)
	f.mu.Lock()
	f.sizes = append(f.sizes, x.Dim(0))
	f.values = append(f.values, tensor.MustData[float32](x)...)
	f.mu.Unlock()
	select {
	case <-time.After(f.time):
	case <-ctx.Done():
		f.mu.Lock()
		f.stopped++
		f.mu.Unlock()
		return nil, ctx.Err()
	}
	for _, v := range tensor.MustData[float32](x) {
		if v < 0 {
			return nil, errors.New("negative element")
		}
	}
	if f.scalar {
		return onward.Values{"y": tensor.Scalar(float32(x.Len()))}, nil
	}
	return onward.Values{"y": x.Clone()}, nil
}

func oneLevel(p schedulePolicy) schedulePolicy {
	p.instances = max(p.instances, 1)
	if p.levels == nil {
		p.levels = []queuePolicy{{}}
	}
	return p
}

// vector returns a job with the given elements.
func vector(ctx context.Context, v ...float32) *job {
	return &job{ctx: ctx, feed: onward.Values{"x": tensor.Must(tensor.New(v, len(v)))},
		outputs: []string{"y"}, size: len(v)}
}

func result32(t *testing.T, j *job) []float32 {
	t.Helper()
	y, err := tensor.Data[float32](j.out["y"])
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// submitAll submits jobs in order and waits for them. Every job is queued before the next.
func submitAll(s *scheduler, jobs ...*job) []error {
	errs := make([]error, len(jobs))
	var wait sync.WaitGroup
	for i, j := range jobs {
		wait.Go(func() { errs[i] = s.submit(j) })
		synctest.Wait()
	}
	wait.Wait()
	return errs
}

func TestBatchesFillUpToTheDelay(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy schedulePolicy
		sizes  []int // of the jobs
		want   []int // of the runs
	}{
		{"delay", schedulePolicy{maxBatch: 8, delay: time.Second}, []int{1, 2, 3}, []int{6}},
		{"no delay", schedulePolicy{maxBatch: 8}, []int{1, 2, 3}, []int{1, 5}},
		{"full", schedulePolicy{maxBatch: 4, delay: time.Hour}, []int{1, 2, 1, 4}, []int{4, 4}},
		{"next does not fit", schedulePolicy{maxBatch: 4, delay: time.Second}, []int{3, 2}, []int{3, 2}},
		{"preferred", schedulePolicy{maxBatch: 8, delay: time.Second, preferred: []int{2}}, []int{1, 1, 1}, []int{2, 1}},
		{"enough", schedulePolicy{maxBatch: 8, delay: time.Second, enough: 3}, []int{1, 2, 1}, []int{3, 1}},
		{"off", schedulePolicy{}, []int{1, 1}, []int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeRun{time: time.Millisecond}
				s := newScheduler(oneLevel(c.policy), f)
				var jobs []*job
				next := float32(0)
				for _, n := range c.sizes {
					v := make([]float32, n)
					for i := range v {
						v[i] = next
						next++
					}
					jobs = append(jobs, vector(t.Context(), v...))
				}
				for i, err := range submitAll(s, jobs...) {
					if err != nil {
						t.Fatal(err)
					}
					want := tensor.MustData[float32](jobs[i].feed["x"].(*tensor.Tensor))
					if got := result32(t, jobs[i]); !slices.Equal(got, want) {
						t.Errorf("job %d: %v, want %v", i, got, want)
					}
				}
				if !slices.Equal(f.sizes, c.want) {
					t.Errorf("runs of %v, want %v", f.sizes, c.want)
				}
				synctest.Wait() // the last run gives its instance back after its results
				if s.free != s.policy.instances || s.pending() != 0 {
					t.Errorf("%d of %d instances are free, %d requests wait", s.free, s.policy.instances, s.pending())
				}
			})
		})
	}
}

func TestBadRequestDoesNotSpoilItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{}
		s := newScheduler(oneLevel(schedulePolicy{maxBatch: 8, delay: time.Second}), f)
		jobs := []*job{vector(t.Context(), 1), vector(t.Context(), -2), vector(t.Context(), 3)}
		errs := submitAll(s, jobs...)
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Fatalf("errors %v, want one for the second request", errs)
		}
		if a, b := result32(t, jobs[0]), result32(t, jobs[2]); a[0] != 1 || b[0] != 3 {
			t.Errorf("results %v and %v", a, b)
		}
		if !slices.Equal(f.sizes, []int{3, 1, 1, 1}) {
			t.Errorf("runs of %v", f.sizes)
		}
	})
}

func TestOutputWithoutBatchDimension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{scalar: true}
		s := newScheduler(oneLevel(schedulePolicy{maxBatch: 8, delay: time.Second}), f)
		jobs := []*job{vector(t.Context(), 1), vector(t.Context(), 2, 3)}
		if err := errors.Join(submitAll(s, jobs...)...); err != nil {
			t.Fatal(err)
		}
		if a, b := result32(t, jobs[0]), result32(t, jobs[1]); a[0] != 1 || b[0] != 2 {
			t.Errorf("results %v and %v, want those of runs of their own", a, b)
		}
	})
}

func TestIncompatibleRequestsAreNotBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{}
		s := newScheduler(oneLevel(schedulePolicy{maxBatch: 8, delay: time.Second}), f)
		jobs := []*job{vector(t.Context(), 1), vector(t.Context(), 2), vector(t.Context(), 3)}
		jobs[1].key = "other"
		if err := errors.Join(submitAll(s, jobs...)...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.sizes, []int{1, 1, 1}) {
			t.Errorf("runs of %v", f.sizes)
		}
	})
}

func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{time: time.Second}
		s := newScheduler(oneLevel(schedulePolicy{levels: make([]queuePolicy, 3)}), f)
		jobs := []*job{vector(t.Context(), 0), vector(t.Context(), 1), vector(t.Context(), 2), vector(t.Context(), 3)}
		jobs[1].level, jobs[2].level, jobs[3].level = 2, 1, 0
		if err := errors.Join(submitAll(s, jobs...)...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.values, []float32{0, 3, 2, 1}) {
			t.Errorf("order %v, want the running request first and then by level", f.values)
		}
	})
}

func TestQueueSizeAndTimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy queuePolicy
		want   string // of the third request
		order  []float32
	}{
		{"size", queuePolicy{max: 1}, "maximum queue size", []float32{0, 1}},
		{"reject", queuePolicy{timeout: 1500 * time.Millisecond}, "timeout expired", []float32{0, 1}},
		{"no override", queuePolicy{}, "", []float32{0, 1, 2}},
		{"override", queuePolicy{override: true}, "timeout expired", []float32{0, 1}},
		{"override not longer", queuePolicy{override: true, timeout: time.Microsecond}, "timeout expired", []float32{0}},
		{"delay", queuePolicy{override: true, delay: true}, "", []float32{0, 1, 3, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeRun{time: time.Second}
				s := newScheduler(oneLevel(schedulePolicy{levels: []queuePolicy{c.policy}}), f)
				jobs := []*job{vector(t.Context(), 0), vector(t.Context(), 1), vector(t.Context(), 2)}
				jobs[2].timeout = 1500 * time.Millisecond
				if c.name == "delay" {
					jobs = append(jobs, vector(t.Context(), 3))
				}
				errs := submitAll(s, jobs...)
				if got := fmt.Sprint(errs[2]); c.want == "" && errs[2] != nil || !strings.Contains(got, c.want) {
					t.Errorf("third request: %v, want %q", errs[2], c.want)
				}
				if !slices.Equal(f.values, c.order) {
					t.Errorf("runs %v, want %v", f.values, c.order)
				}
			})
		})
	}
}

func TestClientGoneIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{time: time.Hour}
		s := newScheduler(oneLevel(schedulePolicy{maxBatch: 2, delay: time.Minute}), f)
		running, stopRunning := context.WithCancel(t.Context())
		waiting, stopWaiting := context.WithCancel(t.Context())
		a, b, c := vector(running, 1, 2), vector(waiting, 3), vector(t.Context(), 4)
		errs := make([]error, 3)
		var wait sync.WaitGroup
		for i, j := range []*job{a, b} {
			wait.Go(func() { errs[i] = s.submit(j) })
			synctest.Wait()
		}
		stopWaiting()
		synctest.Wait()
		if !errors.Is(errs[1], context.Canceled) || s.pending() != 0 {
			t.Errorf("waiting request: %v, %d in the queue", errs[1], s.pending())
		}
		stopRunning()
		synctest.Wait()
		if !errors.Is(errs[0], context.Canceled) || f.stopped != 1 {
			t.Errorf("running request: %v, %d runs stopped", errs[0], f.stopped)
		}
		f.time = 0
		if err := s.submit(c); err != nil {
			t.Errorf("later request: %v", err)
		}
		wait.Wait()
	})
}

// TestBatchOutlivesOneClient checks that a batch stops only when all its clients have gone.
func TestBatchOutlivesOneClient(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeRun{time: time.Hour}
			s := newScheduler(oneLevel(schedulePolicy{maxBatch: 2, delay: time.Minute}), f)
			first, stopFirst := context.WithCancel(t.Context())
			second, stopSecond := context.WithCancel(t.Context())
			defer stopSecond()
			a, b := vector(first, 1), vector(second, 2)
			errs := make([]error, 2)
			var wait sync.WaitGroup
			wait.Go(func() { errs[0] = s.submit(a) })
			synctest.Wait()
			wait.Go(func() { errs[1] = s.submit(b) })
			synctest.Wait()
			stopFirst()
			if all {
				stopSecond()
			}
			wait.Wait()
			if !errors.Is(errs[0], context.Canceled) {
				t.Errorf("first request: %v, want canceled", errs[0])
			}
			if want := map[bool]int{true: 1}[all]; f.stopped != want {
				t.Errorf("%d runs stopped, want %d", f.stopped, want)
			}
			if !all && (errs[1] != nil || result32(t, b)[0] != 2) {
				t.Errorf("second request: %v", errs[1])
			}
		})
	}
}

func TestDeadlineWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRun{time: time.Minute}
		s := newScheduler(oneLevel(schedulePolicy{}), f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := submitAll(s, vector(t.Context(), 1), vector(ctx, 2))
		if e := classify(errs[1]); errs[0] != nil || e == nil || e.Code != DeadlineExceeded {
			t.Errorf("errors %v, want DEADLINE_EXCEEDED for the second", errs)
		}
	})
}

type panicking struct{}

func (panicking) Close() error { return nil }
func (panicking) Run(context.Context, onward.Values, *onward.RunOptions) (onward.Values, error) {
	panic("broken")
}

func TestPanicOfARunFailsTheRequest(t *testing.T) {
	s := newScheduler(oneLevel(schedulePolicy{}), panicking{})
	for range 2 {
		if err := s.submit(vector(t.Context(), 1)); err == nil || classify(err).Code != Internal {
			t.Errorf("error %v, want INTERNAL", err)
		}
	}
}

func TestStringsAreBatched(t *testing.T) {
	a, b := &job{size: 1}, &job{size: 2}
	a.feed = onward.Values{"x": tensor.Must(tensor.New([]string{"a", "b"}, 1, 2))}
	b.feed = onward.Values{"x": tensor.Must(tensor.New([]string{"c", "d", "e", "f"}, 2, 2))}
	joined, err := concat([]*job{a, b}, "x")
	if err != nil {
		t.Fatal(err)
	}
	part, err := rows(joined, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Equal(part, b.feed["x"]); err != nil {
		t.Error(err)
	}
}
