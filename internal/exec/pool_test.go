package exec

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/ir"
	"pgregory.net/rapid"
)

// testPool returns a pool as on a machine with that many processors.
func testPool(t testing.TB, threads, cores int) *Pool {
	was := Processors
	Processors = func() int { return cores }
	p := NewPool(threads, true)
	Processors = was
	t.Cleanup(p.Close)
	return p
}

// awake returns the number of workers that are not parked.
func (p *Pool) awake() (n int) {
	for i := range p.workers {
		if p.workers[i].awake.Load() {
			n++
		}
	}
	return n
}

func TestPoolCoversEachIndexOnce(t *testing.T) {
	parking := testPool(t, 4, 4)
	parking.parks = true
	for name, p := range map[string]*Pool{"spinning": testPool(t, 4, 4), "parking": parking,
		"more threads than processors": testPool(t, 64, 2), "several sets of queues": testPool(t, 100, 100)} {
		t.Run(name, func(t *testing.T) {
			defer p.Close()
			p.enter(false)
			defer p.leave(false)
			rapid.Check(t, func(t *rapid.T) {
				n, grain := rapid.IntRange(0, 5000).Draw(t, "n"), rapid.IntRange(0, 600).Draw(t, "grain")
				hits := make([]int32, n)
				p.Run(n, grain, func(lo, hi int) {
					for i := lo; i < hi; i++ {
						hits[i]++
					}
				})
				for i, h := range hits {
					if h != 1 {
						t.Fatalf("index %d ran %d times, want once", i, h)
					}
				}
			})
		})
	}
}

// This test checks that chunk sizes differ by at most one, so that threads finish together.
func TestPoolSplitsEvenly(t *testing.T) {
	p := testPool(t, 2, 2)
	for _, n := range []int{1, 2, 7, 9, 14, 15, 100, 1001} {
		var mu sync.Mutex
		least, most, chunks := n, 0, 0
		p.Run(n, 1, func(lo, hi int) {
			mu.Lock()
			defer mu.Unlock()
			least, most, chunks = min(least, hi-lo), max(most, hi-lo), chunks+1
		})
		if want := min(n, 2*chunksPerThread); chunks != want || most-least > 1 {
			t.Errorf("%d items in %d chunks of %d to %d, want %d that differ by one at most", n, chunks,
				least, most, want)
		}
	}
}

// This test checks that workers spin before the next run for a limited time.
func TestPoolParksAfterRuns(t *testing.T) {
	p := testPool(t, 3, 3)
	p.enter(false)
	p.Run(1000, 1, func(lo, hi int) {})
	p.leave(false)
	for deadline := time.Now().Add(10 * time.Second); p.awake() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d workers are awake 10 s after the last run, want 0", p.awake())
		}
	}
}

// TestDivideWithoutPool: a session of one thread has no pool, and ONWARD_CHECK_DIVISION=1 divides
// its runs too.
func TestDivideWithoutPool(t *testing.T) {
	var got []int
	(*Pool)(nil).Divide(3, func(part int, _ Team) { got = append(got, part) })
	if !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("parts are %v, want 0, 1 and 2", got)
	}
}

func TestPoolPropagatesPanics(t *testing.T) {
	p := testPool(t, 4, 4)
	defer func() {
		if e := recover(); e != "boom" {
			t.Errorf("recovered %v, want boom", e)
		}
		n := 0
		p.Run(1, 1, func(lo, hi int) { n += hi - lo })
		if n != 1 {
			t.Error("the worker pool stopped after a panic")
		}
	}()
	p.Run(1000, 1, func(lo, hi int) {
		if lo > 500 {
			panic("boom")
		}
	})
}

