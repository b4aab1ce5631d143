package contrib

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// RaggedTensorToSparse returns the indices and the shape of a sparse matrix whose rows begin and
// end at the given row splits.
var _ = register("RaggedTensorToSparse", "row_splits:int64", "indices:int64, shape:int64",
	always(func(c *call) ([]tensor.Value, error) {
		splits := c.ints(0)
		if c.tensor(0).Rank() != 1 || len(splits) == 0 {
			return nil, fmt.Errorf("row splits have shape %v, want [n]", c.tensor(0).Shape())
		}
		if splits[0] != 0 {
			return nil, fmt.Errorf("the first row split is %d, want 0", splits[0])
		}
		columns, err := longestRow(splits)
		if err != nil {
			return nil, err
		}
		total := splits[len(splits)-1]
		if int64(int(total)) != total {
			return nil, errors.New("the row splits are too large")
		}
		indices, err := filled(c, 8, int64(0), int(total), 2)
		if err != nil {
			return nil, err
		}
		for i := range len(splits) - 1 {
			for k := splits[i]; k < splits[i+1]; k++ {
				indices[2*k], indices[2*k+1] = int64(i), k-splits[i]
			}
		}
		return values(shaped(indices, int(total), 2), list([]int64{int64(len(splits) - 1), columns}))
	}))

// longestRow returns the largest difference of neighbours, and an error if splits decrease.
func longestRow(splits []int64) (int64, error) {
	longest := int64(0)
	for i := 1; i < len(splits); i++ {
		if splits[i] < splits[i-1] {
			return 0, fmt.Errorf("row split %d is %d, less than the one before it, %d", i, splits[i], splits[i-1])
		}
		longest = max(longest, splits[i]-splits[i-1])
	}
	return longest, nil
}
