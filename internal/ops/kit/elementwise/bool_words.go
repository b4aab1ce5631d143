package elementwise

import "encoding/binary"

// WithWords adds a loop over words of eight bytes to a loop over elements. Bools are bytes of 0 or
// 1.
func WithWords(l *Loop, word func(dst, a, b []byte)) *Loop {
	l.Fast = func(dst []byte, in *[3][]byte) {
		whole := len(dst) &^ 31
		b := in[1]
		if l.Arity == 1 {
			b = in[0]
		}
		word(dst[:whole], in[0], b)
		if whole < len(dst) {
			rest := *in
			for k := range l.Arity {
				rest[k] = in[k][whole:]
			}
			l.Run(dst[whole:], &rest)
		}
	}
	return l
}

var wordOrder = binary.LittleEndian

// AndWords stores a and b of booleans, 32 at a time. The length must be a multiple of 32.
func AndWords(dst, a, b []byte) {
	for ; len(dst) >= 32; dst, a, b = dst[32:], a[32:], b[32:] {
		d, x := dst[:32], a[:32]
		y := b[:32]
		wordOrder.PutUint64(d[0:], wordOrder.Uint64(x[0:])&wordOrder.Uint64(y[0:]))
		wordOrder.PutUint64(d[8:], wordOrder.Uint64(x[8:])&wordOrder.Uint64(y[8:]))
		wordOrder.PutUint64(d[16:], wordOrder.Uint64(x[16:])&wordOrder.Uint64(y[16:]))
		wordOrder.PutUint64(d[24:], wordOrder.Uint64(x[24:])&wordOrder.Uint64(y[24:]))
	}
}

// OrWords is [AndWords] for or.
func OrWords(dst, a, b []byte) {
	for ; len(dst) >= 32; dst, a, b = dst[32:], a[32:], b[32:] {
		d, x := dst[:32], a[:32]
		y := b[:32]
		wordOrder.PutUint64(d[0:], wordOrder.Uint64(x[0:])|wordOrder.Uint64(y[0:]))
		wordOrder.PutUint64(d[8:], wordOrder.Uint64(x[8:])|wordOrder.Uint64(y[8:]))
		wordOrder.PutUint64(d[16:], wordOrder.Uint64(x[16:])|wordOrder.Uint64(y[16:]))
		wordOrder.PutUint64(d[24:], wordOrder.Uint64(x[24:])|wordOrder.Uint64(y[24:]))
	}
}

// XorWords is [AndWords] for exclusive or.
func XorWords(dst, a, b []byte) {
	for ; len(dst) >= 32; dst, a, b = dst[32:], a[32:], b[32:] {
		d, x := dst[:32], a[:32]
		y := b[:32]
		wordOrder.PutUint64(d[0:], wordOrder.Uint64(x[0:])^wordOrder.Uint64(y[0:]))
		wordOrder.PutUint64(d[8:], wordOrder.Uint64(x[8:])^wordOrder.Uint64(y[8:]))
		wordOrder.PutUint64(d[16:], wordOrder.Uint64(x[16:])^wordOrder.Uint64(y[16:]))
		wordOrder.PutUint64(d[24:], wordOrder.Uint64(x[24:])^wordOrder.Uint64(y[24:]))
	}
}

// NotWords is [AndWords] for not, without the second operand.
func NotWords(dst, a, _ []byte) {
	for ; len(dst) >= 32; dst, a = dst[32:], a[32:] {
		d, x := dst[:32], a[:32]
		wordOrder.PutUint64(d[0:], wordOrder.Uint64(x[0:])^0x0101010101010101)
		wordOrder.PutUint64(d[8:], wordOrder.Uint64(x[8:])^0x0101010101010101)
		wordOrder.PutUint64(d[16:], wordOrder.Uint64(x[16:])^0x0101010101010101)
		wordOrder.PutUint64(d[24:], wordOrder.Uint64(x[24:])^0x0101010101010101)
	}
}

// InvertWords is [NotWords] for all bits.
func InvertWords(dst, a, _ []byte) {
	for ; len(dst) >= 32; dst, a = dst[32:], a[32:] {
		d, x := dst[:32], a[:32]
		wordOrder.PutUint64(d[0:], ^wordOrder.Uint64(x[0:]))
		wordOrder.PutUint64(d[8:], ^wordOrder.Uint64(x[8:]))
		wordOrder.PutUint64(d[16:], ^wordOrder.Uint64(x[16:]))
		wordOrder.PutUint64(d[24:], ^wordOrder.Uint64(x[24:]))
	}
}

// NotLoops is the loop of Not.
var NotLoops = LoopsOf(WithWords(Loop1(NotLoop), NotWords))

// NotLoop stores the negation of src.
func NotLoop(dst, src []bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = !x
	}
}
