package exec

import (
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// section is one parallel section. Each of its threads has a queue of chunks, of adjacent items. A
// thread starts with the same queue in each section, so that the data that it wrote in the previous
// section is in its cache, and continues with queues of others that have chunks left.
type section struct {
	fn       func(lo, hi int)
	n, parts int
	grain    int
	mapped   bool      // fn reads mapped memory, so faults become panics
	run      *run      // the run whose context ends the section; nil if it cannot end
	team     []*worker // threads 1, 2, …; the caller is thread 0
	left     []queueSet
	stopped  atomic.Bool // the context has ended
	failure  atomic.Pointer[any]
	_        pad
	own      queue // of thread 0
}

// queue is a range of chunks, which threads claim with atomic additions.
type queue struct{ next, end int32 }

// queueSet has a bit for each of setSize queues that has chunks left.
type queueSet struct {
	bits uint32
	_    pad
}

const setSize = 16

// chunksPerThread balances chunks of different cost.
const chunksPerThread = 4

// Chunks returns the number of chunks of a section of n items on idle threads, and how many of the
// threads it uses.
func Chunks(n, grain, threads int) (chunks, used int) {
	pieces := (n + max(grain, 1) - 1) / max(grain, 1)
	used = min(threads, pieces)
	return min(pieces, used*chunksPerThread), used
}

// Cut returns the start of a chunk of n items. Chunk sizes differ by at most one, so that threads
// finish together.
func Cut(n, chunks, chunk int) int { return n/chunks*chunk + n%chunks*chunk/chunks }

// Recruits is the number of workers to which each thread of a section passes it on: a single thread
// would need as many cache misses as there are workers.
const Recruits = 4

func lowest(b uint64) int { return bits.TrailingZeros64(b) }

func (s *section) queue(thread int) *queue {
	if thread == 0 {
		return &s.own
	}
	return &s.team[thread-1].queue
}

// open divides the items into chunks and fills the queues. Plain writes suffice and do not wait for
// cache lines of other threads, which read them after the section has been posted to them.
func (s *section) open(parts int) {
	threads := len(s.team) + 1
	s.parts = parts
	if s.stopped.Load() || s.failure.Load() != nil {
		s.stopped.Store(false)
		s.failure.Store(nil)
	}
	for t := range threads {
		q := s.queue(t)
		q.next, q.end = int32(t*parts/threads), int32((t+1)*parts/threads)
	}
	sets := (threads + setSize - 1) / setSize
	if cap(s.left) < sets {
		s.left = make([]queueSet, sets)
	}
	s.left = s.left[:sets]
	for i := range s.left {
		s.left[i].bits = 1<<min(setSize, threads-i*setSize) - 1
	}
}

// recruit posts the section to the workers that a thread passes it on to, unless no chunk is left.
func (s *section) recruit(thread int) {
	first := thread*Recruits + 1
	if first > len(s.team) || s.next(first) < 0 {
		return
	}
	for t := first; t < first+Recruits && t <= len(s.team); t++ {
		w := s.team[t-1]
		w.thread = t
		w.post.Store(s)
		w.wake()
	}
}

// join is the part of a worker in the section.
func (s *section) join(thread int) {
	s.recruit(thread)
	if s.mapped {
		debug.SetPanicOnFault(true)
		defer debug.SetPanicOnFault(false)
	}
	s.work(thread)
}

// close waits for the workers that have begun, and withdraws the section from the others. A worker
// has been recruited by one before it, so that no thread posts the section afterwards.
func (s *section) close() {
	for _, w := range s.team {
		for spin := 1; ; spin++ {
			at := w.post.Load()
			if at == nil || at == s && w.post.CompareAndSwap(s, nil) {
				break
			}
			if spin&63 == 0 {
				runtime.Gosched()
			}
		}
	}
}

// next returns a queue that has chunks left, from that of a thread on, or -1.
func (s *section) next(thread int) int {
	for i, sets := 0, len(s.left); i < sets; i++ {
		g := (thread/setSize + i) % sets
		if b := atomic.LoadUint32(&s.left[g].bits); b != 0 {
			first := thread % setSize
			if after := b >> first; after != 0 {
				return g*setSize + first + bits.TrailingZeros32(after)
			}
			return g*setSize + bits.TrailingZeros32(b)
		}
	}
	return -1
}

// work runs chunks until there are none left.
func (s *section) work(thread int) {
	defer func() {
		if e := recover(); e != nil {
			failure := e // e itself would escape to the heap in every call
			s.failure.CompareAndSwap(nil, &failure)
		}
	}()
	for at := thread; at >= 0; at = s.next(thread) {
		q := s.queue(at)
		for {
			c := atomic.AddInt32(&q.next, 1) - 1
			if c >= q.end-1 { // the last chunk, or none
				atomic.AndUint32(&s.left[at/setSize].bits, ^(uint32(1) << (at % setSize)))
			}
			if c >= q.end {
				break
			}
			if s.run == nil {
				s.fn(s.cut(int(c)), s.cut(int(c)+1))
			} else if !s.run.pieces(s.cut(int(c)), s.cut(int(c)+1), s.grain, s.fn) {
				s.stopped.Store(true)
				return
			}
			if c == q.end-1 {
				break
			}
		}
	}
}

func (s *section) cut(chunk int) int { return Cut(s.n, s.parts, chunk) }
