//go:build !onward_static

package nativelib

// On Linux the drivers of native libraries make the program dynamically linked, because
// they need the system's loader. With -tags onward_static it is statically linked and has
// only the Go engine.
import (
	_ "github.com/onward-ml/onward/provider/openvino"
	_ "github.com/onward-ml/onward/provider/ort"
)
