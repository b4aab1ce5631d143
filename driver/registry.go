package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

var registry struct {
	sync.RWMutex
	m map[string]Provider
}

// packages lists the packages of this module that register providers, with the names
// of these, so that a session can name the import that a program lacks.
var packages = map[string][]string{
	"github.com/onward-ml/onward/provider/ort":      {"ort", "ort:cpu", "ort:cuda", "ort:tensorrt", "ort:openvino"},
	"github.com/onward-ml/onward/provider/openvino": {"openvino"},
}

// Register makes a provider known. It panics if the name is taken.
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

// Lookup returns a registered provider, or nil.
func Lookup(name string) Provider {
	registry.RLock()
	defer registry.RUnlock()
	return registry.m[name]
}

// Find returns a registered provider. The error names the package to import, if it is
// one of this module, or else the providers that are registered.
func Find(name string) (Provider, error) {
	if p := Lookup(name); p != nil {
		return p, nil
	}
	for path, names := range packages {
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("provider %q is not registered: the program must import _ %q", name, path)
		}
	}
	return nil, fmt.Errorf("provider %q is not registered; registered are %s", name, strings.Join(Providers(), ", "))
}

// Providers returns the names of the registered providers, sorted.
func Providers() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.m))
}

// AllProviders returns the names of the registered providers and of those that the other
// packages of this module would register, sorted.
func AllProviders() []string {
	r := Providers()
	for _, names := range packages {
		r = append(r, names...)
	}
	slices.Sort(r)
	return slices.Compact(r)
}
