// Command gpu checks ONNX Runtime's CUDA and TensorRT execution providers on a
// machine with an NVIDIA GPU, and prints one table: what the machine has, the ONNX
// backend suite on both, every preset for a GPU, the scenarios of IOBinding, and the
// times of some models against those of this module's engine.
//
//	go run ./bench/gpu
//
// It gets ONNX Runtime with CUDA from Maven unless ONWARD_ORT_LIBRARY names its
// library. CUDA 12, cuDNN 9 and TensorRT 10 must be on the machine; Python packages of
// NVIDIA are found too:
//
//	pip install nvidia-cuda-runtime-cu12 nvidia-cublas-cu12 nvidia-cudnn-cu12 \
//	    nvidia-curand-cu12 nvidia-cufft-cu12 tensorrt-cu12-libs
//
// Every row is ok or says why not; the exit code is 1 when a row failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onward-ml/onward/internal/testing/ortlib"
)

func main() {
	jar := flag.String("jar", "", "the onnxruntime_gpu "+ortlib.GPUVersion+" jar, instead of mvn")
	data := flag.String("data", "", "the data folder of the ONNX backend suite (default: the cache, which `make suite` fills)")
	kinds := flag.String("include", "", "only the rows that begin with one of these words, separated by commas: machine, doctor, conformance, preset, binding, time")
	per := flag.Duration("duration", time.Second, "time to measure a model with a provider")
	flag.Parse()
	if flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := &checker{data: *data, duration: *per, progress: os.Stderr, targets: targets}
	if *kinds != "" {
		c.include = strings.Split(*kinds, ",")
	}
	lib, source, err := ortlib.FetchGPU(ctx, *jar)
	if err == nil {
		os.Setenv(ortlib.Env, lib)
		if err := withLibraries(lib); err != nil {
			fmt.Fprintln(os.Stderr, "gpu:", err)
		}
	}
	c.add("machine", "ONNX Runtime with CUDA", func(context.Context) (string, error) { return lib + " (" + source + ")", err })
	c.gpu = gpuOf(ctx)
	c.all()
	ok := c.run(ctx)
	c.print(os.Stdout)
	if !ok {
		os.Exit(1)
	}
}

// reexecuted is an environment variable that is set in the process that withLibraries starts.
const reexecuted = "ONWARD_GPU_LIBRARIES"

// withLibraries restarts the program with the folders of CUDA, cuDNN and TensorRT in the loader's
// path, unless they are in it. The loader reads the path only when a process starts.
func withLibraries(lib string) error {
	if runtime.GOOS != "linux" || os.Getenv(reexecuted) != "" {
		return nil
	}
	dirs := libraryFolders(os.Getenv("HOME"), os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"))
	have := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return slices.Contains(have, d) })
	if len(dirs) == 0 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), reexecuted+"=1", ortlib.Env+"="+lib,
		"LD_LIBRARY_PATH="+strings.Join(append(have, dirs...), string(filepath.ListSeparator)))
	err = c.Run()
	if c.ProcessState != nil {
		os.Exit(c.ProcessState.ExitCode())
	}
	return err
}

// libraryFolders returns the existing folders in which NVIDIA's installers and Python packages put
// their libraries.
func libraryFolders(home string, prefixes ...string) []string {
	patterns := []string{"/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/opt/tensorrt*/lib", "/usr/local/tensorrt*/lib"}
	for _, p := range append(prefixes, filepath.Join(home, ".local"), "/usr/local", "/usr") {
		if !filepath.IsAbs(p) {
			continue
		}
		for _, site := range []string{"site-packages", "dist-packages"} {
			base := filepath.Join(p, "lib", "python3*", site)
			patterns = append(patterns, filepath.Join(base, "nvidia", "*", "lib"), filepath.Join(base, "tensorrt_libs"))
		}
	}
	var dirs []string
	for _, p := range patterns {
		m, _ := filepath.Glob(p) // the patterns are valid
		dirs = append(dirs, m...)
	}
	return dirs
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
	c.rows = slices.DeleteFunc(c.rows, func(r *row) bool { return c.include != nil && !slices.Contains(c.include, r.kind) })
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
