package tokenizer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// matchesOf returns what a pattern matches, empty matches included.
func matchesOf(t *testing.T, p *splitPattern, s string) []string {
	t.Helper()
	ranges, err := p.matches([]byte(s), &scratch{})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range ranges {
		if r.match {
			list = append(list, s[r.lo:r.hi])
		}
	}
	return list
}

// TestRegex lists what Oniguruma 6.9.10 matches in tokenizers 0.23.3.
func TestRegex(t *testing.T) {
	for _, c := range []struct {
		expr, text string
		want       []string
	}{
		{`(?i:'s)`, "a'\u017f b'S", []string{"'\u017f", "'S"}},
		{`(?i:k)`, "k K \u212a", []string{"k", "K", "\u212a"}},
		{`(?i)[a-z]+`, "a\u017fK\u212a1", []string{"a\u017fK\u212a"}},
		{`a{,2}`, "aaaa", []string{"aa", "aa"}},
		{`a{2}+`, "aaaaa", []string{"aaaa"}},
		{`^a`, "a\na", []string{"a", "a"}},
		{`a$`, "a\na", []string{"a", "a"}},
		{`(?<=a)b`, "ab bb", []string{"b"}},
		{`(?<!a)b`, "ab bb", []string{"b", "b"}},
		{`\h+`, "ab12 xyz", []string{"ab12"}},
		{`[a&&b]`, "ab", nil},
		{`[a-z&&[^aeiou]]+`, "abcde", []string{"bcd"}},
		{`\p{Han}+`, "漢字kana", []string{"漢字"}},
		{`\p{^Han}+`, "漢字kana", []string{"kana"}},
		{`\P{L}+`, "ab12c", []string{"12"}},
		{`.`, "a\n", []string{"a"}},
		{`\d+`, "12٣४", []string{"12٣४"}},
		{`\w+`, "a_1\u200d\u0301é", []string{"a_1", "\u0301é"}},
		{`\s+`, "a\u0085b\u180ec\u200bd\u2028e", []string{"\u0085", "\u2028"}},
		{`\ba`, "a ba", []string{"a"}},
		{`a+?b`, "aab", []string{"aab"}},
		{`a++ab|c`, "aabc", []string{"c"}},
		{`(?>a+)ab|b`, "aab", []string{"b"}},
		{`\s+(?!\S)`, "a  b   ", []string{" ", "   "}},
		{`(?:ab|a)(?:c|bcd)`, "abcd", []string{"abc"}},
		{`(a*)*b`, "aab", []string{"aab"}},
		{`[^\r\n]?x`, "\nx", []string{"x"}},
		{`\x41\u0042\x{1F600}`, "AB😀", []string{"AB😀"}},
		{`[\]\-a]+`, "x]-a", []string{"]-a"}},
		{`[a-]+`, "-a-", []string{"-a-"}},
	} {
		p, err := compilePattern(c.expr)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		got := matchesOf(t, p, c.text)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s on %q: %q, want %q", c.expr, c.text, got, c.want)
		}
	}
}

func TestRegexUnsupported(t *testing.T) {
	for _, expr := range []string{`(a)\1`, `\k<x>`, `(?s).`, `(?m).`, `(?x) a`, `\p{Nope}`, `\p{script=Han}`, `(?i:ss)`, `(?i:ß)`, `(?i:[ß])`, `(?i)[\p{Lu}]`,
		`\R`, `\X`, `\G`, `a**`, `*a`, `(`, `)`, `[`, `[]`, `(?<=a+)b`, `[[:nope:]]`, `a{3}?`, `a{9999}`, `(?:(?:ab){1000}){1000}`, `\Qa\E`, `\07`, "\xff", `\`,
		strings.Repeat("(", 100) + strings.Repeat(")", 100), "[" + strings.Repeat(`\d`, regexSets+1) + "]",
		strings.Repeat(`[\d\s]`, regexSets/2+1)} {
		if _, err := compilePattern(expr); err == nil {
			t.Errorf("%s compiles", expr)
		}
	}
}

// TestRegexRangesAreMerged checks that a class of many ranges takes few comparisons per character.
func TestRegexRangesAreMerged(t *testing.T) {
	var all []runeRange
	for i := range rune(100_000) {
		all = append(all, runeRange{'z' - i%13, 'z' - i%13}, runeRange{'一' + i%100, '一' + i%100 + 1})
	}
	want := []runeRange{{'n', 'z'}, {'一', '一' + 100}}
	if got := merged(all); !slices.Equal(got, want) {
		t.Errorf("%d ranges, want %v", len(got), want)
	}
	in := inRanges(want)
	for _, r := range "mnz{" + string('一'-1) + "一" + string('一'+100) + string('一'+101) {
		if got := in(r); got != strings.ContainsRune("nz一"+string('一'+100), r) {
			t.Errorf("%q: %v", r, got)
		}
	}
}

// TestRegexSteps checks that a pattern with exponential backtracking ends with an error.
func TestRegexSteps(t *testing.T) {
	p, err := compilePattern(`(?:a|a)*b`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.matches([]byte(strings.Repeat("a", 1000)), &scratch{}); !errors.Is(err, errRegexSteps) {
		t.Errorf("error %v, want %v", err, errRegexSteps)
	}
}

// TestScanners compares the scanners written by hand with the matcher.
func TestScanners(t *testing.T) {
	loadTables()
	seeds := testTexts(t)
	r := rand.New(rand.NewPCG(5, 6))
	var texts []string
	for range 4000 {
		texts = append(texts, strings.ToValidUTF8(mutate(r, seeds), "\uFFFD"))
	}
	texts = append(texts, seeds...)
	for expr, scan := range scanners {
		program, err := parseRegex(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		byHand, matcher := &splitPattern{scan: scan}, &splitPattern{program: program}
		for _, s := range texts {
			a, err := byHand.matches([]byte(s), &scratch{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := matcher.matches([]byte(s), &scratch{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a, b) {
				t.Fatalf("%s on %+q:\n%v, want\n%v", expr, s, a, b)
			}
		}
	}
}