// TestSectionsShareWorkers checks how many workers sections claim: no more than they have pieces,
// than a fair part, and than there are processors without other callers.
func TestSectionsShareWorkers(t *testing.T) {
	for _, c := range []struct {
		threads, cores, parallel, serial int
		pieces                           int
		want                             []int // workers of sections that begin one after the other
	}{
		{1, 8, 1, 0, 100, []int{0}},
		{8, 8, 1, 0, 100, []int{7, 0}},
		{8, 8, 1, 0, 3, []int{2, 2, 2, 1, 0}},
		{8, 8, 2, 0, 100, []int{3, 3, 0}},
		{8, 8, 3, 0, 100, []int{2, 2, 1}},
		{8, 8, 2, 3, 100, []int{2, 1, 0}},
		{8, 8, 8, 0, 100, []int{0}},
		{8, 8, 1, 9, 100, []int{0}},
		{64, 2, 1, 0, 100, []int{1, 0}},
		{64, 2, 2, 0, 100, []int{0}},
		{4, 64, 2, 0, 100, []int{1, 1, 0}},
		{192, 192, 1, 0, 1000, []int{191, 0}},
		{192, 192, 4, 0, 70, []int{47, 47, 47, 47, 0}},
		{192, 192, 1, 0, 70, []int{69, 69, 53}},
	} {
		p := testPool(t, c.threads, c.cores)
		p.parallel.Store(int32(c.parallel))
		p.serial.Store(int32(c.serial))
		for range 2 { // again, after the workers have been released
			var open []*section
			var got []int
			seen := map[*worker]bool{}
			for range c.want {
				n := 0
				if s, _ := p.claim(nil, c.pieces-1, 0); s != nil {
					open, n = append(open, s), len(s.team)
					for _, w := range s.team {
						if seen[w] {
							t.Errorf("%+v: worker %d is in two sections", c, w.id)
						}
						seen[w] = true
					}
				}
				got = append(got, n)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%+v: sections claim %v workers", c, got)
			}
			for _, s := range open {
				p.release(s)
			}
		}
	}
}

// TestDivideLeadsTeams checks that the parts of a division run at once, each on the first thread of
// its team, and that its sections claim the other threads of the team.
func TestDivideLeadsTeams(t *testing.T) {
	for _, c := range []struct{ threads, parts int }{
		{2, 2}, {8, 2}, {8, 8}, {12, 4}, {16, 8}, {64, 8}, {64, 4}, {64, 32}, {128, 8}, {192, 8}, {192, 64}, {200, 4},
	} {
		p := testPool(t, c.threads, c.threads)
		for range 2 { // again, after the workers have been released
			var begun sync.WaitGroup
			begun.Add(c.parts)
			ended := make(chan bool)
			go func() { begun.Wait(); close(ended) }()
			sections := make([]*section, c.parts)
			p.Divide(c.parts, func(part int, team Team) {
				begun.Done()
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Errorf("%+v: part %d waits for the others", c, part)
				}
				size := c.threads / c.parts
				if want := (Team{Size: size, First: part * size}); team != want {
					t.Errorf("%+v: part %d has the team %+v, want %+v", c, part, team, want)
				}
				if lead := part*size - 1; lead >= 0 && p.idle[lead/64].Load()>>(lead%64)&1 != 0 {
					t.Errorf("%+v: worker %d is idle, want it to lead part %d", c, lead, part)
				}
				sections[part], _ = p.claim(nil, c.threads, team.First)
				if got, want := workers(sections[part]), numbers(part*size, size-1); !slices.Equal(got, want) {
					t.Errorf("%+v: part %d claims workers %v, want %v", c, part, got, want)
				}
			})
			for _, s := range sections {
				if s != nil {
					p.release(s)
				}
			}
			if n := p.idleWorkers(); n != c.threads-1 || p.parallel.Load() != 0 || p.parts.Load() != 0 {
				t.Errorf("%+v: %d workers are idle after the run, %d callers and %d parts are left", c, n,
					p.parallel.Load(), p.parts.Load())
			}
		}
	}
}

// TestDivideWithoutWorkers checks that the caller computes all parts in order without workers.
func TestDivideWithoutWorkers(t *testing.T) {
	closed := testPool(t, 8, 8)
	closed.Close()
	for name, p := range map[string]*Pool{"no pool": nil, "one thread": testPool(t, 1, 1), "closed": closed} {
		var got []int
		p.Divide(3, func(part int, _ Team) { got = append(got, part) })
		if want := []int{0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("%s: parts %v, want %v", name, got, want)
		}
	}
}

