package msft

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestFusedHardSwish tests the activation that ONNX Runtime's optimizer fuses with a blocked
// convolution, with default and with other parameters.
func TestFusedHardSwish(t *testing.T) {
	x, one := optest.Tensor([]float32{-4, -1.5, 1.5, 4}, 1, 1, 2, 2), optest.Tensor([]float32{1}, 1, 1, 1, 1)
	optest.Want(t, msDomain+"FusedConv", 1, map[string]any{"activation": "HardSwish"},
		optest.Tensor([]float32{0, -0.375, 1.125, 4}, 1, 1, 2, 2), x, one)
	optest.Want(t, msDomain+"FusedConv", 1,
		map[string]any{"activation": "HardSwish", "activation_params": []float32{0.25, 0.25}},
		optest.Tensor([]float32{0, 0, 0.9375, 4}, 1, 1, 2, 2), x, one)
}
