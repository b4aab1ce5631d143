package contrib

import (
	"encoding/base64"
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// SentencepieceTokenizer returns the ids of all texts, where each text begins among them, and
// where their pieces begin in bytes of the texts. The attribute model is a SentencePiece model,
// or that in base64. Sampling (nbest_size, alpha) is ignored.
var _ = registerTokenizer("SentencepieceTokenizer", "inputs:string, nbest_size:int64, alpha:float, add_bos:bool, "+
	"add_eos:bool, reverse:bool, fairseq:bool?", "tokens:int32, instance_indices:int64, token_indices:int32?",
	func(n *node) (kernel, error) {
		text := n.required("model")
		if n.err != nil {
			return nil, n.err
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			data = []byte(text)
		}
		p, err := openSentencePiece(data)
		if err != nil {
			return nil, err
		}
		return p.tokens, nil
	})

func (p *sentencePiece) tokens(c *call) ([]tensor.Value, error) {
	var options [4]bool // add_bos, add_eos, reverse, fairseq
	for i := range options {
		var err error
		if options[i], err = c.option(3 + i); err != nil {
			return nil, err
		}
	}
	bos, eos, reverse, fairseq := options[0], options[1], options[2], options[3]
	if _, err := one[int64](c, 1); err != nil {
		return nil, err
	}
	if _, err := one[float32](c, 2); err != nil {
		return nil, err
	}
	var ids, begins []int32
	var rows []int64
	for _, s := range c.strings(0) {
		if err := c.Reserve(128 * int64(len(s)+16)); err != nil {
			return nil, err
		}
		e, err := p.EncodeContext(c.ctx, s)
		if err != nil {
			return nil, err
		}
		from := len(ids)
		rows = append(rows, int64(from))
		if bos {
			ids, begins = append(ids, int32(p.bos)), append(begins, 0)
		}
		for i, id := range e.IDs {
			ids, begins = append(ids, int32(id)), append(begins, int32(e.Offsets[i][0]))
		}
		if eos {
			ids, begins = append(ids, int32(p.eos)), append(begins, int32(min(len(s), math.MaxInt32)))
		}
		if reverse {
			slices.Reverse(ids[from:])
			slices.Reverse(begins[from:])
		}
	}
	rows = append(rows, int64(len(ids)))
	if fairseq && !reverse {
		for i, id := range ids {
			ids[i] = fairseqID(id)
		}
	}
	return values(list(ids), list(rows), list(begins))
}

// fairseqID converts an id of SentencePiece to one of fairseq, which has the special tokens <s>,
// <pad>, </s> and <unk> first.
func fairseqID(id int32) int32 {
	switch id {
	case 0:
		return 3
	case 1:
		return 0
	case 2:
		return 2
	}
	return id + 1
}
