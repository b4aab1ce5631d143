package contrib

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// MergeSignalSegments joins neighbouring segments [begin, end] with at most a given gap between
// them.
var _ = register("MergeSignalSegments", "segments:int64, merge_gap_ms:int64", "merged_segments:int64",
	always(func(c *call) ([]tensor.Value, error) {
		in, shape, gap := c.ints(0), c.tensor(0).Shape(), c.ints(1)
		if len(shape) != 2 || shape[1] != 2 {
			return nil, fmt.Errorf("segments have shape %v, want [n, 2]", shape)
		}
		if len(in) > 0 && len(gap) == 0 {
			return nil, errors.New("merge_gap_ms is empty")
		}
		if err := c.Reserve(32 * int64(len(in))); err != nil {
			return nil, err
		}
		var out []int64
		for i := 0; i < len(in); i += 2 {
			from, to := in[i], in[i+1]
			if n := len(out); n > 0 && from-out[n-1] <= gap[0] {
				out[n-1] = max(out[n-1], to)
			} else {
				out = append(out, from, to)
			}
		}
		return values(shaped(out, len(out)/2, 2))
	}))
