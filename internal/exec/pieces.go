package exec

import (
	"errors"
	"runtime"
	"time"
)

// errStopped is the panic that unwinds an operator whose run must stop. A section that ends early
// does not return to its operator, since operators rely on what the section would have computed.
var errStopped = errors.New("the run has been stopped")

// pieceTime is the duration at which pieces of a section aim. Between pieces, the run checks its
// context.
const pieceTime = 2 * time.Millisecond

// clock returns the current time. Tests replace it.
var clock = time.Now

// turnTime is the duration after which a serial run lets other goroutines run.
const turnTime = time.Millisecond

// yield lets other goroutines run, if the run has had its thread for turnTime. Go's
// scheduler takes a thread from a goroutine only after 10 ms, and every request of a server
// waits for several goroutines.
func (r *run) yield() {
	if clock().Sub(r.turn) < turnTime {
		return
	}
	yield()
	r.turn = clock()
}

// yield is replaced in tests.
var yield = runtime.Gosched

// pieces calls fn over ranges that cover [lo, hi), each at least grain long but for the last, and
// checks the context between them. It returns false once the run must stop. The first range is
// grain long; the lengths of later ones follow from the measured speed.
func (r *run) pieces(lo, hi, grain int, fn func(lo, hi int)) bool {
	if r.err() != nil {
		return false
	}
	if hi-lo <= grain {
		fn(lo, hi)
		return true
	}
	for n, start := max(grain, 1), clock(); ; {
		end := lo + min(n, hi-lo)
		fn(lo, end)
		if lo = end; lo == hi {
			return true
		}
		if r.err() != nil {
			return false
		}
		if r.serial {
			r.yield()
		}
		now := clock()
		took := max(now.Sub(start), 1)
		start = now
		// Items may differ in cost, so the length at most grows sixteenfold.
		if f := int64(pieceTime / took); f > 0 {
			n *= int(min(f, 16))
			n = min(n, hi-lo)
		} else {
			n = max(grain, 1, int(int64(n)*int64(pieceTime)/int64(took)))
		}
	}
}
