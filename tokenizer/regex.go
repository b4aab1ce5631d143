package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// errRegexSteps is returned if a regular expression needs too many steps.
var errRegexSteps = errors.New("regular expression exceeds the step limit")

// opcode is an instruction of a compiled regular expression.
type opcode uint8

const (
	opMatch  opcode = iota
	opSet           // one character of sets[x]
	opRun           // min to max characters of sets[x], as many as possible, giving back
	opSplit         // continue at x, later at y
	opJump          // continue at x
	opAssert        // test assertion x
	opLook          // test the program from pc+1 to x; y is the kind
	opAtomic        // run the program from pc+1 to x, and forget its alternatives
	opMark          // remember the position in slot x
	opMoved         // fail if the position is that of slot x
)

const (
	lookAhead = iota
	lookAheadNot
	lookBehind
	lookBehindNot
)

const (
	assertLineStart = iota
	assertLineEnd
	assertTextStart
	assertTextEnd
	assertLastLineEnd
	assertWordBoundary
	assertNoWordBoundary
)

type instruction struct {
	op       opcode
	x, y     int
	min, max int // max < 0: no limit
}

// program is a compiled regular expression. It matches by backtracking, like Oniguruma,
// with an explicit stack and a limit of steps.
type program struct {
	code  []instruction
	sets  []*runeSet
	slots int
	width []int // characters of the lookbehind that begins at an instruction
}

// frame is an alternative to try when the current one fails.
type frame struct {
	pc, at int
	low    int // >= 0: a run that may give back characters down to low
	slot   int // >= 0: restore the slot instead
	value  int
}

type matchState struct {
	stack []frame
	slots []int
	steps int
	sc    *scratch
}

// match returns the end of the match of p at offset i of s, or -1.
func (p *program) match(s []byte, i int, m *matchState) (int, error) {
	if cap(m.slots) < p.slots {
		m.slots = make([]int, p.slots)
	}
	m.slots = m.slots[:p.slots]
	for k := range m.slots {
		m.slots[k] = -1
	}
	m.stack = m.stack[:0]
	return p.run(s, 0, i, m)
}

// run executes p from pc on. It leaves the stack as it was.
func (p *program) run(s []byte, pc, i int, m *matchState) (int, error) {
	base := len(m.stack)
	for {
		if m.steps--; m.steps < 0 {
			return -1, errRegexSteps
		}
		if !m.sc.step(1) {
			return -1, m.sc.err
		}
		in := &p.code[pc]
		ok := true
		switch in.op {
		case opMatch:
			m.stack = m.stack[:base]
			return i, nil
		case opSet:
			n := p.sets[in.x].at(s, i)
			ok = n > 0
			i += n
			pc++
		case opRun:
			set := p.sets[in.x]
			lo, count := i, 0
			for in.max < 0 || count < in.max {
				n := set.at(s, i)
				if n == 0 {
					break
				}
				i += n
				count++
				if count <= in.min {
					lo = i
				}
				if !m.sc.step(1) {
					break
				}
			}
			m.steps -= count >> 3
			ok = count >= in.min
			pc++
			if ok && i > lo {
				m.stack = append(m.stack, frame{pc: pc, at: i, low: lo, slot: -1})
			}
		case opSplit:
			m.stack = append(m.stack, frame{pc: in.y, at: i, low: -1, slot: -1})
			pc = in.x
		case opJump:
			pc = in.x
		case opAssert:
			ok = assertion(in.x, s, i)
			pc++
		case opMark:
			m.stack = append(m.stack, frame{low: -1, slot: in.x, value: m.slots[in.x]})
			m.slots[in.x] = i
			pc++
		case opMoved:
			if m.slots[in.x] == i {
				pc = in.y // an empty iteration ends the loop
			} else {
				pc++
			}
		case opAtomic:
			end, err := p.run(s, pc+1, i, m)
			if err != nil {
				return -1, err
			}
			ok = end >= 0
			i = end
			pc = in.x
		case opLook:
			at := i
			if in.y >= lookBehind {
				m.steps -= p.width[pc] >> 3
				m.sc.step(p.width[pc])
				for range p.width[pc] {
					if at == 0 {
						at = -1
						break
					}
					_, n := utf8.DecodeLastRune(s[:at])
					at -= n
				}
			}
			end := -1
			if at >= 0 {
				var err error
				if end, err = p.run(s, pc+1, at, m); err != nil {
					return -1, err
				}
			}
			ok = end >= 0 == (in.y == lookAhead || in.y == lookBehind)
			pc = in.x
		}
		for !ok {
			n := len(m.stack) - 1
			if n < base {
				return -1, nil
			}
			f := &m.stack[n]
			switch {
			case f.slot >= 0:
				m.slots[f.slot] = f.value
				m.stack = m.stack[:n]
				continue
			case f.low >= 0:
				_, size := utf8.DecodeLastRune(s[:f.at])
				f.at -= size
				pc, i = f.pc, f.at
				if f.at <= f.low {
					m.stack = m.stack[:n]
				}
			default:
				pc, i = f.pc, f.at
				m.stack = m.stack[:n]
			}
			ok = true
		}
	}
}

