// Package peak measures the peak performance of a machine, for comparison with that of nodes: the
// GFLOP/s of float32 matrix products in the first-level cache, and the bandwidth of copies in each
// other cache and in memory.
package peak

import (
	"runtime"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Peak is the peak performance of a number of threads together.
type Peak struct {
	Threads int     `json:"threads"`
	GFLOPS  float64 `json:"gflops"` // float32; an addition and a multiplication are two
	// Copies are in the order of their sizes. The last one is that of the memory.
	Copies []Copy `json:"copies"`
}

// Copy is the bandwidth of copies between arrays of Bytes together.
type Copy struct {
	Bytes int64   `json:"bytes"`
	GBs   float64 `json:"gb_per_s"` // bytes that are read and written
}

const (
	rounds     = 10
	roundTime  = 4 * time.Millisecond // of one round of arithmetic
	mostMemory = 256 << 20
	leastCopy  = 64 << 20 // of the memory's bandwidth
)

// Clock returns the time; tests replace it.
type Clock func() time.Time

// Measure measures with the given number of threads, 0 for all cores. It takes about a quarter of a
// second.
func Measure(threads int, clock Clock) Peak {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if clock == nil {
		clock = time.Now
	}
	p := Peak{Threads: threads, GFLOPS: arithmetic(threads, clock)}
	for _, size := range sizes(cpu.Caches(), threads) {
		p.Copies = append(p.Copies, Copy{size, copies(threads, size, clock)})
	}
	return p
}

// sizes returns the sizes of copies: half of each cache that all threads have together, beyond the
// first level, and twice the largest cache.
func sizes(list []cpu.Cache, threads int) []int64 {
	var r []int64
	largest := int64(0)
	for _, c := range list {
		n := c.Bytes * int64((threads+c.CPUs-1)/max(c.CPUs, 1))
		if largest = max(largest, n); c.Level > 1 && n/2 < leastCopy {
			r = append(r, n/2)
		}
	}
	r = append(r, min(max(2*largest, leastCopy), mostMemory))
	sort.Slice(r, func(i, k int) bool { return r[i] < r[k] })
	return slices.Compact(r)
}

// arithmetic returns the GFLOP/s of GEMMs that fit the first-level cache.
func arithmetic(threads int, clock Clock) float64 {
	const m, n, k = 28, gemm.PanelWidth, 128 // A, B and C take 34 KiB
	const flops = 2 * m * n * k
	level := cpu.Active()
	products := func(count int) {
		all(threads, func(int) {
			a := gemm.Args[float32]{M: m, N: n, K: k, A: make([]float32, m*k), LdA: k,
				B: make([]float32, gemm.PackedLen(k, n)), LdB: n, Packed: true, C: make([]float32, m*n), LdC: n}
			for range count {
				gemm.F32(level, &a, a.Whole())
			}
		})
	}
	count := 64
	for { // until a round is long enough to be timed
		start := clock()
		products(count)
		if clock().Sub(start) >= roundTime || count >= 1<<20 {
			break
		}
		count *= 2
	}
	best := 0.0
	for range rounds {
		start := clock()
		products(count)
		if d := clock().Sub(start); d > 0 {
			best = max(best, float64(threads)*float64(count)*flops/d.Seconds()/1e9)
		}
	}
	return best
}

// copies returns the GB/s of copies between two arrays per thread, which have size bytes together.
func copies(threads int, size int64, clock Clock) float64 {
	half := int(size) / threads / 2
	from, to := make([][]byte, threads), make([][]byte, threads)
	all(threads, func(i int) {
		from[i], to[i] = make([]byte, half), make([]byte, half)
		for k := 0; k < half; k += 4096 { // memory that has not been written is one page of zeros
			from[i][k] = 1
		}
		copy(to[i], from[i])
	})
	times := max(1, int(leastCopy/size))
	best := 0.0
	for range min(rounds, max(3, int(2*leastCopy/size))) {
		start := clock()
		all(threads, func(i int) {
			for range times {
				copy(to[i], from[i])
			}
		})
		if d := clock().Sub(start); d > 0 {
			best = max(best, float64(2*half*threads*times)/d.Seconds()/1e9)
		}
	}
	return best
}

// all runs fn once per thread.
func all(threads int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range threads - 1 {
		wg.Go(func() { fn(i + 1) })
	}
	fn(0)
	wg.Wait()
}

// Ceiling returns the least time in seconds that the arithmetic and the memory accesses take, 0 if
// it is unknown: the larger of both. Bytes that fit a cache move with its bandwidth.
func (p *Peak) Ceiling(flops, bytes int64) float64 {
	if p == nil || p.GFLOPS <= 0 {
		return 0
	}
	t := float64(flops) / p.GFLOPS / 1e9
	for i, c := range p.Copies {
		if (bytes <= c.Bytes || i == len(p.Copies)-1) && c.GBs > 0 {
			return max(t, float64(bytes)/c.GBs/1e9)
		}
	}
	return t
}
