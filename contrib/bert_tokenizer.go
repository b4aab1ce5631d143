package contrib

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

const bertOutputs = "input_ids:int64, token_type_ids:int64, attention_mask:int64, offset_mapping:int64?"

// BertTokenizer returns the token ids of one or two texts, with BERT's special tokens.
var _ = registerTokenizer("BertTokenizer", "text:string", bertOutputs, func(n *node) (kernel, error) {
	t, err := newBertTokenizer(n)
	if err != nil {
		return nil, err
	}
	return func(c *call) ([]tensor.Value, error) {
		texts := c.strings(0)
		if len(texts) != 1 && len(texts) != 2 {
			return nil, fmt.Errorf("input has %d texts, want 1 or 2", len(texts))
		}
		r, err := t.encode(c, texts, c.Outputs > 3)
		if err != nil {
			return nil, err
		}
		return values(list(r.ids), list(r.types), list(r.mask), shaped(r.offsets, len(r.ids), 2))
	}, nil
})

// bertTokenizer is BertTokenizer and HfBertTokenizer.
type bertTokenizer struct {
	wordPiece
	basic        *basicTokenizer // nil if texts are divided at spaces alone
	unk          string
	unkID        int64
	clsID, sepID int64
	most         int // tokens of a single text that are kept, if positive
}

func newBertTokenizer(n *node) (*bertTokenizer, error) {
	t := &bertTokenizer{}
	t.wordPiece = wordPiece{ids: map[string]int64{}, suffix: n.text("suffix_indicator", "##"), limit: 100}
	for i, token := range fields(n.required("vocab_file"), "\r\n") {
		t.ids[token] = int64(i)
	}
	if n.flag("do_basic_tokenize", true) {
		t.basic = newBasicTokenizer(n)
	}
	t.unk = n.text("unk_token", "[UNK]")
	for _, s := range []struct {
		name, token string
		id          *int64
	}{{"unk_token", "[UNK]", &t.unkID}, {"sep_token", "[SEP]", &t.sepID}, {"pad_token", "[PAD]", new(int64)},
		{"cls_token", "[CLS]", &t.clsID}, {"mask_token", "[MASK]", new(int64)}} {
		token := n.text(s.name, s.token)
		id, ok := t.ids[token]
		if !ok {
			return nil, fmt.Errorf("%s %q is not in the vocabulary", s.name, token)
		}
		*s.id = id
	}
	if most := n.int("max_length", -1); most > 2 {
		t.most = int(min(most-2, 1<<31))
	}
	return t, nil
}

// bertEncoding is a result of a bertTokenizer.
type bertEncoding struct {
	ids, types, mask, offsets []int64 // two offsets for each token
}

// encode returns the tokens of one or two texts.
func (t *bertTokenizer) encode(c *call, texts []string, offsets bool) (*bertEncoding, error) {
	if err := c.reserveTexts(texts, 128); err != nil {
		return nil, err
	}
	r := &bertEncoding{ids: []int64{t.clsID}, types: []int64{0}}
	for k, s := range texts {
		tokens, ids, err := t.tokenize(c, s)
		if err != nil {
			return nil, err
		}
		if offsets && t.basic != nil {
			r.offsets = bertOffsets(r.offsets, tokens)
		}
		if len(texts) == 1 && t.most > 0 {
			ids = ids[:min(t.most, len(ids))]
		}
		r.ids = append(append(r.ids, ids...), t.sepID)
		for len(r.types) < len(r.ids) {
			r.types = append(r.types, int64(k))
		}
	}
	r.mask = make([]int64, len(r.ids))
	for i := range r.mask {
		r.mask[i] = 1
	}
	all := make([]int64, 2*len(r.ids))
	copy(all, r.offsets)
	r.offsets = all
	return r, nil
}

// tokenize returns the tokens of a text.
func (t *bertTokenizer) tokenize(c *call, s string) (tokens []string, ids []int64, err error) {
	text := decodeText(s)
	var words [][]rune
	if t.basic != nil {
		words = t.basic.split(text)
	} else {
		words = splitSpaces(text)
	}
	for i, w := range words {
		if i&63 == 0 {
			if err := c.ctx.Err(); err != nil {
				return nil, nil, err
			}
		}
		if !t.split(w, func(token string, id int64) { tokens, ids = append(tokens, token), append(ids, id) }) {
			tokens, ids = append(tokens, t.unk), append(ids, t.unkID)
		}
	}
	return tokens, ids, nil
}

// splitSpaces divides a text at spaces. A space without a word before it begins the next word.
func splitSpaces(text []rune) [][]rune {
	var words [][]rune
	from := 0
	for i, r := range text {
		if r == ' ' && i > from {
			words, from = append(words, text[from:i]), i+1
		}
	}
	if from < len(text) {
		words = append(words, text[from:])
	}
	return words
}

// bertOffsets appends pairs of offsets in a text that has one space between words. They are
// computed from the tokens alone, as ONNX Runtime Extensions does, and are those of the text only
// if that has this form.
func bertOffsets(out []int64, tokens []string) []int64 {
	out = append(out, 0, 0)
	at := int64(0)
	for _, token := range tokens {
		switch rest := strings.TrimLeft(token, "#"); {
		case rest != token:
			at--
			out = append(out, at, at+int64(len(rest)))
			at += int64(len(rest)) + 1
		case token == "[UNK]":
			out = append(out, at, at+1)
			at += 2
		default:
			out = append(out, at, at+int64(len(token)))
			at += int64(len(token)) + 1
		}
	}
	return append(out, 0, 0)
}
