package cpu

import (
	"strings"
	"testing"
)

func TestParseRoundTrip(t *testing.T) {
	for l := Generic; l <= NEON; l++ {
		got, err := Parse(strings.ToUpper(l.String()))
		if err != nil || got != l {
			t.Errorf("Parse(%q) = %v, %v", l, got, err)
		}
	}
	if _, err := Parse("sse9"); err == nil || !strings.Contains(err.Error(), "sse9") {
		t.Errorf("Parse(sse9): %v", err)
	}
	if s := Level(77).String(); s != "cpu.Level(77)" {
		t.Errorf("String of an unknown level: %s", s)
	}
}

func TestChoose(t *testing.T) {
	if l, n := choose(""); l != detected || n != "" {
		t.Errorf("choose empty = %v, %q", l, n)
	}
	if l, n := choose("generic"); l != Generic || n != "" {
		t.Errorf("choose generic = %v, %q", l, n)
	}
	if l, n := choose("sse9"); l != detected || !strings.Contains(n, "sse9") {
		t.Errorf("choose sse9 = %v, %q", l, n)
	}
	for _, name := range []string{"avx2", "avx512", "neon"} {
		p, _ := Parse(name)
		l, n := choose(name)
		if Available(p) != (l == p && n == "") {
			t.Errorf("choose %s = %v, %q with levels %v", name, l, n, Levels())
		}
	}
}

func TestSetRestores(t *testing.T) {
	before := Active()
	for _, l := range Levels() {
		restore := Set(l)
		if Active() != l {
			t.Errorf("Active() = %v after Set(%v)", Active(), l)
		}
		restore()
		if Active() != before {
			t.Errorf("restore left %v, want %v", Active(), before)
		}
	}
	if VNNI(Generic) || VNNI(AVX2) {
		t.Error("VNNI needs AVX512")
	}
	if DotProduct(Generic) || DotProduct(AVX512) {
		t.Error("DotProduct needs NEON")
	}
	for _, l := range Levels() {
		if (Extension(l) != "") != (VNNI(l) || DotProduct(l)) {
			t.Errorf("Extension(%v) = %q with VNNI %v, dot products %v", l, Extension(l), VNNI(l), DotProduct(l))
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Set of an unknown level does not panic")
		}
	}()
	Set(Level(9))
}
