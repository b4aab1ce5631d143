package contrib

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// WordpieceTokenizer divides the words of texts, which are separated by spaces, into pieces of a
// vocabulary. row_indices says which texts begin a row; if it is empty, each does. The outputs
// are the pieces, the rows' offsets, and where rows begin and end.
var _ = registerTokenizer("WordpieceTokenizer", "input:string, row_indices:int64",
	"output:string, row_lengths:int64, row_begins:int64, row_limits:int64", func(n *node) (kernel, error) {
		unk := n.required("unknown_token")
		t := &wordPiece{suffix: n.required("suffix_indicator"),
			limit: int(n.int("max_input_chars_per_word", 200))}
		text := n.required("vocab")
		if n.err != nil {
			return nil, n.err
		}
		if t.limit > maxWord {
			return nil, fmt.Errorf("attribute max_input_chars_per_word is %d, want at most %d", t.limit, maxWord)
		}
		if err := json.Unmarshal([]byte(text), &t.ids); err != nil {
			return nil, fmt.Errorf("attribute vocab: %w", err)
		}
		return func(c *call) ([]tensor.Value, error) { return wordpieces(c, t, unk) }, nil
	})

// maxWord limits the characters of a word, since the time to divide it is proportional to its
// square.
const maxWord = 1 << 10

func wordpieces(c *call, t *wordPiece, unk string) ([]tensor.Value, error) {
	texts, rows := c.strings(0), c.ints(1)
	if err := c.reserveTexts(texts, 128); err != nil {
		return nil, err
	}
	every, next := len(rows) == 0, 0
	var tokens []string
	var begins []int64
	for i, s := range texts {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		if every || next < len(rows) && rows[next] == int64(i) {
			begins = append(begins, int64(len(tokens)))
			next++
		}
		text := append(decodeText(s), ' ')
		from := 0
		for k, r := range text {
			if r != ' ' {
				continue
			}
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
			if k > from && !t.split(text[from:k], func(token string, _ int64) { tokens = append(tokens, token) }) {
				tokens = append(tokens, unk)
			}
			from = k + 1
		}
	}
	begins = append(begins, int64(len(tokens)))
	n := len(begins) - 1
	return values(list(tokens), list(begins), list(slices.Clone(begins[:n])), list(slices.Clone(begins[1:])))
}
