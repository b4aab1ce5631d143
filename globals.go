package onward

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

const modulePath = "github.com/onward-ml/onward"

// Version returns the version of this module in the running program, such as "v0.3.0",
// or "devel" if the build information does not contain it.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionIn(b)
}

func versionIn(b *debug.BuildInfo) string {
	known := func(m *debug.Module) bool { return m.Version != "" && m.Version != "(devel)" }
	for _, m := range b.Deps {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if known(m) {
			return m.Version
		}
	}
	// In a workspace only the main module has a version. The modules of a checkout
	// have the same one.
	if (b.Main.Path == modulePath || strings.HasPrefix(b.Main.Path, modulePath+"/")) && known(&b.Main) {
		return b.Main.Version
	}
	return "devel"
}

// BuildInfo describes the library in one line: its version, the Go release, the
// platform, the instruction set of the kernels and the newest ONNX opset.
func BuildInfo() string {
	opset, _ := MaxOpset("")
	return fmt.Sprintf("Onward %s, %s %s/%s, kernels %s, ONNX opset %d", Version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, goengine.Kernels(), opset)
}

// GetDevice returns "GPU" if an available provider computes on a device other than the
// CPU, and "CPU" otherwise. It mirrors get_device of ONNX Runtime's Python API.
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

// AvailableProviders returns the names of the registered providers that are available
// on this machine, sorted.
func AvailableProviders() []string {
	return slices.DeleteFunc(Providers(), func(name string) bool {
		return driver.Lookup(name).Available(ProviderConfig{Name: name}) != nil
	})
}

// AllProviders returns the names of all providers of this module, imported or not, and
// of the other registered providers, sorted.
func AllProviders() []string { return driver.AllProviders() }

// OperatorSchema returns how many inputs and outputs an operator has in version opset
// of a domain, for [onnx.Check]. It reports false if the operator is not implemented.
// The schema allows any attributes; opening a session checks them.
func OperatorSchema(domain, opType string, opset int64) (onnx.Schema, bool) {
	return goengine.OperatorSchema(domain, opType, opset)
}

// MaxOpset returns the newest implemented version of an operator domain. It reports
// false if the domain is unknown.
func MaxOpset(domain string) (int, bool) { return goengine.MaxOpset(domain) }

// CheckOperators returns nil if every operator of a model is implemented in the version
// that the model imports. Otherwise the error lists all operators that are not.
func CheckOperators(m *onnx.Model) error { return driver.LoadError(goengine.CheckOperators(m)) }
