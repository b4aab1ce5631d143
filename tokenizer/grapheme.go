package tokenizer

import "unicode/utf8"

// graphemeClass is a value of the property Grapheme_Cluster_Break.
type graphemeClass uint8

const (
	graphemeOther graphemeClass = iota
	graphemeCR
	graphemeLF
	graphemeControl
	graphemeExtend
	graphemeZWJ
	graphemeRegional
	graphemePrepend
	graphemeSpacingMark
	graphemeL
	graphemeV
	graphemeT
	graphemeLV
	graphemeLVT
)

// nextGrapheme returns the length of the extended grapheme cluster at the start of s
// (https://www.unicode.org/reports/tr29/). s is valid UTF-8 and not empty.
func nextGrapheme(s []byte) int {
	r, n := utf8.DecodeRune(s)
	prev := ucd.of(r)
	regional := 0 // regional indicators in a row, up to prev
	if prev.grapheme == graphemeRegional {
		regional = 1
	}
	pictographic := prev.flags&isPictographic != 0 // \p{ExtPict} Extend* up to prev
	joined := false                                // \p{ExtPict} Extend* ZWJ up to prev
	consonant := prev.flags&conjunctConsonant != 0 // Consonant [Extend Linker]* up to prev
	linked := false                                // with at least one Linker
	for n < len(s) {
		r, size := utf8.DecodeRune(s[n:])
		c := ucd.of(r)
		if !joins(prev.grapheme, c.grapheme) &&
			!(joined && c.flags&isPictographic != 0) &&
			!(prev.grapheme == graphemeRegional && c.grapheme == graphemeRegional && regional%2 == 1) &&
			!(consonant && linked && c.flags&conjunctConsonant != 0) {
			return n
		}
		joined = pictographic && c.grapheme == graphemeZWJ
		pictographic = c.flags&isPictographic != 0 || pictographic && c.grapheme == graphemeExtend
		if c.grapheme == graphemeRegional {
			regional++
		} else {
			regional = 0
		}
		switch {
		case c.flags&conjunctConsonant != 0:
			consonant, linked = true, false
		case c.flags&conjunctLinker != 0:
			linked = linked || consonant
		case c.flags&conjunctExtend == 0:
			consonant, linked = false, false
		}
		prev = c
		n += size
	}
	return n
}

// joins reports whether rules GB3 to GB9b forbid a break between two code points.
func joins(a, b graphemeClass) bool {
	switch {
	case a == graphemeCR:
		return b == graphemeLF
	case a == graphemeLF || a == graphemeControl || b == graphemeCR || b == graphemeLF || b == graphemeControl:
		return false
	case b == graphemeExtend || b == graphemeZWJ || b == graphemeSpacingMark || a == graphemePrepend:
		return true
	case a == graphemeL:
		return b == graphemeL || b == graphemeV || b == graphemeLV || b == graphemeLVT
	case a == graphemeLV || a == graphemeV:
		return b == graphemeV || b == graphemeT
	case a == graphemeLVT || a == graphemeT:
		return b == graphemeT
	}
	return false
}
