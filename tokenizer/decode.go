package tokenizer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder turns the texts of tokens into a text, in steps that keep a list.
type decoder interface {
	// decode replaces tokens. It returns an error for texts of more than sc.limit bytes in all.
	decode(tokens []string, sc *scratch) ([]string, error)
}

func parseDecoder(v any, depth int) (decoder, error) {
	if v == nil {
		return nil, nil
	}
	o, kind, err := component(v, "decoder", depth)
	if err != nil {
		return nil, err
	}
	var d decoder
	switch kind {
	case "BPEDecoder":
		d = bpeDecoder(o.string("suffix"))
	case "ByteLevel":
		d = decoderFunc(decodeByteLevel)
	case "WordPiece":
		d = &wordPieceDecoder{prefix: o.string("prefix"), cleanup: o.bool("cleanup")}
	case "Metaspace":
		var m *metaspaceSplit
		if m, err = parseMetaspace(o); err == nil {
			d = &metaspaceDecoder{m.replacement, m.scheme != "never"}
		}
	case "CTC":
		d = &ctcDecoder{pad: o.string("pad_token"), delimiter: o.string("word_delimiter_token"),
			cleanup: o.bool("cleanup")}
	case "Sequence":
		var list decoderSequence
		for _, v := range o.array("decoders") {
			e, err := parseDecoder(v, depth+1)
			if err != nil {
				return nil, err
			}
			if e != nil {
				list = append(list, e)
			}
		}
		d = list
	case "Replace":
		var p *splitPattern
		if p, err = parsePattern(o.value("pattern")); err == nil {
			d = &replaceDecoder{p, o.string("content")}
		}
	case "Fuse":
		d = decoderFunc(func(tokens []string, _ *scratch) []string { return []string{strings.Join(tokens, "")} })
	case "Strip":
		var r rune
		if r, err = o.char("content"); err == nil {
			d = &stripDecoder{r, o.int("start"), o.int("stop")}
		}
	case "ByteFallback":
		d = decoderFunc(decodeByteFallback)
	default:
		return nil, fmt.Errorf("decoder %q is not supported", kind)
	}
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, fmt.Errorf("decoder %s: %w", kind, err)
	}
	return d, nil
}

// decoderFunc ends early if sc does.
type decoderFunc func(tokens []string, sc *scratch) []string

func (f decoderFunc) decode(tokens []string, sc *scratch) ([]string, error) {
	return f(tokens, sc), sc.err
}

type decoderSequence []decoder

func (l decoderSequence) decode(tokens []string, sc *scratch) ([]string, error) {
	var err error
	for _, d := range l {
		if tokens, err = d.decode(tokens, sc); err != nil {
			return nil, err
		}
		size := 0
		for _, t := range tokens {
			size += len(t)
		}
		if size > sc.limit {
			return nil, errTextSize
		}
	}
	return tokens, nil
}

// mapTokens replaces each token.
func mapTokens(tokens []string, sc *scratch, f func(i int, token string) string) ([]string, error) {
	for i, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		tokens[i] = f(i, t)
	}
	return tokens, sc.err
}

// bpeDecoder replaces the suffix of words by a space, but for the last token.
type bpeDecoder string

func (d bpeDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	return mapTokens(tokens, sc, func(i int, t string) string {
		space := " "
		if i == len(tokens)-1 {
			space = ""
		}
		return strings.ReplaceAll(t, string(d), space)
	})
}

func decodeByteLevel(tokens []string, sc *scratch) []string {
	var out []byte
	for _, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		start := len(out)
		for _, r := range t {
			c, ok := charBytes[r]
			if !ok {
				out = append(out[:start], t...)
				break
			}
			out = append(out, c)
		}
	}
	return []string{toValid(string(out), sc)}
}

