package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a regular expression: nesting, instructions, bytes, repetitions, and sets in classes,
// each of which is asked for a character.
const (
	regexDepth  = 64
	regexSize   = 1 << 14
	regexBytes  = 1 << 14
	regexRepeat = 1000
	regexSets   = 1 << 10
)

// node is a part of a parsed regular expression.
type node struct {
	op       nodeKind
	set      *runeSet
	list     []*node
	kind     int // of an assertion or a lookaround
	min, max int // of a repetition; max < 0: no limit
	lazy     bool
}

type nodeKind uint8

const (
	nodeEmpty nodeKind = iota
	nodeSet
	nodeConcat
	nodeAlternate
	nodeRepeat
	nodeAtomic
	nodeLook
	nodeAssert
)

type regexParser struct {
	s     string
	pos   int
	depth int
	sets  int  // in classes
	fold  bool // (?i)
	last  rune // the letter before, under (?i), for multi-character case folding
}

// parseRegex compiles a pattern of Oniguruma's Ruby syntax. Constructs beyond the subset that
// tokenizer files use are errors.
func parseRegex(expr string) (*program, error) {
	loadTables()
	if len(expr) > regexBytes {
		return nil, fmt.Errorf("it has %d bytes, want at most %d", len(expr), regexBytes)
	}
	if !utf8.ValidString(expr) {
		return nil, errors.New("not valid UTF-8")
	}
	p := &regexParser{s: expr}
	n, err := p.alternate()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.s) {
		return nil, errors.New("unmatched )")
	}
	c := &regexCompiler{p: &program{}, sets: map[*runeSet]int{}}
	if err := c.emit(n); err != nil {
		return nil, err
	}
	c.add(instruction{op: opMatch})
	c.p.width = make([]int, len(c.p.code))
	for pc, w := range c.width {
		c.p.width[pc] = w
	}
	return c.p, nil
}

func (p *regexParser) peek() (rune, int) {
	if p.pos >= len(p.s) {
		return -1, 0
	}
	return utf8.DecodeRuneInString(p.s[p.pos:])
}

func (p *regexParser) next() rune {
	r, n := p.peek()
	p.pos += n
	return r
}

