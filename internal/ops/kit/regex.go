package kit

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxPattern limits the length of patterns, since the time to match is proportional to it.
	MaxPattern = 1 << 14
	// maxInstructions limits the size of compiled patterns, which bounded repetitions multiply: the time
	// per character is proportional to it. RE2's limit of 8 MiB allows as many.
	maxInstructions = 1 << 17
)

// Regexp is a compiled pattern of a model.
type Regexp struct {
	*regexp.Regexp
	Cost int // bound of the elementary operations per character
}

// CompileRegexp compiles a pattern in RE2 syntax. full requires that it matches the whole string.
func CompileRegexp(pattern string, full bool) (*Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("pattern has %d bytes, want at most %d", len(pattern), MaxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if n > maxInstructions {
		return nil, fmt.Errorf("pattern has %d instructions with all repetitions, want at most %d", n, maxInstructions)
	}
	if full {
		// The pattern is valid by itself, so it cannot close the group around it.
		pattern = `\A(?:` + pattern + `)\z`
	}
	re, err := regexp.Compile(pattern)
	return &Regexp{re, n + 8}, err
}

// instructions returns about how many instructions a pattern has when its repetitions are written out.
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
