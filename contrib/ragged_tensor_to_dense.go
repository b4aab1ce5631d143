package contrib

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// RaggedTensorToDense returns a matrix with the values between each two row splits in a row.
// Shorter rows end with the missing value. The first input is not used.
var _ = register("RaggedTensorToDense", "shape:int64, values:int64, missing:int64, row_splits:int64", "dense:int64",
	always(func(c *call) ([]tensor.Value, error) {
		missing := c.ints(2)
		if len(missing) == 0 {
			return nil, errors.New("the missing value is empty")
		}
		return toDense(c, 8, c.ints(1), missing[0], c.ints(3))
	}))

// toDense returns the matrix of a ragged tensor.
func toDense[T tensor.Element](c *call, bytes int64, v []T, missing T, splits []int64) ([]tensor.Value, error) {
	if len(splits) == 0 {
		return nil, errors.New("the row splits are empty")
	}
	if splits[0] < 0 || splits[len(splits)-1] > int64(len(v)) {
		return nil, fmt.Errorf("row splits are from %d to %d, want them in [0, %d]", splits[0], splits[len(splits)-1],
			len(v))
	}
	longest, err := longestRow(splits)
	if err != nil {
		return nil, err
	}
	rows, columns := len(splits)-1, int(longest)
	out, err := filled(c, bytes, missing, rows, columns)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		copy(out[i*columns:], v[splits[i]:splits[i+1]])
	}
	return values(shaped(out, rows, columns))
}
