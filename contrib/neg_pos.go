package contrib

import "github.com/onward-ml/onward/tensor"

// NegPos returns the negative and the positive elements in two tensors, with 0 in place of the
// others. NaN counts as negative.
var _ = register("NegPos", "x:float", "negative:float, positive:float", always(func(c *call) ([]tensor.Value, error) {
	in, shape := c.floats(0), c.tensor(0).Shape()
	negative, err := filled(c, 8, float32(0), len(in))
	if err != nil {
		return nil, err
	}
	positive := make([]float32, len(in))
	for i, v := range in {
		if v > 0 {
			positive[i] = v
		} else {
			negative[i] = v
		}
	}
	return values(shaped(negative, shape...), shaped(positive, shape...))
}))
