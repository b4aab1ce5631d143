package ir

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
)

// Dim is one dimension of a shape, or one element of a shape value: a known number, an expression
// over symbols ("N", "2*N+1"), or unknown. The zero Dim is unknown. Two Dims are equal (==) if they
// are known to be the same, or if both are unknown, which proves nothing.
type Dim struct {
	n     int
	known bool
	expr  string // canonical form of a symbolic expression, with names such as "a-b" in quotes
}

// Known returns the dimension n.
func Known(n int) Dim { return Dim{n: n, known: true} }

// Symbol returns the dimension called name; the empty name is unknown. A name from a file may
// look like a number or an expression and is neither. That of a name over 1 KiB has the beginning
// and a hash of it: names may have megabytes, and expressions repeat them.
func Symbol(name string) Dim {
	if name == "" {
		return Dim{}
	}
	if len(name) > 1<<10 {
		name = fmt.Sprintf("%.100s… (%d bytes, SHA-256 %x)", name, len(name), sha256.Sum256([]byte(name)))
	}
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '.' && (r < '0' || r > '9')) {
			return Dim{expr: strconv.QuoteToASCII(name)}
		}
	}
	return Dim{expr: name}
}

// Unknown is an unknown dimension.
var Unknown = Dim{}

// Value returns the number and whether it is known.
func (d Dim) Value() (int, bool) { return d.n, d.known }

// IsKnown reports whether d is a number.
func (d Dim) IsKnown() bool { return d.known }

func (d Dim) negative() bool { return d.known && d.n < 0 }

// IsUnknown reports whether nothing is known about d.
func (d Dim) IsUnknown() bool { return !d.known && d.expr == "" }

// Is reports whether d is known to be n.
func (d Dim) Is(n int) bool { return d.known && d.n == n }

// Same reports whether d and e are known to be equal.
func (d Dim) Same(e Dim) bool { return d == e && !d.IsUnknown() }

// Differs reports whether d and e are known numbers that differ.
func (d Dim) Differs(e Dim) bool { return d.known && e.known && d.n != e.n }

// String writes the number, the name, the expression, or "?". Expressions have the names in
// quotes that are no identifiers.
func (d Dim) String() string {
	if name, err := strconv.Unquote(d.expr); err == nil {
		return name
	}
	return d.term()
}

// term is String with a name in quotes if necessary, as part of an expression.
func (d Dim) term() string {
	switch {
	case d.known:
		return strconv.Itoa(d.n)
	case d.expr != "":
		return d.expr
	}
	return "?"
}

// linear is the canonical form of an expression: a sum of products of symbols with integer
// coefficients. Quotients, maxima and others are opaque symbols such as "(N/2)".
type linear struct {
	c     int
	terms map[string]int
}

func (d Dim) linear() linear {
	if d.known {
		return linear{c: d.n}
	}
	l := linear{terms: map[string]int{}}
	depth, start := 0, 0
	flush := func(end int, sign int) {
		if t := d.expr[start:end]; t != "" {
			l.add(t, sign)
		}
	}
	sign := 1
	for i := 0; i < len(d.expr); i++ {
		switch d.expr[i] {
		case '"':
			name, err := strconv.QuotedPrefix(d.expr[i:])
			if err != nil {
				panic(fmt.Sprintf("ir: dimension %s has an open quote", d.expr))
			}
			i += len(name) - 1
		case '(':
			depth++
		case ')':
			depth--
		case '+', '-':
			if depth == 0 {
				flush(i, sign)
				start, sign = i+1, 1
				if d.expr[i] == '-' {
					sign = -1
				}
			}
		}
	}
	flush(len(d.expr), sign)
	return l
}

func (l *linear) add(term string, sign int) {
	if n, err := strconv.Atoi(term); err == nil {
		l.c += sign * n
		return
	}
	k := 1
	if head, tail, ok := strings.Cut(term, "*"); ok {
		if n, err := strconv.Atoi(head); err == nil {
			k, term = n, tail
		}
	}
	l.terms[term] += sign * k
}

// maxExpr limits the length of expressions. Longer ones become unknown.
const maxExpr = 120

func (l linear) dim() Dim {
	names := make([]string, 0, len(l.terms))
	for t, k := range l.terms {
		if k != 0 {
			names = append(names, t)
		}
	}
	if len(names) == 0 {
		return Known(l.c)
	}
	sort.Strings(names)
	var b strings.Builder
	for i, t := range names {
		k := l.terms[t]
		if k < 0 {
			b.WriteByte('-')
			k = -k
		} else if i > 0 {
			b.WriteByte('+')
		}
		if k != 1 {
			fmt.Fprintf(&b, "%d*", k)
		}
		b.WriteString(t)
	}
	if l.c > 0 {
		fmt.Fprintf(&b, "+%d", l.c)
	} else if l.c < 0 {
		fmt.Fprintf(&b, "%d", l.c)
	}
	if b.Len() > maxExpr {
		return Unknown
	}
	return Dim{expr: b.String()}
}

