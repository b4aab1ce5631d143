package main

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/atomicfile"
)

// load describes the runs of a block.
type load struct {
	duration    time.Duration
	iterations  int // runs instead of the duration; 0: none
	warmup      int // runs before; 0: a fifth of the duration, at least three
	concurrency int
	rate        float64 // runs per second; 0: the next run starts when one ends
	parts       int     // of a block; 0: 1
}

func (l *load) register(f *pflag.FlagSet) {
	f.DurationVar(&l.duration, "duration", 2*time.Second, "measured time of a block")
	f.IntVar(&l.iterations, "iterations", 0, "runs of a block, instead of --duration")
	f.IntVar(&l.warmup, "warmup", 0, "runs before a block is timed (default a fifth of --duration, at least 3)")
	f.IntVar(&l.concurrency, "concurrency", 1, "runs at the same time")
	f.Float64Var(&l.rate, "rate", 0, "start this many runs per second, at most --concurrency at the same time")
}

func (l *load) check() error {
	if l.iterations < 0 || l.warmup < 0 || l.concurrency < 1 || l.concurrency > 10_000 || !(l.rate >= 0) ||
		math.IsInf(l.rate, 0) {
		return cli.Usagef("--iterations is %d, --warmup %d, --concurrency %d, --rate %g; want 0 or more, and a "+
			"concurrency of 1 to 10000",
			l.iterations, l.warmup, l.concurrency, l.rate)
	}
	return nil
}

// block holds the times of the runs of a block in milliseconds. A time may be the mean of several
// runs that are too short to be timed alone.
type block struct {
	times   []float64
	runs    int
	elapsed time.Duration
}

// measure warms up and times a part of a block. run is called by several goroutines
// if there is concurrency.
func (l *load) measure(run func() error) (*block, error) {
	start, n := time.Now(), 0
	for more := true; more; n++ {
		if err := run(); err != nil {
			return nil, err
		}
		more = n+1 < l.warmup || l.warmup == 0 && (n < 2 || time.Since(start) < l.duration/5)
	}
	if l.concurrency > 1 || l.rate > 0 {
		return l.concurrent(run)
	}
	// Runs that are short compared with the clock's resolution are timed in groups.
	group := 1
	if per := time.Since(start) / time.Duration(n); per < 20*time.Microsecond && l.iterations == 0 {
		group = int(50*time.Microsecond/max(per, 1)) + 1
	}
	b := new(block)
	start = time.Now()
	for more := true; more; more = l.more(len(b.times), time.Since(start)) {
		t := time.Now()
		for range group {
			if err := run(); err != nil {
				return nil, err
			}
		}
		b.times = append(b.times, text.Milliseconds(time.Since(t))/float64(group))
		b.runs += group
	}
	b.elapsed = time.Since(start)
	return b, nil
}

// more reports whether a part goes on after n times.
func (l *load) more(n int, elapsed time.Duration) bool {
	if l.iterations > 0 {
		return n < l.iterations
	}
	return l.parts < 2 && n < 3 || elapsed < l.duration
}

// concurrent times runs of several goroutines. With a rate, run k starts k/rate after the beginning
// or as soon as a goroutine is free; its time counts from when it should have started.
func (l *load) concurrent(run func() error) (*block, error) {
	var (
		b     block
		mu    sync.Mutex
		first error
		next  atomic.Int64
		stop  atomic.Bool
		wg    sync.WaitGroup
	)
	start := time.Now()
	for range l.concurrency {
		wg.Go(func() {
			var times []float64
			for !stop.Load() {
				k := next.Add(1) - 1
				at := time.Now()
				due := at.Sub(start)
				if l.rate > 0 {
					due = time.Duration(float64(k) / l.rate * float64(time.Second))
					at = start.Add(due)
				}
				if !l.more(int(k), due) {
					break
				}
				time.Sleep(time.Until(at))
				if err := run(); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					stop.Store(true)
					break
				}
				times = append(times, text.Milliseconds(time.Since(at)))
			}
			mu.Lock()
			b.times = append(b.times, times...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.runs, b.elapsed = len(b.times), time.Since(start)
	return &b, first
}

// timesFile collects the times of all runs for --csv.
type timesFile struct {
	path string
	rows [][]string
}

func (f *timesFile) add(model, provider string, threads int, times []float64) {
	if f.path == "" {
		return
	}
	for i, t := range times {
		f.rows = append(f.rows,
			[]string{model, provider, strconv.Itoa(i), strconv.FormatFloat(t, 'g', 6, 64), strconv.Itoa(threads)})
	}
}

func (f *timesFile) write() error {
	if f.path == "" {
		return nil
	}
	return atomicfile.Write(f.path, 0o644, func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(append([][]string{{"model", "provider", "run", "ms", "threads"}}, f.rows...))
	})
}
