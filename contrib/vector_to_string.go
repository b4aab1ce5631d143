package contrib

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// VectorToString maps vectors to strings by the attribute map, which has a string, a tab and
// integers in each line. The attribute unk is the string of other vectors.
var _ = register("VectorToString", "token_ids:int64", "text:string", func(n *node) (kernel, error) {
	texts, vectors, size, err := vectorTable(n.text("map", ""))
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, fmt.Errorf("attribute map must not be empty")
	}
	table := map[string]string{}
	for i, v := range vectors {
		table[vectorKey(v)] = texts[i]
	}
	unk := n.text("unk", "")
	return func(c *call) ([]tensor.Value, error) {
		in, shape := c.ints(0), c.tensor(0).Shape()
		if size != 1 || len(shape) > 1 {
			if len(shape) == 0 || shape[len(shape)-1] != size {
				return nil, fmt.Errorf("input has shape %v, want %d as the last dimension", shape, size)
			}
			shape = shape[:len(shape)-1]
		}
		out, err := filled(c, stringBytes, unk, len(in)/size)
		if err != nil {
			return nil, err
		}
		for i := range out {
			if s, ok := table[vectorKey(in[i*size:(i+1)*size])]; ok {
				out[i] = s
			}
		}
		return values(shaped(out, slices.Clone(shape)...))
	}, nil
})

func vectorKey(v []int64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return string(b)
}
