package exec

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a set of worker threads. Workers spin while a plan runs, and for a short time after it,
// since waking a parked goroutine takes longer than running a small kernel.
type Pool struct {
	threads int
	parks   bool         // workers park immediately when there is no work
	busy    sync.Mutex   // held by the caller that uses the workers
	active  atomic.Int32 // number of running plans
	gen     atomic.Uint64
	job     job

	mu      sync.Mutex
	wake    *sync.Cond
	parked  int
	started bool
	closed  bool
}

// job is one parallel section. Its chunks are in queues, from which threads claim them with a
// counter. A thread starts with the same queue in each section, so that the data that it wrote in
// the previous section is in its cache, and continues with the queues of others.
type job struct {
	fn       func(lo, hi int)
	n, parts int
	queues   []queue
	used     int  // number of queues in this section
	mapped   bool // fn reads mapped memory, so faults become panics
	grain    int
	run      *run         // the run whose context ends the section; nil if it cannot end
	stopped  atomic.Bool  // the context has ended
	workers  atomic.Int32 // number of workers in the section
	failure  atomic.Pointer[any]
}

// queue is a range of chunks.
type queue struct {
	next atomic.Int64
	end  int64
	_    [48]byte // keeps queues on separate cache lines
}

const maxQueues = 16

// NewPool returns a pool with the given number of threads, including the caller's. With one thread,
// everything runs in the caller.
func NewPool(threads int) *Pool {
	p := &Pool{threads: max(threads, 1)}
	p.job.queues = make([]queue, min(p.threads, maxQueues))
	p.wake = sync.NewCond(&p.mu)
	return p
}

// NewParkingPool returns a pool whose workers never spin: runs take longer, but use no processor
// time between parallel sections.
func NewParkingPool(threads int) *Pool {
	p := NewPool(threads)
	p.parks = true
	return p
}

// Threads returns the number of threads, 1 for a nil pool.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// Close ends the workers. Afterwards everything runs in the caller.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.wake.Broadcast()
	p.mu.Unlock()
}

func (p *Pool) enter() {
	p.active.Add(1)
}

func (p *Pool) leave() { p.active.Add(-1) }

func (p *Pool) start() {
	p.mu.Lock()
	if !p.started && !p.closed {
		p.started = true
		for i := range p.threads - 1 {
			go p.worker(i+1, p.gen.Load())
		}
	}
	p.mu.Unlock()
}

// Run calls fn over ranges that cover [0, n), each at least grain long except the last. While one
// caller uses the workers, further calls run serially.
func (p *Pool) Run(n, grain int, fn func(lo, hi int)) { p.run(nil, n, grain, false, fn) }

// run is Run for a run whose context may end, or nil, and for a function that may read mapped
// memory, where the caller's goroutine is guarded too. It returns false if the context ended before
// all ranges were done.
func (p *Pool) run(r *run, n, grain int, mapped bool, fn func(lo, hi int)) bool {
	grain = max(grain, 1)
	parts := min((n+grain-1)/grain, p.threads*chunksPerThread)
	if parts <= 1 || p.threads == 1 || !p.busy.TryLock() {
		if r != nil {
			return r.pieces(0, n, grain, fn)
		}
		fn(0, n)
		return true
	}
	defer p.busy.Unlock()
	if !p.started {
		p.start()
	}
	j := &p.job
	j.fn, j.n, j.parts, j.mapped, j.grain, j.run = fn, n, parts, mapped, grain, r
	j.stopped.Store(false)
	j.failure.Store(nil)
	j.used = min(len(j.queues), parts)
	for i := range j.used {
		q := &j.queues[i]
		q.next.Store(int64(i * parts / j.used))
		q.end = int64((i + 1) * parts / j.used)
	}
	p.gen.Add(1) // odd: open for workers
	if p.mu.TryLock() {
		if p.parked > 0 {
			p.wake.Broadcast()
		}
		p.mu.Unlock()
	}
	j.work(0)
	p.gen.Add(1) // even: closed for workers
	for spin := 0; j.workers.Load() != 0; spin++ {
		if spin&63 == 63 {
			runtime.Gosched()
		}
	}
	j.fn, j.run = nil, nil
	if f := j.failure.Load(); f != nil {
		panic(*f)
	}
	return !j.stopped.Load()
}

// chunksPerThread balances chunks of different cost.
const chunksPerThread = 4

// work runs chunks until there are none left, starting with queue first.
func (j *job) work(first int) {
	defer func() {
		if e := recover(); e != nil {
			failure := e // e itself would escape to the heap in every call
			j.failure.CompareAndSwap(nil, &failure)
		}
	}()
	for i := range j.used {
		q := &j.queues[(first+i)%j.used]
		for {
			c := q.next.Add(1) - 1
			if c >= q.end {
				break
			}
			if j.run == nil {
				j.fn(j.cut(int(c)), j.cut(int(c)+1))
			} else if !j.run.pieces(j.cut(int(c)), j.cut(int(c)+1), j.grain, j.fn) {
				j.stopped.Store(true)
				return
			}
		}
	}
}

// cut returns the start of a chunk. Chunk sizes differ by at most one, so that threads finish
// together.
func (j *job) cut(chunk int) int { return j.n/j.parts*chunk + j.n%j.parts*chunk/j.parts }

// The time for which a worker spins before it parks: while a plan runs, whose serial parts are
// rarely longer, and after the last plan, when a busy caller starts the next run soon. ONNX
// Runtime's threads spin longer.
const (
	waitInRun    = time.Millisecond
	waitAfterRun = 200 * time.Microsecond
)

func (p *Pool) worker(id int, seen uint64) {
	var idle time.Time // start of the wait
	for spin := 1; ; spin++ {
		if g := p.gen.Load(); g != seen && g&1 == 1 {
			j := &p.job
			j.workers.Add(1)
			// The section may have been closed between the two loads, and its fields may be
			// changing.
			if p.gen.Load() == g {
				if j.mapped {
					debug.SetPanicOnFault(true)
				}
				j.work(id)
				if j.mapped {
					debug.SetPanicOnFault(false)
				}
			}
			j.workers.Add(-1)
			seen = g
			spin, idle = 0, time.Time{}
			continue
		}
		if !p.parks {
			if spin&63 != 0 {
				continue
			}
			runtime.Gosched()
			now := time.Now()
			if idle.IsZero() {
				idle = now
			}
			wait := waitAfterRun
			if p.active.Load() > 0 {
				wait = waitInRun
			}
			if now.Sub(idle) < wait {
				continue
			}
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return
		}
		if g := p.gen.Load(); g&1 == 1 && g != seen {
			p.mu.Unlock()
			continue
		}
		p.parked++
		p.wake.Wait()
		p.parked--
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		spin, idle = 0, time.Time{}
	}
}
