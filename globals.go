package onward

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

const modulePath = "github.com/onward-ml/onward"

// Version returns the module's version as the program was built with it: "v0.3.0",
// or "devel" where the build does not know.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionIn(b)
}

func versionIn(b *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&b.Main}, b.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}

// BuildInfo describes the library in a line: version, Go release, platform, the
// instruction set of the kernels, the newest ONNX opset.
func BuildInfo() string {
	opset, _ := MaxOpset("")
	return fmt.Sprintf("Onward %s, %s %s/%s, kernels %s, ONNX opset %d", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, goengine.Kernels(), opset)
}

// GetDevice returns the best kind of device that a registered provider can use here:
// "GPU" or "CPU".
func GetDevice() string {
	for _, name := range AvailableProviders() {
		if d := (Device{Type: driver.TraitsOf(driver.Lookup(name)).Device}); !d.IsCPU() {
			return "GPU"
		}
	}
	return "CPU"
}

// Providers returns the names of the registered providers, sorted.
func Providers() []string { return driver.Providers() }

// AvailableProviders returns the names of the registered providers that can work on
// this machine, sorted.
func AvailableProviders() []string {
	return slices.DeleteFunc(Providers(), func(name string) bool {
		return driver.Lookup(name).Available(ProviderConfig{Name: name}) != nil
	})
}

// AllProviders returns the names of the providers of this module, whether the program
// imports them or not, and of the others that are registered, sorted.
func AllProviders() []string { return driver.AllProviders() }

// OperatorSchema returns which inputs and outputs an operator takes at a version of a
// domain, for [onnx.Check]. Opening a session checks attributes.
func OperatorSchema(domain, opType string, opset int64) (onnx.Schema, bool) {
	return goengine.OperatorSchema(domain, opType, opset)
}

// MaxOpset returns the newest version of an operator domain that is implemented,
// and whether the domain is known at all.
func MaxOpset(domain string) (int, bool) { return goengine.MaxOpset(domain) }

// CheckOperators returns nil if every operator of a model is implemented at the
// version that the model imports. The error lists all that are not.
func CheckOperators(m *onnx.Model) error { return loadStatus(goengine.CheckOperators(m)) }
