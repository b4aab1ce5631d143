package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// TestUnicodeTables compares the properties and mappings of all code points with a recorded
// hash. TestComponents compares them with tokenizers itself.
func TestUnicodeTables(t *testing.T) {
	loadTables()
	h := sha256.New()
	put := func(v ...uint32) {
		for _, v := range v {
			h.Write(binary.LittleEndian.AppendUint32(nil, v))
		}
	}
	pairs := 0
	for r := rune(0); r <= maxRune; r++ {
		c := ucd.of(r)
		put(uint32(c.flags), uint32(c.category), uint32(c.group), uint32(c.combines), uint32(c.grapheme))
		h.Write([]byte(ucd.scripts[c.script]))
		for _, m := range []map[rune][]rune{ucd.nfd, ucd.nfkd, ucd.lower} {
			for _, d := range m[r] {
				put(uint32(d))
			}
		}
		if d := ucd.nfd[r]; len(d) == 2 {
			if c, ok := composite(d[0], d[1]); ok {
				pairs++
				put(uint32(c))
			}
		}
	}
	const want = "b18a4e9b5d1b6c4fab4c426293e01294539876a1343b4c38d29776ba79e17c6c"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash of the Unicode tables is %s, want %s", got, want)
	}
	if pairs < 700 || len(ucd.compose) != 940 {
		t.Errorf("%d and %d compositions, want at least 700 and 940", pairs, len(ucd.compose))
	}
}

func TestUnicodeSamples(t *testing.T) {
	loadTables()
	for _, c := range []struct {
		r        rune
		category string
		has, not property
	}{
		{'a', "Ll", onigLetter | onigLower | regexWord | onigWord, onigUpper | isSpace},
		{'Ⅷ', "Nl", isNumeric | onigNumber, onigDigit},
		{'\u00A0', "Zs", isSpace | onigSpace | regexSpace, regexWord},
		{'\u0301', "Mn", isNonspacing | isMark | onigMark | composesLast, onigLetter},
		{'$', "Sc", isPunct, onigLetter},
		{'\u200B', "Cf", isOther, isSpace},
		{'\u00E9', "Ll", hasNFD | isComposed, hasLower},
		{'İ', "Lu", hasLower, onigLower},
	} {
		p := ucd.of(c.r)
		if categories[p.category] != c.category || p.flags&c.has != c.has || p.flags&c.not != 0 {
			t.Errorf("%q: category %s, flags %b; want %s, with %b, without %b", c.r, categories[p.category], p.flags,
				c.category, c.has, c.not)
		}
	}
}

func TestGraphemeClusters(t *testing.T) {
	loadTables()
	for s, want := range map[string][]string{
		"ab":                                    {"a", "b"},
		"\r\n\n":                                {"\r\n", "\n"},
		"e\u0301x":                              {"e\u0301", "x"},
		"\U0001F1E9\U0001F1EA\U0001F1EB":        {"\U0001F1E9\U0001F1EA", "\U0001F1EB"},
		"\U0001F468\u200D\U0001F469x":           {"\U0001F468\u200D\U0001F469", "x"},
		"\u1112\u1161\u11AB\u1100":              {"\u1112\u1161\u11AB", "\u1100"},
		"\u0915\u094D\u0937":                    {"\u0915\u094D\u0937"},
		"\u0600a\u0600":                         {"\u0600a", "\u0600"},
		"\uAC00\u11A8\uAC01\u11A8\u1161":        {"\uAC00\u11A8", "\uAC01\u11A8", "\u1161"},
		"\u00A9\u0308\u200D\u00A9a\u200D\u00A9": {"\u00A9\u0308\u200D\u00A9", "a\u200D", "\u00A9"},
	} {
		var got []string
		for b := []byte(s); len(b) > 0; {
			n := nextGrapheme(b)
			got = append(got, string(b[:n]))
			b = b[n:]
		}
		if len(got) != len(want) {
			t.Errorf("%+q: %+q, want %+q", s, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%+q: %+q, want %+q", s, got, want)
			}
		}
	}
}
