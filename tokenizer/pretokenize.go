package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// piece is a part of a text that is tokenized alone.
type piece struct {
	text
	added int32 // id of the added token that the piece is, or -1
}

// splitRange is a part of a text, and whether a pattern matches it.
type splitRange struct {
	lo, hi int
	match  bool
}

// preTokenizer splits sc.pieces. It leaves added tokens alone.
type preTokenizer interface {
	split(p *piece, sc *scratch) error // appends the parts of p to sc.next
}

// preTokenize applies a pre-tokenizer to all pieces.
func preTokenize(pt preTokenizer, sc *scratch) error {
	if list, ok := pt.(preTokenizerSequence); ok {
		for _, pt := range list {
			if err := preTokenize(pt, sc); err != nil {
				return err
			}
		}
		return nil
	}
	if b, ok := pt.(*byteLevelSplit); ok && b.raw && !b.regex && !b.prefix {
		return nil // the model reads the bytes
	}
	sc.next = sc.next[:0]
	for i := range sc.pieces {
		p := &sc.pieces[i]
		if p.added >= 0 {
			sc.add(*p)
			continue
		}
		if err := sc.poll(len(p.s)); err != nil {
			return err
		}
		if err := pt.split(p, sc); err != nil {
			return err
		}
	}
	sc.pieces, sc.next = sc.next, sc.pieces
	return nil
}

func parsePreTokenizer(v any, depth int) (preTokenizer, error) {
	if v == nil {
		return nil, nil
	}
	o, kind, err := component(v, "pre-tokenizer", depth)
	if err != nil {
		return nil, err
	}
	var pt preTokenizer
	switch kind {
	case "BertPreTokenizer":
		pt = preTokenizerSequence{removeSplit(isSpace), &classSplit{isPunct, isolated}}
	case "ByteLevel":
		b := &byteLevelSplit{prefix: o.bool("add_prefix_space"), regex: !o.has("use_regex") || o.bool("use_regex")}
		o.bool("trim_offsets")
		b.pattern = builtinPattern(patternGPT2)
		pt = b
	case "CharDelimiterSplit", "Delimiter":
		var r rune
		if r, err = o.char("delimiter"); err == nil {
			pt = &patternSplit{pattern: &splitPattern{literal: []byte(string(r))}, behavior: removed}
		}
	case "Digits":
		b := contiguous
		if o.bool("individual_digits") {
			b = isolated
		}
		pt = &classSplit{isNumeric, b}
	case "FixedLength":
		n := 5
		if o.has("length") {
			n = o.int("length")
		}
		if n <= 0 {
			return nil, fmt.Errorf("pre-tokenizer FixedLength: length must be positive, got %d", n)
		}
		pt = fixedLengthSplit(n)
	case "Metaspace":
		pt, err = parseMetaspace(o)
	case "Punctuation":
		b := isolated
		if o.has("behavior") {
			b, err = parseBehavior(o.string("behavior"))
		}
		pt = &classSplit{isPunct, b}
	case "Sequence":
		var list preTokenizerSequence
		for _, v := range o.array("pretokenizers") {
			p, err := parsePreTokenizer(v, depth+1)
			if err != nil {
				return nil, err
			}
			if p != nil {
				list = append(list, p)
			}
		}
		pt = list
	case "Split":
		s := &patternSplit{invert: o.bool("invert")}
		if s.pattern, err = parsePattern(o.value("pattern")); err == nil {
			s.behavior, err = parseBehavior(o.string("behavior"))
		}
		pt = s
	case "UnicodeScripts":
		pt = scriptSplit{}
	case "Whitespace":
		pt = whitespaceSplit{}
	case "WhitespaceSplit":
		pt = removeSplit(isSpace)
	default:
		return nil, fmt.Errorf("pre-tokenizer %q is not supported", kind)
	}
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, fmt.Errorf("pre-tokenizer %s: %w", kind, err)
	}
	return pt, nil
}

type preTokenizerSequence []preTokenizer

func (preTokenizerSequence) split(*piece, *scratch) error {
	return errors.New("not reached: preTokenize applies each")
}

// behavior is how the matches of a pattern divide a text.
type behavior uint8

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

