package contrib

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// BpeDecoder returns the texts of rows of ids. The attribute id_vocab has a token in each line,
// byte_decoder lines of a code point, a tab and the byte that it stands for, and added_tokens
// lines of an id, a tab and a text. If byte_decoder has ▁, that is a space in tokens, and <0x20>
// is a byte. ONNX Runtime Extensions decodes the ids of all rows from each row on.
var _ = registerTokenizer("BpeDecoder", "ids:int64", "str:string", func(n *node) (kernel, error) {
	d, err := newBPEDecoder(n)
	if err != nil {
		return nil, err
	}
	return func(c *call) ([]tensor.Value, error) {
		ids, shape := c.ints(0), c.tensor(0).Shape()
		if len(shape) == 0 || len(ids) == 0 {
			return nil, fmt.Errorf("ids have shape %v, want at least one id in each row", shape)
		}
		width := shape[len(shape)-1]
		out := make([]string, len(ids)/width)
		for i := range out {
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
			var err error
			if out[i], err = d.decode(c, ids[i*width:(i+1)*width]); err != nil {
				return nil, err
			}
		}
		if len(shape) == 1 {
			return values(list(out))
		}
		return values(shaped(out, slices.Clone(shape[:len(shape)-1])...))
	}, nil
})

type bpeDecoder struct {
	tokens  []string // decoded
	missing []bool   // tokens with characters that stand for no byte
	added   map[int64]string
	special map[int64]bool
	unk     string

	skip, spaced bool // special tokens are left out, or have spaces around them
}

func newBPEDecoder(n *node) (*bpeDecoder, error) {
	d := &bpeDecoder{unk: n.text("unk_token", "<|endoftext|>"), skip: n.flag("skip_special_tokens", false),
		spaced: n.flag("whitespace_token", false), added: map[int64]string{}, special: map[int64]bool{}}
	vocab, decoder := n.required("id_vocab"), n.required("byte_decoder")
	if n.err != nil {
		return nil, n.err
	}
	bytes := map[rune]byte{}
	err := idLines("byte_decoder", decoder, func(id int64, text string) error {
		v, err := strconv.ParseUint(text, 10, 8)
		bytes[rune(id)] = byte(v)
		return err
	})
	if err == nil {
		err = idLines("added_tokens", n.text("added_tokens", ""), func(id int64, text string) error {
			d.added[id] = text
			return nil
		})
	}
	if err == nil {
		err = idLines("all_special_ids", n.text("all_special_ids", ""), func(id int64, _ string) error {
			d.special[id] = true
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	_, pieces := bytes[pieceSpace]
	for token := range strings.Lines(vocab) {
		token = strings.TrimSuffix(token, "\n")
		text, ok := "", true
		if pieces {
			text = decodePiece(token)
		} else {
			text, ok = decodeBytes(token, bytes, d.skip)
		}
		d.tokens, d.missing = append(d.tokens, text), append(d.missing, !ok)
	}
	return d, nil
}

// idLines calls f for lines of an integer, and a tab and a text after it.
func idLines(name, text string, f func(id int64, text string) error) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number, rest, _ := strings.Cut(line, "\t")
		id, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err == nil {
			err = f(id, rest)
		}
		if err != nil {
			return fmt.Errorf("attribute %s: line %q must be an integer, a tab and a value", name, line)
		}
	}
	return nil
}

// decodePiece returns the text of a token of a SentencePiece model.
func decodePiece(token string) string {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if v, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return string([]byte{byte(v)})
		}
	}
	return strings.ReplaceAll(token, string(pieceSpace), " ")
}

// decodeBytes returns the bytes that the characters of a token stand for. Characters up to
// U+00FF without one are bytes themselves. Others are left out if skip is set, or ok is false.
func decodeBytes(token string, bytes map[rune]byte, skip bool) (text string, ok bool) {
	var out []byte
	for _, r := range decodeText(token) {
		b, found := bytes[r]
		switch {
		case found:
			out = append(out, b)
		case r <= 0xFF:
			out = append(out, byte(r))
		case !skip:
			return "", false
		}
	}
	return string(out), true
}

func (d *bpeDecoder) decode(c *call, ids []int64) (string, error) {
	var b strings.Builder
	var err error
	put := func(s string) {
		if err == nil {
			if err = c.Reserve(2 * int64(len(s))); err == nil {
				b.WriteString(s)
			}
		}
	}
	after := false // a special token
	for i, id := range ids {
		special := d.special[id]
		if d.skip && special {
			after = true
			continue
		}
		text, added := d.added[id]
		known := id >= 0 && id < int64(len(d.tokens))
		switch {
		case added:
		case known && !d.missing[id]:
			text = d.tokens[id]
		case !known && d.skip:
			continue
		default:
			text = d.unk
		}
		if d.spaced && special && i > 0 && !after {
			put(" ")
		}
		put(text)
		if d.spaced && special && i < len(ids)-1 {
			put(" ")
		}
		after = special
	}
	return b.String(), err
}
