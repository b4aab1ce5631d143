//go:build !onward_static

package nativelib

import (
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
)

// On Linux the drivers of native libraries make the program dynamically linked, because
// they need the system's loader. With -tags onward_static it is statically linked and has
// only the Go engine.
func init() {
	describers = append(describers, func(provider string) (string, *Info) {
		needs := ort.Needs(provider)
		i, err := ort.Describe(provider)
		if err != nil {
			return needs, nil
		}
		return needs, &Info{What: "ONNX Runtime", Path: i.Path, Source: i.Source, Version: i.Version, APIVersion: i.APIVersion, Build: i.Build, Providers: i.Providers}
	})
	describers = append(describers, func(provider string) (string, *Info) {
		if provider != openvino.Name {
			return "", nil
		}
		i, err := openvino.Describe()
		if err != nil {
			return openvino.Needs(), nil
		}
		return openvino.Needs(), &Info{What: "OpenVINO", Path: i.Path, Source: i.Source, Version: i.Version, Providers: i.Devices}
	})
}
