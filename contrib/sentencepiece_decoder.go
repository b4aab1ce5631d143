package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// SentencepieceDecoder returns the text of ids. The attribute model is a SentencePiece model.
var _ = registerTokenizer("SentencepieceDecoder", "ids:int64, fairseq:bool?", "str:string",
	func(n *node) (kernel, error) {
		model := n.required("model")
		if n.err != nil {
			return nil, n.err
		}
		p, err := openSentencePiece([]byte(model))
		if err != nil {
			return nil, err
		}
		size := int64(p.VocabSize())
		return func(c *call) ([]tensor.Value, error) {
			in, shape := c.ints(0), c.tensor(0).Shape()
			if len(shape) != 1 && (len(shape) != 2 || shape[0] != 1) {
				return nil, fmt.Errorf("ids have shape %v, want [n] or [1, n]", shape)
			}
			fairseq, err := c.option(1)
			if err != nil {
				return nil, err
			}
			bytes := int64(0)
			ids := make([]int64, len(in))
			for i, v := range in {
				id := int64(int32(v))
				if fairseq {
					id = sentencePieceID(id)
				}
				if id < 0 || id >= size {
					return nil, fmt.Errorf("id %d is not in [0, %d)", id, size)
				}
				token, _ := p.TokenOf(id)
				ids[i], bytes = id, bytes+stringBytes+4*int64(len(token))
			}
			if err := c.Reserve(bytes); err != nil {
				return nil, err
			}
			s, err := p.Decode(ids, false)
			return []tensor.Value{list([]string{s})}, err
		}, nil
	})

// sentencePieceID is the inverse of fairseqID.
func sentencePieceID(id int64) int64 {
	switch id {
	case 3:
		return 0
	case 0:
		return 1
	case 2:
		return 2
	}
	return id - 1
}