// toValid replaces each maximal part of a character in invalid UTF-8 by U+FFFD.
func toValid(s string, sc *scratch) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s) && sc.step(1); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			n = invalidPart(s[i:])
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// invalidPart returns the length of the maximal start of a character that s begins with, as
// the Unicode standard recommends (chapter 3.9). s does not begin with a valid character.
func invalidPart(s string) int {
	c := s[0]
	lo, hi, size := byte(0x80), byte(0xBF), 0
	switch {
	case c >= 0xC2 && c <= 0xDF:
		size = 2
	case c >= 0xE0 && c <= 0xEF:
		size = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		size = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for n < size && n < len(s) && s[n] >= lo && s[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}

type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

func (d *wordPieceDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	return mapTokens(tokens, sc, func(i int, t string) string {
		if i > 0 {
			rest, ok := strings.CutPrefix(t, d.prefix)
			if !ok {
				rest = " " + t
			}
			t = rest
		}
		if d.cleanup {
			t = cleanUp(t)
		}
		return t
	})
}

var cleanUps = [...][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
	{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}

// cleanUp removes spaces before punctuation and contractions.
func cleanUp(s string) string {
	if strings.IndexByte(s, ' ') < 0 {
		return s
	}
	for _, r := range cleanUps {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

type metaspaceDecoder struct {
	replacement string
	prefix      bool
}

func (d *metaspaceDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	return mapTokens(tokens, sc, func(i int, t string) string {
		space := " "
		if i == 0 && d.prefix {
			space = ""
		}
		return strings.ReplaceAll(t, d.replacement, space)
	})
}

// ctcDecoder joins repeated tokens and removes blank ones.
type ctcDecoder struct {
	pad, delimiter string
	cleanup        bool
}

func (d *ctcDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	var out []string
	for i, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		if i > 0 && t == tokens[i-1] {
			continue
		}
		t = strings.ReplaceAll(t, d.pad, "")
		if d.cleanup {
			t = strings.ReplaceAll(cleanUp(t), d.delimiter, " ")
		}
		if t != "" {
			out = append(out, t)
		}
	}
	return out, sc.err
}

type replaceDecoder struct {
	pattern *splitPattern
	content string
}

func (d *replaceDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	limit := sc.limit
	for i, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		if lit := string(d.pattern.literal); lit != "" {
			limit -= len(t) + strings.Count(t, lit)*max(0, len(d.content)-len(lit))
			if limit < 0 {
				return nil, errTextSize
			}
			tokens[i] = strings.ReplaceAll(t, lit, d.content)
			continue
		}
		ranges, err := d.pattern.matches([]byte(t), sc)
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		for _, r := range ranges {
			part := t[r.lo:r.hi]
			if r.match {
				part = d.content
			}
			if limit -= len(part); limit < 0 {
				return nil, errTextSize
			}
			b.WriteString(part)
		}
		tokens[i] = b.String()
	}
	return tokens, sc.err
}

// stripDecoder removes characters at the ends of each token.
type stripDecoder struct {
	content     rune
	start, stop int
}

func (d *stripDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	c := string(d.content)
	return mapTokens(tokens, sc, func(_ int, t string) string {
		for range d.start {
			rest, ok := strings.CutPrefix(t, c)
			if !ok {
				break
			}
			t = rest
		}
		for range d.stop {
			rest, ok := strings.CutSuffix(t, c)
			if !ok {
				break
			}
			t = rest
		}
		return t
	})
}

// decodeByteFallback joins tokens such as <0xE2>. Bytes that are not valid UTF-8 become one
// U+FFFD each.
func decodeByteFallback(tokens []string, sc *scratch) []string {
	var out []string
	var pending []byte
	flush := func() {
		if len(pending) == 0 {
			return
		}
		if utf8.Valid(pending) {
			out = append(out, string(pending))
		} else {
			for range pending {
				out = append(out, "\uFFFD")
			}
		}
		pending = pending[:0]
	}
	for _, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		if c, ok := byteOf(t); ok {
			pending = append(pending, c)
			continue
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// byteOf returns the byte of a token such as <0xE2>.
func byteOf(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(v), err == nil
}

// Decode returns the text of ids. Unknown ids are left out, and special tokens if
// skipSpecial is set.
func (t *Tokenizer) Decode(ids []int64, skipSpecial bool) (string, error) {
	return t.DecodeContext(context.Background(), ids, skipSpecial)
}

// DecodeContext is Decode that ends with the context's error.
func (t *Tokenizer) DecodeContext(ctx context.Context, ids []int64, skipSpecial bool) (string, error) {
	sc := &scratch{limit: t.opts.maxText()}
	sc.ctx = ctx
	tokens := make([]string, 0, len(ids))
	size := 0
	for _, id := range ids {
		if !sc.step(1) {
			break
		}
		s, ok := t.TokenOf(id)
		if !ok || skipSpecial && t.added.special[s] {
			continue
		}
		tokens = append(tokens, s)
		if size += len(s); size > sc.limit {
			sc.fail(errTextSize)
		}
	}
	if sc.err != nil {
		return "", sc.err
	}
	if t.decoder == nil {
		return strings.Join(tokens, " "), nil
	}
	tokens, err := t.decoder.decode(tokens, sc)
	if err != nil {
		return "", err
	}
	return strings.Join(tokens, ""), nil
}

// Decoder decodes a growing list of ids. It returns only whole characters, and no part of the
// text twice. It is not safe for use by several goroutines.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool
	ids         []int64
	prefix      string // text of the ids that has been returned
	known       int    // number of ids that prefix stands for
}

// NewDecoder returns a decoder for one text.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial}
}

// Next adds an id and returns the text that is new with it. It returns "" while the last
// character is not complete.
func (d *Decoder) Next(id int64) (string, error) {
	if d.prefix == "" && len(d.ids) > 0 {
		s, err := d.t.Decode(d.ids, d.skipSpecial)
		if err != nil {
			return "", err
		}
		if !strings.HasSuffix(s, "\uFFFD") {
			d.prefix, d.known = s, len(d.ids)
		}
	}
	d.ids = append(d.ids, id)
	s, err := d.t.Decode(d.ids, d.skipSpecial)
	if err != nil {
		return "", err
	}
	if len(s) <= len(d.prefix) || strings.HasSuffix(s, "\uFFFD") {
		return "", nil
	}
	return d.advance(s)
}

// advance returns what follows the prefix in s, and makes the newest ids the prefix.
func (d *Decoder) advance(s string) (string, error) {
	if !strings.HasPrefix(s, d.prefix) {
		return "", fmt.Errorf("token %d changes the text before it from %q to %q", d.ids[len(d.ids)-1], d.prefix, s)
	}
	text := s[len(d.prefix):]
	known := len(d.ids) - d.known
	d.ids = append(d.ids[:0], d.ids[d.known:]...)
	prefix, err := d.t.Decode(d.ids, d.skipSpecial)
	d.prefix, d.known = prefix, known
	return text, err
}

// Flush returns the rest of the text, with U+FFFD for an incomplete character. The decoder
// begins a new text then.
func (d *Decoder) Flush() (string, error) {
	s, err := d.t.Decode(d.ids, d.skipSpecial)
	text := ""
	if err == nil && len(s) > len(d.prefix) && strings.HasPrefix(s, d.prefix) {
		text = s[len(d.prefix):]
	}
	*d = Decoder{t: d.t, skipSpecial: d.skipSpecial, ids: d.ids[:0]}
	return text, err
}
