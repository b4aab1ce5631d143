package onward

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ops"
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
	return fmt.Sprintf("Onward %s, %s %s/%s, kernels %s, ONNX opset %d", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.Active(), ops.MaxOpset[""])
}

// GetDevice returns the best kind of device that a registered provider can use here:
// "GPU" or "CPU". A driver says so with a method DeviceKind() string.
func GetDevice() string {
	for _, name := range AvailableProviders() {
		if p, ok := LookupProvider(name).(interface{ DeviceKind() string }); ok && p.DeviceKind() == "GPU" {
			return "GPU"
		}
	}
	return "CPU"
}

// known are the names of the providers that this module has, whether the program
// imports their drivers or not.
var known = []string{"cpu", "reference", "ort", "ort:cpu", "ort:cuda", "ort:tensorrt", "ort:openvino", "openvino"}

// AllProviders returns the names of all providers there are: those of this module and
// what else is registered, sorted.
func AllProviders() []string {
	r := append(slices.Clone(known), Providers()...)
	slices.Sort(r)
	return slices.Compact(r)
}
