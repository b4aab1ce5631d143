package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// postProcessor adds special tokens to one or two encodings.
type postProcessor interface {
	process(list []*Encoding, c *postContext) ([]*Encoding, error)
	added(pair bool) int // number of special tokens
}

// postContext is what a post-processor may need besides the encodings.
type postContext struct {
	special bool
	texts   [2]*source
	sc      *scratch
}

func parsePostProcessor(v any, depth int) (postProcessor, error) {
	if v == nil {
		return nil, nil
	}
	o, kind, err := component(v, "post-processor", depth)
	if err != nil {
		return nil, err
	}
	var p postProcessor
	switch kind {
	case "BertProcessing", "RobertaProcessing":
		r := &bertProcessing{roberta: kind == "RobertaProcessing"}
		if r.sep, r.sepID, err = namedToken(o, "sep"); err == nil {
			r.cls, r.clsID, err = namedToken(o, "cls")
		}
		if r.roberta {
			r.trim, r.prefix = o.bool("trim_offsets"), o.bool("add_prefix_space")
		}
		p = r
	case "ByteLevel":
		p = &byteLevelProcessing{trim: o.bool("trim_offsets"), prefix: o.bool("add_prefix_space")}
	case "TemplateProcessing":
		p, err = parseTemplate(o)
	case "Sequence":
		var list postProcessorSequence
		for _, v := range o.array("processors") {
			q, err := parsePostProcessor(v, depth+1)
			if err != nil {
				return nil, err
			}
			if q == nil {
				continue
			}
			if n := len(list); n > 0 {
				if _, ok := list[n-1].(*template); ok {
					return nil, errors.New("post-processor Sequence: one after TemplateProcessing is not supported")
				}
			}
			list = append(list, q)
		}
		p = list
	default:
		return nil, fmt.Errorf("post-processor %q is not supported", kind)
	}
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, fmt.Errorf("post-processor %s: %w", kind, err)
	}
	return p, nil
}

// namedToken reads a field of the form ["token", id].
func namedToken(o *object, name string) (string, int32, error) {
	list := o.array(name)
	if len(list) == 2 {
		token, ok := list[0].(string)
		id, ok2 := tokenID(list[1])
		if ok && ok2 {
			return token, id, nil
		}
	}
	return "", 0, fmt.Errorf("field %q must be a token and its id", name)
}

func tokenID(v any) (int32, bool) {
	f, ok := v.(float64)
	return int32(f), ok && f >= 0 && f <= maxID && f == math.Trunc(f)
}

type postProcessorSequence []postProcessor

func (l postProcessorSequence) added(pair bool) int {
	n := 0
	for _, p := range l {
		n += p.added(pair)
	}
	return n
}

