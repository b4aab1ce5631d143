package progress

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	b := New(&out, "calibrating", "batches")
	b.Step(1, 2, "x")
	b.Finish()
	if b != nil || out.Len() != 0 {
		t.Errorf("a bar on a buffer writes %q", &out)
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out, "running", "cases", 0) // drawn at each step, whatever the time
	b.Step(1, 4, "test_\x1babs"+strings.Repeat("x", 50))
	b.Step(2, 4, "test_relu")
	b.Step(3, 4, "test_neg")
	b.Finish()
	got := out.String()
	for _, want := range []string{"running test_relu", "2/4", "cases"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for line := range strings.SplitSeq(got, "\r") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line has %d columns: %q", n, line)
		}
	}
	if strings.Contains(got, "\x1babs") {
		t.Errorf("a name reaches the terminal unescaped: %q", got)
	}
	if got := shorten(strings.Repeat("ä", itemWidth+1)); got != strings.Repeat("ä", itemWidth-1)+"…" {
		t.Errorf("shorten: %q", got)
	}
}
