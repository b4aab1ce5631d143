package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// StringMapping replaces the strings that are keys of the attribute map, which has a key, a tab
// and a value in each line. Other strings stay.
var _ = register("StringMapping", "input:string", "output:string", func(n *node) (kernel, error) {
	table := map[string]string{}
	for _, line := range fields(n.text("map", ""), "\n") {
		f := fields(line, "\t")
		if len(f) != 2 {
			return nil, fmt.Errorf("attribute map: line %q must be a key, a tab and a value", line)
		}
		table[f[0]] = f[1]
	}
	return func(c *call) ([]tensor.Value, error) {
		return c.mapStrings(0, func(s string) string {
			if v, ok := table[s]; ok {
				return v
			}
			return s
		})
	}, nil
})
