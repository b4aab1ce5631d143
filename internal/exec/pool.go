package exec

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward/internal/ir"
)

// Pool is a set of worker threads. Workers spin while a plan runs, and for a short time after it,
// since waking a parked worker takes longer than running a small kernel. Concurrent callers share
// the workers: each parallel section claims its part of those that are idle.
type Pool struct {
	threads int
	cores   int  // callers and workers that run or spin at once, at most
	parks   bool // workers park immediately when there is no work
	yields  bool // threads that spin let other goroutines run
	workers []worker
	closed  atomic.Bool
	bind    func(worker int) (restore func()) // or nil

	_        pad
	parallel atomic.Int32 // running plans with parallel sections
	serial   atomic.Int32 // running plans without
	parts    atomic.Int32 // those of parallel whose callers are workers
	_        pad
	idle     []atomic.Uint64 // a bit per worker that no section has claimed
	launched atomic.Uint64   // launches of sections
}

// pad keeps what different threads write on separate cache lines.
type pad [64]byte

// worker is a worker thread, which is a goroutine unless it is parked.
type worker struct {
	pool   *Pool
	id     int
	run    func()                  // loop, as a function that a go statement starts without allocation
	awake  atomic.Bool             // the goroutine exists
	thread int                     // of the posted section
	post   atomic.Pointer[section] // work, taken if the thread is in the section, or nil
	_      pad
	queue  word // number of chunks that threads have claimed
	_      pad
	done   word // number of chunks that the worker has done, of all queues
	_      pad
	led    section // the section whose first worker this is
	_      pad
}

// taken is posted to a worker that is in a section.
var taken = new(section)

// Processors returns the number of processors that Go uses. bench/scale and tests replace it, to
// run as on other machines.
var Processors = func() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// NewPool returns a pool with the given number of threads, including the caller's, but no more than
// there are processors. With one thread, everything runs in the caller. Workers that do not spin
// park when they have no work: runs take longer, but use no processor time between sections.
func NewPool(threads int, spins bool) *Pool {
	cores := Processors()
	p := &Pool{threads: max(min(threads, cores), 1), cores: cores, parks: !spins}
	p.yields = runtime.GOMAXPROCS(0) <= cores
	p.workers = make([]worker, p.threads-1)
	p.idle = make([]atomic.Uint64, (p.threads+62)/64)
	for i := range p.workers {
		w := &p.workers[i]
		w.pool, w.id, w.run = p, i, w.loop
		p.idle[i/64].Or(1 << (i % 64))
	}
	return p
}

// Bind makes each worker call bind with its number, from 0, when it wakes, and what that returns
// before it parks, in the same goroutine: bind may bind the thread of the goroutine to processors.
// It is called before the first run.
func (p *Pool) Bind(bind func(worker int) (restore func())) { p.bind = bind }

// Threads returns the number of threads, 1 for a nil pool.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// Close ends the workers. Afterwards everything runs in the caller.
func (p *Pool) Close() { p.closed.Store(true) }

// yield lets other goroutines run. With a GOMAXPROCS above the number of processors, they can run
// beside threads that spin on all of them, and [runtime.Gosched] would start a thread each time
// that looks for goroutines, and takes a processor from a thread with work.
func (p *Pool) yield() {
	if p.yields {
		runtime.Gosched()
	}
}

// enter begins a run of a plan, whose sections use workers unless it is serial.
func (p *Pool) enter(serial bool) { p.callers(serial).Add(1) }

func (p *Pool) leave(serial bool) { p.callers(serial).Add(-1) }

func (p *Pool) callers(serial bool) *atomic.Int32 {
	if serial {
		return &p.serial
	}
	return &p.parallel
}

// share returns the number of workers for which there are processors besides those of the callers,
// and how many of them one section may claim.
func (p *Pool) share() (usable, each int) {
	callers, parts := max(int(p.parallel.Load()), 1), int(p.parts.Load())
	usable = max(min(p.threads, p.cores-int(p.serial.Load()))-callers+parts, 0)
	return usable, (max(usable-parts, 0) + callers - 1) / callers
}

