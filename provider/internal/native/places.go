package native

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/dl"
)

// Search describes where to search for the library of a runtime. The current folder is not
// searched, because a library there may be planted.
type Search struct {
	Env     string              // environment variable with the path; if set, nothing else is searched
	Bare    map[string][]string // names for the system's loader by operating system; "" is the default
	Pattern map[string]string   // file name patterns by operating system; "" is the default
	System  []string            // absolute folders to search, except on Windows
	Python  []string            // path elements of the folder below site-packages
	More    func(add func(source string, elem ...string))
	Cache   []string // path elements of the folder below the user's cache
}

// forSystem returns the entry of the running operating system, or the default.
func forSystem[T any](m map[string]T) T {
	if v, ok := m[runtime.GOOS]; ok {
		return v
	}
	return m[""]
}

// Places returns the paths to try, in this order: the program's folder, the system's
// loader and folders, Python packages, More, the user's cache.
func (s *Search) Places() []dl.Place {
	if p := os.Getenv(s.Env); p != "" {
		return []dl.Place{{Source: s.Env, Path: p, Must: true}}
	}
	var places []dl.Place
	add := func(source string, elem ...string) {
		if elem[0] != "" && filepath.IsAbs(elem[0]) {
			places = append(places,
				dl.Place{Source: source, Path: filepath.Join(append(elem, forSystem(s.Pattern))...)})
		}
	}
	if exe, err := os.Executable(); err == nil {
		add("beside the program", filepath.Dir(exe))
	}
	for _, n := range forSystem(s.Bare) {
		places = append(places, dl.Place{Source: "the system's loader", Path: n})
	}
	if runtime.GOOS != "windows" {
		for _, d := range s.System {
			add("system", d)
		}
	}
	for _, site := range SitePackages() {
		add(site.Source, append([]string{site.Path}, s.Python...)...)
	}
	if s.More != nil {
		s.More(add)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		add("the user's cache", append([]string{cache, "onward"}, s.Cache...)...)
	}
	return places
}

// SitePackages returns the folders, as patterns, in which Python's packages are: those of
// the active environment, of the user and of the system.
func SitePackages() []dl.Place {
	var sites []dl.Place
	add := func(source string, elem ...string) {
		if filepath.IsAbs(elem[0]) {
			sites = append(sites, dl.Place{Source: source, Path: filepath.Join(elem...)})
		}
	}
	for _, e := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		add("Python package of "+e, os.Getenv(e), "lib", "python3*", "site-packages")
		add("Python package of "+e, os.Getenv(e), "Lib", "site-packages")
	}
	home, _ := os.UserHomeDir()
	add("the user's Python packages", home, ".local", "lib", "python3*", "site-packages")
	if runtime.GOOS != "windows" {
		for _, d := range []string{"/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
			"/usr/lib/python3*/site-packages", "/usr/lib/python3/dist-packages"} {
			add("the system's Python packages", d)
		}
	}
	return sites
}

// FileOf returns the file from which the code at addr was loaded (Linux only). If that is
// unknown, it returns the absolute path, or "" for a bare name.
func FileOf(addr uintptr, path string) string {
	if runtime.GOOS == "linux" {
		maps, _ := os.ReadFile("/proc/self/maps")
		for line := range bytes.Lines(maps) {
			var lo, hi uint64
			f := strings.Fields(string(line))
			if len(f) < 6 {
				continue
			}
			if a, b, ok := strings.Cut(f[0], "-"); ok {
				lo, _ = strconv.ParseUint(a, 16, 64)
				hi, _ = strconv.ParseUint(b, 16, 64)
			}
			if lo <= uint64(addr) && uint64(addr) < hi {
				if _, file, ok := strings.Cut(string(line), "/"); ok {
					return "/" + strings.TrimSuffix(file, "\n")
				}
			}
		}
	}
	if filepath.Base(path) == path {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}
