// Package suite finds the ONNX backend test suite for tests and fetches it.
//
// Tests call [Dir] and never download: `make test` (or
// `go run ./internal/testing/provision`) does, through [Fetch].
package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/testing/store"
)

// Version is the ONNX release whose suite the tests are written against.
const Version = "1.22.0"

// Env is the environment variable with the folder of the suite: the one that contains
// node/, simple/ and so on, or one with onnx/backend/test/data below it.
const Env = "ONNX_TEST_DATA"

// Cases is the number of cases of each kind in Version's suite.
var Cases = map[string]int{"node": 1765, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35, "real": 9}

const (
	// treeSum is store.TreeSum over the suite of Version.
	treeSum = "eb9b5185ac1098862079e356c6f7222330778023dc9acab050d9025a37f89dd4"

	inWheel      = "onnx/backend/test/data/"
	debian       = "libonnx-testdata"
	inDebian     = "usr/share/libonnx-testdata/data"
	cacheName    = "onnx-" + Version
	debianPrefix = "onnx-debian-"
)

// The suite in the wheel is the same for all platforms.
var wheel = store.Wheel{
	Requirement: "onnx==" + Version,
	Platform:    "manylinux_2_28_x86_64",
	File:        "onnx-1.22.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
	Sum:         "1d0a2bdb15eb2b3cb65c438f3423d9620d14fdce32f92380e6bb1b2e09568ef5",
}

// Suite is a suite on this machine.
type Suite struct {
	Dir     string // holds node/, simple/, …
	Version string // ONNX release, "unknown" for a folder that the user named
	Source  string // where it comes from, for messages
}

// ErrAbsent is returned if this machine has no suite.
var ErrAbsent = errors.New("the ONNX backend suite is not on this machine")

// At returns the suite in a folder: the one that holds node/, or one with
// onnx/backend/test/data below it, as in the onnx wheel.
func At(dir string) (Suite, error) {
	for _, d := range []string{dir, filepath.Join(dir, filepath.FromSlash(inWheel))} {
		if fi, err := os.Stat(filepath.Join(d, "node")); err == nil && fi.IsDir() {
			return Suite{Dir: d, Version: "unknown", Source: dir}, nil
		}
	}
	return Suite{}, fmt.Errorf("%s: neither it nor %s below it contains a folder node/", dir, inWheel)
}

// Find returns the suite in the folder ONNX_TEST_DATA, or the one in the cache if the
// variable is not set. It downloads nothing. The error is ErrAbsent if there is no suite,
// and another one if ONNX_TEST_DATA names a folder without a suite.
func Find() (Suite, error) {
	if dir := os.Getenv(Env); dir != "" {
		s, err := At(dir)
		if err != nil {
			return s, fmt.Errorf("%s=%w", Env, err)
		}
		s.Source = Env
		return s, nil
	}
	dir, err := store.Path(cacheName)
	if err != nil {
		return Suite{}, err
	}
	if r, err := store.Lookup(dir); err == nil {
		return Suite{Dir: dir, Version: r.Version, Source: r.Source}, nil
	}
	old, err := filepath.Glob(filepath.Join(filepath.Dir(dir), debianPrefix+"*"))
	if err != nil {
		return Suite{}, err
	}
	for i := len(old) - 1; i >= 0; i-- {
		if r, err := store.Lookup(old[i]); err == nil {
			return Suite{Dir: old[i], Version: r.Version, Source: r.Source}, nil
		}
	}
	return Suite{}, ErrAbsent
}

var find = sync.OnceValues(Find)

