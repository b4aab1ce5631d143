package driver

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

var registry struct {
	sync.RWMutex
	m map[string]Provider
}

// packages lists the packages of this module that register providers, and the names of
// their providers. Find uses it to name a missing import.
var packages = map[string][]string{
	"github.com/onward-ml/onward/provider/ort": {"ort", "ort:cpu", "ort:cuda", "ort:tensorrt",
		"ort:openvino", "ort:webgpu"},
	"github.com/onward-ml/onward/provider/openvino": {"openvino"},
}

// Register makes a provider available by its name. It panics if a provider of that name
// is registered.
func Register(p Provider) {
	registry.Lock()
	defer registry.Unlock()
	if registry.m == nil {
		registry.m = map[string]Provider{}
	}
	if registry.m[p.Name()] != nil {
		panic("driver: provider " + p.Name() + " is registered twice")
	}
	registry.m[p.Name()] = p
}

// Lookup returns the provider registered under a name, or nil.
func Lookup(name string) Provider {
	registry.RLock()
	defer registry.RUnlock()
	return registry.m[name]
}

// Find returns the provider registered under a name. For a provider of this module, the
// error names the package to import; otherwise it lists the registered providers.
func Find(name string) (Provider, error) {
	if p := Lookup(name); p != nil {
		return p, nil
	}
	if path, ok := PackageOf(name); ok {
		return nil, fmt.Errorf("provider %q is not registered: the program must import _ %q", name, path)
	}
	return nil, fmt.Errorf("provider %q is not registered: %s", name, Suggest(name, Providers()))
}

// PackageOf returns the import path of the package of this module that registers a provider.
// It reports false for names that no such package registers, and for those of the Go engine.
func PackageOf(name string) (path string, ok bool) {
	for path, names := range packages {
		if slices.Contains(names, name) {
			return path, true
		}
	}
	return "", false
}

// Providers returns the names of the registered providers, sorted.
func Providers() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.m))
}

// AllProviders returns the names of the registered providers and of all providers of
// this module, sorted.
func AllProviders() []string {
	r := Providers()
	for _, names := range packages {
		r = append(r, names...)
	}
	slices.Sort(r)
	return slices.Compact(r)
}