func (p *regexParser) accept(s string) bool {
	if strings.HasPrefix(p.s[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *regexParser) alternate() (*node, error) {
	if p.depth++; p.depth > regexDepth {
		return nil, fmt.Errorf("nesting exceeds %d", regexDepth)
	}
	defer func() { p.depth-- }()
	fold := p.fold
	defer func() { p.fold = fold }()
	n := &node{op: nodeAlternate}
	for {
		c, err := p.concat()
		if err != nil {
			return nil, err
		}
		n.list = append(n.list, c)
		p.last = 0
		if !p.accept("|") {
			break
		}
	}
	if len(n.list) == 1 {
		return n.list[0], nil
	}
	return n, nil
}

func (p *regexParser) concat() (*node, error) {
	n := &node{op: nodeConcat}
	p.last = 0
	for {
		r, _ := p.peek()
		if r < 0 || r == '|' || r == ')' {
			return n, nil
		}
		atom, err := p.atom()
		if err != nil {
			return nil, err
		}
		if atom, err = p.quantifiers(atom); err != nil {
			return nil, err
		}
		n.list = append(n.list, atom)
	}
}

func (p *regexParser) quantifiers(n *node) (*node, error) {
	for {
		lo, hi := 0, -1
		interval := false
		switch {
		case p.accept("*"):
		case p.accept("+"):
			lo = 1
		case p.accept("?"):
			hi = 1
		default:
			ok, err := p.interval(&lo, &hi)
			if err != nil {
				return nil, err
			}
			if !ok {
				return n, nil
			}
			interval = true
		}
		p.last = 0
		if n.op == nodeAssert || n.op == nodeLook {
			return nil, errors.New("a repeated assertion is not supported")
		}
		if n.op == nodeRepeat && !interval && n.max != 0 {
			return nil, errors.New("a repeated quantifier is not supported")
		}
		n = &node{op: nodeRepeat, list: []*node{n}, min: lo, max: hi}
		switch {
		case p.accept("?"):
			if interval && lo == hi {
				return nil, errors.New("the quantifier {n}? is not supported")
			}
			n.lazy = true
		case !interval && p.accept("+"):
			n = &node{op: nodeAtomic, list: []*node{n}}
		case interval && p.accept("+"): // Ruby: a repetition of the interval
			n = &node{op: nodeRepeat, list: []*node{n}, min: 1, max: -1}
		}
		if r, _ := p.peek(); r == '*' || r == '+' || r == '?' {
			return nil, errors.New("a repeated quantifier is not supported")
		}
	}
}

// interval parses {n}, {n,}, {n,m} or {,m}. Other braces are literals.
func (p *regexParser) interval(lo, hi *int) (bool, error) {
	rest := p.s[p.pos:]
	end := strings.IndexByte(rest, '}')
	if !strings.HasPrefix(rest, "{") || end < 0 {
		return false, nil
	}
	a, b, comma := strings.Cut(rest[1:end], ",")
	number := func(s string, v *int) bool {
		n := 0
		for _, c := range []byte(s) {
			if !isDigit(c) {
				return false
			}
			n = min(n*10+int(c-'0'), regexRepeat+1)
		}
		*v = n
		return true
	}
	if a == "" && b == "" || !number(a, lo) || !number(b, hi) {
		return false, nil
	}
	switch {
	case !comma:
		*hi = *lo
	case b == "":
		*hi = -1
	}
	if *lo > regexRepeat || *hi > regexRepeat || *hi >= 0 && *hi < *lo {
		return false, fmt.Errorf("repetition {%s} is not supported", rest[1:end])
	}
	p.pos += end + 1
	return true, nil
}

func (p *regexParser) atom() (*node, error) {
	switch r := p.next(); r {
	case '(':
		return p.group()
	case '[':
		set, err := p.class()
		if err != nil {
			return nil, err
		}
		p.last = 0
		return &node{op: nodeSet, set: newRuneSet(set)}, nil
	case '.':
		p.last = 0
		return &node{op: nodeSet, set: newRuneSet(func(r rune) bool { return r != '\n' })}, nil
	case '^':
		return &node{op: nodeAssert, kind: assertLineStart}, nil
	case '$':
		return &node{op: nodeAssert, kind: assertLineEnd}, nil
	case '\\':
		switch c, _ := p.peek(); c {
		case 'b', 'B', 'A', 'z', 'Z':
			p.next()
			kind := map[rune]int{'b': assertWordBoundary, 'B': assertNoWordBoundary, 'A': assertTextStart,
				'z': assertTextEnd, 'Z': assertLastLineEnd}[c]
			return &node{op: nodeAssert, kind: kind}, nil
		}
		r, set, err := p.escape()
		if err != nil {
			return nil, err
		}
		if set != nil {
			p.last = 0
			return &node{op: nodeSet, set: newRuneSet(set)}, nil
		}
		return p.literal(r)
	case '*', '+', '?':
		return nil, fmt.Errorf("quantifier %c without a target", r)
	default:
		return p.literal(r)
	}
}

// folds lists pairs of letters that a single character folds to, so that case-insensitive
// matching of them would need more than one character.
const folds = "ss ff fi fl st"

func (p *regexParser) literal(r rune) (*node, error) {
	if !p.fold {
		return &node{op: nodeSet, set: newRuneSet(func(c rune) bool { return c == r })}, nil
	}
	if r >= utf8.RuneSelf {
		return nil, fmt.Errorf("(?i) with %q is not supported", r)
	}
	lower := r
	if isASCIILetter(byte(r)) {
		lower |= 0x20
	}
	if p.last != 0 && strings.Contains(folds, string([]rune{p.last, lower})) {
		return nil, fmt.Errorf("(?i) with %q is not supported", string([]rune{p.last, lower}))
	}
	p.last = lower
	return &node{op: nodeSet, set: newRuneSet(foldSet(func(c rune) bool { return c == r }))}, nil
}

// foldSet adds the characters of the other case to a set of ASCII characters.
func foldSet(has func(r rune) bool) func(r rune) bool {
	return func(r rune) bool {
		switch {
		case has(r):
			return true
		case r == 0x17F:
			return has('s') || has('S')
		case r == 0x212A:
			return has('k') || has('K')
		case r >= utf8.RuneSelf || !isASCIILetter(byte(r)):
			return false
		}
		return has(r ^ 0x20)
	}
}

func (p *regexParser) group() (*node, error) {
	kind, atomic := -1, false
	switch {
	case p.accept("?#"):
		end := strings.IndexByte(p.s[p.pos:], ')')
		if end < 0 {
			return nil, errors.New("missing )")
		}
		p.pos += end + 1
		return &node{op: nodeConcat}, nil
	case p.accept("?:"):
	case p.accept("?="):
		kind = lookAhead
	case p.accept("?!"):
		kind = lookAheadNot
	case p.accept("?<="):
		kind = lookBehind
	case p.accept("?<!"):
		kind = lookBehindNot
	case p.accept("?>"):
		atomic = true
	case p.accept("?i:"):
		outer := p.fold
		p.fold = true
		defer func() { p.fold = outer }()
	case p.accept("?-i:"):
		outer := p.fold
		p.fold = false
		defer func() { p.fold = outer }()
	case p.accept("?i)"):
		// The option holds to the end of the group, with alternatives inside.
		p.fold = true
		n, err := p.alternate()
		if err != nil {
			return nil, err
		}
		return n, nil
	case p.accept("?<"):
		end := strings.IndexByte(p.s[p.pos:], '>')
		if end <= 0 {
			return nil, errors.New("group name is invalid")
		}
		p.pos += end + 1
	case p.accept("?"):
		end := min(p.pos+3, len(p.s))
		return nil, fmt.Errorf("group (?%s is not supported", p.s[p.pos:end])
	}
	n, err := p.alternate()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, errors.New("missing )")
	}
	p.last = 0
	switch {
	case kind >= 0:
		return &node{op: nodeLook, kind: kind, list: []*node{n}}, nil
	case atomic:
		return &node{op: nodeAtomic, list: []*node{n}}, nil
	}
	return &node{op: nodeConcat, list: []*node{n}}, nil
}

// escape parses what follows a backslash: a character or a set.
func (p *regexParser) escape() (rune, func(r rune) bool, error) {
	property := func(q property, not bool) (rune, func(r rune) bool, error) {
		return 0, func(r rune) bool { return ucd.is(r, q) != not }, nil
	}
	switch r := p.next(); r {
	case -1:
		return 0, nil, errors.New("trailing backslash")
	case 't':
		return '\t', nil, nil
	case 'n':
		return '\n', nil, nil
	case 'r':
		return '\r', nil, nil
	case 'f':
		return '\f', nil, nil
	case 'v':
		return '\v', nil, nil
	case 'a':
		return '\a', nil, nil
	case 'e':
		return 0x1B, nil, nil
	case 'd', 'D':
		return property(onigDigit, r == 'D')
	case 's', 'S':
		return property(onigSpace, r == 'S')
	case 'w', 'W':
		return property(onigWord, r == 'W')
	case 'h':
		return 0, isHex, nil
	case 'H':
		return 0, func(r rune) bool { return !isHex(r) }, nil
	case 'x', 'u':
		return p.codePoint(r)
	case 'p', 'P':
		return p.property(r == 'P')
	default:
		if r < utf8.RuneSelf && (isASCIILetter(byte(r)) || isDigit(byte(r))) {
			return 0, nil, fmt.Errorf("escape \\%c is not supported", r)
		}
		return r, nil, nil
	}
}

// codePoint parses \xHH, \x{H…} or \uHHHH after its letter.
func (p *regexParser) codePoint(kind rune) (rune, func(r rune) bool, error) {
	lo, hi := 1, 2
	braces := kind == 'x' && p.accept("{")
	switch {
	case braces:
		hi = 8
	case kind == 'u':
		lo, hi = 4, 4
	}
	v, n := rune(0), 0
	for ; n < hi; n++ {
		r, _ := p.peek()
		if !isHex(r) {
			break
		}
		k := r - '0'
		if k > 9 {
			k = r | 0x20 - 'a' + 10
		}
		v = v<<4 | k
		p.next()
	}
	if n < lo || !utf8.ValidRune(v) || braces && !p.accept("}") || kind == 'x' && !braces && v >= utf8.RuneSelf {
		return 0, nil, fmt.Errorf("escape \\%c is invalid or not supported", kind)
	}
	return v, nil, nil
}

func isHex(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
}

// property parses {Name} or {^Name} after \p.
func (p *regexParser) property(not bool) (rune, func(r rune) bool, error) {
	rest := p.s[p.pos:]
	end := strings.IndexByte(rest, '}')
	if !strings.HasPrefix(rest, "{") || end < 0 {
		return 0, nil, errors.New(`\p must be followed by {name}`)
	}
	name := rest[1:end]
	p.pos += end + 1
	if strings.HasPrefix(name, "^") {
		name, not = name[1:], !not
	}
	var mask uint32
	for i, c := range categories {
		if c == name || len(name) == 1 && c[:1] == name {
			mask |= 1 << i
		}
	}
	if mask != 0 {
		return 0, func(r rune) bool { return mask>>ucd.of(r).category&1 == 1 != not }, nil
	}
	if k, ok := ucd.byScript[name]; ok {
		return 0, func(r rune) bool { return ucd.of(r).script == k != not }, nil
	}
	return 0, nil, fmt.Errorf("property \\p{%s} is not supported", name)
}

// class parses a bracket expression after its [.
func (p *regexParser) class() (func(r rune) bool, error) {
	if p.depth++; p.depth > regexDepth {
		return nil, fmt.Errorf("nesting exceeds %d", regexDepth)
	}
	defer func() { p.depth-- }()
	not := p.accept("^")
	var sets []func(r rune) bool    // of the part before the next &&
	var parts [][]func(r rune) bool // parts to intersect
	var ranges []runeRange
	flush := func() {
		if len(ranges) > 0 {
			in := inRanges(merged(ranges))
			if p.fold {
				in = foldSet(in)
			}
			sets = append(sets, in)
			ranges = nil
		}
		p.sets += len(sets)
		parts = append(parts, sets)
		sets = nil
	}
	first := true
	for ; ; first = false {
		if p.sets+len(sets) > regexSets {
			return nil, fmt.Errorf("classes have more than %d sets", regexSets)
		}
		r, _ := p.peek()
		switch {
		case r < 0:
			return nil, errors.New("missing ]")
		case r == ']' && !first:
			p.next()
			flush()
			return func(r rune) bool {
				for _, sets := range parts {
					in := false
					for _, has := range sets {
						if in = has(r); in {
							break
						}
					}
					if !in {
						return not
					}
				}
				return !not
			}, nil
		case r == ']':
			return nil, errors.New("empty class")
		case p.accept("&&"):
			flush()
			continue
		case p.accept("[:"):
			end := strings.Index(p.s[p.pos:], ":]")
			if end < 0 {
				return nil, errors.New("missing :]")
			}
			name := p.s[p.pos : p.pos+end]
			p.pos += end + 2
			q, ok := map[string]property{"alnum": onigAlnum, "digit": onigDigit, "space": onigSpace,
				"word": onigWord}[name]
			if !ok {
				return nil, fmt.Errorf("class [:%s:] is not supported", name)
			}
			sets = append(sets, func(r rune) bool { return ucd.is(r, q) })
			continue
		case p.accept("["):
			set, err := p.class()
			if err != nil {
				return nil, err
			}
			sets = append(sets, set)
			continue
		}
		lo, set, err := p.classChar()
		if err != nil {
			return nil, err
		}
		if set != nil {
			if p.fold {
				return nil, errors.New("(?i) with a class of characters is not supported")
			}
			sets = append(sets, set)
			if strings.HasPrefix(p.s[p.pos:], "-") && !strings.HasPrefix(p.s[p.pos:], "-]") {
				return nil, errors.New("a range that begins with a class is not supported")
			}
			continue
		}
		hi := lo
		rest := p.s[p.pos:]
		if strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") && !strings.HasPrefix(rest, "-&&") {
			p.next()
			if hi, set, err = p.classChar(); err != nil {
				return nil, err
			}
			if set != nil || hi < lo {
				return nil, errors.New("invalid range in class")
			}
		}
		if p.fold && hi >= utf8.RuneSelf {
			return nil, fmt.Errorf("(?i) with %q is not supported", hi)
		}
		ranges = append(ranges, runeRange{lo, hi})
	}
}

func (p *regexParser) classChar() (rune, func(r rune) bool, error) {
	r := p.next()
	if r == '[' {
		return 0, nil, errors.New("a range that ends with a class is not supported")
	}
	if r != '\\' {
		return r, nil, nil
	}
	if p.accept("b") {
		return '\b', nil, nil
	}
	return p.escape()
}
