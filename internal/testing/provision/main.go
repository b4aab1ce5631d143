// Command provision fetches the parts outside the repository that tests use: the ONNX
// backend suite, ONNX Runtime's library and OpenVINO's. They are checked by SHA-256 and
// stored in the user's cache folder, where a second run finds them. With -devices it fetches
// the builds of ONNX Runtime for devices and a software Vulkan device instead, about 400 MB;
// with -tokenizers the tokenizers of public models, about 240 MB.
//
// It prints one line for each part: its path and source, or why it is absent. Tests that
// need an absent part are skipped; -require makes an absent suite an error. A folder or
// file that an environment variable names must exist.
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

	"github.com/onward-ml/onward/internal/testing/lavapipe"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/internal/testing/tokenizerfiles"
)

func main() {
	require := flag.Bool("require", false, "fail when the suite cannot be fetched")
	devices := flag.Bool("devices", false,
		"fetch the builds of ONNX Runtime for devices and a software Vulkan device, and nothing else")
	tokenizers := flag.Bool("tokenizers", false, "fetch the tokenizers of public models, and nothing else")
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

	if *tokenizers {
		dir, source, err := tokenizerfiles.Fetch(ctx)
		if err != nil {
			fmt.Printf("tokenizers: left out: %s\n", oneLine(err))
			return
		}
		fmt.Printf("tokenizers: %s (%s)\n", dir, source)
		return
	}
	if *devices {
		for _, b := range ortlib.Builds() {
			lib, source, err := b.Fetch(ctx)
			if err != nil {
				fmt.Printf("%s: left out: %s\n", b.Name, oneLine(err))
				continue
			}
			fmt.Printf("%s: %s (%s)\n", b.Name, lib, source)
		}
		if dir, source, err := lavapipe.Fetch(ctx); err != nil {
			fmt.Printf("software Vulkan device: left out: %s\n", oneLine(err))
		} else {
			fmt.Printf("software Vulkan device: %s (%s)\n", dir, source)
		}
		return
	}

	code := 0
	s, err := suite.Fetch(ctx)
	switch {
	case err == nil && s.Version == "unknown":
		fmt.Printf("suite: ONNX backend suite in %s (%s)\n", s.Dir, s.Source)
	case err == nil && s.Version != suite.Version:
		fmt.Printf("suite: ONNX %s backend suite in %s (%s); OLDER than %s, which the tests are written against\n",
			s.Version, s.Dir, s.Source, suite.Version)
	case err == nil:
		fmt.Printf("suite: ONNX %s backend suite, %d cases, in %s (%s)\n", s.Version, suite.Total(), s.Dir, s.Source)
	default:
		fmt.Printf("suite: ABSENT, %d cases skipped: %s\n", suite.Total(), oneLine(err))
		if *require || os.Getenv(suite.Env) != "" {
			code = 1
		}
	}

	for _, l := range []struct {
		name, env string
		fetch     func(context.Context) (lib, source string, err error)
		absent    error
	}{
		{"onnxruntime", ortlib.Env, ortlib.Fetch, ortlib.ErrAbsent},
		{"openvino", openvinolib.Env, openvinolib.Fetch, openvinolib.ErrAbsent},
	} {
		lib, source, err := l.fetch(ctx)
		switch {
		case err == nil:
			fmt.Printf("%s: %s (%s)\n", l.name, lib, source)
		case errors.Is(err, l.absent):
			fmt.Printf("%s: skipped: %v\n", l.name, err)
		default:
			fmt.Printf("%s: ABSENT, comparisons skipped: %s\n", l.name, oneLine(err))
			if os.Getenv(l.env) != "" {
				code = 1
			}
		}
	}
	os.Exit(code)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
