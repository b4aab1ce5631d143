package contrib

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// SegmentSum adds the rows of one segment. The ids of the segments begin at any number, and each
// is equal to the one before it or greater by 1. The result has a row for each id from 0 on.
var _ = register("SegmentSum", "data:float, segment_ids:int64", "output:float", always(segmentSum))

func segmentSum(c *call) ([]tensor.Value, error) {
	data, shape, ids := c.floats(0), c.tensor(0).Shape(), c.ints(1)
	if len(shape) == 0 || c.tensor(1).Rank() != 1 || shape[0] != len(ids) || len(ids) == 0 {
		return nil, fmt.Errorf("inputs have shapes %v and %v, want [n, …] and [n] with n of at least 1", shape,
			c.tensor(1).Shape())
	}
	last := ids[len(ids)-1]
	for i, id := range ids {
		if id < 0 || id > last || i > 0 && id != ids[i-1] && id != ids[i-1]+1 {
			return nil, fmt.Errorf("segment id %d is %d, want ids from 0 on that increase by at most 1", i, id)
		}
	}
	out := slices.Clone(shape)
	out[0] = int(last) + 1
	sum, err := filled(c, 4, float32(0), out...)
	if err != nil {
		return nil, err
	}
	width := len(data) / len(ids)
	for i, id := range ids {
		row := sum[int(id)*width:][:width]
		for k, v := range data[i*width : (i+1)*width] {
			row[k] += v
		}
	}
	return values(shaped(sum, out...))
}
