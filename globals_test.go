package onward

import (
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
)

func TestGlobals(t *testing.T) {
	if s := BuildInfo(); !strings.HasPrefix(s, "Onward "+Version()+", go1") || !strings.Contains(s, "kernels ") || !strings.Contains(s, "opset 2") {
		t.Errorf("build info is %q", s)
	}
	if all := AllProviders(); !slices.Contains(all, "ort:cuda") || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("all providers are %v", all)
	}
	for _, p := range Providers() {
		if !slices.Contains(AllProviders(), p) {
			t.Errorf("%s is not among all providers", p)
		}
	}
	module := func(path, version string) debug.Module { return debug.Module{Path: path, Version: version} }
	dep := module(modulePath, "v1.2.3")
	fork := module("example.org/fork", "v1.2.4")
	replaced := debug.Module{Path: modulePath, Version: "v1.2.3", Replace: &fork}
	for want, b := range map[string]*debug.BuildInfo{
		"devel":  {Main: module(modulePath, "(devel)")},
		"v0.1.0": {Main: module(modulePath, "v0.1.0")},
		"v1.2.3": {Main: module("example.org/app", "v9.9.9"), Deps: []*debug.Module{&dep}},
		"v1.2.4": {Main: module("example.org/app", ""), Deps: []*debug.Module{&replaced}},
	} {
		if got := versionIn(b); got != want {
			t.Errorf("the version is %s, want %s", got, want)
		}
	}
}

// gpu is a provider with the traits of a GPU.
type gpu struct {
	driver.Provider
	absent error
}

func (g *gpu) Name() string                  { return "test:gpu" }
func (g *gpu) Available(driver.Config) error { return g.absent }
func (g *gpu) Traits() driver.Traits         { return driver.Traits{Device: "cuda"} }

func TestGetDevice(t *testing.T) {
	if d := GetDevice(); d != "CPU" {
		t.Skipf("this machine has a %s", d)
	}
	g := &gpu{}
	driver.Register(g)
	defer func() { g.absent = errors.New("the test is over") }() // other tests must not find the provider
	if d := GetDevice(); d != "GPU" {
		t.Errorf("the device is %s", d)
	}
}
