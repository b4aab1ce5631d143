package ir_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"pgregory.net/rapid"
)

var n, m = ir.Symbol("N"), ir.Symbol("M")

func TestDimArithmetic(t *testing.T) {
	k := ir.Known
	const big = 1<<62 + 1
	for _, c := range []struct {
		got  ir.Dim
		want string
	}{
		{k(2).Add(k(3)), "5"},
		{k(2).Sub(k(3)), "-1"},
		{k(2).Mul(k(3)), "6"},
		{k(7).Div(k(2)), "3"},
		{k(-7).Div(k(2)), "-4"},
		{k(7).Div(k(-2)), "-4"},
		{k(-6).Div(k(2)), "-3"},
		{k(7).Div(k(0)), "?"},
		{n.Div(k(0)), "?"},
		{n.Add(k(1)), "N+1"},
		{n.Sub(k(1)), "N-1"},
		{k(1).Sub(n), "-N+1"},
		{n.Add(m), "M+N"},
		{m.Add(n), "M+N"},
		{n.Add(n), "2*N"},
		{n.Sub(n), "0"},
		{n.Add(m).Sub(n), "M"},
		{n.Add(k(2)).Mul(k(3)), "3*N+6"},
		{k(3).Mul(n.Sub(m)), "-3*M+3*N"},
		{n.Mul(k(0)), "0"},
		{n.Mul(k(1)), "N"},
		{k(1).Mul(n), "N"},
		{n.Mul(m), "(M*N)"},
		{m.Mul(n), "(M*N)"},
		{n.Mul(k(4)).Div(k(2)), "2*N"},
		{n.Mul(k(4)).Add(k(2)).Div(k(2)), "2*N+1"},
		{n.Div(k(2)), "(N/2)"},
		{n.Add(k(1)).Div(k(2)).Mul(k(2)), "2*(N+1/2)"},
		{n.Div(n), "1"},
		{n.Div(k(1)), "N"},
		{n.Div(m), "(N/M)"},
		{ir.Unknown.Add(n), "?"},
		{n.Sub(ir.Unknown), "?"},
		{ir.Unknown.Mul(n), "?"},
		{ir.Unknown.Mul(k(0)), "0"},
		{ir.Unknown.Div(k(2)), "?"},
		{k(big).Add(k(1)), "?"},
		{k(1 << 40).Mul(k(1 << 40)), "?"},
		{n.Mul(k(1 << 40)), "?"},
		{n.Add(k(1 << 40)).Mul(k(2)), "?"},
		{n.Mul(k(1 << 30)).Mul(k(4)).Mul(k(2)), "?"},
		{ir.Symbol("a b").Add(k(1)), `"a b"+1`}, // names in quotes
		{ir.Symbol("a b").Div(k(2)), `("a b"/2)`},
		{ir.Symbol("a b").Mul(k(2)), `2*"a b"`},
		{ir.Symbol(strings.Repeat("N", 100)).Mul(m).Mul(ir.Symbol("a-long-name-of-a-dimension")), "?"},
		{ir.Symbol(""), "?"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if ir.Unknown.Same(ir.Unknown) {
		t.Error("unknown dimensions are the same")
	}
	if !n.Differs(n) == n.Differs(k(1)) || !k(1).Differs(k(2)) || k(1).Differs(k(1)) {
		t.Error("only known numbers differ")
	}
}

// evaluate returns the number that an expression stands for.
func evaluate(expr string, at map[string]int) int {
	if v, err := strconv.Atoi(expr); err == nil {
		return v
	}
	split := func(chars string, from int) int {
		depth := 0
		for i := from; i < len(expr); i++ {
			switch {
			case expr[i] == '(':
				depth++
			case expr[i] == ')':
				depth--
			case depth == 0 && strings.IndexByte(chars, expr[i]) >= 0:
				return i
			}
		}
		return -1
	}
	last := -1
	for i := split("+-", 1); i >= 0; i = split("+-", i+1) {
		last = i
	}
	switch {
	case last > 0 && expr[last] == '+':
		return evaluate(expr[:last], at) + evaluate(expr[last+1:], at)
	case last > 0:
		return evaluate(expr[:last], at) - evaluate(expr[last+1:], at)
	case expr[0] == '-':
		return -evaluate(expr[1:], at)
	}
	if i := split("*", 0); i >= 0 {
		return evaluate(expr[:i], at) * evaluate(expr[i+1:], at)
	}
	return at[expr]
}

// TestDimExpressionsAreSound builds expressions of sums, differences and multiples: the
// canonical form must have the value of the tree.
func TestDimExpressionsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := map[string]int{}
		for _, name := range []string{"N", "M", "K"} {
			at[name] = rapid.IntRange(0, 100).Draw(t, name)
		}
		var build func(depth int) (ir.Dim, int)
		build = func(depth int) (ir.Dim, int) {
			op := rapid.IntRange(0, 4).Draw(t, "op")
			if depth == 0 || op < 2 {
				if op == 0 {
					v := rapid.IntRange(-5, 20).Draw(t, "number")
					return ir.Known(v), v
				}
				name := rapid.SampledFrom([]string{"N", "M", "K"}).Draw(t, "symbol")
				return ir.Symbol(name), at[name]
			}
			a, x := build(depth - 1)
			b, y := build(depth - 1)
			switch op {
			case 2:
				return a.Add(b), x + y
			case 3:
				return a.Sub(b), x - y
			}
			k := rapid.IntRange(-3, 3).Draw(t, "factor")
			return a.Mul(ir.Known(k)), x * k
		}
		d, want := build(5)
		if d.IsUnknown() {
			t.Fatal("a linear expression is unknown")
		}
		if got := evaluate(d.String(), at); got != want {
			t.Errorf("%s at %v is %d, want %d", d, at, got, want)
		}
		if !d.Add(n).Sub(n).Same(d) {
			t.Errorf("%s + N - N is %s", d, d.Add(n).Sub(n))
		}
	})
}

