package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// full is the name of the program that is built without the tags core, server and map.
const full = "onward-full"

// handedOver is set in the environment of the program that takes over, so that it does not hand
// over in turn if it was built with the tag core, too.
const handedOver = "ONWARD_HANDED_OVER"

// leftOut returns stubs for the verbs that build tags left out. They hand over to onward-full.
func leftOut(linked []*cobra.Command) []*cobra.Command {
	var stubs []*cobra.Command
	for _, name := range []string{"calibrate", "conformance", "edit", "map", "quantize", "serve"} {
		if slices.ContainsFunc(linked, func(c *cobra.Command) bool { return c.Name() == name }) {
			continue
		}
		stubs = append(stubs, &cobra.Command{
			Use:                name,
			Short:              "Run " + full + " " + name,
			DisableFlagParsing: true,
			RunE:               func(*cobra.Command, []string) error { return cli.NotLinked{What: "onward " + name} },
		})
	}
	return stubs
}

// handOver runs onward-full with the same arguments in place of this program, and returns its exit
// code if the system cannot replace a process. The program is beside this one or in PATH.
func handOver(ctx context.Context, missing cli.NotLinked, args []string, stderr io.Writer) int {
	path, err := findFull()
	if err == nil {
		env := append(os.Environ(), handedOver+"=1")
		err = syscall.Exec(path, append([]string{path}, args...), env)
		if errors.Is(err, errors.ErrUnsupported) || runtime.GOOS == "windows" {
			c := exec.CommandContext(ctx, path, args...)
			c.Env, c.Stdin, c.Stdout, c.Stderr = env, os.Stdin, os.Stdout, os.Stderr
			if err = c.Run(); err == nil {
				return exitOK
			}
			if e, ok := errors.AsType[*exec.ExitError](err); ok && e.Exited() {
				return e.ExitCode()
			}
		}
	}
	fmt.Fprintf(stderr, "onward: %s\n", text.Escape(fmt.Sprintf("%v, and %s has it: %v", missing, full, err)))
	return exitFailed
}

func findFull() (string, error) {
	if os.Getenv(handedOver) != "" {
		return "", fmt.Errorf("this program is %s already, but built with the tag core or server; build it without them", full)
	}
	name := full
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("install it beside this program or in PATH: %w", err)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
