package contrib

// matcher returns how many characters at the start of a text, which is not empty, match a
// pattern. The matchers are those of ONNX Runtime Extensions, which differ from their patterns
// in places: white space is \p{Z} and five controls, and they do not backtrack.
type matcher func(text []rune) int

func isLetter(r rune) bool  { return between(letters, r) }
func isNumber(r rune) bool  { return between(numbers, r) }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }

func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return r >= 0x2000 && r <= 0x200A
}

// isOther is [^\s\p{L}\p{N}].
func isOther(r rune) bool { return !isSpace(r) && !isLetter(r) && !isNumber(r) }

// run returns the end of the characters of a class from from on.
func run(text []rune, from int, class func(rune) bool) int {
	for from < len(text) && class(text[from]) {
		from++
	}
	return from
}

// afterSpace matches " ?[class]+".
func afterSpace(text []rune, class func(rune) bool) int {
	from := 0
	if text[0] == ' ' {
		from = 1
	}
	if end := run(text, from, class); end > from {
		return end
	}
	return 0
}

// matchContraction matches 's|'t|'re|'ve|'m|'ll|'d.
func matchContraction(text []rune) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) > 2 {
		switch string(text[1:3]) {
		case "re", "ve", "ll":
			return 3
		}
	}
	return 0
}

// matchContractions is matchContraction for letters of both cases.
func matchContractions(text []rune) int {
	var low [3]rune
	n := copy(low[:], text)
	for i, r := range low[:n] {
		if r >= 'A' && r <= 'Z' {
			low[i] = r + 32
		}
	}
	return matchContraction(low[:n])
}

// matchWordOrNumber matches " ?\p{L}+| ?\p{N}+".
func matchWordOrNumber(text []rune) int {
	if n := afterSpace(text, isLetter); n > 0 {
		return n
	}
	return afterSpace(text, isNumber)
}

// matchOther matches " ?[^\s\p{L}\p{N}]+".
func matchOther(text []rune) int { return afterSpace(text, isOther) }

// matchOtherLines matches " ?[^\s\p{L}\p{N}]+[\r\n]*".
func matchOtherLines(text []rune) int {
	if n := matchOther(text); n > 0 {
		return run(text, n, isNewline)
	}
	return 0
}

// matchSpaces matches "\s+(?!\S)|\s+".
func matchSpaces(text []rune) int {
	n := run(text, 0, isSpace)
	if n > 1 && n < len(text) {
		n--
	}
	return n
}

// matchLines matches "\s*[\r\n]+".
func matchLines(text []rune) int {
	if n := run(text, 0, isSpace); n > 1 && isNewline(text[n-1]) {
		return n
	}
	return run(text, 0, isNewline)
}

// matchWord matches "[^\r\n\p{L}\p{N}]?\p{L}+".
func matchWord(text []rune) int {
	if isLetter(text[0]) || !isNewline(text[0]) && !isNumber(text[0]) && len(text) > 1 && isLetter(text[1]) {
		return run(text, 1, isLetter)
	}
	return 0
}

// matchDigits matches "\p{N}{1,3}".
func matchDigits(text []rune) int { return min(run(text, 0, isNumber), 3) }

var (
	splitGPT2  = []matcher{matchContraction, matchWordOrNumber, matchOther, matchSpaces}
	splitLlama = []matcher{matchContractions, matchWord, matchDigits, matchOtherLines, matchLines, matchSpaces}
)

// next returns the size of the first part of a text, at least 1.
func next(text []rune, list []matcher) int {
	for _, m := range list {
		if n := m(text); n > 0 {
			return n
		}
	}
	return 1
}
