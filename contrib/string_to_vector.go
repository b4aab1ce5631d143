package contrib

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onward-ml/onward/tensor"
)

// StringToVector maps strings to vectors by the attribute map, which has a key, a tab and
// integers in each line. The attribute unk is the vector of other strings.
var _ = register("StringToVector", "text:string", "token_ids:int64", func(n *node) (kernel, error) {
	keys, vectors, size, err := vectorTable(n.text("map", ""))
	if err != nil {
		return nil, err
	}
	unk, err := vector(n.text("unk", ""), size)
	if err != nil {
		return nil, fmt.Errorf("attribute unk: %w", err)
	}
	if size == 0 {
		return nil, fmt.Errorf("attribute map must not be empty")
	}
	table := map[string][]int64{}
	for i, k := range keys {
		table[k] = vectors[i]
	}
	return func(c *call) ([]tensor.Value, error) {
		in := c.strings(0)
		out, err := filled(c, 8, int64(0), len(in), size)
		if err != nil {
			return nil, err
		}
		for i, s := range in {
			v, ok := table[s]
			if !ok {
				v = unk
			}
			copy(out[i*size:], v)
		}
		return values(shaped(out, append(slices.Clone(c.tensor(0).Shape()), size)...))
	}, nil
})

// vectorTable parses lines of a key, a tab and integers with spaces between them. All lines have
// the same number of integers, which is size.
func vectorTable(text string) (keys []string, vectors [][]int64, size int, err error) {
	for i, line := range fields(text, "\n") {
		f := fields(line, "\t")
		if len(f) != 2 {
			return nil, nil, 0, fmt.Errorf("attribute map: line %q must be a key, a tab and a value", line)
		}
		if i == 0 {
			size = len(fields(f[1], " "))
		}
		v, err := vector(f[1], size)
		if err != nil {
			return nil, nil, 0, fmt.Errorf("attribute map: %w", err)
		}
		keys, vectors = append(keys, f[0]), append(vectors, v)
	}
	return keys, vectors, size, nil
}

// vector parses size integers with spaces between them.
func vector(text string, size int) ([]int64, error) {
	f := fields(text, " ")
	if len(f) != size {
		return nil, fmt.Errorf("%q has %d integers, want %d", text, len(f), size)
	}
	out := make([]int64, size)
	for i, s := range f {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || s[0] == '+' {
			return nil, fmt.Errorf("%q is not an integer", s)
		}
		out[i] = v
	}
	return out, nil
}
