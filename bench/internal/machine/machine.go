// Package machine describes the machine on which a benchmark runs, and builds the
// command that it measures.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/cpu"
)

// CPU returns the name of the processor, "an unnamed processor" if the system does not tell it.
func CPU() string { return cmp.Or(cpu.Name(), "an unnamed processor") }

// Load returns a sentence with the load of the machine over the last minute, or "" if it is unknown
// or below a fifth of a core.
func Load() string {
	data, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(data), " ")
	if x, err := strconv.ParseFloat(load, 64); err != nil || x < .2 {
		return ""
	}
	return fmt.Sprintf("The load average was %s when the measurement began, from other processes.\n", load)
}

// Onward builds the onward command in a folder and returns its path.
func Onward(ctx context.Context, dir string) (string, error) {
	exe := filepath.Join(dir, "onward.exe")
	out, err := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", exe,
		"github.com/onward-ml/onward/cmd/onward").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build onward: %w\n%s", err, out)
	}
	return exe, nil
}
