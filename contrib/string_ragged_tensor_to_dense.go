package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// StringRaggedTensorToDense returns a matrix with the strings between each two row splits in a
// row. Shorter rows end with empty strings. As in ONNX Runtime Extensions, the size of the last
// input is the number of row splits that are used, its contents and the first input are not.
var _ = register("StringRaggedTensorToDense", "shape:int64, values:string, row_splits:int64, missing:string",
	"dense:string", always(func(c *call) ([]tensor.Value, error) {
		splits, n := c.ints(2), c.tensor(3).Len()
		if n < 1 || n > len(splits) {
			return nil, fmt.Errorf("the last input has %d elements, want 1 to %d", n, len(splits))
		}
		return toDense(c, stringBytes, c.strings(1), "", splits[:n])
	}))
