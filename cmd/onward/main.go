// Command onward runs, inspects and checks ONNX models, and runs the ONNX backend
// suite. See onward --help.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // image formats that not every program decodes
	_ "github.com/onward-ml/onward/imagecodec/webp"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the model or the run failed
	exitUsage  = 2
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silent is an error whose story has been told.
type silent struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "onward",
		Short:         "Run ONNX models in pure Go",
		Long:          "Onward runs ONNX models in pure Go: no cgo, no Python, no shared library.\n\nMODEL is a file, or the name of an example: " + exampleNames() + ".",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(), inspectCommand(), checkCommand(), conformanceCommand(),
		benchCommand(), benchProbeCommand(), compareCommand(), profileCommand(), optimizeCommand(), graphCommand(), calibrateCommand(), quantizeCommand(), tuneCommand(), doctorCommand())
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var quiet silent
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return exitFailed
	case errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(stderr, "onward: %s\nSee %q.\n", clean(err.Error()), cmd.CommandPath()+" --help")
		return exitUsage
	}
	fmt.Fprintf(stderr, "onward: %s\n", clean(err.Error()))
	return exitFailed
}

// wrapArgs makes a wrong number of arguments a mistake of usage.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// clean makes text from a file safe for a terminal: control and invisible
// characters are escaped, line ends and tabs stay.
func clean(s string) string {
	ok := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 || r < 0x80 && !ok(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case ok(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// name is clean for names, which have no line ends either.
func name(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(clean(s))
}

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
