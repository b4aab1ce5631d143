// Package ortlib finds ONNX Runtime's shared library for the differential tests
// and fetches it.
//
// Tests call [Path] and never download: `make test` (or
// `go run ./internal/testing/provision`) does, through [Fetch].
package ortlib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/testing/store"
)

// Version is the ONNX Runtime release that the differential tests compare with.
const Version = "1.30.0"

// Env is the environment variable with the path of the library.
const Env = "ONWARD_ORT_LIBRARY"

const (
	pkg        = "onnxruntime-node"
	packageSum = "6e3390d6b783e7be946fad629292799da28d0b42f84856e50d2c1b0383291e75"
	inPackage  = "package/bin/napi-v6/linux/"
	soname     = "libonnxruntime.so.1"
	cacheName  = "onnxruntime-" + Version
)

// ErrAbsent is returned if this machine has no library for its platform.
var ErrAbsent = errors.New("ONNX Runtime's library is not on this machine")

// Find returns the library that ONWARD_ORT_LIBRARY names, or the one in the cache if the
// variable is not set. It downloads nothing. The error is ErrAbsent if there is no library,
// and another one if the variable does not name a file.
func Find() (string, error) {
	if lib := os.Getenv(Env); lib != "" {
		if fi, err := os.Stat(lib); err != nil || !fi.Mode().IsRegular() {
			return "", fmt.Errorf("%s=%s is not a file", Env, lib)
		}
		return lib, nil
	}
	lib, _, err := cachePath()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(lib); err != nil {
		return "", ErrAbsent
	}
	return lib, nil
}

// cachePath returns the path of this platform's library in the cache, and its folder.
func cachePath() (lib, dir string, err error) {
	arch, ok := map[string]string{"linux/amd64": "x64", "linux/arm64": "arm64"}[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return "", "", fmt.Errorf("%w: the package has no library for %s/%s", ErrAbsent, runtime.GOOS, runtime.GOARCH)
	}
	dir, err = store.Path(cacheName)
	return filepath.Join(dir, arch, soname), dir, err
}

var find = sync.OnceValues(Find)

// Path returns the path of the library. It skips the test if there is no library.
func Path(t testing.TB) string {
	t.Helper()
	lib, err := find()
	if errors.Is(err, ErrAbsent) {
		t.Skipf("%v: comparison skipped; `make test` fetches it, or set %s to its path", err, Env)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// Fetch makes the library available to Find and returns its path and source. It
// tries, in order: ONWARD_ORT_LIBRARY, a complete copy in the cache, the npm package.
func Fetch(ctx context.Context) (lib, source string, err error) {
	if os.Getenv(Env) != "" {
		lib, err = Find()
		return lib, Env, err
	}
	lib, dir, err := cachePath()
	if err != nil {
		return "", "", err
	}
	r, err := store.Verify(dir)
	if err == nil && r.Archive == packageSum {
		return lib, r.Source + ", cached", nil
	}
	var why []error
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		why = append(why, fmt.Errorf("cache: %w", err))
	}
	if r, err = fromPackage(ctx, dir); err != nil {
		return "", "", errors.Join(append(why, err)...)
	}
	return lib, r.Source, nil
}

func fromPackage(ctx context.Context, dir string) (store.Record, error) {
	tmp, err := os.MkdirTemp("", "onward-npm-")
	if err != nil {
		return store.Record{}, err
	}
	defer os.RemoveAll(tmp)
	if _, err := store.Run(ctx, tmp, "npm", "pack", "--silent", pkg+"@"+Version); err != nil {
		return store.Record{}, err
	}
	b, err := store.CheckFile(filepath.Join(tmp, pkg+"-"+Version+".tgz"), packageSum)
	if err != nil {
		return store.Record{}, err
	}
	return store.Install(dir, "", func(into string) (store.Record, error) {
		n, err := store.ExtractTgz(b, into, func(name string) (string, bool) {
			rel, ok := strings.CutPrefix(name, inPackage)
			return rel, ok && path.Base(rel) == soname
		})
		if err == nil && n != 2 {
			err = fmt.Errorf("%s@%s contains %d libraries named %s, want 2 (x64, arm64)", pkg, Version, n, soname)
		}
		return store.Record{Source: "npm package " + pkg + "@" + Version, Version: Version, Archive: packageSum}, err
	})
}
