package contrib

import (
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// StringRegexReplace replaces the matches of a pattern of RE2 by a text in which \0 to \9 stand
// for the match and its groups, or only the first match if the attribute global_replace is 0.
var _ = register("StringRegexReplace", "text:string, pattern:string, rewrite:string", "output:string",
	func(n *node) (kernel, error) {
		all := n.flag("global_replace", true)
		return func(c *call) ([]tensor.Value, error) {
			text, err := patternText(c, 1)
			if err != nil {
				return nil, err
			}
			p, err := compile(text, syntax.Perl)
			if err != nil {
				return nil, err
			}
			rewrite, err := one[string](c, 2)
			if err != nil {
				return nil, err
			}
			parts, err := parseRewrite(rewrite, p.NumSubexp())
			if err != nil {
				return nil, err
			}
			return p.replace(c, all, parts)
		}, nil
	})

// rewritePart is a part of what replaces a match: a text, or a group if that is not negative.
// Other negative numbers are the text before and after the match.
type rewritePart struct {
	text  string
	group int
}

const (
	partText   = -1
	partBefore = -2
	partAfter  = -3
)

// parseRewrite parses a text in which \0 to \9 stand for groups and \\ for \.
func parseRewrite(s string, groups int) ([]rewritePart, error) {
	var parts []rewritePart
	for s != "" {
		k := strings.IndexByte(s, '\\')
		if k < 0 {
			return append(parts, rewritePart{s, partText}), nil
		}
		parts = append(parts, rewritePart{s[:k], partText})
		if k+1 == len(s) {
			return nil, fmt.Errorf(`the rewrite ends with \`)
		}
		switch ch := s[k+1]; {
		case ch == '\\':
			parts = append(parts, rewritePart{`\`, partText})
		case ch < '0' || ch > '9':
			return nil, fmt.Errorf(`the rewrite has \%c, want \\ or \0 to \9`, ch)
		case int(ch-'0') > groups:
			return nil, fmt.Errorf(`the rewrite has \%c, but the pattern has %d groups`, ch, groups)
		default:
			parts = append(parts, rewritePart{"", int(ch - '0')})
		}
		s = s[k+2:]
	}
	return parts, nil
}

// replace replaces the matches in the strings of input 0, or only the first of each.
func (p *pattern) replace(c *call, all bool, parts []rewritePart) ([]tensor.Value, error) {
	in := c.strings(0)
	out := make([]string, len(in))
	for i, s := range in {
		var b strings.Builder
		from := 0
		var grown error
		put := func(text string) {
			if grown = c.Reserve(2 * int64(len(text))); grown == nil {
				b.WriteString(text)
			}
		}
		err := p.each(c, s, func(m []int) bool {
			put(s[from:m[0]])
			for _, part := range parts {
				switch g := 2 * part.group; {
				case grown != nil:
				case part.group == partText:
					put(part.text)
				case part.group == partBefore:
					put(s[:m[0]])
				case part.group == partAfter:
					put(s[m[1]:])
				case g < len(m) && m[g] >= 0:
					put(s[m[g]:m[g+1]])
				}
			}
			from = m[1]
			return all && grown == nil
		})
		if err == nil && grown == nil {
			put(s[from:])
		}
		if err == nil {
			err = grown
		}
		if err != nil {
			return nil, err
		}
		out[i] = b.String()
	}
	return values(shaped(out, c.tensor(0).Shape()...))
}
