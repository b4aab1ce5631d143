package peak

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/cpu"
)

func TestSizes(t *testing.T) {
	list := []cpu.Cache{{Level: 1, Bytes: 48 << 10, CPUs: 2}, {Level: 2, Bytes: 2 << 20, CPUs: 2},
		{Level: 3, Bytes: 260 << 20, CPUs: 16}}
	if got, want := sizes(list, 4), []int64{2 << 20, 256 << 20}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
	if got := sizes(nil, 4); !slices.Equal(got, []int64{leastCopy}) {
		t.Errorf("sizes without caches %v", got)
	}
}

// The figures follow from the clock and the amount of work.
func TestFiguresFollowFromTheClock(t *testing.T) {
	var now time.Time
	clock := func() time.Time {
		now = now.Add(10 * time.Millisecond)
		return now
	}
	// 64 products of 2·28·32·128 operations on each of two threads, in 10 ms.
	if got, want := arithmetic(2, clock), 2*64*2*28*32*128/10e-3/1e9; math.Abs(got-want) > 1e-9*want {
		t.Errorf("%g GFLOP/s, want %g", got, want)
	}
	// Arrays of 1 MiB together are copied 64 times.
	if got, want := copies(2, 1<<20, clock), float64(64<<20)/10e-3/1e9; math.Abs(got-want) > 1e-9*want {
		t.Errorf("%g GB/s, want %g", got, want)
	}
}

func TestCeiling(t *testing.T) {
	p := &Peak{Threads: 1, GFLOPS: 100, Copies: []Copy{{1000, 50}, {1 << 20, 10}}}
	for _, c := range []struct {
		flops, bytes int64
		want         float64
	}{
		{200e9, 0, 2}, {0, 1000, 1000 / 50e9}, {0, 1001, 1001 / 10e9}, {0, 20e9, 2}, {100e9, 20e9, 2}, {300e9, 20e9, 3},
	} {
		if got := p.Ceiling(c.flops, c.bytes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("ceiling of %d and %d is %g, want %g", c.flops, c.bytes, got, c.want)
		}
	}
	if (*Peak)(nil).Ceiling(1, 1) != 0 {
		t.Error("a ceiling without a measurement")
	}
}

func TestMeasure(t *testing.T) {
	p := Measure(1, nil)
	if p.GFLOPS <= 0 || len(p.Copies) == 0 || p.Copies[len(p.Copies)-1].GBs <= 0 {
		t.Errorf("%+v", p)
	}
}