// A name from a file stays a name, whatever it looks like.
func TestDimNamesAreNotExpressions(t *testing.T) {
	a, b, n := ir.Symbol("a"), ir.Symbol("b"), ir.Symbol("N")
	for name, looks := range map[string]ir.Dim{
		"a-b": a.Sub(b), "a+b": a.Add(b), "2*N": n.Mul(ir.Known(2)), "N+1": n.Add(ir.Known(1)), "(N/2)": n.Div(ir.Known(2)),
		"(N&a)": n.Min(a), "7": ir.Known(7), "-N": n.Mul(ir.Known(-1)), "N*a": n.Mul(a), `"a`: a, `a"b\"c`: a, "é": a, "a b": a, "?": ir.Unknown,
	} {
		d := ir.Symbol(name)
		if d.String() != name || d.IsKnown() || d.IsUnknown() {
			t.Errorf("%q becomes %s", name, d)
		}
		if d.Same(looks) {
			t.Errorf("name %q is the expression %s", name, looks)
		}
		for _, e := range []ir.Dim{a, b, n, ir.Known(3), d} {
			sum := d.Add(e)
			if sum.Same(looks.Add(e)) || !sum.Sub(e).Same(d) || !sum.Sub(d).Same(e) {
				t.Errorf("%q + %s is %s, less %[2]s %[4]s, less the first %[5]s", name, e, sum, sum.Sub(e), sum.Sub(d))
			}
		}
		if q := d.Mul(ir.Known(6)).Div(ir.Known(3)); !q.Same(d.Add(d)) {
			t.Errorf("%q × 6 ÷ 3 is %s, want %s", name, q, d.Add(d))
		}
		if q := d.Div(ir.Known(2)); !q.Same(ir.Symbol(name).Div(ir.Known(2))) || q.Same(looks.Div(ir.Known(2))) {
			t.Errorf("%q ÷ 2 is %s", name, q)
		}
	}
}

func TestMergeDims(t *testing.T) {
	for _, c := range []struct {
		a, b ir.Dim
		want string
	}{
		{ir.Known(2), ir.Known(2), "2"}, {ir.Known(2), n, "2"}, {n, ir.Known(2), "2"}, {n, m, "N"},
		{ir.Unknown, n, "N"}, {n, ir.Unknown, "N"}, {ir.Unknown, ir.Unknown, "?"},
	} {
		if got, err := ir.Merge(c.a, c.b); err != nil || got.String() != c.want {
			t.Errorf("Merge(%s, %s) = %s, %v, want %s", c.a, c.b, got, err, c.want)
		}
	}
	if _, err := ir.Merge(ir.Known(1), ir.Known(2)); err == nil || err.Error() != "dimensions 1 and 2 differ" {
		t.Errorf("error %v", err)
	}
}

// TestLongSymbols checks that symbols of long names are short, and equal only if the names are.
func TestLongSymbols(t *testing.T) {
	long := strings.Repeat("\x01", 1<<20)
	a, b := ir.Symbol(long+"a"), ir.Symbol(long+"b")
	if !a.Same(ir.Symbol(long+"a")) || a.Same(b) {
		t.Errorf("%v and %v", a, b)
	}
	if text := a.String(); len(text) > 1<<10 || !strings.Contains(text, "1048577 bytes") {
		t.Errorf("a name of 1 MiB is %q", text)
	}
}
