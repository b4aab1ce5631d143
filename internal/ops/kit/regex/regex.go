// Package regex matches regular expressions of package regexp in time linear in the length of the
// string, and checks for cancellation. RegexFullMatch of ai.onnx and Tokenizer of com.microsoft
// import it.
package regex

import (
	"io"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
)

const (
	// MaxPattern limits the length of patterns, since the time to match is proportional to it.
	MaxPattern = 1 << 14
	// maxInstructions limits the size of compiled patterns, which bounded repetitions multiply: the
	// time per character is proportional to it. RE2's limit of 8 MiB allows as many.
	maxInstructions = 1 << 17
)

// Regexp is a compiled pattern of a model.
type Regexp struct {
	re     *regexp.Regexp
	cost   int    // bound of the elementary operations per character
	behind bool   // a match depends on the characters before it
	text   string // the only one that matches, or empty

	automata *sync.Pool // of *automaton, for whole strings; or nil
}

// Compile compiles a pattern in RE2 syntax. full requires that it matches the whole string.
func Compile(pattern string, full bool) (*Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, fail.Errorf("pattern has %d bytes, want at most %d", len(pattern), MaxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if n > maxInstructions {
		return nil, fail.Errorf("pattern has %d instructions with all repetitions, want at most %d", n, maxInstructions)
	}
	if full {
		// The pattern is valid by itself, so it cannot close the group around it.
		pattern = `\A(?:` + pattern + `)\z`
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	r := &Regexp{re: re, cost: n + 8, behind: looksBehind(tree)}
	if !full {
		if text, complete := re.LiteralPrefix(); complete {
			r.text = text
		}
		return r, nil
	}
	if tree, err = syntax.Parse(pattern, syntax.Perl); err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err == nil && newAutomaton(prog) != nil {
		r.automata = &sync.Pool{New: func() any { return newAutomaton(prog) }}
	}
	return r, err
}

// looksBehind reports whether matches of a pattern depend on the characters before them.
func looksBehind(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, looksBehind)
}

// short reports whether the time to search s is so short that the context need not be checked.
func (r *Regexp) short(s string) bool { return len(s) < 4*ir.GrainWatch/r.cost }

// MatchAll sets each element of dst to whether the string has a match. It does not return if the
// run must stop.
func (r *Regexp) MatchAll(c *ir.Call, dst []bool, x []string) {
	var a *automaton
	if r.automata != nil {
		a = r.automata.Get().(*automaton)
		defer r.automata.Put(a)
	}
	for i, s := range x {
		c.Check()
		if !r.short(s) {
			dst[i] = r.re.MatchReader(&stoppableReader{s: s, c: c, cost: r.cost})
			continue
		}
		ok := false
		if a != nil {
			dst[i], ok = a.match(s)
		}
		if !ok {
			dst[i] = r.re.MatchString(s)
		}
	}
}

const (
	// maxSearch is the most elementary operations to search a string once for all matches.
	maxSearch = 1 << 28
	// maxLookBehind is maxSearch for patterns that look behind, whose search cannot be interrupted:
	// a reader would begin at each match.
	maxLookBehind = 1 << 23
)

// FindAll calls fn with the bounds of all matches in s, those of
// [regexp.Regexp.FindAllStringIndex]. It does not return if the run must stop.
func (r *Regexp) FindAll(c *ir.Call, s string, fn func(from, to int)) error {
	c.Check()
	if r.text != "" {
		r.findText(c, s, fn)
		return nil
	}
	short := r.short(s)
	most, with := maxSearch/r.cost, ""
	if r.behind {
		most, with = maxLookBehind/r.cost, ` with ^, \A, \b or \B`
	}
	if !short && len(s) > most {
		return fail.Errorf("the string has %d bytes, want at most %d for a pattern of %d instructions%s",
			len(s), most, r.cost, with)
	}
	if r.behind {
		for _, m := range r.re.FindAllStringIndex(s, -1) {
			fn(m[0], m[1])
		}
		return nil
	}
	reader := stoppableReader{c: c, cost: r.cost}
	for at, last := 0, -1; at <= len(s); {
		reader.s = s[at:]
		var m []int
		if short {
			m = r.re.FindStringIndex(reader.s)
		} else {
			m = r.re.FindReaderIndex(&reader)
		}
		if m == nil {
			break
		}
		from, to := at+m[0], at+m[1]
		if to > at || from != last { // no empty match follows a match directly
			fn(from, to)
		}
		if last = to; to == at {
			_, w := utf8.DecodeRuneInString(s[at:])
			to += max(w, 1)
		}
		at = to
	}
	return nil
}

// findText is FindAll for r.text.
func (r *Regexp) findText(c *ir.Call, s string, fn func(from, to int)) {
	const most = 1 << 20 // bytes of a search without interruption
	for at := 0; ; {
		end := min(len(s), at+most+len(r.text)-1)
		switch i := strings.Index(s[at:end], r.text); {
		case i >= 0:
			fn(at+i, at+i+len(r.text))
			at += i + len(r.text)
		case end == len(s):
			return
		default:
			c.Check()
			at = end - len(r.text) + 1
		}
	}
}

// stoppableReader reads a string. It does not return if the run must stop.
type stoppableReader struct {
	s           string
	c           *ir.Call
	cost, spent int
}

// ReadRune implements [io.RuneReader].
func (r *stoppableReader) ReadRune() (rune, int, error) {
	if r.spent += r.cost; r.spent > ir.GrainWatch/16 {
		r.spent = 0
		r.c.Check()
	}
	if r.s == "" {
		return 0, 0, io.EOF
	}
	v, w := utf8.DecodeRuneInString(r.s)
	r.s = r.s[w:]
	return v, w, nil
}

// instructions returns about how many instructions a pattern has when its repetitions are written
// out.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, math.MaxInt/2)
}
