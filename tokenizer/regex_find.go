package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// matches divides s into matches of p and what is between them. The result is valid until
// the next call with the same scratch.
func (p *splitPattern) matches(s []byte, sc *scratch) ([]splitRange, error) {
	sc.ranges = sc.ranges[:0]
	last := 0 // the end of the previous match
	switch {
	case p.literal != nil:
		for {
			k := bytes.Index(s[last:], p.literal)
			if k < 0 || !sc.divide(last, last+k, last+k+len(p.literal)) {
				break
			}
			last += k + len(p.literal)
		}
	case p.scan != nil:
		for i := 0; i < len(s); {
			end := p.scan(s, i)
			if end < 0 {
				i += runeSize(s[i])
				continue
			}
			if !sc.divide(last, i, end) {
				break
			}
			i, last = end, end
		}
	default:
		sc.regex.sc, sc.regex.steps = sc, 1<<20+2000*len(s)
		previous := -1
		for i := 0; i <= len(s); {
			end, err := p.program.match(s, i, &sc.regex)
			if err != nil {
				return nil, err
			}
			if end < 0 || end == i && i == previous {
				if i == len(s) {
					break
				}
				i += runeSize(s[i])
				continue
			}
			if !sc.divide(last, i, end) {
				break
			}
			i, last, previous = end, end, end
		}
	}
	return sc.divided(last, len(s))
}

