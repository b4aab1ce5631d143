package contrib

import (
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// row is the tokens of a text. Offsets are pairs, and those of special tokens in texts are missing.
type row struct{ ids, offsets []int64 }

// kernel returns the ids of texts, the attention mask and offsets. Shorter rows end with the
// padding token.
func (b *bpe) kernel(c *call) ([]tensor.Value, error) {
	special := true
	if c.has(1) {
		var err error
		if special, err = one[bool](c, 1); err != nil {
			return nil, err
		}
	}
	texts := c.strings(0)
	rows, masks, offsets := make([][]int64, len(texts)), make([][]int64, len(texts)), make([][]int64, len(texts))
	for i, s := range texts {
		if err := c.Reserve(160 * int64(len(s)+16)); err != nil {
			return nil, err
		}
		e := &bpeEncoder{bpe: b, c: c, limit: b.width, begins: b.addBOS && special, ends: b.addEOS}
		text := decodeText(s)
		var err error
		if b.sentencePiece {
			err = e.encodePieces(text)
		} else {
			err = e.encode(text, special)
		}
		if err != nil {
			return nil, err
		}
		if b.width > 0 {
			e.ids = e.ids[:min(len(e.ids), b.width)]
		}
		rows[i], offsets[i] = e.ids, e.offsets
		masks[i] = slices.Repeat([]int64{1}, len(e.ids))
	}
	ids, width, err := c.padded(rows, b.padID, b.width)
	if err != nil {
		return nil, err
	}
	shape := append(slices.Clone(c.tensor(0).Shape()), width)
	out := []tensor.Value{shaped(ids, shape...)}
	if c.Outputs > 1 {
		mask, _, err := c.padded(masks, 0, width)
		if err != nil {
			return nil, err
		}
		out = append(out, shaped(mask, shape...))
	}
	if c.Outputs > 2 {
		for i, o := range offsets {
			offsets[i] = o[:min(len(o), 2*width)]
		}
		pairs, _, err := c.padded(offsets, 0, 2*width)
		if err != nil {
			return nil, err
		}
		out = append(out, shaped(pairs, append(shape, 2)...))
	}
	return out, nil
}

// bpeEncoder encodes one text.
type bpeEncoder struct {
	*bpe
	c            *call
	limit        int // ids, besides the end of the text; −1 for none
	begins, ends bool
	row
	offset int64
	buf    []symbol
}

func (e *bpeEncoder) full() bool { return e.limit >= 0 && len(e.ids) >= e.limit }

func (e *bpeEncoder) pair(from, to int64) { e.offsets = append(e.offsets, from, to) }

// segments divides a text at added and special tokens.
func (b *bpe) segments(c *call, text []rune) ([]segment, error) {
	parts := []segment{{text, noToken}}
	if b.added != nil {
		var err error
		if parts, err = splitTokens(c, b.added, text); err != nil {
			return nil, err
		}
	}
	var out []segment
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		if p.id != noToken {
			out = append(out, p)
			if strip := b.strip[string(p.text)]; strip[0] && i+1 < len(parts) && parts[i+1].id == noToken {
				i++ // the text after the token loses its white space, and is not divided further
				rest := parts[i].text
				for len(rest) > 0 && strings.ContainsRune(" \n\r\t", rest[0]) {
					rest = rest[1:]
				}
				out = append(out, segment{rest, noToken})
			}
			continue
		}
		out = append(out, splitSpecial(p.text, b.special)...)
	}
	return out, nil
}

// splitSpecial divides a text at each of the special tokens, in their order.
func splitSpecial(text []rune, special []segment) []segment {
	parts := []segment{{text, noToken}}
	for _, t := range special {
		var out []segment
		for _, p := range parts {
			for p.id == noToken {
				at := index(p.text, t.text)
				if at < 0 {
					break
				}
				if at > 0 {
					out = append(out, segment{p.text[:at], noToken})
				}
				out = append(out, t)
				p.text = p.text[at+len(t.text):]
			}
			if len(p.text) > 0 {
				out = append(out, p)
			}
		}
		parts = out
	}
	return parts
}

// index returns where what begins in text, or −1.
func index(text, what []rune) int {
	for i := 0; i+len(what) <= len(text); i++ {
		if text[i] == what[0] && slices.Equal(text[i:i+len(what)], what) {
			return i
		}
	}
	return -1
}

// encode encodes a text of a byte-level model. special adds the tokens that begin and end it.
func (e *bpeEncoder) encode(text []rune, special bool) error {
	if e.wordEnd {
		if text = clean(text); len(text) == 0 {
			e.ids = append(e.ids, e.bosID, e.eosID)
			return nil
		}
	}
	err := e.parts(text, func(part []rune) error {
		err := e.words(part)
		if err == nil && e.ends {
			e.pair(0, 0)
		}
		return err
	})
	if err == nil && e.ends && special {
		e.ids = append(e.ids, e.eosID)
	}
	return err
}

