package contrib

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// MaskedFill returns the strings whose mask is true.
var _ = register("MaskedFill", "value:string, mask:bool", "output:string", always(maskedFill))

func maskedFill(c *call) ([]tensor.Value, error) {
	a, b := c.tensor(0).Shape(), c.tensor(1).Shape()
	if len(a) > 1 || !slices.Equal(a, b) {
		return nil, fmt.Errorf("inputs have shapes %v and %v, want equal ones of rank up to 1", a, b)
	}
	in, mask := c.strings(0), tensor.MustData[bool](c.tensor(1))
	if err := c.reserveTexts(in, 0); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(in))
	for i, s := range in {
		if mask[i] {
			out = append(out, s)
		}
	}
	return values(list(out))
}
