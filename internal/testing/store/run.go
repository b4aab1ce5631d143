package store

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Run runs a command in dir and returns what it prints, trimmed. The error holds
// the command and the last line of its error output.
func Run(ctx context.Context, dir string, command ...string) (string, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = dir
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		last := strings.TrimSpace(errs.String())
		last = strings.TrimSpace(last[strings.LastIndexByte(last, '\n')+1:])
		return "", fmt.Errorf("%s: %w %s", strings.Join(command[:min(len(command), 4)], " "), err, last)
	}
	return strings.TrimSpace(string(out)), nil
}