// TestClaimsOfTeams checks that sections get workers from number first on and then the lowest, and
// none for which there is no processor.
func TestClaimsOfTeams(t *testing.T) {
	for _, c := range []struct {
		threads, parallel, serial int
		taken                     []int // workers of other sections
		n, first                  int
		want                      []int
	}{
		{threads: 64, n: 7, first: 8, want: numbers(8, 7)},
		{threads: 64, n: 3, first: 8, taken: []int{9, 11}, want: []int{8, 10, 12}},
		{threads: 64, n: 4, first: 60, want: []int{60, 61, 62, 0}},
		{threads: 64, n: 4, first: 60, taken: []int{0, 62}, want: []int{60, 61, 1, 2}},
		{threads: 64, n: 63, first: 63, want: numbers(0, 63)},
		{threads: 64, n: 63, first: 62, want: append([]int{62}, numbers(0, 62)...)},
		{threads: 65, n: 64, first: 64, want: numbers(0, 64)},
		{threads: 192, n: 5, first: 62, want: numbers(62, 5)},
		{threads: 192, n: 5, first: 189, want: []int{189, 190, 0, 1, 2}},
		{threads: 192, n: 3, first: 130, taken: numbers(130, 61), want: []int{0, 1, 2}},
		{threads: 192, n: 191, first: 100, want: append(numbers(100, 91), numbers(0, 100)...)},
		{threads: 8, n: 2, first: 5, serial: 3, want: []int{0, 1}}, // 4 workers have processors
		{threads: 8, n: 5, first: 2, serial: 3, want: []int{2, 3, 0, 1}},
		{threads: 8, n: 5, first: 2, parallel: 2, want: []int{2, 3, 4}},
		{threads: 8, n: 5, first: 2, parallel: 8},
	} {
		p := testPool(t, c.threads, c.threads)
		p.parallel.Store(int32(c.parallel))
		p.serial.Store(int32(c.serial))
		for _, w := range c.taken {
			p.idle[w/64].And(^uint64(1 << (w % 64)))
		}
		for range 2 {
			s, _ := p.claim(nil, c.n, c.first)
			if got := workers(s); !slices.Equal(got, c.want) {
				t.Errorf("%+v: a section claims workers %v", c, got)
			}
			if s != nil {
				p.release(s)
			}
			if n := p.idleWorkers(); n != c.threads-1-len(c.taken) {
				t.Errorf("%+v: %d workers are idle after the section", c, n)
			}
		}
	}
}

// workers returns the numbers of the workers of a section, which may be nil.
func workers(s *section) (r []int) {
	if s != nil {
		for _, w := range s.team {
			r = append(r, w.id)
		}
	}
	return r
}

// numbers returns n numbers from the first one on.
func numbers(first, n int) (r []int) {
	for i := range n {
		r = append(r, first+i)
	}
	return r
}

// idleWorkers returns the number of workers that no section has claimed.
func (p *Pool) idleWorkers() (n int) {
	for i := range p.idle {
		n += bits.OnesCount64(p.idle[i].Load())
	}
	return n
}

// TestPoolUsesProcessors checks that a pool with more threads than processors starts no more
// workers than there are processors for, so that its runs take no more processor time.
func TestPoolUsesProcessors(t *testing.T) {
	for _, threads := range []int{2, 4, 16, 64, 192} {
		p := testPool(t, threads, 2)
		p.enter(false)
		var at, most atomic.Int32
		for range 200 {
			p.Run(1000, 1, func(lo, hi int) {
				n := at.Add(1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				at.Add(-1)
			})
			if n := p.awake(); n > 1 {
				t.Fatalf("%d threads: %d workers are awake, want at most 1 beside the caller", threads, n)
			}
		}
		if n := most.Load(); n > 2 {
			t.Errorf("%d threads: %d ran at once, want at most 2", threads, n)
		}
		p.leave(false)
	}
}

// TestPoolYields checks that threads that spin let others run only if those have no processor of
// Go's besides.
func TestPoolYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		maxprocs int
		want     bool
	}{{runtime.NumCPU(), true}, {runtime.NumCPU() + 1, false}, {8 * runtime.NumCPU(), false}} {
		runtime.GOMAXPROCS(c.maxprocs)
		p := NewPool(runtime.NumCPU(), true)
		if p.yields != c.want {
			t.Errorf("GOMAXPROCS %d, %d processors: yields is %v, want %v", c.maxprocs, runtime.NumCPU(), p.yields,
				c.want)
		}
		p.Close()
	}
}

