package serve

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// runs calls t.run n times with runs of the given duration, and counts the serial ones.
func runs(t *testing.T, th *threads, clock *time.Time, n, elements int, parallel, serial time.Duration) (serials int) {
	t.Helper()
	x, err := tensor.Zeros(tensor.TypeFloat32, elements)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		err := th.run(onward.Values{"x": x}, func(s bool) error {
			d := parallel
			if s {
				d = serial
				serials++
			}
			*clock = clock.Add(d)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return serials
}

// TestRunsThatThreadsDoNotSpeedUp checks that runs are serial where threads gain little, and
// parallel where they gain much.
func TestRunsThatThreadsDoNotSpeedUp(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		parallel, serial time.Duration
		want             int // serial runs of the second hundred
	}{
		{10 * us, 9 * us, 100},
		{100 * us, 200 * us, 100},
		{400 * us, 500 * us, 100},
		{400 * us, 1000 * us, 0},
		{20 * time.Millisecond, 25 * time.Millisecond, 0},
	} {
		clock := time.Unix(0, 0)
		th := &threads{now: func() time.Time { return clock }}
		first := runs(t, th, &clock, firstRuns, 10, c.parallel, c.serial)
		runs(t, th, &clock, 100-firstRuns, 10, c.parallel, c.serial)
		if got := runs(t, th, &clock, 100, 10, c.parallel, c.serial); got != c.want || first != 0 {
			t.Errorf("%v in parallel, %v serial: %d of 100 runs are serial, want %d; %d of the first runs, want 0",
				c.parallel, c.serial, got, c.want, first)
		}
	}
}

// TestThreadsAreMeasuredAgain checks that a model that becomes slower gets its threads back, and
// that sizes of inputs are apart.
func TestThreadsAreMeasuredAgain(t *testing.T) {
	clock := time.Unix(0, 0)
	th := &threads{now: func() time.Time { return clock }}
	runs(t, th, &clock, 100, 10, 10*time.Microsecond, 10*time.Microsecond)
	if got := runs(t, th, &clock, 10, 1000, 8*time.Millisecond, 16*time.Millisecond); got != 0 {
		t.Errorf("%d of 10 runs on a large input are serial, want 0", got)
	}
	runs(t, th, &clock, 3*probeEvery, 10, 400*time.Microsecond, 3*time.Millisecond)
	if got := runs(t, th, &clock, 100, 10, 400*time.Microsecond, 3*time.Millisecond); got > 1 {
		t.Errorf("%d of 100 runs are serial after they became slow, want none but one to measure", got)
	}
}

// TestConcurrentRunsAreSerial checks that runs beside others do not ask for the threads, which
// serve one run at a time, and that their times and those of failed runs are not recorded.
func TestConcurrentRunsAreSerial(t *testing.T) {
	clock := time.Unix(0, 0)
	th := &threads{now: func() time.Time { return clock }}
	th.running.Store(1000)
	if got := runs(t, th, &clock, 5, 10, time.Second, time.Second); got != 5 {
		t.Errorf("%d of 5 runs beside others are serial, want 5", got)
	}
	th.running.Store(0)
	failed := errors.New("failed")
	if err := th.run(nil, func(bool) error { return failed }); err != failed {
		t.Errorf("error %v, want %v", err, failed)
	}
	for i := range th.times {
		if r := &th.times[i]; r.parallel.Load() != 0 || r.serial.Load() != 0 {
			t.Errorf("size 2^%d: times %d and %d were recorded", i, r.parallel.Load(), r.serial.Load())
		}
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() { th.run(nil, func(bool) error { return nil }) })
	}
	wait.Wait()
	if n := th.running.Load(); n != 0 {
		t.Errorf("%d runs in progress, want 0", n)
	}
}
