package contrib

import (
	"fmt"
	"regexp/syntax"

	"github.com/onward-ml/onward/tensor"
)

// StringRegexSplitWithOffsets divides strings at the first group of a pattern of RE2. The group
// is a part too if keep_pattern matches it whole. The outputs are the parts, where they begin
// and end in bytes, and the first part of each string. Each search begins a new text, so that ^
// matches after each match.
var _ = register("StringRegexSplitWithOffsets", "text:string, pattern:string, keep_pattern:string",
	"words:string, begins:int64, ends:int64, rows:int64", always(regexSplit))

func regexSplit(c *call) ([]tensor.Value, error) {
	text, err := patternText(c, 1)
	if err != nil {
		return nil, err
	}
	p, err := compile(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	var keep *pattern
	if k := c.strings(2); len(k) > 1 {
		return nil, fmt.Errorf("keep_pattern has %d elements, want at most 1", len(k))
	} else if len(k) == 1 && k[0] != "" {
		if keep, err = compile(k[0], syntax.Perl); err == nil {
			keep, err = compile(`\A(?:`+k[0]+`)\z`, syntax.Perl)
		}
		if err != nil {
			return nil, err
		}
	}
	return splitRows(c, func(s string, put func(from, to int)) error {
		at := 0
		for p.NumSubexp() > 0 {
			m, err := p.search(c, s[at:])
			if err != nil {
				return err
			}
			if m == nil {
				break
			}
			if m[0] == m[1] || m[2] < 0 {
				return fmt.Errorf("the pattern %q has an empty match or one without its first group", text)
			}
			if m[2] > 0 {
				put(at, at+m[2])
			}
			if keep != nil && keep.MatchString(s[at+m[2]:at+m[3]]) {
				put(at+m[2], at+m[3])
			}
			at += m[1]
		}
		if at < len(s) {
			put(at, len(s))
		}
		return nil
	})
}

// search returns the first match of a text and its groups, or nil.
func (p *pattern) search(c *call, s string) ([]int, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.fits(s, maxSearch); err != nil {
		return nil, err
	}
	return p.FindStringSubmatchIndex(s), nil
}

// splitRows divides the first strings of input 0, as many as its first dimension, by calls of
// put.
func splitRows(c *call, split func(s string, put func(from, to int)) error) ([]tensor.Value, error) {
	in := c.tensor(0)
	if in.Rank() == 0 {
		return nil, fmt.Errorf("the texts have rank 0, want at least 1")
	}
	texts := c.strings(0)[:in.Dim(0)]
	var words []string
	var begins, ends []int64
	rows := make([]int64, 1, len(texts)+1)
	for _, s := range texts {
		var failed error
		err := split(s, func(from, to int) {
			if failed == nil {
				failed = c.Reserve(2 * (stringBytes + 16))
			}
			if failed == nil {
				words = append(words, s[from:to])
				begins, ends = append(begins, int64(from)), append(ends, int64(to))
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, int64(len(words)))
	}
	return values(list(words), list(begins), list(ends), list(rows))
}
