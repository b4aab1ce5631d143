package main

import (
	"container/heap"
	"fmt"

	"github.com/onward-ml/onward/internal/exec"
)

// processor is a processor on which a trace is replayed. Times are in nanoseconds.
type processor struct {
	series, name string
	cores        int
	// line is the time in which a cache line that one core has written gets to another.
	line float64
	// bandwidth is that of the memory in bytes per nanosecond.
	bandwidth float64
	// cache is the size in bytes of a last-level cache, or 0 if none is counted.
	cache float64
	// chiplet is the number of cores that share such a cache, or 0 if all do, and near is line
	// between them. Threads are bound to the cores in order.
	chiplet int
	near    float64
}

// processors have the bandwidth of their memory channels. Those of a series follow each other, the
// smallest first. EPYC's last-level caches of 32 MB serve the cores of a chiplet. If threads are
// not bound to cores, what a node reads may be in the cache of another chiplet: lines go from one
// chiplet to another, and these caches are taken for empty. The ratio of line to near is that of
// 107 to 23 ns that https://github.com/nviennot/core-to-core-latency lists for EPYC 7R13.
var processors = []processor{
	{series: "EPYC", name: "EPYC 9575F, 64 cores, 12 channels of DDR5-6000", cores: 64, line: 150,
		bandwidth: 12 * 6 * 8},
	{series: "EPYC", name: "EPYC 9965, 192 cores, 12 channels of DDR5-6000", cores: 192, line: 180,
		bandwidth: 12 * 6 * 8},
	{series: "EPYC bound", name: "EPYC 9575F, bound threads", cores: 64, line: 150, bandwidth: 12 * 6 * 8,
		cache: 32e6, chiplet: 8, near: 150 * 23. / 107},
	{series: "Xeon", name: "Xeon 8592+, 64 cores, 8 channels of DDR5-5600", cores: 64, line: 150,
		bandwidth: 8 * 5.6 * 8, cache: 320e6},
}

// lineOf returns the time in which a cache line gets from one thread of a team to another.
func (p *processor) lineOf(teams, threads int) float64 {
	if p.chiplet > 0 && p.sharing(teams, threads) > 0 {
		return p.near
	}
	return p.line
}

// column is a number of cores of a processor.
type column struct {
	*processor
	used int
}

// columns returns for each number of cores the smallest processor of each series that has as many.
func columns(cores []int) (r []column) {
	for _, n := range cores {
		last := ""
		for i := range processors {
			if p := &processors[i]; p.cores >= n && p.series != last {
				r, last = append(r, column{p, n}), p.series
			}
		}
	}
	return r
}

// Costs in nanoseconds of operations of the pool on lines that the core has: those that the
// benchmark of empty sections shows on one core.
const (
	claimCost = 5.  // of a chunk
	postCost  = 10. // of a section to a worker
	setupCost = 2.  // per queue, at the beginning and at the end
)

// shareCost is the time in nanoseconds by which each further thread reads later what another one
// has written for all (assumed).
const shareCost = 5.

// step is a node of a trace.
type step struct {
	op       string
	data     []data
	sections []section
	tail     float64 // time after the last section
}

// section is a parallel section of a trace for a number of threads.
type section struct {
	step   int
	before float64   // time since the section before it
	used   int       // threads
	joined bool      // the threads of the section before it run it
	goesOn bool      // they run the one after it
	chunks []float64 // time of each
}

// work is the sum of the times of a node.
func (s *step) work() float64 {
	t := s.tail
	for i := range s.sections {
		t += s.sections[i].before + s.sections[i].work()
	}
	return t
}

func (s *section) work() (t float64) {
	for _, c := range s.chunks {
		t += c
	}
	return t
}

// replay returns the predicted time of a trace that several teams of a number of threads run side
// by side, and the parts of it that are spent in each node.
func replay(trace []step, p *processor, teams, threads int) (total float64, nodes []float64) {
	bytes, line := p.traffic(trace, teams, threads), p.lineOf(teams, threads)
	for i := range trace {
		s := &trace[i]
		t := s.tail
		for j := range s.sections {
			t += s.sections[j].before + s.sections[j].replay(line)
		}
		t = max(t, bytes[i]/p.bandwidth)
		total += t
		nodes = append(nodes, t)
	}
	return total, nodes
}

