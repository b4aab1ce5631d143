package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
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

func TestThrottle(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	b := newBar(&out, "map", "rows", time.Second, func() time.Time { return clock })
	for done := range 25 {
		b.Step(done, 0, "")
		clock = clock.Add(100 * time.Millisecond)
	}
	if want := "\rmap (0 rows)\rmap (10, 10 rows/s)\rmap (20, 10 rows/s)"; out.String() != want {
		t.Errorf("drawn %q, want %q", &out, want)
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	b := newBar(&out, "running", "cases", 0, func() time.Time { clock = clock.Add(time.Second); return clock })
	b.timed = true
	b.Step(1, 4, "test_\x1babs"+strings.Repeat("x", 50))
	b.Step(2, 4, "test_relu")
	b.Step(3, 4, "test_neg")
	b.Finish()
	got := out.String()
	for _, want := range []string{"running test_relu", " 50% |█████     | (2/4, 1 cases/s) 2s left"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for line := range strings.SplitSeq(got, "\r") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line has %d columns: %q", n, line)
		}
	}
	if last := got[strings.LastIndex(strings.TrimSuffix(got, "\r"), "\r"):]; strings.TrimLeft(last[1:], " ") != "\r" {
		t.Errorf("Finish leaves %q", last)
	}
	if strings.Contains(got, "\x1babs") {
		t.Errorf("a name reaches the terminal unescaped: %q", got)
	}
	if got := shorten(strings.Repeat("ä", itemWidth+1)); got != strings.Repeat("ä", itemWidth-1)+"…" {
		t.Errorf("shorten: %q", got)
	}
}
