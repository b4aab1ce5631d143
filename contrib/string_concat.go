package contrib

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// StringConcat joins the strings of two tensors of one shape.
var _ = register("StringConcat", "left:string, right:string", "output:string",
	always(func(c *call) ([]tensor.Value, error) {
		if a, b := c.tensor(0).Shape(), c.tensor(1).Shape(); !slices.Equal(a, b) {
			return nil, fmt.Errorf("inputs have shapes %v and %v, want equal ones", a, b)
		}
		right := c.strings(1)
		if err := c.reserveTexts(right, 1); err != nil {
			return nil, err
		}
		i := -1
		return c.mapStrings(1, func(s string) string {
			i++
			return s + right[i]
		})
	}))