// parts begins the ids of a text, and adds those of its tokens and, by the function encode, of the
// text between them.
func (e *bpeEncoder) parts(text []rune, encode func(part []rune) error) error {
	if e.begins {
		e.ids = append(e.ids, e.bosID)
	}
	segments, err := e.segments(e.c, text)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if e.full() {
			break
		}
		if s.id != noToken {
			e.ids = append(e.ids, int64(s.id))
			continue
		}
		e.offset = 0
		if e.begins {
			e.pair(0, 0)
		}
		if err := encode(s.text); err != nil {
			return err
		}
	}
	return nil
}

// words divides a text and encodes its parts.
func (e *bpeEncoder) words(text []rune) error {
	if len(e.steps) == 0 {
		for len(text) > 0 && !e.full() {
			n := next(text, e.split)
			if err := e.word(text[:n]); err != nil {
				return err
			}
			text = text[n:]
		}
		return nil
	}
	chunks := [][]rune{text}
	for _, step := range e.steps {
		var out [][]rune
		for _, c := range chunks {
			parts, err := isolate(e.c, c, step)
			if err != nil {
				return err
			}
			out = append(out, parts...)
		}
		chunks = out
	}
	for _, c := range chunks {
		if e.full() {
			break
		}
		if err := e.word(c); err != nil {
			return err
		}
	}
	return nil
}

// isolate divides a text into matches and the text between them.
func isolate(c *call, text []rune, list []matcher) (out [][]rune, err error) {
	from := 0
	for at := 0; at < len(text); {
		if at&63 == 0 && c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		n := 0
		for _, m := range list {
			if n = m(text[at:]); n > 0 {
				break
			}
		}
		if n == 0 {
			at++
			continue
		}
		if at > from {
			out = append(out, text[from:at])
		}
		out = append(out, text[at:at+n])
		at += n
		from = at
	}
	if from < len(text) {
		out = append(out, text[from:])
	}
	return out, nil
}

// word appends the tokens of a part of a text.
func (e *bpeEncoder) word(part []rune) error {
	s := encodeText(part)
	shift := int64(0) // of the ends of tokens, as ONNX Runtime Extensions computes it
	if s[0] == ' ' {
		e.offset++
		shift = -1
	}
	if e.wordEnd {
		if s = strings.ReplaceAll(s, " ", ""); s == "" {
			return nil
		}
		shift = 0
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(byteText[s[i]])
	}
	text, end := b.String(), ""
	if e.wordEnd {
		end = byteText[s[len(s)-1]] + "</w>"
		text += "</w>"
	}
	e.buf = e.buf[:0]
	if id := e.id(text); id != noToken {
		e.buf = append(e.buf, symbol{id: id, size: uint32(len(s))})
	} else {
		n := len(s)
		if end != "" {
			n--
		}
		for i := range n {
			char := byteText[s[i]]
			e.buf = append(e.buf, symbol{id: e.id(char), size: uint32(len(char))})
		}
		if end != "" {
			e.buf = append(e.buf, symbol{id: e.id(end), size: uint32(len(end))})
		}
	}
	return e.put(shift)
}

// put merges the symbols of a word and appends their ids and offsets.
func (e *bpeEncoder) put(shift int64) error {
	tokens, err := mergeSymbols(e.c.ctx, e.merges, e.buf)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if e.full() {
			break
		}
		e.ids = append(e.ids, int64(t.id))
		e.pair(e.offset, e.offset+int64(t.size)+shift)
		e.offset += int64(t.size) + shift
	}
	return nil
}

// clean returns a text as CLIPTokenizer sees it: runs of white space become its first character,
// without those at the ends, line breaks are removed, and letters are lowercase.
func clean(text []rune) []rune {
	out := make([]rune, 0, len(text))
	spaces := 0
	for _, r := range text {
		if isPythonSpace(r) {
			if spaces++; spaces > 1 {
				continue
			}
		} else {
			spaces = 0
		}
		out = append(out, r)
	}
	if len(out) > 0 && isPythonSpace(out[0]) {
		out = out[1:]
	}
	if len(out) > 0 && isPythonSpace(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	var low []rune
	for _, r := range out {
		switch {
		case isNewline(r):
		case r == 'İ':
			low = append(low, 'i', 0x307)
		default:
			low = append(low, lowercase(r))
		}
	}
	if !slices.ContainsFunc(low, func(r rune) bool { return !isPythonSpace(r) }) {
		return nil
	}
	return low
}

// isPythonSpace is str.isspace of Python for a character.
func isPythonSpace(r rune) bool { return isSpace(r) || r >= 0x1C && r <= 0x1F || r == 0x85 }

// lowercase is the simple lowercase mapping of Unicode 13.
func lowercase(r rune) rune {
	lo, hi := 0, len(lowercases)/2
	for lo < hi {
		if mid := (lo + hi) / 2; lowercases[2*mid] < r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if 2*lo < len(lowercases) && lowercases[2*lo] == r {
		return lowercases[2*lo+1]
	}
	return r
}