// TestPoolParksBesideCallers checks that workers do not spin while callers take all processors.
func TestPoolParksBesideCallers(t *testing.T) {
	p := testPool(t, 4, 4)
	p.enter(false)
	defer p.leave(false)
	p.Run(1000, 1, func(lo, hi int) {})
	for range 3 {
		p.enter(true)
		defer p.leave(true)
	}
	for deadline := time.Now().Add(10 * time.Second); p.awake() > 0; time.Sleep(time.Millisecond) {
		p.Run(1000, 1, func(lo, hi int) {})
		if time.Now().After(deadline) {
			t.Fatalf("%d workers are awake beside 4 callers on 4 processors, want 0", p.awake())
		}
	}
}

// TestPoolsOfManyCallers runs sections of several callers at once, while their number changes.
func TestPoolsOfManyCallers(t *testing.T) {
	for _, threads := range []int{40, 200} { // of one and of several words of idle bits
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			p := testPool(t, threads, threads)
			var wg sync.WaitGroup
			for k := range 6 {
				wg.Go(func() {
					for i := range 300 {
						p.enter(k == 5)
						n := 1 + (i*7+k)%200
						var sum atomic.Int64
						p.Run(n, 1+i%3, func(lo, hi int) {
							for j := lo; j < hi; j++ {
								sum.Add(int64(j))
							}
						})
						if want := int64(n * (n - 1) / 2); sum.Load() != want {
							t.Errorf("indices of %d items add up to %d, want %d", n, sum.Load(), want)
						}
						p.leave(k == 5)
					}
				})
			}
			wg.Wait()
		})
	}
}

// program returns launches of which each reads what others of its items have written in the one
// before, and a function that returns what the last one has written. A kernel of launch bad panics.
func program(launches, bad int) ([]instruction, func() []int) {
	const size = 1000
	data := [2][]int{make([]int, size), make([]int, size)}
	r := make([]instruction, launches)
	for k := range r {
		n := []int{1, 7, 250, size}[k%4] // a launch divides the elements into so many items
		from, to := data[k%2], data[1-k%2]
		r[k] = instruction{Launch: ir.Launch{N: n, Grain: 1 + k%3, Kernel: func(lo, hi int) {
			for i := lo * size / n; i < hi*size/n; i++ {
				to[i] = 3*from[(i*7+k)%size] + i
			}
			if k == bad && lo == 0 {
				panic("bad")
			}
		}}}
	}
	(&capture{program: r}).join()
	return r, func() []int { return data[launches%2] }
}

