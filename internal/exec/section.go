package exec

import (
	"math/bits"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// section runs launches one after the other on several threads. Each thread has a queue of chunks
// of a launch, of adjacent items. A thread starts with the same queue for each launch, so that the
// data that it wrote in the previous one is in its cache, and continues with queues of others that
// have chunks left.
//
// Words that several threads write hold a tag above a value of 16 bits: the number of the launch
// that the value is for. Numbers only grow, so that nothing is reset between launches and sections:
// a word with a lower tag has its first value, and a thread with a lower number is late.
type section struct {
	program  []instruction
	one      [1]instruction // program of a single launch
	first    uint64         // tag of the first launch
	mapped   bool           // kernels read mapped memory, so faults become panics
	run      *run           // the run whose context ends the section; nil if it cannot end
	team     []*worker      // threads 1, 2, …; the caller is thread 0
	left     []queueSet
	stopped  atomic.Bool // the context has ended
	deserted atomic.Bool // a worker has left before the end
	failure  atomic.Pointer[any]
	_        pad
	current  atomic.Uint64 // tag of the current launch, lower at the first, beyond the last at the end
	_        pad
	own      word // queue of thread 0
}

// word is a tag and a value.
type word struct{ atomic.Uint64 }

const valueBits = 16

func (w *word) set(tag uint64, value int) { w.Store(tag<<valueBits | uint64(value)) }

// get returns the value for a tag, which is first in words with lower tags. late is true if the
// word has a higher tag.
func (w *word) get(tag uint64, first int) (was uint64, value int, late bool) {
	was = w.Load()
	switch t := was >> valueBits; {
	case t < tag:
		value = first
	case t == tag:
		value = int(was & (1<<valueBits - 1))
	default:
		late = true
	}
	return was, value, late
}

// swap sets a value unless the word has changed.
func (w *word) swap(was, tag uint64, value int) bool {
	return w.CompareAndSwap(was, tag<<valueBits|uint64(value))
}

// queueSet has a bit for each of setSize queues that has chunks left.
type queueSet struct {
	bits word
	_    pad
}

const setSize = 16

// chunksPerThread balances chunks of different cost.
const chunksPerThread = 4

// Chunks returns the number of chunks of a section of n items on idle threads, and how many of the
// threads it uses.
func Chunks(n, grain, threads int) (chunks, used int) {
	most := pieces(n, grain)
	used = min(threads, most)
	return min(most, used*chunksPerThread), used
}

// pieces returns the largest number of chunks of n items.
func pieces(n, grain int) int { return (n + max(grain, 1) - 1) / max(grain, 1) }

// Cut returns the start of a chunk of n items. Chunk sizes differ by at most one, so that threads
// finish together.
func Cut(n, chunks, chunk int) int { return n/chunks*chunk + n%chunks*chunk/chunks }

// Recruits is the number of workers to which each thread of a section passes it on: a single thread
// would need as many cache misses as there are workers.
const Recruits = 4

func lowest(b uint64) int { return bits.TrailingZeros64(b) }

func (s *section) queue(thread int) *word {
	if thread == 0 {
		return &s.own
	}
	return &s.team[thread-1].queue
}

// open prepares a section with a team for launches.
func (s *section) open(first uint64) {
	s.first = first
	if s.failed() || s.deserted.Load() {
		s.stopped.Store(false)
		s.deserted.Store(false)
		s.failure.Store(nil)
	}
	if sets := (len(s.team) + setSize) / setSize; len(s.left) < sets {
		s.left = make([]queueSet, sets)
	}
}

// at returns the index of the current launch.
func (s *section) at() int {
	if tag := s.current.Load(); tag > s.first {
		return int(tag - s.first)
	}
	return 0
}

func (s *section) failed() bool { return s.stopped.Load() || s.failure.Load() != nil }

// recruit posts the section to the workers that a thread passes it on to, unless no chunk is left.
func (s *section) recruit(thread int) {
	first := thread*Recruits + 1
	if first > len(s.team) || s.over(first) {
		return
	}
	for t := first; t < first+Recruits && t <= len(s.team); t++ {
		w := s.team[t-1]
		w.thread = t
		w.post.Store(s)
		w.wake()
	}
}

// over reports whether no chunk of the last launch is left for a thread.
func (s *section) over(thread int) bool {
	k := s.at()
	if k+1 < len(s.program) {
		return false
	}
	if k == len(s.program) {
		return true
	}
	_, used := Chunks(s.program[k].N, s.program[k].Grain, len(s.team)+1)
	return s.next(thread, s.first+uint64(k), used) < 0
}

// join is the part of a worker in the section.
func (s *section) join(thread int) {
	s.recruit(thread)
	if s.mapped {
		debug.SetPanicOnFault(true)
		defer debug.SetPanicOnFault(false)
	}
	for k := s.at(); k < len(s.program); k = s.at() {
		s.work(thread, k)
		if k+1 == len(s.program) {
			return
		}
		var idle time.Time
		for spin := 1; s.at() == k; spin++ {
			if spin&63 == 0 && !s.team[thread-1].spins(&idle) {
				s.deserted.Store(true)
				return
			}
		}
	}
}

// lead is the part of the caller. It returns the number of launches after which the section ends:
// all of them, unless it fails, the callers that share the pool change, or a worker has waited too
// long and parks.
func (s *section) lead(p *Pool) int {
	parallel, serial := p.parallel.Load(), p.serial.Load()
	for k := range s.program {
		done := s.work(0, k)
		if k+1 == len(s.program) {
			break
		}
		if s.failed() || s.deserted.Load() || p.parallel.Load() != parallel || p.serial.Load() != serial {
			s.current.Store(s.first + uint64(len(s.program)))
			return k + 1
		}
		s.await(p, k, done)
		s.current.Store(s.first + uint64(k+1))
	}
	return len(s.program)
}

// await waits until all chunks of a launch are done, of which the caller has done some, or one has
// failed. Workers that have not begun are not waited for.
func (s *section) await(p *Pool, k, done int) {
	l := &s.program[k]
	chunks, used := Chunks(l.N, l.Grain, len(s.team)+1)
	for spin := 1; ; spin++ {
		n := done
		for t := 1; t < used; t++ {
			_, d, _ := s.team[t-1].done.get(s.first+uint64(k), 0)
			n += d
		}
		if n == chunks || s.failed() {
			return
		}
		if spin&63 == 0 {
			p.yield()
		}
	}
}

// close waits for the workers that have begun, and withdraws the section from the others. A worker
// has been recruited by one before it, so that no thread posts the section afterwards.
func (s *section) close(p *Pool) {
	for _, w := range s.team {
		for spin := 1; ; spin++ {
			at := w.post.Load()
			if at == nil || at == s && w.post.CompareAndSwap(s, nil) {
				break
			}
			if spin&63 == 0 {
				p.yield()
			}
		}
	}
}

// next returns a queue of a launch that has chunks left, from that of a thread on, or -1.
func (s *section) next(thread int, tag uint64, used int) int {
	for i, sets := 0, (used+setSize-1)/setSize; i < sets; i++ {
		g := (thread/setSize + i) % sets
		_, b, late := s.left[g].bits.get(tag, allBits(g, used))
		if late {
			return -1
		}
		if b != 0 {
			first := thread % setSize
			if after := b >> first; after != 0 {
				return g*setSize + first + lowest(uint64(after))
			}
			return g*setSize + lowest(uint64(b))
		}
	}
	return -1
}

// allBits is the first value of a set of queues.
func allBits(set, used int) int { return 1<<min(setSize, used-set*setSize) - 1 }

// exhausted notes that a queue has no chunks left.
func (s *section) exhausted(at int, tag uint64, used int) {
	g, bit := at/setSize, 1<<(at%setSize)
	for {
		was, b, late := s.left[g].bits.get(tag, allBits(g, used))
		if late || b&bit == 0 || s.left[g].bits.swap(was, tag, b&^bit) {
			return
		}
	}
}

// claim returns the next of the n chunks of a queue, or -1.
func (w *word) claim(tag uint64, n int) int {
	for {
		was, c, late := w.get(tag, 0)
		if late || c >= n {
			return -1
		}
		if w.swap(was, tag, c+1) {
			return c
		}
	}
}

// work runs chunks of a launch until there are none left, and returns their number.
func (s *section) work(thread, k int) (done int) {
	l := &s.program[k]
	chunks, used := Chunks(l.N, l.Grain, len(s.team)+1)
	if thread >= used {
		return 0
	}
	defer func() {
		if e := recover(); e != nil {
			failure := e // e itself would escape to the heap in every call
			s.failure.CompareAndSwap(nil, &failure)
		}
	}()
	tag := s.first + uint64(k)
	for at := thread; at >= 0; at = s.next(thread, tag, used) {
		q, first, end := s.queue(at), at*chunks/used, (at+1)*chunks/used
		for {
			c := q.claim(tag, end-first)
			if c < 0 {
				break
			}
			lo, hi := Cut(l.N, chunks, first+c), Cut(l.N, chunks, first+c+1)
			if s.run == nil {
				l.Kernel(lo, hi)
			} else if !s.run.pieces(lo, hi, l.Grain, l.Kernel) {
				s.stopped.Store(true)
				return done
			}
			done++
		}
		if thread > 0 && k+1 < len(s.program) {
			s.team[thread-1].done.set(tag, done)
		}
		s.exhausted(at, tag, used)
	}
	return done
}
