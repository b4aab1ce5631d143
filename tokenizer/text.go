package tokenizer

import (
	"errors"
	"unicode/utf8"
)

// errTextSize is returned if normalization makes a text larger than the limit.
var errTextSize = errors.New("normalized text exceeds the size limit")

// span is a range of byte offsets in the original text.
type span struct{ lo, hi uint32 }

// text is a normalized text and its alignment to the original text. All bytes of a
// character have the same span.
type text struct {
	s     []byte
	align []span // nil if s equals the original text from start on
	start int    // offset of s in the original text
}

// slice returns the part of t from a to b, with a < b on character boundaries.
func (t *text) slice(a, b int) text {
	if t.align == nil {
		return text{s: t.s[a:b:b], start: t.start + a}
	}
	return text{s: t.s[a:b:b], align: t.align[a:b:b], start: int(t.align[a].lo)}
}

// original returns the range of the original text that bytes a to b of t come from.
func (t *text) original(a, b int) (lo, hi int) {
	if b > len(t.s) {
		return a, b // a token that is longer than its text; tokenizers returns its own offsets
	}
	if a == b {
		return t.start + a, t.start + b
	}
	if t.align != nil {
		return int(t.align[a].lo), int(t.align[b-1].hi)
	}
	for a > 0 && !utf8.RuneStart(t.s[a]) {
		a--
	}
	for b < len(t.s) && !utf8.RuneStart(t.s[b]) {
		b++
	}
	return t.start + a, t.start + b
}

// edit rewrites a text. The caller emits the new characters in order, and says of each
// whether it replaces a character, precedes removed ones or is new.
type edit struct {
	t     *text
	sc    *scratch
	from  int // where the result begins in sc.bytes
	spans int // where the result begins in sc.spans
	pos   int // offset in t of the next character to replace
	same  bool
}

// newEdit begins to rewrite all of t. The first removed characters are skipped.
func newEdit(t *text, sc *scratch, removed int) edit {
	e := edit{t: t, sc: sc, from: len(sc.bytes), spans: len(sc.spans), same: t.align == nil}
	if !e.same {
		// Characters without a source are kept, as tokenizers does.
		for e.pos < len(t.align) && t.align[e.pos].lo == t.align[e.pos].hi {
			e.pos++
		}
		if sc.room(e.pos, e.pos) {
			sc.bytes = append(sc.bytes, t.s[:e.pos]...)
			sc.spans = append(sc.spans, t.align[:e.pos]...)
		}
	}
	e.skip(removed)
	if removed > 0 {
		e.diverge()
	}
	return e
}

// skip moves over n characters of the source.
func (e *edit) skip(n int) {
	for ; n > 0 && e.pos < len(e.t.s); n-- {
		e.pos += runeSize(e.t.s[e.pos])
	}
}

// diverge records alignments from now on.
func (e *edit) diverge() {
	if e.same {
		e.same = false
		n := len(e.sc.bytes) - e.from
		if !e.sc.room(0, n) {
			return
		}
		e.sc.spans = appendIdentity(e.sc.spans, e.t.s[:n], e.t.start)
	}
}

// appendIdentity appends the spans of a text that is not normalized.
func appendIdentity(spans []span, s []byte, start int) []span {
	for i := 0; i < len(s); {
		n := runeSize(s[i])
		v := span{uint32(start + i), uint32(start + i + n)}
		for range n {
			spans = append(spans, v)
		}
		i += n
	}
	return spans
}

// source returns the span of byte i of the source, clamped to the last byte.
func (e *edit) source(i int) span {
	t := e.t
	if len(t.s) == 0 {
		return span{uint32(t.start), uint32(t.start)}
	}
	i = min(i, len(t.s)-1)
	if t.align != nil {
		return t.align[i]
	}
	lo, hi := t.original(i, i+1)
	return span{uint32(lo), uint32(hi)}
}

// put emits character r. It replaces the next character if change is 0, replaces it and
// removes -change characters after it if change is negative, and is new if change is
// positive.
func (e *edit) put(r rune, change int) {
	size := utf8.RuneLen(r)
	if !e.sc.step(1) || !e.sc.room(size, 0) {
		return
	}
	if e.same {
		if change == 0 && e.pos < len(e.t.s) && runeSize(e.t.s[e.pos]) == size {
			e.sc.bytes = utf8.AppendRune(e.sc.bytes, r)
			e.pos += size
			return
		}
		e.diverge()
	}
	var v span
	switch {
	case change <= 0:
		v = e.source(e.pos)
	case e.pos > 0:
		v = e.source(e.pos - 1)
	default:
		v = span{uint32(e.t.start), uint32(e.t.start)}
	}
	if change <= 0 {
		e.skip(1 - change)
	}
	if !e.sc.room(size, size) {
		return
	}
	e.sc.bytes = utf8.AppendRune(e.sc.bytes, r)
	for range size {
		e.sc.spans = append(e.sc.spans, v)
	}
	e.limit()
}

// limit ends the call if the result exceeds the limit.
func (e *edit) limit() {
	if len(e.sc.bytes)-e.from > e.sc.limit {
		e.sc.fail(errTextSize)
	}
}

// keep copies the next n bytes of the source.
func (e *edit) keep(n int) {
	part := e.t.s[e.pos : e.pos+n]
	spans := n
	if e.same {
		spans = 0
	}
	if !e.sc.room(n, spans) {
		e.pos += n
		return
	}
	e.sc.bytes = append(e.sc.bytes, part...)
	if !e.same {
		if e.t.align != nil {
			e.sc.spans = append(e.sc.spans, e.t.align[e.pos:e.pos+n]...)
		} else {
			e.sc.spans = appendIdentity(e.sc.spans, part, e.t.start+e.pos)
		}
	}
	e.pos += n
	e.limit()
	e.sc.step(n)
}

// end stores the result in the text.
func (e *edit) end() error {
	if e.sc.err != nil {
		return e.sc.err
	}
	n := len(e.sc.bytes)
	e.t.s = e.sc.bytes[e.from:n:n]
	if !e.same {
		e.t.align = e.sc.spans[e.spans:len(e.sc.spans):len(e.sc.spans)]
	}
	return nil
}

// prepend inserts s before t, unless t is empty.
func (t *text) prepend(s string, sc *scratch) error {
	if len(t.s) == 0 || s == "" {
		return nil
	}
	e := edit{t: t, sc: sc, from: len(sc.bytes), spans: len(sc.spans)}
	v := e.source(0)
	if !sc.room(len(s), len(s)) {
		return sc.err
	}
	sc.bytes = append(sc.bytes, s...)
	for range len(s) {
		sc.spans = append(sc.spans, v)
	}
	e.keep(len(t.s))
	return e.end()
}

// runeSize returns the length of the UTF-8 sequence that begins with b, in valid text.
func runeSize(b byte) int {
	switch {
	case b < 0xC0:
		return 1
	case b < 0xE0:
		return 2
	case b < 0xF0:
		return 3
	}
	return 4
}

// scratch is the memory of one call. Calls share nothing else that is written.
type scratch struct {
	budget
	limit  int // of bytes in a normalized text
	bytes  []byte
	spans  []span
	shifts []shift
	pieces []piece
	next   []piece
	ranges []splitRange
	runes  []marked
	order  []marked
	regex  matchState
	model  modelState
	tokens []token
	out    []token
}