// claim claims up to n idle workers, from number first on and then the lowest, so that a caller
// gets the same ones for each of its sections and those beyond them park. It appends them to the
// team of s, or of the section of the first one if s is nil. all says that there are as many as s
// may have.
func (p *Pool) claim(s *section, n, first int) (_ *section, all bool) {
	usable, each := p.share()
	n = min(n, each)
	groups := (usable + 63) / 64
	if first >= usable {
		first = 0
	}
	for i, g := 0, first/64; n > 0 && i <= groups; i++ {
		mask := ^uint64(0)
		if left := usable - g*64; left < 64 {
			mask = 1<<left - 1
		}
		switch before := uint64(1)<<(first%64) - 1; i {
		case 0:
			mask &^= before
		case groups:
			mask &= before
		}
		for claimed := p.take(g, mask, n); claimed != 0; claimed &= claimed - 1 {
			w := &p.workers[g*64+lowest(claimed)]
			if s == nil {
				s = &w.led
				s.team = s.team[:0]
			}
			s.team = append(s.team, w)
			n--
		}
		if g++; g == groups {
			g = 0
		}
	}
	return s, n == 0
}

// take claims up to n idle workers of those of a group in mask, and returns them.
func (p *Pool) take(group int, mask uint64, n int) (claimed uint64) {
	for {
		was := p.idle[group].Load()
		rest := was & mask
		for i := 0; i < n && rest != 0; i++ {
			rest &= rest - 1
		}
		if claimed = was & mask &^ rest; claimed == 0 || p.idle[group].CompareAndSwap(was, was&^claimed) {
			return claimed
		}
	}
}

// release gives the workers of a section back. The group of the first worker is last, and nothing
// reads the section then: another caller may claim that worker, and the section with it.
func (p *Pool) release(s *section) {
	for i := len(s.team); i > 0; {
		g, bits := s.team[i-1].id/64, uint64(0)
		for ; i > 0 && s.team[i-1].id/64 == g; i-- {
			bits |= 1 << (s.team[i-1].id % 64)
		}
		p.idle[g].Or(bits)
	}
}

// Run calls fn over ranges that cover [0, n), each at least grain long except the last. If no
// worker is idle, it runs in the caller.
func (p *Pool) Run(n, grain int, fn func(lo, hi int)) {
	if _, _, failure := p.run(nil, Team{}, ir.Launch{N: n, Grain: grain, Kernel: fn}, nil, false); failure != nil {
		panic(*failure)
	}
}

// run is Run for the threads of a team, for a launch of a run whose context may end, or nil, and
// for kernels that may read mapped memory, where the caller's goroutine is guarded too. The
// launch may be the first one of a program, of which the same workers then run more; run returns
// how many instructions it has run. ok is false if the context ended before all ranges were done.
// failure is the panic of a kernel.
func (p *Pool) run(r *run, team Team, l ir.Launch, program []instruction, mapped bool) (n int, ok bool,
	failure *any) {
	l.Grain = max(l.Grain, 1)
	most := pieces(l.N, l.Grain)
	if len(program) > 0 {
		most = program[0].most
	}
	var s *section
	all := false
	if most = min(most, team.of(p.Threads())); most > 1 && !p.closed.Load() {
		s, all = p.claim(nil, most-1, team.First)
	}
	if s == nil {
		if r != nil {
			return 1, r.pieces(0, l.N, l.Grain, l.Kernel), nil
		}
		l.Kernel(0, l.N)
		return 1, true, nil
	}
	if !all {
		program = nil
	}
	return p.runWith(r, s, l, program, mapped)
}

// runWith is run with the workers of a section, which it releases.
func (p *Pool) runWith(r *run, s *section, l ir.Launch, program []instruction, mapped bool) (n int, ok bool,
	failure *any) {
	if s.program = program; len(program) == 0 {
		s.one[0].Launch = l
		s.program = s.one[:]
	}
	s.mapped, s.run = mapped, r
	s.open(p.launched.Add(uint64(len(s.program))) - uint64(len(s.program)) + 1)
	s.recruit(0)
	n = s.lead(p)
	s.close(p)
	s.program, s.run, s.one[0].Launch = nil, nil, ir.Launch{}
	ok, failure = !s.stopped.Load(), s.failure.Load()
	p.release(s)
	return n, ok, failure
}

