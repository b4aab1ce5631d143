package contrib

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// StringJoin joins the strings along an axis with a separator between them. The result of a
// tensor of rank up to 1 has one element.
var _ = register("StringJoin", "input:string, separator:string, axis:int64", "output:string", always(stringJoin))

func stringJoin(c *call) ([]tensor.Value, error) {
	in, shape := c.strings(0), c.tensor(0).Shape()
	separator, err := one[string](c, 1)
	if err != nil {
		return nil, err
	}
	axis, err := one[int64](c, 2)
	if err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		return values(list(slices.Clone(in)))
	}
	if axis < 0 || axis >= int64(len(shape)) {
		return nil, fmt.Errorf("axis must be in [0, %d), got %d", len(shape), axis)
	}
	outer, inner, n := 1, 1, shape[axis]
	for i, d := range shape {
		if i < int(axis) {
			outer *= d
		} else if i > int(axis) {
			inner *= d
		}
	}
	if len(in) == 0 && outer*inner > 0 && len(shape) > 1 {
		return nil, fmt.Errorf("axis %d of the input is empty", axis)
	}
	if err := c.reserveTexts(in, 1); err != nil {
		return nil, err
	}
	size, err := product(1, len(in), len(separator))
	if err == nil {
		err = c.Reserve(int64(size))
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, outer*inner)
	parts := make([]string, n)
	for i := range out {
		first := i/inner*n*inner + i%inner
		for k := range parts {
			parts[k] = in[first+k*inner]
		}
		out[i] = strings.Join(parts, separator)
	}
	if len(shape) == 1 {
		return values(list(out))
	}
	return values(shaped(out, slices.Delete(slices.Clone(shape), int(axis), int(axis)+1)...))
}