func parseBehavior(s string) (behavior, error) {
	switch s {
	case "Removed":
		return removed, nil
	case "Isolated":
		return isolated, nil
	case "MergedWithPrevious":
		return mergedWithPrevious, nil
	case "MergedWithNext":
		return mergedWithNext, nil
	case "Contiguous":
		return contiguous, nil
	}
	return 0, fmt.Errorf("behavior %q is not supported", s)
}

// emit appends the parts of p that ranges and a behavior describe. It overwrites ranges.
func (sc *scratch) emit(p *piece, ranges []splitRange, b behavior) {
	out := ranges[:0]
	switch b {
	case removed:
		for _, r := range ranges {
			if !r.match {
				out = append(out, r)
			}
		}
	case isolated:
		out = ranges
	case contiguous:
		previous := false
		for _, r := range ranges {
			if n := len(out); r.match == previous && n > 0 {
				out[n-1].hi = r.hi
			} else {
				out = append(out, r)
			}
			previous = r.match
		}
	case mergedWithPrevious:
		previous := false
		for _, r := range ranges {
			if n := len(out); r.match && !previous && n > 0 {
				out[n-1].hi = r.hi
			} else {
				out = append(out, r)
			}
			previous = r.match
		}
	case mergedWithNext:
		previous := false
		at := len(ranges)
		for i := len(ranges) - 1; i >= 0; i-- {
			r := ranges[i]
			if r.match && !previous && at < len(ranges) {
				ranges[at].lo = r.lo
			} else {
				at--
				ranges[at] = r
			}
			previous = r.match
		}
		out = ranges[at:]
	}
	for _, r := range out {
		if r.lo < r.hi && sc.step(1) {
			sc.add(piece{p.slice(r.lo, r.hi), -1})
		}
	}
}

// removeSplit removes characters of a property.
type removeSplit property

func (k removeSplit) split(p *piece, sc *scratch) error {
	for i := 0; i < len(p.s) && sc.step(1); {
		lo := i
		size := 0
		for i < len(p.s) {
			c := p.s[i]
			if c < utf8.RuneSelf {
				if ucd.ascii[c]&property(k) != 0 {
					size = 1
					break
				}
				i++
				continue
			}
			r, n := utf8.DecodeRune(p.s[i:])
			if ucd.of(r).flags&property(k) != 0 {
				size = n
				break
			}
			i += n
		}
		if lo < i {
			sc.add(piece{p.slice(lo, i), -1})
		}
		i += size
	}
	return sc.err
}

// classSplit splits at characters of a property, each a match.
type classSplit struct {
	property property
	behavior behavior
}

func (c *classSplit) split(p *piece, sc *scratch) error {
	if len(p.s) == 0 {
		return nil
	}
	sc.ranges = sc.ranges[:0]
	lo := 0
	for i := 0; i < len(p.s); {
		r, n := rune(p.s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(p.s[i:])
		}
		if ucd.is(r, c.property) {
			if !sc.divide(lo, i, i+n) {
				return sc.err
			}
			lo = i + n
		}
		i += n
	}
	ranges, err := sc.divided(lo, len(p.s))
	if err != nil {
		return err
	}
	sc.emit(p, ranges, c.behavior)
	return sc.err
}

// whitespaceSplit keeps the matches of \w+|[^\w\s]+.
type whitespaceSplit struct{}

func (whitespaceSplit) split(p *piece, sc *scratch) error {
	const both = regexWord | regexSpace
	lo, kind := 0, property(regexSpace)
	for i := 0; i < len(p.s); {
		r, n := utf8.DecodeRune(p.s[i:])
		k := ucd.props(r) & both
		if k&regexWord != 0 {
			k = regexWord
		}
		if k != kind {
			if kind != regexSpace && lo < i {
				sc.add(piece{p.slice(lo, i), -1})
			}
			if !sc.step(i - lo) {
				return sc.err
			}
			lo, kind = i, k
		}
		i += n
	}
	if kind != regexSpace && lo < len(p.s) {
		sc.add(piece{p.slice(lo, len(p.s)), -1})
	}
	return sc.err
}

type fixedLengthSplit int

func (n fixedLengthSplit) split(p *piece, sc *scratch) error {
	for lo := 0; lo < len(p.s) && sc.step(1); {
		hi := lo
		for k := 0; k < int(n) && hi < len(p.s); k++ {
			hi += runeSize(p.s[hi])
		}
		sc.add(piece{p.slice(lo, hi), -1})
		lo = hi
	}
	return sc.err
}

