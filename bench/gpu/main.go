// Command gpu checks ONNX Runtime's CUDA and TensorRT execution providers on a
// machine with an NVIDIA GPU, and prints one table: what the machine has, the ONNX
// backend suite on both, every preset for a GPU, the scenarios of IOBinding, and the
// times of some models against those of this module's engine.
//
//	go run ./bench/gpu
//
// It gets ONNX Runtime with CUDA by pip unless ONWARD_ORT_LIBRARY names its library. CUDA 13,
// cuDNN 9 and TensorRT 10 must be on the machine; NVIDIA's Python packages are found, too:
//
//	pip install "onnxruntime-gpu[cuda,cudnn]" tensorrt-cu13-libs
//
// With -standin it runs on a stand-in for CUDA's libraries instead of a GPU, and checks only
// what copies and does not compute.
//
// Every row is ok or says why not; the exit code is 1 when a row failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onward-ml/onward/internal/testing/fakecuda"
	"github.com/onward-ml/onward/internal/testing/ortlib"
)

func main() { os.Exit(check()) }

// check runs the checks and returns the exit code.
func check() int {
	standIn := flag.Bool("standin", false,
		"without a GPU: check what only copies, on a stand-in for CUDA (needs a C compiler)")
	data := flag.String("data", "",
		"the data folder of the ONNX backend suite (default: the cache, which `make suite` fills)")
	kinds := flag.String("include", "", "only the rows that begin with one of these words, separated by commas: "+
		"machine, doctor, conformance, preset, binding, time")
	per := flag.Duration("duration", time.Second, "time to measure a model with a provider")
	flag.Parse()
	if flag.NArg() != 0 {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := &checker{data: *data, duration: *per, progress: os.Stderr, targets: targets}
	if *kinds != "" {
		c.include = strings.Split(*kinds, ",")
	}
	lib, source, err := library(ctx)
	if err == nil {
		os.Setenv(ortlib.Env, lib)
	}
	c.add("machine", "ONNX Runtime with CUDA", func(context.Context) (string, error) {
		return lib + " (" + source + ")", err
	})
	if *standIn {
		c.copies = true
		dir, err := os.MkdirTemp("", "onward-standin-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = fakecuda.Build(ctx, lib, dir)
		}
		os.Setenv("VIRTUAL_ENV", dir)
		c.add("machine", "stand-in for CUDA", func(context.Context) (string, error) { return "built", err })
	} else {
		c.gpu = gpuOf(ctx)
	}
	c.all()
	ok := c.run(ctx)
	c.print(os.Stdout)
	if !ok {
		return 1
	}
	return 0
}

// library returns the path and the source of ONNX Runtime's library.
func library(ctx context.Context) (lib, source string, err error) {
	if os.Getenv(ortlib.Env) != "" {
		lib, err = ortlib.Find()
		return lib, ortlib.Env, err
	}
	return ortlib.GPU.Fetch(ctx)
}

// row is a check and its outcome.
type row struct {
	kind, name string
	do         func(context.Context) (string, error)
	result     string
	err        error
}

// checker runs the checks in order.
type checker struct {
	data     string
	duration time.Duration
	include  []string // kinds of rows; nil for all
	targets  []target
	progress io.Writer
	gpu      error // nil if there is a GPU
	copies   bool  // check only what copies
	rows     []*row
}

func (c *checker) add(kind, name string, do func(context.Context) (string, error)) {
	c.rows = append(c.rows, &row{kind: kind, name: name, do: do})
}

// onGPU adds a row that needs a GPU.
func (c *checker) onGPU(kind, name string, do func(context.Context) (string, error)) {
	c.add(kind, name, func(ctx context.Context) (string, error) {
		if c.gpu != nil {
			return "", c.gpu
		}
		return do(ctx)
	})
}

// run reports whether all rows are ok.
func (c *checker) run(ctx context.Context) bool {
	c.rows = slices.DeleteFunc(c.rows, func(r *row) bool {
		return c.include != nil && !slices.Contains(c.include, r.kind)
	})
	ok := true
	for i, r := range c.rows {
		fmt.Fprintf(c.progress, "[%d/%d] %s: %s\n", i+1, len(c.rows), r.kind, r.name)
		if r.err = ctx.Err(); r.err == nil {
			r.result, r.err = r.do(ctx)
		}
		ok = ok && r.err == nil
	}
	return ok
}

func (c *checker) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tcheck\tstatus\tresult")
	failed := 0
	for _, r := range c.rows {
		status, text := "ok", r.result
		if r.err != nil {
			status, text = "FAILED", r.err.Error()
			failed++
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.kind, r.name, status, oneLine(text))
	}
	t.Flush()
	fmt.Fprintf(w, "%d ok, %d failed\n", len(c.rows)-failed, failed)
}

// oneLine shortens a text to one line. The error of opening a library has a line for each path
// tried.
func oneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, ": not there") {
			parts = append(parts, line)
		}
	}
	s = strings.Join(parts, "; ")
	const most = 400
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}