// TestJoinedLaunches runs programs on pools that several callers share, and checks that each launch
// begins after the one before.
func TestJoinedLaunches(t *testing.T) {
	const launches = 50
	serial, result := program(launches, -1)
	for _, l := range serial {
		l.Kernel(0, l.N)
	}
	want := slices.Clone(result())
	for _, threads := range []int{2, 5, 40} {
		for _, callers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d threads, %d callers", threads, callers), func(t *testing.T) {
				p := testPool(t, threads, threads)
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for range 20 {
							p.enter(false)
							l, result := program(launches, -1)
							if _, ok, failure := runProgram(p, nil, l); !ok || failure != nil {
								t.Errorf("a section fails: %v, %v", ok, failure)
							}
							if !slices.Equal(result(), want) {
								t.Error("results differ from those of a serial run")
							}
							p.leave(false)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// TestWorkersParkInSections checks that workers park while the caller computes a long launch alone,
// and that the launches after it use them again.
func TestWorkersParkInSections(t *testing.T) {
	p := testPool(t, 3, 3)
	p.enter(false)
	defer p.leave(false)
	c := capture{program: make([]instruction, 3)}
	var threads [2]atomic.Int32 // at once in the first and in the last launch
	together := func(n *atomic.Int32) func(lo, hi int) {
		return func(lo, hi int) {
			n.Add(1)
			for deadline := time.Now().Add(10 * time.Second); n.Load() < 3 && time.Now().Before(deadline); {
				runtime.Gosched()
			}
		}
	}
	c.program[0].Launch = ir.Launch{N: 3, Grain: 1, Kernel: together(&threads[0])}
	c.program[1].Launch = ir.Launch{N: 1, Grain: 1, Kernel: func(lo, hi int) {
		for deadline := time.Now().Add(10 * time.Second); p.awake() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d workers are awake 10 s after they had work, want 0", p.awake())
				return
			}
		}
	}}
	c.program[2].Launch = ir.Launch{N: 3, Grain: 1, Kernel: together(&threads[1])}
	c.join()
	runProgram(p, nil, c.program)
	if a, b := threads[0].Load(), threads[1].Load(); a != 3 || b != 3 {
		t.Errorf("%d and %d threads run the first and the last launch, want 3", a, b)
	}
}

// runProgram runs sections until the program or one of them ends.
func runProgram(p *Pool, r *run, l []instruction) (n int, ok bool, failure *any) {
	for ok = true; n < len(l) && ok && failure == nil; {
		var k int
		k, ok, failure = p.run(r, Team{}, l[n].Launch, l[n:], false)
		n += k
	}
	return n, ok, failure
}

// TestJoinedLaunchesEnd checks that a section ends with the launch whose kernel panics, or in which
// the context ends, and that later ones are not disturbed.
func TestJoinedLaunchesEnd(t *testing.T) {
	p := testPool(t, 4, 4)
	p.enter(false)
	defer p.leave(false)
	for bad := range 20 {
		l, _ := program(20, bad)
		if n, _, failure := runProgram(p, nil, l); failure == nil || *failure != "bad" || n != bad+1 {
			t.Fatalf("launch %d panics, but the section ends after %d with %v", bad, n, failure)
		}
		l, _ = program(20, -1)
		ctx, cancel := context.WithCancel(t.Context())
		kernel := l[bad].Kernel
		l[bad].Kernel = func(lo, hi int) { cancel(); kernel(lo, hi) }
		n, ok, failure := runProgram(p, &run{ctx: ctx, done: ctx.Done()}, l)
		if ended := n == len(l); failure != nil || bad < 17 && (ok || ended) {
			t.Fatalf("the context ends in launch %d, but the section after %d: %v, %v", bad, n, ok, failure)
		}
	}
}

// BenchmarkSection measures the hand-off of a section of empty pieces, two per thread.
func BenchmarkSection(b *testing.B) {
	for _, threads := range []int{1, 2, 4, 64} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := testPool(b, threads, threads)
			p.enter(false)
			defer p.leave(false)
			b.ReportAllocs()
			for b.Loop() {
				p.Run(2*threads, 1, func(lo, hi int) {})
			}
		})
	}
}

// BenchmarkJoined measures a launch of empty pieces of a section of 100, two per thread.
func BenchmarkJoined(b *testing.B) {
	for _, threads := range []int{2, 4, 64} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := testPool(b, threads, threads)
			p.enter(false)
			defer p.leave(false)
			c := capture{program: make([]instruction, 100)}
			for i := range c.program {
				c.program[i].Launch = ir.Launch{N: 2 * threads, Grain: 1, Kernel: func(lo, hi int) {}}
			}
			c.join()
			for i := 0; i < b.N; i += len(c.program) {
				p.run(nil, Team{}, c.program[0].Launch, c.program, false)
			}
		})
	}
}
