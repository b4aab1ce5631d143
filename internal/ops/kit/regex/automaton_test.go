package regex

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestMatchAll compares matches of whole strings with those of package regexp, for patterns
// composed of parts that look at adjacent characters, and for strings that are not ASCII.
func TestMatchAll(t *testing.T) {
	parts := []string{"a", "b+", "(a|b)*", `\b`, `\B`, "^", "$", "(?m:^)", "(?m:$)", "(?i:A)", `\w`, `\W*`, ".",
		"(?s:.)*", `[^a\n]`, "é", "(ab){0,3}", "|", "-*?", `\z`, `a\b`, `-\b`, `(?m:$)\n`, `\n(?m:^)`, "(?:", ")"}
	for _, c := range []struct{ pattern, s string }{
		{`a\b-`, "a-"}, {`a\bb`, "ab"}, {`-\ba`, "-a"}, {`-\b-`, "--"}, {`a\Bb`, "ab"}, {`a\B`, "a"}, {`\ba`, "a"}, {`\b`, ""}, {`_\b`, "_"},
		{"(?m:a$\n^b)", "a\nb"}, {"a^b", "ab"}, {"a\n^b", "a\nb"}, {"a$\n", "a\n"}, {"(?i:a)k", "Ak"}, {"(?i:k)", "\u212a"}, {".", "\n"}, {".", "\x00"},
	} {
		matchAll(t, c.pattern, []string{c.s})
	}
	rapid.Check(t, func(t *rapid.T) {
		matchAll(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 7).Draw(t, "pattern"), ""),
			rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("aaabbA_ -\né\x00")), 0, 9, -1), 1,
				30).Draw(t, "strings"))
	})
}

func matchAll(t interface{ Errorf(string, ...any) }, pattern string, x []string) {
	re, err := Compile(pattern, true)
	if err != nil {
		return
	}
	got := make([]bool, len(x))
	re.MatchAll(optest.NewCall(), got, x)
	whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	for i, s := range x {
		if want := whole.MatchString(s); got[i] != want {
			t.Errorf("pattern %q matches %q: %v, want %v", pattern, s, got[i], want)
		}
	}
}

// TestMatchAllManyStates matches a pattern whose automaton has more states than are kept.
func TestMatchAllManyStates(t *testing.T) {
	re, err := Compile("[ab]*a[ab]{12}", true)
	if err != nil {
		t.Fatal(err)
	}
	x, want := make([]string, 1<<12), make([]bool, 1<<12)
	for i := range x {
		b := make([]byte, 20)
		for k := range b {
			b[k] = 'a' + byte(i*2654435761>>(k+3)&1)
		}
		x[i], want[i] = string(b), b[len(b)-13] == 'a'
	}
	got := make([]bool, len(x))
	re.MatchAll(optest.NewCall(), got, x)
	for i, s := range x {
		if got[i] != want[i] {
			t.Fatalf("%q: %v, want %v", s, got[i], want[i])
		}
	}
	if a := re.automata.Get().(*automaton); len(a.states) > maxAutomatonStates {
		t.Errorf("the automaton keeps %d states, want at most %d", len(a.states), maxAutomatonStates)
	}
}
