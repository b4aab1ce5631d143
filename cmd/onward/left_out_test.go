package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
)

func TestLeftOutVerbs(t *testing.T) {
	names := func(linked ...string) []string {
		var have []*cobra.Command
		for _, n := range linked {
			have = append(have, &cobra.Command{Use: n + " MODEL"})
		}
		var r []string
		for _, c := range leftOut(have) {
			r = append(r, c.Name())
			if _, ok := c.RunE(c, nil).(cli.NotLinked); !ok {
				t.Errorf("%s does not say that it is left out", c.Name())
			}
		}
		return r
	}
	want := []string{"calibrate", "conformance", "edit", "embed", "map", "predict", "quantize", "tokenize"}
	if got := names("serve"); !slices.Equal(got, want) {
		t.Errorf("with serve linked: stubs %v", got)
	}
	if got := names(append(want, "serve")...); got != nil {
		t.Errorf("with all linked: stubs %v", got)
	}
}

// A flag that a build leaves out is refused before the verb does anything.
func TestLeftOutFlags(t *testing.T) {
	defer func(f []string) { flagsLeftOut = f }(flagsLeftOut)
	flagsLeftOut = []string{"html"}
	page := filepath.Join(t.TempDir(), "p.html")
	for _, verb := range []string{"graph", "profile"} {
		if _, errs := command(t, exitFailed, verb, "digits.onnx", "--html", page); !strings.Contains(errs,
			"onward "+verb+" --html is not part of this build") {
			t.Errorf("%s: %q", verb, errs)
		}
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("a page is written")
	}
	command(t, exitOK, "graph", "digits.onnx")
}
