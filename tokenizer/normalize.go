package tokenizer

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// normalizer rewrites a text in place.
type normalizer interface {
	normalize(t *text, sc *scratch) error
}

func parseNormalizer(v any, depth int) (normalizer, error) {
	if v == nil {
		return nil, nil
	}
	o, kind, err := component(v, "normalizer", depth)
	if err != nil {
		return nil, err
	}
	var n normalizer
	switch kind {
	case "BertNormalizer":
		b := &bertNormalizer{clean: o.bool("clean_text"), chinese: o.bool("handle_chinese_chars"),
			lower: o.bool("lowercase")}
		b.strip = b.lower
		if o.has("strip_accents") {
			b.strip = o.bool("strip_accents")
		}
		n = b
	case "Strip":
		n = &stripNormalizer{left: o.bool("strip_left"), right: o.bool("strip_right")}
	case "StripAccents":
		n = filterNormalizer(func(r rune) bool { return !ucd.is(r, isMark) })
	case "NFC":
		n = &unicodeNormalizer{compose: true}
	case "NFD":
		n = &unicodeNormalizer{}
	case "NFKC":
		n = &unicodeNormalizer{compose: true, compatible: true}
	case "NFKD":
		n = &unicodeNormalizer{compatible: true}
	case "Lowercase":
		n = lowercaseNormalizer{}
	case "Nmt":
		n = nmtNormalizer{}
	case "ByteLevel":
		n = byteLevelNormalizer{}
	case "Precompiled":
		n, err = newPrecompiled(o.string("precompiled_charsmap"))
	case "Prepend":
		n = prependNormalizer(o.string("prepend"))
	case "Replace":
		var p *splitPattern
		if p, err = parsePattern(o.value("pattern")); err == nil {
			n = &replaceNormalizer{pattern: p, content: o.string("content")}
		}
	case "Sequence":
		var list normalizerSequence
		for _, v := range o.array("normalizers") {
			m, err := parseNormalizer(v, depth+1)
			if err != nil {
				return nil, err
			}
			if m != nil {
				list = append(list, m)
			}
		}
		n = list
	default:
		return nil, fmt.Errorf("normalizer %q is not supported", kind)
	}
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, fmt.Errorf("normalizer %s: %w", kind, err)
	}
	return n, nil
}

type normalizerSequence []normalizer

func (l normalizerSequence) normalize(t *text, sc *scratch) error {
	for _, n := range l {
		if err := n.normalize(t, sc); err != nil {
			return err
		}
	}
	return nil
}

type prependNormalizer string

func (p prependNormalizer) normalize(t *text, sc *scratch) error { return t.prepend(string(p), sc) }

// filterNormalizer removes the characters for which it returns false.
type filterNormalizer func(r rune) bool

func (keep filterNormalizer) normalize(t *text, sc *scratch) error {
	first := 0 // characters removed at the start
	i := 0
	for ; i < len(t.s) && sc.step(1); first++ {
		r, n := utf8.DecodeRune(t.s[i:])
		if keep(r) {
			break
		}
		i += n
	}
	if i == 0 {
		for _, r := range string(t.s) { // most texts lose nothing
			if !keep(r) || !sc.step(1) {
				i = -1
				break
			}
		}
		if i == 0 {
			return sc.err
		}
		i = 0
	}
	e := newEdit(t, sc, first)
	for i < len(t.s) && sc.err == nil {
		last, n := utf8.DecodeRune(t.s[i:])
		removed := 0
		for i += n; i < len(t.s) && sc.step(1); removed++ {
			r, n := utf8.DecodeRune(t.s[i:])
			if keep(r) {
				break
			}
			i += n
		}
		e.put(last, -removed)
	}
	return e.end()
}

// mapRunes replaces each character by another one.
func mapRunes(t *text, sc *scratch, f func(r rune) rune) error {
	e := newEdit(t, sc, 0)
	for i := 0; i < len(t.s) && sc.err == nil; {
		r, n := utf8.DecodeRune(t.s[i:])
		i += n
		e.put(f(r), 0)
	}
	return e.end()
}

type stripNormalizer struct{ left, right bool }

