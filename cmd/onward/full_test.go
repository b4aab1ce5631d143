package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
)

// A process replaces itself, so the test runs itself once more as the program that hands over.
func TestHandOver(t *testing.T) {
	const child = "ONWARD_TEST_HAND_OVER"
	if os.Getenv(child) != "" {
		os.Exit(handOver(t.Context(), cli.NotLinked{What: `provider "ort"`}, []string{"run", "a model.onnx"}, os.Stderr))
	}
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for onward-full is a shell script")
	}
	dir := t.TempDir()
	start := func(env ...string) (int, string, string) {
		c := exec.Command(os.Args[0], "-test.run=^TestHandOver$")
		c.Env = append(os.Environ(), append(env, child+"=1")...)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); c.ProcessState == nil {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), out.String(), errs.String()
	}
	path := "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
	if code, _, errs := start("PATH=" + dir); code != exitFailed || !strings.Contains(errs, `provider "ort" is not part of this build, and onward-full has it: install it beside this program or in PATH`) {
		t.Errorf("without onward-full: code %d, %q", code, errs)
	}
	script := "#!/bin/sh\necho \"$0:$1:$2:$" + handedOver + "\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, full), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := start(path); code != 7 || out != filepath.Join(dir, full)+":run:a model.onnx:1\n" || errs != "" {
		t.Errorf("code %d, output %q, errors %q", code, out, errs)
	}
	if code, _, errs := start(path, handedOver+"=1"); code != exitFailed || !strings.Contains(errs, "this program is onward-full already, but built with the tag core or server") {
		t.Errorf("after a hand-over: code %d, %q", code, errs)
	}
}

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
				t.Errorf("%s does not hand over", c.Name())
			}
		}
		return r
	}
	if got := names("serve"); !slices.Equal(got, []string{"calibrate", "conformance", "edit", "map", "quantize"}) {
		t.Errorf("with serve linked: stubs %v", got)
	}
	if got := names("serve", "map", "conformance", "edit", "calibrate", "quantize"); got != nil {
		t.Errorf("with all linked: stubs %v", got)
	}
}

// A flag that a build leaves out hands over before the verb does anything.
func TestLeftOutFlags(t *testing.T) {
	defer func(f []string) { flagsLeftOut = f }(flagsLeftOut)
	flagsLeftOut = []string{"html"}
	t.Setenv(handedOver, "1") // findFull then finds no program
	page := filepath.Join(t.TempDir(), "p.html")
	for _, verb := range []string{"graph", "profile"} {
		if _, errs := command(t, exitFailed, verb, "digits.onnx", "--html", page); !strings.Contains(errs, "onward "+verb+" --html is not part of this build, and onward-full has it") {
			t.Errorf("%s: %q", verb, errs)
		}
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("a page is written")
	}
	command(t, exitOK, "graph", "digits.onnx")
}
