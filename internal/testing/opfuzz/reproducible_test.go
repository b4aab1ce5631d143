package opfuzz

import (
	"flag"
	"testing"

	_ "pgregory.net/rapid" // registers the flags
)

// A test that asks after another one gets the same draws as alone.
func TestReproducibleHoldsForEachTest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a fourth of the checks runs")
	}
	for _, checks := range []string{"7", "8"} {
		t.Run(checks, func(t *testing.T) {
			given := flag.Lookup("rapid.checks").Value.String()
			Reproducible(t, checks)
			if got := flag.Lookup("rapid.checks").Value.String(); got != checks && !commandLine()["rapid.checks"] {
				t.Errorf("%s checks, want %s (%s before)", got, checks, given)
			}
		})
	}
}
