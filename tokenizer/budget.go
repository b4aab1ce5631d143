package tokenizer

import (
	"context"
	"unsafe"
)

const (
	// checkEvery is how much work, in about bytes or tokens, precedes a look at the context. Each
	// takes up to 100 ns, where tables are large.
	checkEvery = 1 << 16
	// tokenBytes is the memory of a token in an Encoding.
	tokenBytes = 64
	// keepScratch and keepReserved are the memory that a call leaves to the next one: without and
	// with Options.Reserve.
	keepScratch, keepReserved = 1 << 26, 1 << 20
)

// budget is what a call may use: its time, and its memory.
type budget struct {
	ctx       context.Context
	reserve   func(n int64) error
	err       error     // ends the call: of ctx, of reserve, or of the size of a text
	work      int       // since the last check
	growing   int       // bytes that a buffer is about to grow by
	reserved  int       // bytes
	encodings int       // bytes of texts that are encoded, and of models without buffers
	encoding  *Encoding // of the current text, or nil
}

// step counts work, and reports whether the call goes on.
func (sc *scratch) step(n int) bool {
	sc.work += n
	return sc.work < checkEvery || sc.check()
}

// fail ends the call.
func (sc *scratch) fail(err error) {
	if sc.err == nil {
		sc.err, sc.work = err, checkEvery
	}
}

// poll is step for pieces, with the error.
func (sc *scratch) poll(n int) error {
	if !sc.step(n + 64) {
		return sc.err
	}
	return nil
}

// check looks at the context and reserves the memory of the work since the last check.
func (sc *scratch) check() bool {
	if sc.err != nil {
		return false
	}
	sc.work = 0
	var err error
	if sc.ctx != nil { // a normalizer that runs alone has no context
		err = sc.ctx.Err()
	}
	if err == nil && sc.reserve != nil {
		// Buffers that grow take up to twice as much again until the collector has run.
		if n := 3*(sc.size()+sc.growing) - sc.reserved; n > 0 {
			sc.reserved += n
			err = sc.reserve(int64(n))
		}
	}
	if err != nil {
		sc.fail(err)
	}
	return sc.err == nil
}

// room makes room in the buffers of normalized texts, which it reserves before. It reports whether
// the call goes on.
func (sc *scratch) room(bytes, spans int) bool {
	return cap(sc.bytes)-len(sc.bytes) >= bytes && cap(sc.spans)-len(sc.spans) >= spans && sc.err == nil ||
		extend(sc, &sc.bytes, bytes) && extend(sc, &sc.spans, spans)
}

// extend makes room for n elements in a buffer.
func extend[T any](sc *scratch, buffer *[]T, n int) bool {
	s := *buffer
	if cap(s)-len(s) >= n {
		return sc.err == nil
	}
	var x T
	size := max(2*cap(s), len(s)+n)
	if !sc.growBy((size - cap(s)) * int(unsafe.Sizeof(x))) {
		return false
	}
	*buffer = append(make([]T, 0, size), s...)
	return true
}

// growBy reserves the bytes that a buffer is about to grow by.
func (sc *scratch) growBy(bytes int) bool {
	sc.growing = bytes
	defer func() { sc.growing = 0 }()
	return sc.check()
}

// add appends a piece to the next ones.
func (sc *scratch) add(p piece) {
	if extend(sc, &sc.next, 1) {
		sc.next = append(sc.next, p)
	}
}

// divide appends a match to the ranges of a text, after what is between it and the one before.
func (sc *scratch) divide(last, lo, hi int) bool {
	if cap(sc.ranges)-len(sc.ranges) < 2 && !extend(sc, &sc.ranges, 2) {
		return false
	}
	ranges := sc.ranges
	if last < lo {
		ranges = append(ranges, splitRange{last, lo, false})
	}
	sc.ranges = append(ranges, splitRange{lo, hi, true})
	return sc.step(hi - last + 1)
}

// divided appends the rest of a text of size bytes after the last match, and returns its ranges.
func (sc *scratch) divided(last, size int) ([]splitRange, error) {
	if last < size && extend(sc, &sc.ranges, 1) {
		sc.ranges = append(sc.ranges, splitRange{last, size, false})
	}
	return sc.ranges, sc.err
}

// enlarge makes room for n tokens in an encoding, whose buffers are equally long.
func (sc *scratch) enlarge(e *Encoding, n int) bool {
	if cap(e.IDs)-len(e.IDs) >= n {
		return sc.err == nil
	}
	size := max(2*cap(e.IDs), len(e.IDs)+n)
	if !sc.growBy((size - cap(e.IDs)) * tokenBytes) {
		return false
	}
	e.IDs, e.Tokens = append(make([]int64, 0, size), e.IDs...), append(make([]string, 0, size), e.Tokens...)
	e.Words, e.Offsets = append(make([]int32, 0, size), e.Words...), append(make([][2]int, 0, size), e.Offsets...)
	return true
}

// take reserves memory that is in no buffer of the call.
func (sc *scratch) take(n int) bool {
	sc.encodings += n
	return sc.check()
}

// takeTokens reserves the memory of an encoding of n tokens, or of as many that are appended.
func (sc *scratch) takeTokens(n int) bool {
	return sc.take(n*tokenBytes + int(unsafe.Sizeof(Encoding{})))
}

// size returns the bytes of all buffers.
func (sc *scratch) size() int {
	n := sc.encodings + bufferBytes(sc.bytes) + bufferBytes(sc.spans) + bufferBytes(sc.shifts) +
		bufferBytes(sc.pieces) + bufferBytes(sc.next) + bufferBytes(sc.ranges) + bufferBytes(sc.runes) +
		bufferBytes(sc.order) + bufferBytes(sc.tokens) + bufferBytes(sc.out) + bufferBytes(sc.regex.stack) +
		bufferBytes(sc.model.symbols) + bufferBytes(sc.model.heap) + bufferBytes(sc.model.path)
	if sc.encoding != nil {
		n += tokenBytes * cap(sc.encoding.IDs)
	}
	return n
}

func bufferBytes[T any](s []T) int {
	var x T
	return cap(s) * int(unsafe.Sizeof(x))
}

func (t *Tokenizer) acquire(ctx context.Context) *scratch {
	sc, _ := t.pool.Get().(*scratch)
	if sc == nil {
		sc = &scratch{}
		sc.model.cache = newWordCache()
	}
	sc.limit = t.opts.maxText()
	sc.budget = budget{ctx: ctx, reserve: t.opts.Reserve, reserved: 3 * sc.size()}
	return sc
}

func (t *Tokenizer) release(sc *scratch) {
	keep := keepScratch
	if sc.reserve != nil {
		keep = keepReserved
	}
	sc.budget = budget{}
	if sc.size() <= keep {
		sc.bytes, sc.spans, sc.shifts, sc.tokens = sc.bytes[:0], sc.spans[:0], sc.shifts[:0], sc.tokens[:0]
		sc.pieces, sc.next = sc.pieces[:0], sc.next[:0]
		t.pool.Put(sc)
	}
}