func (s *stripNormalizer) normalize(t *text, sc *scratch) error {
	lo, hi, removed := 0, len(t.s), 0
	for s.left && lo < hi {
		r, n := utf8.DecodeRune(t.s[lo:])
		if !ucd.is(r, isSpace) {
			break
		}
		lo += n
		removed++
	}
	if lo == hi && hi > 0 && s.right {
		lo, removed = 0, 0
	}
	for s.right && lo < hi {
		r, n := utf8.DecodeLastRune(t.s[lo:hi])
		if !ucd.is(r, isSpace) {
			break
		}
		hi -= n
	}
	if lo == 0 && hi == len(t.s) {
		return nil
	}
	e := newEdit(t, sc, removed)
	e.keep(hi - lo)
	return e.end()
}

type lowercaseNormalizer struct{}

func (lowercaseNormalizer) normalize(t *text, sc *scratch) error {
	i := 0
	for ; i < len(t.s); i++ {
		if c := t.s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			break
		}
	}
	if i == len(t.s) {
		return nil
	}
	e := newEdit(t, sc, 0)
	for i := 0; i < len(t.s) && sc.err == nil; {
		r, n := utf8.DecodeRune(t.s[i:])
		i += n
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			e.put(r, 0)
		case ucd.is(r, hasLower):
			for k, l := range ucd.lower[r] {
				e.put(l, min(k, 1))
			}
		default:
			e.put(r, 0)
		}
	}
	return e.end()
}

// nmtNormalizer removes control characters and replaces spaces as SentencePiece's nmt_nfkc
// rule does before it.
type nmtNormalizer struct{}

func (nmtNormalizer) normalize(t *text, sc *scratch) error {
	err := filterNormalizer(func(r rune) bool {
		return !(r >= 1 && r <= 8 || r == 0x0B || r >= 0x0E && r <= 0x1F || r == 0x7F || r == 0x8F || r == 0x9F)
	}).normalize(t, sc)
	if err != nil {
		return err
	}
	return mapRunes(t, sc, func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	})
}

// byteLevelNormalizer writes each byte as a printable character.
type byteLevelNormalizer struct{}

func (byteLevelNormalizer) normalize(t *text, sc *scratch) error {
	e := newEdit(t, sc, 0)
	for i := 0; i < len(t.s) && sc.err == nil; {
		n := runeSize(t.s[i])
		for k := range n {
			e.put(byteChars[t.s[i+k]], min(k, 1))
		}
		i += n
	}
	return e.end()
}

// byteChars is the alphabet of byte-level tokenizers: the printable bytes of Latin-1 are
// themselves, the others are numbered from U+0100 on.
var byteChars, charBytes = func() (chars [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	n := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE) {
			r = n
			n++
		}
		chars[b], bytes[r] = r, byte(b)
	}
	return chars, bytes
}()

type replaceNormalizer struct {
	pattern *splitPattern
	content string
}

func (p *replaceNormalizer) normalize(t *text, sc *scratch) error {
	return t.replace(p.pattern, p.content, sc)
}

// replace replaces each match of a pattern by content, which is aligned to the last
// character of the match.
func (t *text) replace(p *splitPattern, content string, sc *scratch) error {
	if len(t.s) == 0 || p.literal != nil && !bytes.Contains(t.s, p.literal) {
		return nil
	}
	ranges, err := p.matches(t.s, sc)
	if err != nil {
		return err
	}
	e := edit{t: t, sc: sc, from: len(sc.bytes), spans: len(sc.spans), same: t.align == nil}
	for _, r := range ranges {
		if !r.match {
			e.keep(r.hi - r.lo)
			continue
		}
		sc.step(1)
		single := len(content) == r.hi-r.lo && utf8.RuneCountInString(content) == 1
		if e.same && single && runeSize(t.s[r.lo]) == len(content) {
			if !sc.room(len(content), 0) {
				return sc.err
			}
			e.sc.bytes = append(e.sc.bytes, content...)
			e.pos = r.hi
			continue
		}
		e.diverge()
		v := span{uint32(t.start), uint32(t.start)}
		if r.hi > 0 {
			v = e.source(r.hi - 1)
		}
		if !sc.room(len(content), len(content)) {
			return sc.err
		}
		sc.bytes = append(sc.bytes, content...)
		for range len(content) {
			sc.spans = append(sc.spans, v)
		}
		e.pos = r.hi
		e.limit()
		if !sc.step(len(content)) {
			return sc.err
		}
	}
	return e.end()
}
