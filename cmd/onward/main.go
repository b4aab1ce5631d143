// Command onward runs, inspects and checks ONNX models, and runs the ONNX backend
// suite. See onward --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"

	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // image formats that not every program decodes
	_ "github.com/onward-ml/onward/imagecodec/webp"
)

func main() { os.Exit(process()) }

// process runs the command line of the process and returns the exit code. The first signal cancels
// the verb, which removes its temporary files; the second one ends the process.
func process() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		number, _ := s.(syscall.Signal)
		cancel(cli.Interrupted{Signal: number})
	}()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
