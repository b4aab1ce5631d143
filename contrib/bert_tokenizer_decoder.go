package contrib

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// BertTokenizerDecoder returns the text of token ids, or with the attribute use_indices those of
// the ranges in the rows of position.
var _ = registerTokenizer("BertTokenizerDecoder", "ids:int64, position:int64", "str:string",
	func(n *node) (kernel, error) {
		d := newBertDecoder(n)
		return func(c *call) ([]tensor.Value, error) {
			ids, shape := c.ints(0), c.tensor(0).Shape()
			if len(shape) != 1 && (len(shape) != 2 || shape[0] != 1) {
				return nil, fmt.Errorf("ids have shape %v, want [n] or [1, n]", shape)
			}
			if !d.ranges {
				s, err := d.decode(c, ids)
				return []tensor.Value{list([]string{s})}, err
			}
			ranges := c.tensor(1)
			if ranges.Len() > 0 && (ranges.Rank() != 2 || ranges.Dim(1) != 2) {
				return nil, fmt.Errorf("position has shape %v, want [n, 2]", ranges.Shape())
			}
			var out []string
			for at := c.ints(1); len(at) > 0; at = at[2:] {
				if at[0] < 0 || at[0] > at[1] || at[1] > int64(len(ids)) {
					return nil, fmt.Errorf("position [%d, %d] is not a range of %d ids", at[0], at[1], len(ids))
				}
				s, err := d.decode(c, ids[at[0]:at[1]])
				if err != nil {
					return nil, err
				}
				out = append(out, s)
			}
			return values(list(out))
		}, nil
	})

type bertDecoder struct {
	tokens                  []string
	continues               []bool // tokens that began with the suffix indicator, which is cut off
	first, last             []rune // characters of each token
	special                 map[int64]bool
	unk                     string
	ranges, skip, compacted bool
}

func newBertDecoder(n *node) *bertDecoder {
	d := &bertDecoder{unk: n.text("unk_token", "[UNK]"), ranges: n.flag("use_indices", false),
		skip: n.flag("skip_special_tokens", false), compacted: n.flag("clean_up_tokenization_spaces", true),
		special: map[int64]bool{}}
	suffix := n.text("suffix_indicator", "##")
	sep, pad := n.text("sep_token", "[SEP]"), n.text("pad_token", "[PAD]")
	cls, mask := n.text("cls_token", "[CLS]"), n.text("mask_token", "[MASK]")
	separator, clsID, maskID := int64(-1), int64(-1), int64(-1)
	for i, token := range fields(n.required("vocab_file"), "\n") {
		if token == sep || token == pad { // the last of them is special
			separator = int64(i)
		}
		if token == cls {
			clsID = int64(i)
		}
		if token == mask {
			maskID = int64(i)
		}
		rest, found := strings.CutPrefix(token, suffix)
		d.tokens, d.continues = append(d.tokens, rest), append(d.continues, found)
		first, last := rune(0), rune(0)
		if text := decodeText(rest); len(text) > 0 {
			first, last = text[0], text[len(text)-1]
		}
		d.first, d.last = append(d.first, first), append(d.last, last)
	}
	d.special[separator], d.special[clsID], d.special[maskID], d.special[-1] = true, true, true, true
	return d
}

func (d *bertDecoder) decode(c *call, ids []int64) (string, error) {
	size := int64(0)
	for _, id := range ids {
		size += int64(1 + len(d.unk))
		if id >= 0 && id < int64(len(d.tokens)) {
			size += int64(len(d.tokens[id]))
		}
	}
	if err := c.Reserve(2 * size); err != nil {
		return "", err
	}
	if err := c.ctx.Err(); err != nil {
		return "", err
	}
	var out strings.Builder
	before := int64(-1)
	for _, id := range ids {
		if d.skip && d.special[id] {
			continue
		}
		if id < 0 || id >= int64(len(d.tokens)) {
			if out.Len() > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(d.unk)
			continue
		}
		if d.continues[id] {
			if out.Len() == 0 {
				continue
			}
		} else if out.Len() > 0 && !(d.compacted && d.joins(before, id)) {
			out.WriteByte(' ')
		}
		out.WriteString(d.tokens[id])
		before = id
	}
	return out.String(), nil
}

// joins reports whether no space separates two tokens.
func (d *bertDecoder) joins(before, id int64) bool {
	if before < 0 {
		return true
	}
	left, right := d.last[before], d.first[id]
	const sides = `-'"/@\`
	return strings.ContainsRune("!.?,~:}]>)"+sides, right) || strings.ContainsRune("{[<($"+sides, left) ||
		left > 128 && between(puncts, left) || right > 128 && between(puncts, right)
}
