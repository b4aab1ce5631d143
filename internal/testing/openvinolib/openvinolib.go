// Package openvinolib finds OpenVINO's library for tests and fetches it.
//
// Tests call [Path] and never download: `make test` (or
// `go run ./internal/testing/provision`) does, through [Fetch].
package openvinolib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/testing/store"
)

// Version is the OpenVINO release that the tests are written against.
const Version = "2026.4.1"

// Env is the environment variable with the path of the library.
const Env = "ONWARD_OPENVINO_LIBRARY"

const (
	requirement = "openvino==" + Version
	inWheel     = "openvino/libs/"
	cacheName   = "openvino-" + Version
	pattern     = "libopenvino_c.so.*"
)

// wheels contain the same libraries for every version of Python.
var wheels = map[string]store.Wheel{
	"linux/amd64": {Requirement: requirement, Platform: "manylinux_2_28_x86_64",
		File: "openvino-2026.4.1-22982-cp311-cp311-manylinux_2_28_x86_64.whl",
		Sum:  "2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf"},
	"linux/arm64": {Requirement: requirement, Platform: "manylinux_2_35_aarch64",
		File: "openvino-2026.4.1-22982-cp311-cp311-manylinux_2_35_aarch64.whl",
		Sum:  "bea1eb3733c34ef331adc945da0ccda5937865031139073663be84c517ffda22"},
}

// needed lists the name prefixes of the libraries for running ONNX models on a CPU. They
// include the ONNX frontend and the IR frontend, which reads the cache of compiled models.
var needed = []string{"libopenvino.so", "libopenvino_c.so", "libopenvino_onnx_frontend.so",
	"libopenvino_ir_frontend.so",
	"libopenvino_intel_cpu_plugin.so", "libopenvino_arm_cpu_plugin.so", "libopenvino_auto_plugin.so",
	"libopenvino_auto_batch_plugin.so",
	"libopenvino_hetero_plugin.so", "libtbb", "libhwloc.so"}

// ErrAbsent is returned if this machine has no library for its platform.
var ErrAbsent = errors.New("OpenVINO's library is not on this machine")

// Find returns the library that ONWARD_OPENVINO_LIBRARY names, or the one in the cache if
// the variable is not set. It downloads nothing. The error is ErrAbsent if there is no
// library, and another one if the variable does not name a file.
func Find() (string, error) {
	if lib := os.Getenv(Env); lib != "" {
		if fi, err := os.Stat(lib); err != nil || !fi.Mode().IsRegular() {
			return "", fmt.Errorf("%s=%s is not a file", Env, lib)
		}
		return lib, nil
	}
	_, dir, err := cachePath()
	if err != nil {
		return "", err
	}
	return in(dir)
}

func in(dir string) (string, error) {
	libs, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(libs) == 0 {
		err = ErrAbsent
	}
	if err != nil {
		return "", err
	}
	return libs[0], nil
}

// cachePath returns this platform's wheel and the folder of its libraries in the cache.
func cachePath() (w store.Wheel, dir string, err error) {
	w, ok := wheels[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return w, "", fmt.Errorf("%w: there is no known package for %s/%s", ErrAbsent, runtime.GOOS, runtime.GOARCH)
	}
	dir, err = store.Path(cacheName)
	return w, dir, err
}

var find = sync.OnceValues(Find)

// Path returns the path of the library. It skips the test if there is no library.
func Path(t testing.TB) string {
	t.Helper()
	lib, err := find()
	if errors.Is(err, ErrAbsent) {
		t.Skipf("%v: skipped; `make test` fetches it, or set %s to its path", err, Env)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// Fetch makes the library available to Find and returns its path and source. It
// tries, in order: ONWARD_OPENVINO_LIBRARY, a complete copy in the cache, the wheel by pip.
func Fetch(ctx context.Context) (lib, source string, err error) {
	if os.Getenv(Env) != "" {
		lib, err = Find()
		return lib, Env, err
	}
	w, dir, err := cachePath()
	if err != nil {
		return "", "", err
	}
	r, err := store.Verify(dir)
	if err == nil && r.Archive == w.Sum {
		lib, err = in(dir)
		return lib, r.Source + ", cached", err
	}
	var why []error
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		why = append(why, fmt.Errorf("cache: %w", err))
	}
	b, err := w.Download(ctx)
	if err == nil {
		r, err = store.Install(dir, "", func(into string) (store.Record, error) { return unpack(b, &w, into) })
	}
	if err == nil {
		lib, err = in(dir)
	}
	if err != nil {
		return "", "", errors.Join(append(why, err)...)
	}
	return lib, r.Source, nil
}

func unpack(wheel []byte, w *store.Wheel, into string) (store.Record, error) {
	found := map[string]bool{}
	_, err := store.ExtractZipAs(wheel, into, func(name string) (string, bool) {
		rel, ok := strings.CutPrefix(name, inWheel)
		if !ok {
			return "", false
		}
		for _, n := range needed {
			if strings.HasPrefix(rel, n) {
				found[n] = true
				return rel, true
			}
		}
		return "", false
	})
	if err == nil && len(found) != len(needed)-1 { // one of the two CPU plug-ins
		err = fmt.Errorf("%s contains only %d of the %d required libraries", w.File, len(found), len(needed)-1)
	}
	return store.Record{Source: "wheel " + requirement, Version: Version, Archive: w.Sum}, err
}
