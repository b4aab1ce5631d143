// Package lavapipe provides a Vulkan device in software for tests: Mesa's lavapipe from
// Debian's packages, on amd64. They are extracted to the cache and not installed.
//
// Tests call [Use] and never download: `make test-devices` does, through [Fetch].
package lavapipe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/internal/testing/store"
)

// mesa is the release of lavapipe. That of Debian 12 itself, 22.3, is too old for Dawn.
const mesa = "25.0.7-2~bpo12+1"

const cacheName = "mesa-vulkan-25.0.7"

// packages are the libraries that lavapipe needs beside those that every system has.
var packages = []string{"mesa-vulkan-drivers=" + mesa, "libdrm2/bookworm-backports", "libllvm15", "libvulkan1",
	"libz3-4", "libedit2", "libbsd0", "libmd0",
	"libxcb-dri3-0", "libxcb-present0", "libxcb-randr0", "libxcb-shm0", "libxcb-sync1", "libxcb-xfixes0", "libxcb1",
	"libxau6", "libxdmcp6", "libxshmfence1",
	"libx11-xcb1", "libwayland-client0", "libffi8", "libxml2", "libicu72", "libexpat1", "libzstd1"}

const (
	driver  = "libvulkan_lvp.so"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// DriverEnv is the environment variable with the files that describe Vulkan drivers. If it is
// set, tests use these drivers and the system's loader.
const DriverEnv = "VK_DRIVER_FILES"

// ErrAbsent is returned if this machine has no such device.
var ErrAbsent = errors.New("there is no software Vulkan device on this machine")

func folder() (string, error) {
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return "", fmt.Errorf("%w: the packages are for linux/amd64, not for %s", ErrAbsent, at)
	}
	return store.Path(cacheName)
}

// Find returns the folder of the libraries in the cache. The error is [ErrAbsent] if there is
// none. It downloads nothing.
func Find() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	if r, err := store.Lookup(dir); err != nil || r.Version != mesa {
		return "", ErrAbsent
	}
	return dir, nil
}

// Fetch makes the libraries available to Find and returns their folder and source: a complete
// copy in the cache, or Debian's packages, whose signatures apt-get verifies.
func Fetch(ctx context.Context) (dir, source string, err error) {
	if dir, err = folder(); err != nil {
		return "", "", err
	}
	if r, err := store.Verify(dir); err == nil && r.Version == mesa {
		return dir, r.Source + ", cached", nil
	}
	for _, command := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(command); err != nil {
			return "", "", err
		}
	}
	tmp, err := os.MkdirTemp("", "onward-apt-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(tmp)
	debs, err := download(ctx, tmp)
	if err != nil {
		return "", "", err
	}
	r, err := store.Install(dir, "", func(into string) (store.Record, error) {
		return store.Record{Source: "Debian package mesa-vulkan-drivers " + mesa, Version: mesa},
			unpack(ctx, debs, into)
	})
	return dir, r.Source, err
}

// download fetches the packages with lists and a cache of their own below tmp.
func download(ctx context.Context, tmp string) ([]string, error) {
	sources := filepath.Join(tmp, "debian.sources")
	text := "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-backports\nComponents: main\n" +
		"Architectures: amd64\nSigned-By: " + keyring + "\n"
	if err := os.WriteFile(sources, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(tmp, d), 0o755); err != nil {
			return nil, err
		}
	}
	command := []string{"apt-get", "-q", "-o", "Dir::Etc::SourceList=" + sources, "-o", "Dir::Etc::SourceParts=-", "-o",
		"Dir::State::Lists=" + filepath.Join(tmp, "lists"),
		"-o", "Dir::Cache=" + filepath.Join(tmp, "cache"), "-o", "APT::Sandbox::User=", "-o", "Acquire::Languages=none",
		"-o", "Debug::NoLocking=1"}
	debs := filepath.Join(tmp, "debs")
	if _, err := store.Run(ctx, debs, append(command, "update")...); err != nil {
		return nil, err
	}
	if _, err := store.Run(ctx, debs, append(append(command, "download"), packages...)...); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err == nil && len(files) != len(packages) {
		err = fmt.Errorf("apt-get downloaded %d packages, want %d", len(files), len(packages))
	}
	return files, err
}

// unpack extracts the libraries of packages, without other drivers, to one folder.
func unpack(ctx context.Context, debs []string, into string) error {
	for _, deb := range debs {
		var errs strings.Builder
		c := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
		c.Stderr = &errs
		archive, err := c.Output()
		if err != nil {
			return fmt.Errorf("dpkg-deb %s: %w %s", filepath.Base(deb), err, strings.TrimSpace(errs.String()))
		}
		_, err = store.ExtractTar(bytes.NewReader(archive), into, func(name string) (string, bool) {
			base := path.Base(name)
			other := base != driver && (strings.HasPrefix(base, "libvulkan_") || strings.HasPrefix(base, "libVkLayer"))
			return base, strings.Contains(base, ".so") && strings.HasPrefix(base, "lib") && !other
		})
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(deb), err)
		}
	}
	if _, err := os.Stat(filepath.Join(into, driver)); err != nil {
		return fmt.Errorf("the packages do not contain %s", driver)
	}
	return nil
}

// load opens the libraries, so that the loader of Vulkan and the driver find them by name, and
// names the driver in the environment.
var load = sync.OnceValue(func() error {
	if os.Getenv(DriverEnv) != "" {
		return nil
	}
	dir, err := Find()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "lib*.so*"))
	if err != nil {
		return err
	}
	// Libraries that need others open after these.
	for left := len(files) + 1; left > len(files) && len(files) > 0; {
		left = len(files)
		files = slices.DeleteFunc(files, func(file string) bool {
			_, err = dl.Open(filepath.Base(file), []dl.Place{{Path: file}}, nil)
			return err == nil
		})
	}
	if len(files) > 0 {
		return err
	}
	description, err := json.Marshal(map[string]any{"file_format_version": "1.0.0",
		"ICD": map[string]string{"api_version": "1.4.305", "library_path": filepath.Join(dir, driver)}})
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "onward-vulkan-")
	if err != nil {
		return err
	}
	icd = filepath.Join(tmp, "lvp.json")
	if err := os.WriteFile(icd, description, 0o600); err != nil {
		return err
	}
	return dl.SetEnv(DriverEnv, icd)
})

// icd is the description of the driver that load wrote.
var icd string

// Load makes the device available to this process. The error is [ErrAbsent] if the libraries
// are not in the cache. [Unload] must be called at the end of the process.
func Load() error { return load() }

// Unload removes the temporary files of Load.
func Unload() {
	if icd != "" {
		os.RemoveAll(filepath.Dir(icd))
	}
}

// Use is Load for tests, which it skips if the libraries are absent. Main must run the tests.
func Use(t testing.TB) {
	t.Helper()
	switch err := load(); {
	case errors.Is(err, ErrAbsent):
		t.Skipf("left out: %v; `make test-devices` fetches it", err)
	case err != nil:
		t.Fatal(err)
	}
}

// Main runs the tests of a package and removes temporary files.
func Main(m *testing.M) {
	code := m.Run()
	Unload()
	os.Exit(code)
}