// short reports whether the expression may be part of another. Names from files have any length.
func (d Dim) short() bool { return len(d.expr) <= maxExpr }

func opaque(op string, a, b Dim) Dim {
	s := "(" + a.term() + op + b.term() + ")"
	if len(s) > maxExpr || a.IsUnknown() || b.IsUnknown() {
		return Unknown
	}
	return Dim{expr: s}
}

// Add returns d + e, or unknown if an operand is unknown or on overflow.
func (d Dim) Add(e Dim) Dim { return d.combine(e, 1) }

// Sub returns d − e.
func (d Dim) Sub(e Dim) Dim { return d.combine(e, -1) }

func (d Dim) combine(e Dim, sign int) Dim {
	switch {
	case d.known && e.known:
		r := d.n + sign*e.n
		if abs(d.n) > math.MaxInt/2 || abs(e.n) > math.MaxInt/4 {
			return Unknown
		}
		return Known(r)
	case d.IsUnknown() || e.IsUnknown() || !d.short() || !e.short():
		return Unknown
	}
	a, b := d.linear(), e.linear()
	if a.terms == nil {
		a.terms = map[string]int{}
	}
	a.c += sign * b.c
	for t, k := range b.terms {
		a.terms[t] += sign * k
	}
	return a.dim()
}

// Mul returns d × e, or unknown on overflow.
func (d Dim) Mul(e Dim) Dim {
	switch {
	case d.Is(0) || e.Is(0):
		return Known(0)
	case d.Is(1):
		return e
	case e.Is(1):
		return d
	case d.known && e.known:
		r := d.n * e.n
		if d.n != 0 && r/d.n != e.n {
			return Unknown
		}
		return Known(r)
	case d.IsUnknown() || e.IsUnknown() || !d.short() || !e.short():
		return Unknown
	case d.known || e.known:
		k, l := d.n, e.linear()
		if e.known {
			k, l = e.n, d.linear()
		}
		const most = 1 << (bits.UintSize/2 - 1) // so that products do not overflow
		if abs(k) > most || abs(l.c) > most {
			return Unknown
		}
		l.c *= k
		for t, c := range l.terms {
			if abs(c) > most {
				return Unknown
			}
			l.terms[t] = c * k
		}
		return l.dim()
	}
	return symmetric("*", d, e)
}

// Min returns the smaller of two dimensions.
func (d Dim) Min(e Dim) Dim {
	switch {
	case d.known && e.known:
		return Known(min(d.n, e.n))
	case d.Same(e):
		return d
	}
	return symmetric("&", d, e)
}

// IsMinOf reports whether d is known to be the smaller of e and a positive number.
func (d Dim) IsMinOf(e Dim) bool {
	a, b, ok := strings.Cut(strings.Trim(d.expr, "()"), "&")
	for _, s := range []string{a, b} {
		if n, err := strconv.Atoi(s); ok && err == nil && n > 0 && d.Same(e.Min(Known(n))) {
			return true
		}
	}
	return false
}

// symmetric is opaque for an operation whose operands can be swapped.
func symmetric(op string, a, b Dim) Dim {
	if a.term() > b.term() {
		a, b = b, a
	}
	return opaque(op, a, b)
}

// Div returns ⌊d ÷ e⌋, or unknown if e is 0.
func (d Dim) Div(e Dim) Dim {
	switch {
	case e.Is(1):
		return d
	case e.Is(0):
		return Unknown
	case d.known && e.known:
		q := d.n / e.n
		if d.n%e.n != 0 && (d.n < 0) != (e.n < 0) {
			q--
		}
		return Known(q)
	case d.Same(e):
		return Known(1)
	case e.known && !d.IsUnknown() && d.short():
		l := d.linear()
		exact := l.c%e.n == 0
		for _, k := range l.terms {
			exact = exact && k%e.n == 0
		}
		if exact {
			l.c /= e.n
			for t := range l.terms {
				l.terms[t] /= e.n
			}
			return l.dim()
		}
	}
	return opaque("/", d, e)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// Merge combines two statements about the same dimension. It prefers numbers to symbols, and
// symbols to unknown. It fails if both are numbers and differ.
func Merge(a, b Dim) (Dim, error) {
	switch {
	case a.Differs(b):
		return a, fail.Errorf("dimensions %s and %s differ", a, b)
	case a.known:
		return a, nil
	case b.known || a.IsUnknown():
		return b, nil
	}
	return a, nil
}