// Dir returns the folder of the suite. If there is no suite, it skips the test with the
// number of skipped cases.
func Dir(t testing.TB) string {
	t.Helper()
	s, err := find()
	if errors.Is(err, ErrAbsent) {
		t.Skipf("%v: %d cases skipped; `make test` fetches it, or set %s to its folder", err, Total(), Env)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Dir
}

// Main is the TestMain of a package whose tests all need the suite. If there is no suite,
// `go test ./...`, which does not show skips, prints "[no tests to run]" for the package.
func Main(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if _, err := find(); errors.Is(err, ErrAbsent) && code == 0 {
		fmt.Printf("%v: %d cases skipped\n", err, Total())
		fmt.Println("testing: warning: no tests to run")
	}
	os.Exit(code)
}

// Total returns the number of cases in Version's suite.
func Total() int {
	n := 0
	for _, c := range Cases {
		n += c
	}
	return n
}

// Verify checks that the files of the suite are those of Version, byte for byte.
func Verify(dir string) error {
	sum, err := store.TreeSum(dir)
	if err == nil && sum != treeSum {
		err = fmt.Errorf("%s: its files hash to %s, those of ONNX %s to %s", dir, sum, Version, treeSum)
	}
	return err
}

// Fetch makes the suite available to Find and returns it. It tries, in order: the
// folder ONNX_TEST_DATA, a complete copy in the cache, the onnx wheel by pip, Debian's
// libonnx-testdata (often an older release), installed or downloaded by apt-get. The error
// joins the errors of all of them.
func Fetch(ctx context.Context) (Suite, error) {
	if os.Getenv(Env) != "" {
		return Find()
	}
	dir, err := store.Path(cacheName)
	if err != nil {
		return Suite{}, err
	}
	r, err := store.Verify(dir)
	if err == nil && r.Tree == treeSum {
		return Suite{Dir: dir, Version: r.Version, Source: r.Source + ", cached"}, nil
	}
	var why []error
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		why = append(why, fmt.Errorf("cache: %w", err))
	}
	if r, err := fromWheel(ctx, dir); err == nil {
		return Suite{Dir: dir, Version: r.Version, Source: r.Source}, nil
	} else {
		why = append(why, err)
	}
	s, err := fromDebian(ctx, filepath.Dir(dir))
	if err == nil {
		return s, nil
	}
	if old, findErr := Find(); findErr == nil {
		old.Source += ", cached"
		return old, nil
	}
	return Suite{}, errors.Join(append(why, err)...)
}

func fromWheel(ctx context.Context, dir string) (store.Record, error) {
	b, err := wheel.Download(ctx)
	if err != nil {
		return store.Record{}, err
	}
	return store.Install(dir, treeSum, func(into string) (store.Record, error) {
		_, err := store.ExtractZip(b, inWheel, into)
		return store.Record{Source: "wheel " + wheel.Requirement, Version: Version, Archive: wheel.Sum}, err
	})
}

var upstream = regexp.MustCompile(`^[0-9][0-9.]*`)

// fromDebian copies the installed package, or a downloaded one, to the cache folder base.
// apt-get checks the package's signature.
func fromDebian(ctx context.Context, base string) (Suite, error) {
	var installed string
	if out, err := store.Run(ctx, "", "dpkg-query", "-W", "-f", "${Status} ${Version}", debian); err == nil {
		if v, ok := strings.CutPrefix(out, "install ok installed "); ok {
			installed = v
		}
	}
	tmp, err := os.MkdirTemp("", "onward-deb-")
	if err != nil {
		return Suite{}, err
	}
	defer os.RemoveAll(tmp)
	from, version := filepath.Join("/", filepath.FromSlash(inDebian)), installed
	if installed == "" {
		if _, err := store.Run(ctx, tmp, "apt-get", "download", "-q", debian); err != nil {
			return Suite{}, err
		}
		debs, err := filepath.Glob(filepath.Join(tmp, debian+"_*.deb"))
		if err != nil || len(debs) != 1 {
			return Suite{}, fmt.Errorf("apt-get download %s left %q, want one package", debian, debs)
		}
		if version, err = store.Run(ctx, tmp, "dpkg-deb", "-f", debs[0], "Version"); err != nil {
			return Suite{}, err
		}
		root := filepath.Join(tmp, "root")
		if _, err := store.Run(ctx, tmp, "dpkg-deb", "-x", debs[0], root); err != nil {
			return Suite{}, err
		}
		from = filepath.Join(root, filepath.FromSlash(inDebian))
	}
	release := upstream.FindString(version)
	if release == "" {
		return Suite{}, fmt.Errorf("package %s has version %q, want one that begins with a release", debian, version)
	}
	dir := filepath.Join(base, debianPrefix+release)
	r, err := store.Install(dir, "", func(into string) (store.Record, error) {
		return store.Record{Source: "Debian package " + debian + " " + version, Version: release},
			os.CopyFS(into, os.DirFS(from))
	})
	return Suite{Dir: dir, Version: r.Version, Source: r.Source}, err
}
