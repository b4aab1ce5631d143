package serve

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// threads decides which runs of a model use the session's threads, and which ones run in the
// goroutine of their request alone. Waking a thread takes up to hundreds of microseconds, and a
// thread that spins between runs takes the processor from connections. So both ways are measured,
// and a run is parallel only if that gains enough.
type threads struct {
	now     func() time.Time
	running atomic.Int32
	times   [bits.UintSize + 1]runTimes // by the bits of the inputs' number of elements
}

// runTimes are estimates in nanoseconds, 0 if there was no run yet.
type runTimes struct {
	runs             atomic.Uint32
	parallel, serial atomic.Int64
}

const (
	firstRuns   = 3                      // parallel ones: they record plans and memory
	probeEvery  = 512                    // runs until the other way is measured again
	probeBelow  = 5 * time.Millisecond   // parallel runs that take longer are never serial
	leastGained = 200 * time.Microsecond // by a parallel run
)

// run calls f with the choice between a serial and a parallel run, and measures the run.
func (t *threads) run(feed onward.Values, f func(serial bool) error) error {
	size := 0
	for _, v := range feed {
		if x, ok := v.(*tensor.Tensor); ok {
			size += x.Len()
		}
	}
	r := &t.times[bits.Len(uint(size))]
	serial := r.choose()
	// The threads serve one run at a time.
	busy := int(t.running.Add(1)) > max(1, runtime.GOMAXPROCS(0)/2)
	defer t.running.Add(-1)
	start := t.now()
	err := f(serial || busy)
	if err == nil && !busy {
		r.record(serial, t.now().Sub(start))
	}
	return err
}

// choose reports whether the next run is serial. Every probeEvery runs, it returns the other
// choice, to measure it again.
func (r *runTimes) choose() (serial bool) {
	n := r.runs.Add(1)
	p, s := r.parallel.Load(), r.serial.Load()
	if n <= firstRuns || p == 0 || p > int64(probeBelow) {
		return false
	}
	if s == 0 {
		return true
	}
	serial = s-p < int64(leastGained) || s < p+p/2
	return serial != (n%probeEvery == 0)
}

// record lowers an estimate at once and raises it slowly: runs that are disturbed take longer.
func (r *runTimes) record(serial bool, d time.Duration) {
	e := &r.parallel
	if serial {
		e = &r.serial
	}
	was, now := e.Load(), int64(max(d, 1))
	if was != 0 && now > was {
		now = was + (now-was)/8
	}
	e.Store(now)
}