// replay runs the chunks as exec's pool does: each thread takes those of its queue, then one at a
// time from the next queue that has some. line is the time in which a cache line gets from one of
// its threads to another.
func (s *section) replay(line float64) float64 {
	k, n := s.used, len(s.chunks)
	if k <= 1 {
		return s.work()
	}
	next, end := make([]int, k), make([]int, k)
	starts := make([]float64, k)
	starts[0] = setupCost * float64(k)
	for t := range k {
		next[t], end[t] = t*n/k, (t+1)*n/k
		if s.joined {
			if t > 0 { // the line that says which launch is current
				starts[t] = line + shareCost*float64(t)
			}
			continue
		}
		for j := range exec.Recruits {
			if c := t*exec.Recruits + 1 + j; c < k {
				// The line of the worker's mailbox goes there and back.
				starts[c] = starts[t] + float64(j+1)*postCost + 2*line
			}
		}
	}
	for t := range k { // after it has recruited others
		if s.joined {
			break
		}
		if c := t*exec.Recruits + 1; c < k {
			starts[t] += postCost * float64(min(exec.Recruits, k-c))
		}
	}
	q := make(queue, k)
	for t := range k {
		q[t] = thread{starts[t], t, t}
	}
	heap.Init(&q)
	finish := 0.
	for len(q) > 0 {
		t := &q[0]
		tries := 0
		for ; tries < k && next[t.at] == end[t.at]; tries++ {
			t.at = (t.at + 1) % k
		}
		if tries == k {
			finish = max(finish, t.time)
			heap.Pop(&q)
			continue
		}
		c := next[t.at]
		next[t.at]++
		t.time += claimCost + s.chunks[c]
		if t.at != t.id { // the counter and the set of queues
			t.time += 2 * line
		}
		heap.Fix(&q, 0)
	}
	lines := 2. // the set of queues, and the worker's mailbox
	if s.goesOn {
		lines = 1 // the number of chunks that the worker has done
	}
	return finish + lines*line + setupCost*float64(k)
}

// causes returns the predicted time of a trace by cause: an equal part of the time of one core,
// what more the kernels take than on one, serial work, hand-off of sections, waiting for the last
// chunk, and memory.
func causes(trace []step, p *processor, teams int, alone float64, threads int) string {
	total, _ := replay(trace, p, teams, threads)
	line := p.lineOf(teams, threads)
	var serial, parallel, handoff, wait float64
	launches, sections := 0, 0
	for i := range trace {
		serial += trace[i].tail
		for j := range trace[i].sections {
			s := &trace[i].sections[j]
			serial += s.before
			if s.used <= 1 {
				serial += s.work()
				continue
			}
			if launches++; !s.joined {
				sections++
			}
			empty := section{used: s.used, chunks: make([]float64, len(s.chunks)), joined: s.joined, goesOn: s.goesOn}
			cost, even := empty.replay(line), s.work()/float64(threads)
			parallel, handoff, wait = parallel+even, handoff+cost, wait+s.replay(line)-cost-even
		}
	}
	ideal := alone / float64(threads)
	serialPart := serial / float64(threads) // of ideal
	return fmt.Sprintf("%s = ideal %s, more work %s, serial %s, hand-off of %d launches in %d sections %s, "+
		"waiting %s, memory %s", duration(total), duration(ideal), duration(parallel+serialPart-ideal),
		duration(serial-serialPart), launches, sections, duration(handoff), duration(wait),
		duration(total-serial-parallel-handoff-wait))
}

// thread is a thread of a section: when it is free, and the queue that it takes chunks from.
type thread struct {
	time   float64
	id, at int
}

type queue []thread

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].time < q[j].time }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(thread)) }
func (q *queue) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}
