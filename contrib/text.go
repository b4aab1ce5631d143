package contrib

import (
	"slices"
	"strings"
)

// decodeText returns the code points of a UTF-8 text as ONNX Runtime Extensions decodes it:
// continuation bytes are not checked, and a byte that begins no character that ends in the text
// becomes U+FFFD.
func decodeText(s string) []rune {
	out := make([]rune, 0, len(s))
	for i := 0; i < len(s); {
		c, left := rune(s[i]), len(s)-i
		part := func(k int) rune { return rune(s[i+k] & 0x3F) }
		switch {
		case c < 0x80:
			i++
		case c&0xE0 == 0xC0 && left >= 2:
			c = c&0x1F<<6 | part(1)
			i += 2
		case c&0xF0 == 0xE0 && left >= 3:
			c = c&0x0F<<12 | part(1)<<6 | part(2)
			i += 3
		case c&0xF8 == 0xF0 && left >= 4:
			c = c&0x07<<18 | part(1)<<12 | part(2)<<6 | part(3)
			i += 4
		default:
			c = 0xFFFD
			i++
		}
		out = append(out, c)
	}
	return out
}

// encodeText is the inverse of decodeText. It also encodes what is not a character.
func encodeText(text []rune) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		writeRune(&b, r)
	}
	return b.String()
}

func writeRune(b *strings.Builder, r rune) {
	tail := func(shift int) byte { return byte(0x80 | r>>shift&0x3F) }
	switch {
	case r < 0x80:
		b.WriteByte(byte(r))
	case r < 0x800:
		b.Write([]byte{byte(0xC0 | r>>6), tail(0)})
	case r < 0x10000:
		b.Write([]byte{byte(0xE0 | r>>12), tail(6), tail(0)})
	default:
		b.Write([]byte{byte(0xF0 | r>>18), tail(12), tail(6), tail(0)})
	}
}

// fields splits a string at each of the separators and drops empty parts.
func fields(s, separators string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) })
}

// between reports whether one of the closed ranges of pairs, in ascending order, contains r.
func between(pairs []rune, r rune) bool {
	k, exact := slices.BinarySearch(pairs, r)
	return exact || k&1 == 1
}

// The classes of characters that the operators for texts use. They are not those of Unicode.
var (
	spaces = []rune{9, 10, 13, 13, 32, 32, 160, 160, 8192, 8202, 8239, 8239, 8287, 8287, 12288, 12288}
	puncts = []rune{
		33, 47, 58, 64, 91, 96, 123, 126, 161, 161, 167, 167, 171, 171, 182, 183, 187, 187, 191, 191, 894, 894,
		903, 903, 8208, 8231, 8240, 8259, 8261, 8273, 8275, 8286, 12289, 12291, 12296, 12305, 12308, 12319, 12336,
		12336, 12349, 12349,
	}
	control = []rune{
		0, 8, 11, 12, 14, 31, 128, 159, 173, 173, 888, 889, 896, 899, 907, 907, 909, 909, 930, 930, 8203, 8207,
		8234, 8238, 8288, 8302, 11930, 11930, 12020, 12030, 40957, 40958, 64110, 64111, 64218, 64254, 173790,
		173790, 177973, 177982, 178206, 178207, 183970, 183982, 195102, 195102,
	}
	chinese = []rune{
		0x3400, 0x4DBF, 0x4E00, 0x9FFF, 0xF900, 0xFAFF, 0x20000, 0x2A6DF, 0x2A700, 0x2B73F, 0x2B740, 0x2B81F,
		0x2B820, 0x2CEAF, 0x2F800, 0x2FA1F,
	}
)

// lower converts ASCII, Latin-1 and parts of Greek and Cyrillic to lowercase.
func lower(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z', r >= 'À' && r <= 'Þ' && r != '×', r >= 'Ἀ' && r <= 'Ὠ', r >= 'А' && r <= 'Я':
		return r + 32
	case strings.ContainsRune("ΙΚΛΜΝΟΠ", r):
		return r + 32
	}
	return r
}

// unaccented are the letters of U+00C0 to U+00FF without accents.
var unaccented = []rune("AAAAAAÆCEEEEIIIIÐNOOOOO×ØUUUUYÞßaaaaaaæceeeeiiiiðnooooo÷øuuuuyþy")

func unaccent(r rune) rune {
	if r >= 0xC0 && r <= 0xFF {
		return unaccented[r-0xC0]
	}
	return r
}
