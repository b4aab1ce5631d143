package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the model or the run failed, or its output cannot be written
	exitUsage  = 2 // the command line is wrong
)

// large are the verbs that the build tags core or server leave out: they take much space or are for
// the development of providers.
var large []func() *cobra.Command

// newRoot returns the command with its verbs.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "onward",
		Short: "Run ONNX models in pure Go",
		Long: "Onward runs ONNX models in pure Go: no cgo, no Python, no shared library.\n\n" +
			"MODEL is a file, or the name of an example model: " + modelfile.Examples() +
			".\n\nExit codes: 0 success, 1 the model or the run failed, 2 wrong usage, 130 interrupted by Ctrl-C.",
		Example:       "  onward run digits.onnx --random\n  onward inspect model.onnx\n  onward doctor",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	info, _ := debug.ReadBuildInfo()
	root.Version = version(info)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(), inspectCommand(), checkCommand(),
		benchCommand(), benchProbeCommand(), compareCommand(), profileCommand(), optimizeCommand(), graphCommand(),
		tuneCommand(), doctorCommand())
	for _, c := range large {
		root.AddCommand(c())
	}
	root.AddCommand(leftOut(root.Commands())...)
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	out := &standardOutput{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var usage cli.UsageError
	var interrupted cli.Interrupted
	var printed cli.Printed
	var missing cli.NotLinked
	if failed := out.failed.Load(); failed != nil && (err == nil || errors.As(err, &printed)) {
		err = *failed // what a verb says it has printed is not complete
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &printed) && printed.Complete:
		return exitFailed
	case errors.As(context.Cause(ctx), &interrupted):
		if msg := err.Error(); strings.HasPrefix(msg, interrupted.Error()) {
			fmt.Fprintf(stderr, "onward: %s\n", text.Escape(msg)) // with what is left to do
		} else {
			fmt.Fprintf(stderr, "onward: %v\n", interrupted)
		}
		return interrupted.ExitCode()
	case errors.As(err, &printed):
		return exitFailed
	case errors.As(err, &missing):
		fmt.Fprintf(stderr, "onward: %s\n", text.Escape(missing.Error()))
		return exitFailed
	case errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(stderr, "onward: %s\nSee %q.\n", text.Escape(err.Error()), cmd.CommandPath()+" --help")
		return exitUsage
	}
	fmt.Fprintf(stderr, "onward: %s\n", text.Escape(withFile(cmd, err.Error())))
	var st *onward.StatusError
	if errors.As(err, &st) && st.Hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", text.Escape(st.Hint))
	}
	return exitFailed
}

// withFile puts the first argument of a verb, its model, before an error that does not name it.
func withFile(cmd *cobra.Command, msg string) string {
	args := cmd.Flags().Args()
	if len(args) == 0 || cmd.Hidden || strings.Contains(msg, args[0]) || len(args) > 1 &&
		strings.Contains(msg, args[1]) {
		return msg
	}
	return args[0] + ": " + msg
}

// wrapArgs makes a wrong number of arguments a UsageError, and refuses flags that
// this build leaves out.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return cli.UsageError{Err: err}
		}
		for _, name := range flagsLeftOut {
			if cmd.Flags().Changed(name) {
				return cli.NotLinked{What: cmd.CommandPath() + " --" + name}
			}
		}
		return nil
	}
}