// Patterns that scanners written by hand implement.
const (
	patternGPT2     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200k    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternDeepSeek = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n" +
		"\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
	patternCLIP    = `<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	patternDigits3 = `\p{N}{1,3}`
	patternASCII3  = `[0-9][0-9][0-9]`
	patternKanaHan = `[一-龥぀-ゟ゠-ヿ]+`
	patternSpaces  = `\s+`
)

var scanners = map[string]func(s []byte, i int) int{
	patternGPT2:     scanGPT2,
	patternLlama3:   func(s []byte, i int) int { return scanLlama(s, i, 3) },
	patternQwen:     func(s []byte, i int) int { return scanLlama(s, i, 1) },
	patternO200k:    scanO200k,
	patternDeepSeek: scanDeepSeek,
	patternCLIP:     scanCLIP,
	patternDigits3:  func(s []byte, i int) int { return scanUpTo(s, i, onigNumber, 3) },
	patternASCII3: func(s []byte, i int) int {
		if i+3 <= len(s) && isDigit(s[i]) && isDigit(s[i+1]) && isDigit(s[i+2]) {
			return i + 3
		}
		return -1
	},
	patternKanaHan: func(s []byte, i int) int {
		end := -1
		for i < len(s) && s[i] >= 0xE3 && s[i] <= 0xE9 {
			r, n := utf8.DecodeRune(s[i:])
			if !(r >= '一' && r <= '龥' || r >= 0x3040 && r <= 0x30FF) {
				break
			}
			i += n
			end = i
		}
		return end
	},
	patternSpaces: func(s []byte, i int) int { return scanUpTo(s, i, onigSpace, len(s)) },
}

// builtinPattern returns the scanner for a pattern, if there is one.
func builtinPattern(expr string) *splitPattern {
	if f := scanners[expr]; f != nil {
		return &splitPattern{scan: f}
	}
	return nil
}

func isDigit(c byte) bool       { return c >= '0' && c <= '9' }
func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// peek returns the properties and the size of the character at i, or 0, 0 at the end.
func peek(s []byte, i int) (property, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return ucd.ascii[c], 1
	}
	r, n := utf8.DecodeRune(s[i:])
	return ucd.of(r).flags, n
}

// skipAll returns the end of the characters at i that have a property.
func skipAll(s []byte, i int, p property) int {
	for {
		q, n := peek(s, i)
		if q&p == 0 {
			return i
		}
		i += n
	}
}

// skipNone returns the end of the characters at i that have none of some properties.
func skipNone(s []byte, i int, p property) int {
	for {
		q, n := peek(s, i)
		if n == 0 || q&p != 0 {
			return i
		}
		i += n
	}
}

// scanUpTo matches 1 to limit characters of a property.
func scanUpTo(s []byte, i int, p property, limit int) int {
	end := -1
	for ; limit > 0; limit-- {
		q, n := peek(s, i)
		if q&p == 0 {
			break
		}
		i += n
		end = i
	}
	return end
}

func skipNewlines(s []byte, i int, also byte) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n' || s[i] == also) {
		i++
	}
	return i
}

// contraction returns the end of an English contraction at i, or -1: 's 't 're 've 'm 'll 'd.
func contraction(s []byte, i int) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return -1
	}
	switch s[i+1] {
	case 's', 't', 'm', 'd':
		return i + 2
	}
	if i+2 < len(s) {
		a, b := s[i+1], s[i+2]
		if (a == 'r' || a == 'v') && b == 'e' || a == 'l' && b == 'l' {
			return i + 3
		}
	}
	return -1
}

// contractionFold is contraction for letters of either case, and the long s.
func contractionFold(s []byte, i int) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return -1
	}
	switch s[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	}
	if i+2 < len(s) {
		if s[i+1] == 0xC5 && s[i+2] == 0xBF { // U+017F
			return i + 3
		}
		a, b := s[i+1]|0x20, s[i+2]|0x20
		if (a == 'r' || a == 'v') && b == 'e' || a == 'l' && b == 'l' {
			return i + 3
		}
	}
	return -1
}

// spaces matches \s+(?!\S)|\s+ at i, or returns -1.
func spaces(s []byte, i int) int {
	end, last := i, i
	for {
		q, n := peek(s, end)
		if q&onigSpace == 0 {
			if end == i {
				return -1
			}
			if n == 0 || last == i {
				return end
			}
			return last
		}
		last = end
		end += n
	}
}

// spacesAndLines matches \s*[\r\n]+|\s+(?!\S)|\s+ at i, or returns -1.
func spacesAndLines(s []byte, i int) int {
	line := -1
	for end := i; ; {
		q, n := peek(s, end)
		if q&onigSpace == 0 {
			break
		}
		if s[end] == '\n' || s[end] == '\r' {
			line = end + 1
		}
		end += n
	}
	if line >= 0 {
		return line
	}
	return spaces(s, i)
}

func scanGPT2(s []byte, i int) int {
	if end := contraction(s, i); end >= 0 {
		return end
	}
	at := i
	if s[i] == ' ' {
		at++
	}
	q, n := peek(s, at)
	switch {
	case n == 0 || q&onigSpace != 0:
		return spaces(s, i)
	case q&onigLetter != 0:
		return skipAll(s, at+n, onigLetter)
	case q&onigNumber != 0:
		return skipAll(s, at+n, onigNumber)
	}
	return skipNone(s, at+n, onigSpace|onigLetter|onigNumber)
}

func scanLlama(s []byte, i, digits int) int {
	if end := contractionFold(s, i); end >= 0 {
		return end
	}
	q, n := peek(s, i)
	if q&onigLetter != 0 {
		return skipAll(s, i+n, onigLetter)
	}
	if q&onigNumber != 0 {
		return scanUpTo(s, i, onigNumber, digits)
	}
	next, m := peek(s, i+n)
	if next&onigLetter != 0 && s[i] != '\r' && s[i] != '\n' {
		return skipAll(s, i+n+m, onigLetter)
	}
	return scanSymbols(s, i, q, next, n, '\n')
}

// scanSymbols matches ␣?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ at i, where q and next
// are the properties of the first two characters.
func scanSymbols(s []byte, i int, q, next property, n int, also byte) int {
	const no = onigSpace | onigLetter | onigNumber
	if q&onigSpace == 0 {
		return skipNewlines(s, skipNone(s, i+n, no), also)
	}
	if s[i] == ' ' && i+1 < len(s) && next&no == 0 {
		return skipNewlines(s, skipNone(s, i+1, no), also)
	}
	return spacesAndLines(s, i)
}

func scanO200k(s []byte, i int) int {
	q, n := peek(s, i)
	next, _ := peek(s, i+n)
	optional := q&(onigLetter|onigNumber) == 0 && s[i] != '\r' && s[i] != '\n'
	end := -1
	if optional && next&(onigUpper|onigLower) != 0 {
		end = lowerWord(s, i+n)
	}
	if end < 0 && q&(onigUpper|onigLower) != 0 {
		end = lowerWord(s, i)
	}
	if end < 0 && optional && next&onigUpper != 0 {
		end = skipAll(s, i+n, onigUpper)
	}
	if end < 0 && q&onigUpper != 0 {
		end = skipAll(s, i, onigUpper)
	}
	if end >= 0 {
		if e := contractionFold(s, end); e >= 0 {
			return e
		}
		return end
	}
	if q&onigNumber != 0 {
		return scanUpTo(s, i, onigNumber, 3)
	}
	return scanSymbols(s, i, q, next, n, '/')
}

// lowerWord matches a run of onigUpper and then at least one of onigLower at i, or returns -1.
func lowerWord(s []byte, i int) int {
	last := -1 // after the last character of the run that is in both classes
	for {
		q, n := peek(s, i)
		if q&onigUpper == 0 {
			if q&onigLower != 0 {
				return skipAll(s, i+n, onigLower)
			}
			return last
		}
		i += n
		if q&onigLower != 0 {
			last = i
		}
	}
}

func scanDeepSeek(s []byte, i int) int {
	c := s[i]
	if c < utf8.RuneSelf && ucd.ascii[c]&onigPunctSym != 0 && i+1 < len(s) && isASCIILetter(s[i+1]) {
		i += 2
		for i < len(s) && isASCIILetter(s[i]) {
			i++
		}
		return i
	}
	q, n := peek(s, i)
	next, _ := peek(s, i+n)
	const word = onigLetter | onigMark
	if q&(onigLetter|onigPunctSym) == 0 && c != '\r' && c != '\n' && next&word != 0 || q&word != 0 {
		return skipAll(s, i+n, word)
	}
	if q&onigPunctSym != 0 {
		return skipNewlines(s, skipAll(s, i+n, onigPunctSym), '\n')
	}
	if c == ' ' && next&onigPunctSym != 0 {
		return skipNewlines(s, skipAll(s, i+n, onigPunctSym), '\n')
	}
	return spacesAndLines(s, i)
}

func scanCLIP(s []byte, i int) int {
	for _, t := range [...]string{"<|startoftext|>", "<|endoftext|>"} {
		if s[i] == '<' && bytes.HasPrefix(s[i:], []byte(t)) {
			return i + len(t)
		}
	}
	if end := contraction(s, i); end >= 0 {
		return end
	}
	q, n := peek(s, i)
	switch {
	case q&onigLetter != 0:
		return skipAll(s, i+n, onigLetter)
	case q&onigNumber != 0:
		return i + n
	case q&onigSpace != 0:
		return -1
	}
	return skipNone(s, i+n, onigSpace|onigLetter|onigNumber)
}