// scriptSplit splits where the script changes. Like tokenizers, it drops the characters
// before the first one that has a script of its own.
type scriptSplit struct{}

func (scriptSplit) split(p *piece, sc *scratch) error {
	lo := -1
	var last uint8
	for i := 0; i < len(p.s) && sc.step(1); {
		r, n := utf8.DecodeRune(p.s[i:])
		if g := ucd.of(r).group; g != 0 {
			if g != last {
				if lo >= 0 {
					sc.add(piece{p.slice(lo, i), -1})
				}
				lo = i
			}
			last = g
		}
		i += n
	}
	if lo >= 0 {
		sc.add(piece{p.slice(lo, len(p.s)), -1})
	}
	return sc.err
}

// patternSplit splits at the matches of a pattern, or with invert at what is between them.
type patternSplit struct {
	pattern  *splitPattern
	behavior behavior
	invert   bool
}

func (s *patternSplit) split(p *piece, sc *scratch) error {
	if len(p.s) == 0 {
		return nil
	}
	if lit := s.pattern.literal; lit != nil && s.behavior != removed && !s.invert && !bytes.Contains(p.s, lit) {
		sc.add(*p)
		return nil
	}
	ranges, err := s.pattern.matches(p.s, sc)
	if err != nil {
		return err
	}
	if s.invert {
		for i := range ranges {
			ranges[i].match = !ranges[i].match
		}
	}
	sc.emit(p, ranges, s.behavior)
	return sc.err
}

// byteLevelSplit splits like GPT-2 and writes each byte as a printable character.
type byteLevelSplit struct {
	prefix, regex bool
	raw           bool // the model reads bytes: leave them as they are
	pattern       *splitPattern
}

func (b *byteLevelSplit) split(p *piece, sc *scratch) error {
	if b.prefix && len(p.s) > 0 && p.s[0] != ' ' {
		if err := p.prepend(" ", sc); err != nil {
			return err
		}
	}
	first := len(sc.next)
	if b.regex {
		ranges, err := b.pattern.matches(p.s, sc)
		if err != nil {
			return err
		}
		sc.emit(p, ranges, isolated)
	} else if len(p.s) > 0 {
		sc.add(*p)
	}
	if b.raw {
		return sc.err
	}
	for i := first; i < len(sc.next); i++ {
		if err := (byteLevelNormalizer{}).normalize(&sc.next[i].text, sc); err != nil {
			return err
		}
	}
	return nil
}

// metaspaceSplit writes spaces as another character and splits before each.
type metaspaceSplit struct {
	replacement string
	scheme      string // of the prefix: first, never or always
	whole       bool   // do not split
	space, mark *splitPattern
}

func parseMetaspace(o *object) (*metaspaceSplit, error) {
	r, err := o.char("replacement")
	if err != nil {
		return nil, err
	}
	m := &metaspaceSplit{replacement: string(r), scheme: "always"}
	if o.has("prepend_scheme") {
		m.scheme = o.string("prepend_scheme")
	}
	switch m.scheme {
	case "first", "never", "always":
	default:
		return nil, fmt.Errorf("prepend_scheme %q is not supported", m.scheme)
	}
	if o.has("add_prefix_space") && !o.bool("add_prefix_space") && m.scheme != "never" {
		return nil, fmt.Errorf("add_prefix_space does not match prepend_scheme %q", m.scheme)
	}
	m.whole = o.has("split") && !o.bool("split")
	m.space = &splitPattern{literal: []byte(" ")}
	m.mark = &splitPattern{literal: []byte(m.replacement)}
	return m, nil
}

func (m *metaspaceSplit) split(p *piece, sc *scratch) error {
	if err := p.replace(m.space, m.replacement, sc); err != nil {
		return err
	}
	if m.scheme == "always" || m.scheme == "first" && p.start == 0 {
		if !bytes.HasPrefix(p.s, m.mark.literal) {
			if err := p.prepend(m.replacement, sc); err != nil {
				return err
			}
		}
	}
	if len(p.s) == 0 {
		return nil
	}
	if m.whole {
		sc.add(*p)
		return nil
	}
	ranges, err := m.mark.matches(p.s, sc)
	if err != nil {
		return err
	}
	sc.emit(p, ranges, mergedWithNext)
	return sc.err
}
