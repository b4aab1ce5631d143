package ortlib

import (
	"runtime"

	"github.com/onward-ml/onward/internal/cpu"
)

// Saturates reports whether ONNX Runtime multiplies uint8 and int8 with saturation on this
// processor: without VNNI on amd64, it adds two products in 16 bits (VPMADDUBSW). Weights from -64
// to 64 give exact sums.
func Saturates() bool { return runtime.GOARCH == "amd64" && !cpu.VNNI(cpu.AVX512) }
