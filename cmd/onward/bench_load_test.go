package main

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

func TestLoadCountsRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		load load
		runs int64 // with the warm-up
	}{
		{"iterations", load{iterations: 7, warmup: 2, concurrency: 1}, 9},
		{"concurrency", load{iterations: 20, warmup: 1, concurrency: 4}, 21},
		{"rate", load{iterations: 5, warmup: 1, concurrency: 2, rate: 1e6}, 6},
		{"at least three", load{duration: 1, concurrency: 1, warmup: 1}, 4},
		{"a part", load{duration: 1, concurrency: 1, warmup: 1, parts: 4}, 2},
	} {
		var runs atomic.Int64
		b, err := c.load.measure(func() error {
			runs.Add(1)
			time.Sleep(50 * time.Microsecond) // long enough to be timed alone
			return nil
		})
		if err != nil || runs.Load() != c.runs || int64(b.runs) != c.runs-int64(c.load.warmup) ||
			len(b.times) != b.runs || b.elapsed <= 0 {
			t.Errorf("%s: got %d runs and %+v, %v, want %d runs", c.name, runs.Load(), b, err, c.runs)
		}
	}
}

// TestConcurrentRunsOverlap needs four runs at the same time to end.
func TestConcurrentRunsOverlap(t *testing.T) {
	var waiting atomic.Int64
	warm := true
	four := make(chan struct{})
	l := load{iterations: 4, warmup: 1, concurrency: 4}
	_, err := l.measure(func() error {
		if warm {
			warm = false
			return nil
		}
		if waiting.Add(1) == 4 {
			close(four)
		}
		<-four
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLoadStopsAtError(t *testing.T) {
	broken := errors.New("broken")
	for _, concurrency := range []int{1, 4} {
		n := atomic.Int64{}
		l := load{duration: time.Hour, warmup: 1, concurrency: concurrency}
		_, err := l.measure(func() error {
			if n.Add(1) > 5 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("concurrency %d: got %v", concurrency, err)
		}
	}
}

func TestBenchLoadFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times.csv")
	out, _ := command(t, exitOK, "bench", "logreg_iris.onnx", "--iterations", "50", "--rounds", "2", "--concurrency",
		"3", "--csv", file, "--json")
	r := decode[benchJSON](t, out)
	x := r.Results[0]
	if r.Concurrency != 3 || x.Runs != 100 || x.RunsPerS <= 0 || x.P90MS < x.MinMS || x.P95MS < x.P90MS ||
		x.P99MS < x.P95MS {
		t.Errorf("got %s", out)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 101 {
		t.Fatalf("got %d rows, %v, want a header and 100 runs", len(rows), err)
	}
	for _, row := range rows[1:] {
		if ms, err := strconv.ParseFloat(row[3], 64); err != nil || ms <= 0 || row[1] != "cpu" {
			t.Errorf("got %q", row)
		}
	}
	for _, args := range [][]string{{"--concurrency", "0"}, {"--rate", "-1"}, {"--iterations", "-1"}} {
		command(t, exitUsage, append([]string{"bench", "logreg_iris.onnx"}, args...)...)
	}
}