// Divided, if it is set, is called for each division instead of its parts running at once.
// bench/scale uses it.
var Divided func(parts int)

// Team is the threads of a part of [Pool.Divide], or all of a pool if it is zero. They are
// adjacent: thread First is the caller of the part, and sections claim the workers after it first.
type Team struct {
	Size  int // number of threads
	First int // number of the first one; thread 0 is the caller of Divide, t is worker t-1
}

// of returns the number of threads of a team of a pool.
func (t Team) of(pool int) int {
	if t.Size > 0 {
		return min(t.Size, pool)
	}
	return pool
}

// Divide calls fn for each of several parts of the caller's work, on different threads if there are
// idle workers. A part may run plans with its [Request.Team].
func (p *Pool) Divide(parts int, fn func(part int, team Team)) {
	size := max(p.Threads()/parts, 1)
	part := func(i int) { fn(i, Team{Size: size, First: i * size}) }
	var s *section
	if Divided != nil {
		Divided(parts)
	} else if p.Threads() > 1 && !p.closed.Load() {
		p.enter(false)
		defer p.leave(false)
		_, each := p.share()
		for i := 1; i <= min(parts-1, each); i++ {
			s, _ = p.claim(s, 1, i*size-1)
		}
	}
	if s == nil {
		for i := range parts {
			part(i)
		}
		return
	}
	leaders := int32(len(s.team))
	p.parallel.Add(leaders)
	p.parts.Add(leaders)
	defer func() {
		p.parallel.Add(-leaders)
		p.parts.Add(-leaders)
	}()
	if _, _, failure := p.runWith(nil, s, ir.Launch{N: parts, Grain: 1, Kernel: func(lo, hi int) {
		for i := lo; i < hi; i++ {
			part(i)
		}
	}}, nil, false); failure != nil {
		panic(*failure)
	}
}

// The time for which a worker spins before it parks: while a plan runs, whose serial parts are
// rarely longer, and after the last plan, when a busy caller starts the next run soon. ONNX
// Runtime's threads spin longer.
const (
	waitInRun    = time.Millisecond
	waitAfterRun = 200 * time.Microsecond
)

// wake starts the goroutine of a parked worker.
func (w *worker) wake() {
	if !w.awake.Load() && w.awake.CompareAndSwap(false, true) {
		go w.run()
	}
}

// loop runs posted sections until the worker parks, which ends the goroutine.
func (w *worker) loop() {
	if w.pool.bind != nil {
		defer w.pool.bind(w.id)()
	}
	var idle time.Time // start of the wait
	for spin := 1; ; spin++ {
		if s := w.post.Load(); s != nil {
			if w.post.CompareAndSwap(s, taken) {
				s.join(w.thread)
				w.post.Store(nil)
			}
			spin, idle = 0, time.Time{}
			continue
		}
		if spin&63 != 0 && !w.pool.parks {
			continue
		}
		if w.spins(&idle) {
			continue
		}
		w.awake.Store(false)
		if w.post.Load() == nil || !w.awake.CompareAndSwap(false, true) {
			return
		}
	}
}

// spins reports whether a worker without work since idle goes on spinning: for a limited time, and
// only if its processor would be idle otherwise.
func (w *worker) spins(idle *time.Time) bool {
	p := w.pool
	if p.parks || p.closed.Load() {
		return false
	}
	if usable, _ := p.share(); w.id >= usable {
		return false
	}
	if p.bind == nil { // other goroutines cannot run on the thread of a bound one
		p.yield()
	}
	now := time.Now()
	if idle.IsZero() {
		*idle = now
	}
	wait := waitAfterRun
	if p.parallel.Load() > 0 {
		wait = waitInRun
	}
	return now.Sub(*idle) < wait
}