func (l postProcessorSequence) process(list []*Encoding, c *postContext) ([]*Encoding, error) {
	var err error
	for _, p := range l {
		if list, err = p.process(list, c); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// bertProcessing surrounds texts with tokens: [CLS] A [SEP] B [SEP], or <s> A </s></s> B </s>.
type bertProcessing struct {
	sep, cls     string
	sepID, clsID int32
	roberta      bool
	trim, prefix bool // of RoBERTa: spaces are not part of the offsets of words
}

func (b *bertProcessing) added(pair bool) int {
	switch {
	case !pair:
		return 2
	case b.roberta:
		return 4
	}
	return 3
}

func (b *bertProcessing) process(list []*Encoding, c *postContext) ([]*Encoding, error) {
	if b.roberta && b.trim {
		trimOffsets(list, c, b.prefix)
	}
	if b.roberta {
		for _, e := range list {
			e.setType(0)
		}
	}
	if !c.special {
		return list, nil
	}
	for i, e := range list {
		list[i] = b.surround(i, e, true, c.sc)
	}
	return list, nil
}

func (b *bertProcessing) surround(i int, e *Encoding, main bool, sc *scratch) *Encoding {
	id, token := b.clsID, b.cls
	if i > 0 {
		id, token = b.sepID, b.sep
	}
	typeID := int64(i)
	if b.roberta {
		typeID = 0
		e.setType(0)
	}
	overflow := e.Overflow
	e.Overflow = nil
	for k := range e.Special {
		e.Special[k], e.Mask[k] = false, 1
	}
	e.setSequence(i)
	out := &Encoding{}
	if i == 0 || b.roberta {
		out.append(special([]int32{id}, []string{token}, typeID, sc), sc)
	}
	out.append(e, sc)
	out.append(special([]int32{b.sepID}, []string{b.sep}, typeID, sc), sc)
	if main {
		for _, o := range overflow {
			out.Overflow = append(out.Overflow, b.surround(i, o, false, sc))
		}
	}
	return out
}

// byteLevelProcessing removes spaces from the offsets of byte-level tokens.
type byteLevelProcessing struct{ trim, prefix bool }

func (*byteLevelProcessing) added(bool) int { return 0 }

func (b *byteLevelProcessing) process(list []*Encoding, c *postContext) ([]*Encoding, error) {
	if b.trim {
		trimOffsets(list, c, b.prefix)
	}
	for i, e := range list {
		e.setSequence(i)
	}
	return list, nil
}

func trimOffsets(list []*Encoding, c *postContext, prefix bool) {
	for i, e := range list {
		e.trim(c.texts[i], prefix, c.sc)
		for _, o := range e.Overflow {
			o.trim(c.texts[i], prefix, c.sc)
		}
	}
}

// trim removes the spaces that tokens begin and end with from their offsets. A space that
// add_prefix_space inserted has no offset.
func (e *Encoding) trim(src *source, prefix bool, sc *scratch) {
	const space = 'Ġ'
	for i, t := range e.Tokens {
		if t == "" || t[0] > ' ' && t[0] < utf8.RuneSelf && t[len(t)-1] > ' ' && t[len(t)-1] < utf8.RuneSelf {
			continue
		}
		if !sc.step(len(t)) {
			return
		}
		leading, trailing := 0, 0
		for _, r := range t {
			if r != space && !ucd.is(r, isSpace) {
				break
			}
			leading++
		}
		for s := t; s != ""; trailing++ {
			r, n := utf8.DecodeLastRuneInString(s)
			if r != space && !ucd.is(r, isSpace) {
				break
			}
			s = s[:len(s)-n]
		}
		o := &e.Offsets[i]
		if leading > 0 {
			if (i == 0 || o[0] == 0) && prefix && leading == 1 {
				leading = 0
			}
			o[0] = min(src.advance(o[0], leading), o[1])
		}
		if trailing > 0 {
			if at, ok := src.retreat(o[1], trailing); ok {
				o[1] = max(at, o[0])
			}
		}
	}
}

// template is TemplateProcessing: lists of texts and special tokens.
type template struct {
	single, pair []templatePiece
	addedSingle  int
	addedPair    int
}

type templatePiece struct {
	text   int // 0 or 1, -1 for special tokens
	typeID int64
	ids    []int32
	tokens []string
}

func parseTemplate(o *object) (*template, error) {
	specials, ok := o.value("special_tokens").(map[string]any)
	if !ok {
		return nil, errors.New(`field "special_tokens" must be an object`)
	}
	t := &template{}
	var err error
	if t.single, t.addedSingle, err = templatePieces(o.value("single"), specials, 1); err != nil {
		return nil, fmt.Errorf("single: %w", err)
	}
	if t.pair, t.addedPair, err = templatePieces(o.value("pair"), specials, 2); err != nil {
		return nil, fmt.Errorf("pair: %w", err)
	}
	return t, nil
}

// maxSpecial limits the pieces of a template, and the special tokens that it adds to a text.
const maxSpecial = 1 << 16

// templatePieces reads a template: a list of objects, or of strings such as "$A:0".
func templatePieces(v any, specials map[string]any, texts int) (pieces []templatePiece, added int, err error) {
	list, ok := v.([]any)
	n := len(list)
	s, isString := v.(string)
	if isString {
		n = strings.Count(s, " ") + 1
	}
	if n > maxSpecial {
		return nil, 0, fmt.Errorf("the template has %d pieces, want at most %d", n, maxSpecial)
	}
	if isString {
		ok = true
		for s := range strings.SplitSeq(s, " ") {
			list = append(list, s)
		}
	}
	if !ok {
		return nil, 0, errors.New("template must be an array")
	}
	pieces = make([]templatePiece, 0, n)
	type tokens struct {
		ids   []int32
		texts []string
	}
	known := map[string]tokens{}
	for _, v := range list {
		p := templatePiece{text: -1}
		name := ""
		switch v := v.(type) {
		case string:
			if p, name, err = parsePiece(v); err != nil {
				return nil, 0, err
			}
		case map[string]any:
			fields, isText := v["Sequence"].(map[string]any)
			if !isText {
				if fields, ok = v["SpecialToken"].(map[string]any); !ok {
					return nil, 0, errors.New("piece must be a Sequence or a SpecialToken")
				}
			}
			o := &object{fields: fields}
			name, p.typeID = o.string("id"), int64(o.int("type_id"))
			if o.err != nil {
				return nil, 0, o.err
			}
			if isText {
				switch name {
				case "A":
					p.text = 0
				case "B":
					p.text = 1
				default:
					return nil, 0, fmt.Errorf("sequence %q is not supported", name)
				}
			}
		default:
			return nil, 0, errors.New("piece must be an object or a string")
		}
		if p.text >= texts {
			return nil, 0, errors.New("a single text has no sequence B")
		}
		if p.text < 0 {
			k, ok := known[name]
			if !ok {
				if k.ids, k.texts, err = specialTokens(specials[name], name); err != nil {
					return nil, 0, err
				}
				known[name] = k
			}
			p.ids, p.tokens = k.ids, k.texts
			if added += len(p.ids); added > maxSpecial {
				return nil, 0, fmt.Errorf("the template adds more than %d special tokens", maxSpecial)
			}
		}
		pieces = append(pieces, p)
	}
	return pieces, added, nil
}

// parsePiece reads a piece such as "$A", "$B:1", "$1" or "[CLS]:0".
func parsePiece(s string) (p templatePiece, name string, err error) {
	name, typeID, ok := strings.Cut(s, ":")
	n := uint64(0)
	if ok {
		n, err = strconv.ParseUint(typeID, 10, 31)
	}
	p.text = -1
	if rest, isText := strings.CutPrefix(name, "$"); isText {
		switch rest {
		case "", "A", "a":
			p.text = 0
		case "B", "b":
			p.text = 1
		default:
			p.text = 0
			var k uint64
			k, err2 := strconv.ParseUint(rest, 10, 31)
			if err2 != nil {
				err = err2
			}
			if !ok {
				n = k
			}
		}
	}
	if err != nil || strings.Contains(typeID, ":") {
		return p, "", fmt.Errorf("piece %q is invalid", s)
	}
	p.typeID = int64(n)
	return p, name, nil
}

func specialTokens(v any, name string) ([]int32, []string, error) {
	o, ok := v.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("special token %q is not defined", name)
	}
	ids, _ := o["ids"].([]any)
	tokens, _ := o["tokens"].([]any)
	if len(ids) != len(tokens) {
		return nil, nil, fmt.Errorf("special token %q has %d ids and %d tokens", name, len(ids), len(tokens))
	}
	var (
		outIDs    []int32
		outTokens []string
	)
	for i := range ids {
		id, ok := tokenID(ids[i])
		token, ok2 := tokens[i].(string)
		if !ok || !ok2 {
			return nil, nil, fmt.Errorf("special token %q is invalid", name)
		}
		outIDs, outTokens = append(outIDs, id), append(outTokens, token)
	}
	return outIDs, outTokens, nil
}

// templateBytes returns the memory of the pieces of templates.
func templateBytes(p postProcessor) int {
	n := 0
	switch p := p.(type) {
	case *template:
		n = bufferBytes(p.single) + bufferBytes(p.pair) + 32*(p.addedSingle+p.addedPair)
	case postProcessorSequence:
		for _, q := range p {
			n += templateBytes(q)
		}
	}
	return n
}

func (t *template) added(pair bool) int {
	if pair {
		return t.addedPair
	}
	return t.addedSingle
}

func (t *template) process(list []*Encoding, c *postContext) ([]*Encoding, error) {
	pieces := t.single
	if len(list) == 2 {
		pieces = t.pair
	} else if len(list) != 1 {
		return nil, errors.New("TemplateProcessing must come before a post-processor that joins texts")
	}
	uses := [2]int{}
	var out []*Encoding
	for _, p := range pieces {
		switch {
		case p.text >= 0:
			e := list[p.text]
			if uses[p.text]++; uses[p.text] > 1 {
				if !c.sc.takeTokens(len(e.IDs)) {
					return nil, c.sc.err
				}
				e = e.clone()
			}
			e.setType(p.typeID)
			e.setSequence(p.text)
			out = append(out, e)
		case c.special:
			out = append(out, special(p.ids, p.tokens, p.typeID, c.sc))
		}
	}
	return out, nil
}
