package exec

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a set of worker threads. Workers spin while a plan runs and a little longer, for
// the next run, since waking a parked goroutine takes longer than a small kernel.
type Pool struct {
	threads int
	parks   bool         // workers park as soon as there is no work
	busy    sync.Mutex   // held by the one caller that uses the workers
	active  atomic.Int32 // plans that are running
	gen     atomic.Uint64
	job     job

	mu      sync.Mutex
	wake    *sync.Cond
	parked  int
	started bool
	closed  bool
}

// job is one parallel section. Its chunks lie in queues, each of which is claimed by counting.
// A thread begins with the same queue in each section, so that what it has written in one is
// in its own cache in the next, and goes on with those of others.
type job struct {
	fn       func(lo, hi int)
	n, parts int
	queues   []queue
	used     int          // queues of this section
	mapped   bool         // fn reads mapped memory: faults are panics
	workers  atomic.Int32 // workers inside
	failure  atomic.Pointer[any]
}

// queue is a range of chunks.
type queue struct {
	next atomic.Int64
	end  int64
	_    [48]byte // queues of different threads share no cache line
}

const maxQueues = 16

// NewPool returns a pool that uses the given number of threads, the caller's
// included. With one thread everything runs in the caller.
func NewPool(threads int) *Pool {
	p := &Pool{threads: max(threads, 1)}
	p.job.queues = make([]queue, min(p.threads, maxQueues))
	p.wake = sync.NewCond(&p.mu)
	return p
}

// NewParkingPool returns a pool whose workers never wait for work on a processor: runs take
// longer and burn nothing between parallel sections.
func NewParkingPool(threads int) *Pool {
	p := NewPool(threads)
	p.parks = true
	return p
}

// Threads returns the number of threads.
func (p *Pool) Threads() int { return p.threads }

// Close ends the workers. The pool runs everything in the caller afterwards.
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

// Run calls fn over ranges that cover [0, n), each at least grain long but for
// the last. A second caller at the same time runs serially: the threads are
// busy with the first.
func (p *Pool) Run(n, grain int, fn func(lo, hi int)) { p.run(n, grain, false, fn) }

// run is Run for a function that may read mapped memory; the caller's own goroutine is guarded then.
func (p *Pool) run(n, grain int, mapped bool, fn func(lo, hi int)) {
	grain = max(grain, 1)
	parts := min((n+grain-1)/grain, p.threads*chunksPerThread)
	if parts <= 1 || p.threads == 1 || !p.busy.TryLock() {
		fn(0, n)
		return
	}
	defer p.busy.Unlock()
	if !p.started {
		p.start()
	}
	j := &p.job
	j.fn, j.n, j.parts, j.mapped = fn, n, parts, mapped
	j.failure.Store(nil)
	j.used = min(len(j.queues), parts)
	for i := range j.used {
		q := &j.queues[i]
		q.next.Store(int64(i * parts / j.used))
		q.end = int64((i + 1) * parts / j.used)
	}
	p.gen.Add(1) // odd: open
	if p.mu.TryLock() {
		if p.parked > 0 {
			p.wake.Broadcast()
		}
		p.mu.Unlock()
	}
	j.work(0)
	p.gen.Add(1) // even: closed, no worker enters any more
	for spin := 0; j.workers.Load() != 0; spin++ {
		if spin&63 == 63 {
			runtime.Gosched()
		}
	}
	j.fn = nil
	if f := j.failure.Load(); f != nil {
		panic(*f)
	}
}

// chunksPerThread evens out chunks of different cost.
const chunksPerThread = 4

// work runs chunks until there are none, from queue first on.
func (j *job) work(first int) {
	defer func() {
		if e := recover(); e != nil {
			failure := e // e itself would be on the heap in every call
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
			j.fn(j.cut(int(c)), j.cut(int(c)+1))
		}
	}
}

// cut returns where a chunk begins. Chunks differ by one item at most: were they equal but for the last, seven of two would
// be what two threads share fourteen items in.
func (j *job) cut(chunk int) int { return j.n/j.parts*chunk + j.n%j.parts*chunk/j.parts }

// How long a worker looks for work before it parks: while a plan runs, whose serial stretches
// are seldom longer, and after the last plan, where the next run of a busy caller is near.
// ONNX Runtime's threads wait longer.
const (
	waitInRun    = time.Millisecond
	waitAfterRun = 200 * time.Microsecond
)

func (p *Pool) worker(id int, seen uint64) {
	var idle time.Time // when the wait began
	for spin := 1; ; spin++ {
		if g := p.gen.Load(); g != seen && g&1 == 1 {
			j := &p.job
			j.workers.Add(1)
			// The section may have closed between the two loads; then its fields may
			// be changing.
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
