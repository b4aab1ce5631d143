//go:build !core && !server

package nativelib

// On Linux, the drivers of native libraries make the program dynamically linked, because they need
// the system's loader. The tags core and server leave them out.
import (
	_ "github.com/onward-ml/onward/provider/openvino"
	_ "github.com/onward-ml/onward/provider/ort"
)
