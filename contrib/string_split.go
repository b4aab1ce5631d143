package contrib

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// StringSplit splits strings at each byte of a separator, or into bytes if it is empty. The
// results are a sparse matrix with a row for each string: indices, parts and shape.
var _ = register("StringSplit", "input:string, separator:string, skip_empty:bool",
	"indices:int64, values:string, shape:int64", always(stringSplit))

func stringSplit(c *call) ([]tensor.Value, error) {
	in := c.strings(0)
	if c.tensor(0).Rank() != 1 {
		return nil, fmt.Errorf("input has rank %d, want 1", c.tensor(0).Rank())
	}
	separator, err := one[string](c, 1)
	if err != nil {
		return nil, err
	}
	skip, err := one[bool](c, 2)
	if err != nil {
		return nil, err
	}
	if err := c.reserveTexts(in, 2*(stringBytes+16)); err != nil { // slices that grow take twice their size
		return nil, err
	}
	var parts []string
	var indices []int64
	columns := int64(0)
	for row, s := range in {
		if s == "" {
			continue
		}
		column := int64(0)
		put := func(part string) {
			parts = append(parts, part)
			indices = append(indices, int64(row), column)
			column++
		}
		if separator == "" {
			for i := range len(s) {
				put(s[i : i+1])
			}
		} else {
			from := 0
			for i := 0; i <= len(s); i++ {
				if i == len(s) || strings.IndexByte(separator, s[i]) >= 0 {
					if !skip || i > from {
						put(s[from:i])
					}
					from = i + 1
				}
			}
		}
		columns = max(columns, column)
	}
	return values(shaped(indices, len(parts), 2), list(parts), list([]int64{int64(len(in)), columns}))
}
