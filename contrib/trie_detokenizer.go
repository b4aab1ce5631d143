package contrib

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/tensor"
)

// TrieDetokenizer returns the texts of rows of ids of TrieTokenizer. Unknown ids are left out.
var _ = registerTokenizer("TrieDetokenizer", "ids:int64", "str:string", func(n *node) (kernel, error) {
	text := n.required("vocab")
	if n.err != nil {
		return nil, n.err
	}
	tokens, err := parseTrieVocab(text)
	if err != nil {
		return nil, err
	}
	return func(c *call) ([]tensor.Value, error) {
		shape := c.tensor(0).Shape()
		if len(shape) != 2 {
			return nil, fmt.Errorf("ids have shape %v, want [n, m]", shape)
		}
		out := make([]string, shape[0])
		for i := range out {
			size := int64(stringBytes)
			row := c.ints(0)[i*shape[1] : (i+1)*shape[1]]
			for _, id := range row {
				size += int64(len(tokens[id]))
			}
			if err := c.Reserve(2 * size); err != nil {
				return nil, err
			}
			var b strings.Builder
			for _, id := range row {
				b.WriteString(tokens[id])
			}
			if out[i] = b.String(); out[i] == "" || !utf8.ValidString(out[i]) ||
				strings.ContainsAny(out[i], "\uFFFE\uFFFF") {
				return nil, errors.New("the text is empty or not valid UTF-8")
			}
		}
		return values(list(out))
	}, nil
})

func sortedKeys(m map[int64]string) []int64 { return slices.Sorted(maps.Keys(m)) }