func assertion(kind int, s []byte, i int) bool {
	switch kind {
	case assertLineStart:
		return i == 0 || s[i-1] == '\n' && i < len(s)
	case assertLineEnd:
		return i == len(s) && (i == 0 || s[i-1] != '\n') || i < len(s) && s[i] == '\n'
	case assertTextStart:
		return i == 0
	case assertTextEnd:
		return i == len(s)
	case assertLastLineEnd:
		return i == len(s) || i == len(s)-1 && s[i] == '\n'
	}
	before, after := false, false
	if i > 0 {
		r, _ := utf8.DecodeLastRune(s[:i])
		before = ucd.is(r, onigWord)
	}
	if i < len(s) {
		r, _ := utf8.DecodeRune(s[i:])
		after = ucd.is(r, onigWord)
	}
	return before != after == (kind == assertWordBoundary)
}

// runeSet is a set of characters.
type runeSet struct {
	ascii [128]bool
	has   func(r rune) bool
}

// at returns the length of the character of s at i, or 0 if it is not in the set.
func (c *runeSet) at(s []byte, i int) int {
	if i >= len(s) {
		return 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		if c.ascii[b] {
			return 1
		}
		return 0
	}
	r, n := utf8.DecodeRune(s[i:])
	if c.has(r) {
		return n
	}
	return 0
}

func newRuneSet(has func(r rune) bool) *runeSet {
	c := &runeSet{has: has}
	for i := range c.ascii {
		c.ascii[i] = has(rune(i))
	}
	return c
}

// runeRange is the characters from lo to hi.
type runeRange struct{ lo, hi rune }

// merged returns ranges in order without overlaps. It changes the argument.
func merged(ranges []runeRange) []runeRange {
	slices.SortFunc(ranges, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	r := ranges[:0]
	for _, g := range ranges {
		if k := len(r) - 1; k >= 0 && g.lo <= r[k].hi+1 {
			r[k].hi = max(r[k].hi, g.hi)
		} else {
			r = append(r, g)
		}
	}
	return r
}

// inRanges returns whether a character is in merged ranges.
func inRanges(ranges []runeRange) func(r rune) bool {
	return func(r rune) bool {
		_, found := slices.BinarySearchFunc(ranges, r, func(g runeRange, r rune) int {
			switch {
			case g.hi < r:
				return -1
			case g.lo > r:
				return 1
			}
			return 0
		})
		return found
	}
}

// splitPattern finds the matches of a literal or a regular expression.
type splitPattern struct {
	literal []byte                    // matched literally, if not nil
	scan    func(s []byte, i int) int // end of the match at i, or -1; if not nil
	program *program
}

// compilePattern compiles a regular expression of Oniguruma's syntax.
func compilePattern(expr string) (*splitPattern, error) {
	if s := builtinPattern(expr); s != nil {
		return s, nil
	}
	p, err := parseRegex(expr)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.100q: %w", expr, err)
	}
	return &splitPattern{program: p}, nil
}

func parsePattern(v any) (*splitPattern, error) {
	o, ok := v.(map[string]any)
	if ok && len(o) == 1 {
		if s, ok := o["String"].(string); ok {
			if s == "" {
				return nil, errors.New("an empty pattern is not supported")
			}
			return &splitPattern{literal: []byte(s)}, nil
		}
		if s, ok := o["Regex"].(string); ok {
			return compilePattern(s)
		}
	}
	return nil, errors.New(`pattern must be {"String": …} or {"Regex": …}`)
}
