package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// unicodeNormalizer is NFC, NFD, NFKC or NFKD (https://www.unicode.org/reports/tr15/).
type unicodeNormalizer struct{ compose, compatible bool }

// marked is a character with its change to the source, as edit.put takes it.
type marked struct {
	r        rune
	change   int32
	combines uint8
}

func (n *unicodeNormalizer) normalize(t *text, sc *scratch) error {
	i := n.stable(t.s, 0)
	if i == len(t.s) {
		return nil
	}
	e := newEdit(t, sc, 0)
	for at := 0; at < len(t.s) && sc.step(i-at); {
		if i > at {
			e.keep(i - at)
		}
		if i == len(t.s) {
			break
		}
		at = i
		for at < len(t.s) { // the run that the algorithm sees
			r, size := utf8.DecodeRune(t.s[at:])
			if at > i && n.isStable(r) && (!n.compose || n.stableNext(t.s[at+size:])) {
				break
			}
			at += size
			sc.step(1)
		}
		n.run(&e, t.s[i:at], sc)
		i = n.stable(t.s, at)
	}
	return e.end()
}

// isStable reports whether the algorithm leaves r alone if no combining character follows.
func (n *unicodeNormalizer) isStable(r rune) bool {
	if r < 0x80 {
		return true
	}
	c := ucd.of(r)
	switch {
	case n.compatible && c.flags&hasNFKD != 0 && (!n.compose || !n.sameDecomposition(r)):
		return false
	case n.compose:
		return c.flags&isComposed != 0
	case n.compatible:
		return c.combines == 0
	}
	return c.flags&hasNFD == 0 && c.combines == 0
}

// sameDecomposition reports whether the canonical and the compatible decomposition agree.
func (n *unicodeNormalizer) sameDecomposition(r rune) bool {
	_, ok := ucd.nfkd[r]
	return !ok
}

// stableNext reports whether s is empty or begins with a stable character.
func (n *unicodeNormalizer) stableNext(s []byte) bool {
	r, _ := utf8.DecodeRune(s)
	return len(s) == 0 || n.isStable(r)
}

// stable returns the offset, from i on, of the first character that the algorithm may change.
func (n *unicodeNormalizer) stable(s []byte, i int) int {
	last := i // where the character before i begins, which a composition may change
	for i < len(s) {
		if s[i] < 0x80 {
			last = i
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if !n.isStable(r) {
			if n.compose {
				return last
			}
			return i
		}
		last = i
		i += size
	}
	return len(s)
}

// run applies the algorithm to a part of a text.
func (n *unicodeNormalizer) run(e *edit, s []byte, sc *scratch) {
	runes := sc.runes[:0]
	pending := 0 // where the characters begin that are not in canonical order yet
	push := func(r rune, change int32) {
		k := ucd.of(r).combines
		if k == 0 {
			sortCombining(runes[pending:], sc)
			pending = len(runes) + 1
		}
		if sc.runes = runes; extend(sc, &sc.runes, 1) {
			runes = append(sc.runes, marked{r, change, k})
		}
	}
	for i := 0; i < len(s) && sc.step(1); {
		r, size := utf8.DecodeRune(s[i:])
		i += size
		d, ok := decompose(r, n.compatible)
		if !ok {
			push(r, 0)
			continue
		}
		for k, r := range d {
			push(r, int32(min(k, 1)))
		}
	}
	sortCombining(runes[min(pending, len(runes)):], sc)
	sc.runes = runes
	if !n.compose {
		for _, m := range runes {
			e.put(m.r, int(m.change))
		}
		return
	}
	if sc.order = sc.order[:0]; !extend(sc, &sc.order, len(runes)) {
		return
	}
	if sc.order = compose(runes, sc.order); !sc.step(len(runes)) {
		return
	}
	for _, m := range sc.order {
		e.put(m.r, int(m.change))
	}
}

func sortCombining(runes []marked, sc *scratch) {
	if len(runes) > 1 {
		slices.SortStableFunc(runes, func(a, b marked) int {
			if !sc.step(1) {
				return 0 // the rest is quick
			}
			return int(a.combines) - int(b.combines)
		})
	}
}

const (
	hangulBase  = 0xAC00
	hangulL     = 0x1100
	hangulV     = 0x1161
	hangulT     = 0x11A7
	hangulVT    = 21 * 28
	hangulCount = 19 * hangulVT
)

// decompose returns the full decomposition of r, if it has one.
func decompose(r rune, compatible bool) ([]rune, bool) {
	if k := r - hangulBase; k >= 0 && k < hangulCount {
		d := []rune{hangulL + k/hangulVT, hangulV + k%hangulVT/28, hangulT + k%28}
		if k%28 == 0 {
			d = d[:2]
		}
		return d, true
	}
	if r < 0x80 {
		return nil, false
	}
	p := ucd.props(r)
	if compatible && p&hasNFKD != 0 {
		if d, ok := ucd.nfkd[r]; ok {
			return d, true
		}
	}
	if p&hasNFD != 0 {
		return ucd.nfd[r], true
	}
	return nil, false
}

// composite returns the primary composite of two characters.
func composite(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < 19 && v >= 0 && v < 21 {
		return hangulBase + (l*21+v)*28, true
	}
	if k, t := a-hangulBase, b-hangulT; k >= 0 && k < hangulCount && k%28 == 0 && t > 0 && t < 28 {
		return a + t, true
	}
	r, ok := ucd.compose[uint64(a)<<32|uint64(b)]
	return r, ok
}

// compose appends the composition of a decomposed text. The changes of the characters that
// a composite replaces add up.
func compose(runes, out []marked) []marked {
	starter := -1 // index in out of the last starter
	last := -1    // combining class of the last character kept after the starter
	for _, m := range runes {
		if starter >= 0 && (last < 0 || last < int(m.combines)) {
			if r, ok := composite(out[starter].r, m.r); ok {
				out[starter].r = r
				out[starter].change += m.change - 1
				continue
			}
		}
		if m.combines == 0 {
			starter, last = len(out), -1
		} else if starter >= 0 {
			last = int(m.combines)
		}
		out = append(out, m)
	}
	return out
}
