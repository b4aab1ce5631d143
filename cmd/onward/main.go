// Command onward runs, inspects and checks ONNX models, and runs the ONNX backend
// suite. See onward --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // image formats that not every program decodes
	_ "github.com/onward-ml/onward/imagecodec/webp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
