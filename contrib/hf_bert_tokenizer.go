package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// HfBertTokenizer is BertTokenizer for two texts, with results of shape [1, n].
var _ = registerTokenizer("HfBertTokenizer", "text:string",
	"input_ids:int64, attention_mask:int64, token_type_ids:int64?, offset_mapping:int64?",
	func(n *node) (kernel, error) {
		t, err := newBertTokenizer(n)
		if err != nil {
			return nil, err
		}
		return func(c *call) ([]tensor.Value, error) {
			texts := c.strings(0)
			if len(texts) != 2 {
				return nil, fmt.Errorf("input has %d texts, want 2", len(texts))
			}
			r, err := t.encode(c, texts, c.Outputs > 3)
			if err != nil {
				return nil, err
			}
			size := len(r.ids)
			return values(shaped(r.ids, 1, size), shaped(r.mask, 1, size), shaped(r.types, 1, size),
				shaped(r.offsets, size, 2))
		}, nil
	})
