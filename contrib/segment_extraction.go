package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// SegmentExtraction returns where runs of equal elements other than 0 begin and end, and their
// values. The input has shape [n] or [1, n].
var _ = register("SegmentExtraction", "input:int64", "position:int64, value:int64",
	always(func(c *call) ([]tensor.Value, error) {
		in, shape := c.ints(0), c.tensor(0).Shape()
		if len(shape) != 1 && (len(shape) != 2 || shape[0] != 1) {
			return nil, fmt.Errorf("input has shape %v, want [n] or [1, n]", shape)
		}
		if err := c.Reserve(48 * int64(len(in))); err != nil {
			return nil, err
		}
		var positions, found []int64
		for from, to := 0, 0; from < len(in); from = to {
			for to = from; to < len(in) && in[to] == in[from]; to++ {
			}
			if in[from] != 0 {
				positions, found = append(positions, int64(from), int64(to)), append(found, in[from])
			}
		}
		return values(shaped(positions, len(found), 2), list(found))
	}))
