package contrib

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// TrieTokenizer divides texts into the longest tokens of the attribute vocab, which has lines as
// parseTrieVocab reads them. Shorter rows of ids end with 0.
var _ = registerTokenizer("TrieTokenizer", "str:string", "ids:int64", func(n *node) (kernel, error) {
	text := n.required("vocab")
	if n.err != nil {
		return nil, n.err
	}
	tokens, err := parseTrieVocab(text)
	if err != nil {
		return nil, err
	}
	trie := newTrie[byte]()
	for _, id := range sortedKeys(tokens) {
		if err := trie.add([]byte(tokens[id]), id); err != nil {
			return nil, fmt.Errorf("attribute vocab: %w", err)
		}
	}
	return func(c *call) ([]tensor.Value, error) {
		texts := c.strings(0)
		if err := c.reserveTexts(texts, 16); err != nil {
			return nil, err
		}
		rows := make([][]int64, len(texts))
		for i, text := range texts {
			s := []byte(text)
			for at, work := 0, 0; at < len(s); {
				size, id, steps := trie.longest(s[at:])
				if size == 0 {
					return nil, fmt.Errorf("text %d: no token for byte %d, 0x%02X", i, at, s[at])
				}
				rows[i], at = append(rows[i], id), at+size
				if work += steps + 1; work > 1<<16 {
					work = 0
					if err := c.ctx.Err(); err != nil {
						return nil, err
					}
				}
			}
		}
		ids, width, err := c.padded(rows, 0, -1)
		if err != nil {
			return nil, err
		}
		return values(shaped(ids, append(slices.Clone(c.tensor(0).Shape()), width)...))
	}, nil
})

// padded returns rows as one slice, each with width elements: the longest row has as many, or
// width is given.
func (c *call) padded(rows [][]int64, pad int64, width int) ([]int64, int, error) {
	if width < 0 {
		for _, r := range rows {
			width = max(width, len(r))
		}
		width = max(width, 0)
	}
	out, err := filled(c, 8, pad, len(rows), width)
	for i, r := range rows {
		if err == nil {
			copy(out[i*width:(i+1)*width], r)
		}
	}
	return out, width, err
}
