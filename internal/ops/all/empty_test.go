package all

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestEmptyInputsWithLargeDimensions: an empty tensor may have dimensions up to 2⁴⁸. Operators must
// not iterate over them alone, where no check of the context stops them.
func TestEmptyInputsWithLargeDimensions(t *testing.T) {
	const large = 1 << 44
	empty := func(shape ...int) *tensor.Tensor { return tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...)) }
	optest.Want(t, "com.microsoft.HyperConnectionPreMix", 1, nil, empty(2, 0),
		empty(2, large, 0), empty(2, large, 0))
	optest.Want(t, "com.microsoft.HyperConnectionPostMix", 1, nil, empty(2, large, 0),
		empty(2, large, 0), empty(2, 0), empty(2, large, 0))
	optest.Fail(t, "com.microsoft.nchwc.Conv", 1, nil, "channels", empty(1, 16, 1, 1), empty(16, large, 0, 1))
	optest.Fail(t, "Unique", 11, optest.Attrs{"axis": 0, "sorted": 0}, "memory limit", empty(large, 0))
	heads := attention.HeadsFirst([]float32{}, 8, 0, 1)
	attention.CopyHeads(&ir.Call{}, heads, heads, large, 8, 0, 0, 0, 1)
	if _, err := tensor.Zeros(tensor.TypeFloat32, math.MaxInt/2, 0); err == nil {
		t.Error("a tensor without elements has a dimension of 2⁶²")
	}
}
