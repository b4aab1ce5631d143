package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestQuantize(t *testing.T) {
	var text bytes.Buffer
	report, err := quantize(t.Context(), &text)
	if err != nil {
		t.Fatal(err)
	}
	if len(report) != 2 {
		t.Fatalf("got %d outputs, want 2:\n%s", len(report), &text)
	}
	for _, o := range report {
		if o.Values == 0 || o.Agreement() < 0.95 {
			t.Errorf("output %s: %v of %d values agree, want 95 %%", o.Name, o.Agreement(), o.Values)
		}
		if o.Name == "probabilities" && (o.MaxAbs == 0 || o.MaxAbs > 0.3) {
			t.Errorf("probabilities differ by %v, want some rounding and at most 0.3", o.MaxAbs)
		}
	}
	if !strings.Contains(text.String(), "agree") {
		t.Errorf("got %q", &text)
	}
}
