package tokenizer

import (
	"sort"
	"unicode/utf8"
)

// source is an original text.
type source struct {
	text  string
	runes bool   // offsets are returned in runes
	s     []byte // text as valid UTF-8
	// Invalid UTF-8 is replaced in s. Each entry is an offset in s and how far it is behind
	// that in the text from there on.
	shifts []shift // in the memory of the call

	at, rune int // a known pair of offset and index of a rune, for runeIndex
}

type shift struct{ at, delta int32 }

// newSource copies a text to sc, with U+FFFD for each maximal part of an invalid character. It
// ends early if the call does.
func newSource(t string, sc *scratch) *source {
	from, shifts := len(sc.bytes), len(sc.shifts)
	src := &source{text: t}
	if !sc.room(len(t), 0) {
		return src
	}
	if utf8.ValidString(t) {
		sc.bytes = append(sc.bytes, t...)
	} else {
		for i := 0; i < len(t) && sc.step(1); {
			r, n := utf8.DecodeRuneInString(t[i:])
			if !sc.room(utf8.UTFMax, 0) {
				break
			}
			if r != utf8.RuneError || n > 1 {
				sc.bytes = append(sc.bytes, t[i:i+n]...)
				i += n
				continue
			}
			i += invalidPart(t[i:])
			sc.bytes = append(sc.bytes, "\uFFFD"...)
			if at := len(sc.bytes) - from; extend(sc, &sc.shifts, 1) {
				sc.shifts = append(sc.shifts, shift{int32(at), int32(i - at)})
			}
		}
	}
	n := len(sc.bytes)
	src.s, src.shifts = sc.bytes[from:n:n], sc.shifts[shifts:len(sc.shifts):len(sc.shifts)]
	return src
}

// advance returns the offset n characters after at, both as offsets are returned.
func (src *source) advance(at, n int) int {
	if src.runes {
		return at + n
	}
	for ; n > 0 && at < len(src.text); n-- {
		r, size := utf8.DecodeRuneInString(src.text[at:])
		if r == utf8.RuneError && size == 1 {
			size = invalidPart(src.text[at:])
		}
		at += size
	}
	return at
}

// retreat returns the offset n characters before at, and whether there are so many.
func (src *source) retreat(at, n int) (int, bool) {
	if src.runes {
		return at - n, at >= n
	}
	for ; n > 0; n-- {
		if at == 0 {
			return 0, false
		}
		_, size := utf8.DecodeLastRuneInString(src.text[:min(at, len(src.text))])
		at -= size
	}
	return at, true
}

// bytes returns the offset in the text before the replacement of invalid UTF-8. Offsets within a
// U+FFFD are at most where what it replaces ends.
func (src *source) bytes(at int) int {
	k := sort.Search(len(src.shifts), func(i int) bool { return int(src.shifts[i].at) > at })
	if k > 0 {
		at += int(src.shifts[k-1].delta)
	}
	if k < len(src.shifts) {
		at = min(at, int(src.shifts[k].at+src.shifts[k].delta))
	}
	return at
}

// runeIndex returns how many characters precede an offset. Calls for nearby offsets are fast.
func (src *source) runeIndex(at int) int {
	at = min(at, len(src.s))
	if at < src.at/2 {
		src.at, src.rune = 0, 0
	}
	for ; src.at < at; src.at++ {
		if utf8.RuneStart(src.s[src.at]) {
			src.rune++
		}
	}
	for ; src.at > at; src.at-- {
		if utf8.RuneStart(src.s[src.at-1]) {
			src.rune--
		}
	}
	return src.rune
}

// offsets converts a pair of offsets in s to those that are returned. Those of tokens which are
// longer than their text, such as the bytes of a prefix that no character has, end with the text;
// tokenizers returns offsets beyond it.
func (src *source) offsets(lo, hi int) (int, int) {
	if hi > len(src.s) {
		lo, hi = min(lo, len(src.s)), len(src.s)
	}
	switch {
	case src.runes:
		return src.runeIndex(lo), src.runeIndex(hi)
	case len(src.shifts) > 0:
		return src.bytes(lo), src.bytes(hi)
	}
	return lo, hi
}
