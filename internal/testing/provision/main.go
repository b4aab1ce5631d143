// Command provision fetches what the tests use beyond the repository: the ONNX
// backend suite, and ONNX Runtime's library to compare with. Both land in the
// user's cache folder, checked by SHA-256; a second run finds them there.
//
// It prints one line for each: what is used and where it came from, or why it is
// absent. An absent part leaves tests out and fails nothing, unless -require is
// given. A folder or file that a variable names must exist.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
)

func main() {
	require := flag.Bool("require", false, "fail when the suite cannot be fetched")
	limit := flag.Duration("timeout", 5*time.Minute, "time limit for all downloads")
	flag.Parse()
	if flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	code := 0
	s, err := suite.Fetch(ctx)
	switch {
	case err == nil && s.Version == "unknown":
		fmt.Printf("suite: ONNX backend suite in %s (%s)\n", s.Dir, s.Source)
	case err == nil && s.Version != suite.Version:
		fmt.Printf("suite: ONNX %s backend suite in %s (%s); OLDER than %s, which the tests are written against\n", s.Version, s.Dir, s.Source, suite.Version)
	case err == nil:
		fmt.Printf("suite: ONNX %s backend suite, %d cases, in %s (%s)\n", s.Version, suite.Total(), s.Dir, s.Source)
	default:
		fmt.Printf("suite: ABSENT, %d cases left out: %s\n", suite.Total(), oneLine(err))
		if *require || os.Getenv(suite.Env) != "" {
			code = 1
		}
	}

	lib, source, err := ortlib.Fetch(ctx)
	switch {
	case err == nil:
		fmt.Printf("onnxruntime: %s (%s)\n", lib, source)
	case errors.Is(err, ortlib.ErrAbsent):
		fmt.Printf("onnxruntime: left out: %v\n", err)
	default:
		fmt.Printf("onnxruntime: ABSENT, comparisons left out: %s\n", oneLine(err))
		if os.Getenv(ortlib.Env) != "" {
			code = 1
		}
	}
	os.Exit(code)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
