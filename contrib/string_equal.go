package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// StringEqual compares strings. The dimensions of the smaller tensor are broadcast from the
// first one on, unlike those of ONNX operators.
var _ = register("StringEqual", "x:string, y:string", "z:bool", always(stringEqual))

func stringEqual(c *call) ([]tensor.Value, error) {
	x, y := c.tensor(0), c.tensor(1)
	if x.Len() < y.Len() {
		x, y = y, x
	}
	shape := x.Shape()
	if y.Rank() > x.Rank() {
		return nil, fmt.Errorf("inputs have shapes %v and %v, want no more dimensions for the smaller", shape,
			y.Shape())
	}
	steps := make([]int, len(shape)) // elements of y between neighbours of a dimension of x
	step := 1
	for i := y.Rank() - 1; i >= 0; i-- {
		if d := y.Dim(i); d != 1 {
			if d != shape[i] {
				return nil, fmt.Errorf("dimension %d: %d cannot be broadcast to %d", i, d, shape[i])
			}
			steps[i] = step
		}
		step *= y.Dim(i)
	}
	out, err := filled(c, 1, false, shape...)
	if err != nil {
		return nil, err
	}
	a, b := tensor.MustData[string](x), tensor.MustData[string](y)
	index, at := make([]int, len(shape)), 0
	for i := range out {
		out[i] = a[i] == b[at]
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			at += steps[d]
			if index[d] < shape[d] {
				break
			}
			at -= steps[d] * shape[d]
			index[d] = 0
		}
	}
	return values(shaped(out, shape...))
}
