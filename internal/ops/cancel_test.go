package ops

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestLossOfManyEmptyImages: a batch of 2⁵⁰ images without pixels has no elements to loop over.
func TestLossOfManyEmptyImages(t *testing.T) {
	const n = 1 << 50
	x, target := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3, 0)), tensor.Must(tensor.Zeros(tensor.TypeInt64, n, 0))
	optest.Want(t, "NegativeLogLikelihoodLoss", 13, map[string]any{"reduction": "sum"}, tensor.Scalar(float32(0)), x, target)
}
