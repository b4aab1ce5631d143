package contrib

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

const (
	maxPattern      = 1 << 14 // bytes of a pattern
	maxInstructions = 1 << 17 // of a compiled pattern, with all repetitions
	// maxSearch limits the elementary operations of one search, which cannot be interrupted.
	maxSearch = 1 << 28
	// maxLookBehind is maxSearch for all matches of a pattern that looks behind.
	maxLookBehind = 1 << 23
)

// pattern is a compiled regular expression. The time of a search is limited.
type pattern struct {
	*regexp.Regexp
	cost   int  // bound of the elementary operations per character
	behind bool // a match depends on the characters before it
}

// compile compiles a pattern of RE2, or with the flags of another syntax.
func compile(text string, flags syntax.Flags) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("pattern has %d bytes, want at most %d", len(text), maxPattern)
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if n > maxInstructions {
		return nil, fmt.Errorf("pattern has %d instructions with all repetitions, want at most %d", n, maxInstructions)
	}
	re, err := regexp.Compile(text)
	return &pattern{Regexp: re, cost: int(n) + 8, behind: looksBehind(tree)}, err
}

func looksBehind(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range re.Sub {
		if looksBehind(sub) {
			return true
		}
	}
	return false
}

// instructions returns about how many instructions a pattern has when its repetitions are
// written out.
func instructions(re *syntax.Regexp) int64 {
	n := int64(1 + len(re.Rune)/2)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= int64(max(re.Min, re.Max, 1))
	}
	return min(n, 1<<40)
}

// each calls f with the bounds of each match in s, with those of its groups, until f returns
// false.
func (p *pattern) each(c *call, s string, f func(bounds []int) bool) error {
	most := maxSearch
	if p.behind {
		most = maxLookBehind
	}
	if err := p.fits(s, most); err != nil {
		return err
	}
	if p.behind {
		for _, m := range p.FindAllStringSubmatchIndex(s, -1) {
			if !f(m) {
				break
			}
		}
		return nil
	}
	for at, last := 0, -1; at <= len(s); {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		m := p.FindStringSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		for i, v := range m {
			if v >= 0 {
				m[i] = v + at
			}
		}
		if m[1] > m[0] || m[0] != last { // no empty match follows a match directly
			if !f(m) {
				break
			}
		}
		if last = m[1]; m[1] == at {
			_, size := utf8.DecodeRuneInString(s[at:])
			m[1] += max(size, 1)
		}
		at = m[1]
	}
	return nil
}

// fits returns an error if a search of s may take more than most elementary operations.
func (p *pattern) fits(s string, most int) error {
	if len(s) > most/p.cost {
		return fmt.Errorf("a string has %d bytes, want at most %d for the pattern", len(s), most/p.cost)
	}
	return nil
}

// patternText returns an input that is a pattern. It must not be empty.
func patternText(c *call, i int) (string, error) {
	s, err := one[string](c, i)
	if err == nil && s == "" {
		err = fmt.Errorf("input %d, the pattern, is empty", i)
	}
	return s, err
}
