package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxID is the largest token id of a file.
const maxID = 1<<30 - 1

// maxDepth limits the nesting of JSON values and of components.
const maxDepth = 64

// Limits of a file, so that its parts take at most some hundred megabytes: values that are
// kept as trees, tokens, the bytes of all tokens, merges, and the bytes of added tokens, each of
// which takes a node of a trie.
const (
	maxValues     = 1 << 21
	maxTokens     = 1 << 22
	maxTokenBytes = 1 << 26
	maxMerges     = 1 << 23
	maxAddedBytes = 1 << 22
)

// jsonReader parses JSON without copying strings that have no escapes.
type jsonReader struct {
	s     string
	pos   int
	depth int

	values, bytes int // so far: values of trees, bytes of tokens
	opening       *opening
}

// vocabEntry is a token and its id.
type vocabEntry struct {
	token string
	id    int32
}

// scoredPiece is a token of a Unigram model.
type scoredPiece struct {
	token string
	score float64
}

// mergePair is a rule of a BPE model.
type mergePair struct{ left, right string }

func (r *jsonReader) fail(what string) error {
	return fmt.Errorf("JSON at byte %d: %s", r.pos, what)
}

func (r *jsonReader) space() {
	for r.pos < len(r.s) {
		switch r.s[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// take skips space and consumes c if it is next.
func (r *jsonReader) take(c byte) bool {
	r.space()
	if r.pos < len(r.s) && r.s[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

func (r *jsonReader) want(c byte) error {
	if !r.take(c) {
		return r.fail(fmt.Sprintf("want %q", c))
	}
	return nil
}

func (r *jsonReader) string() (string, error) {
	if err := r.want('"'); err != nil {
		return "", err
	}
	start := r.pos
	for r.pos < len(r.s) {
		switch c := r.s[r.pos]; {
		case c == '"':
			r.pos++
			return r.s[start : r.pos-1], nil
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return "", r.fail("control character in a string")
		}
		r.pos++
	}
	return "", r.fail("unfinished string")
}

func (r *jsonReader) escaped(start int) (string, error) {
	end := r.pos
	for end < len(r.s) && r.s[end] != '"' {
		if r.s[end] == '\\' {
			end++
		}
		end++
	}
	size := min(end, len(r.s)) - start // escapes are longer than what they stand for
	if !r.opening.take(size) || !r.opening.keep(size) {
		return "", r.opening.err
	}
	b := append(make([]byte, 0, size), r.s[start:r.pos]...)
	for r.pos < len(r.s) {
		c := r.s[r.pos]
		r.pos++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			return "", r.fail("control character in a string")
		case c != '\\':
			b = append(b, c)
			continue
		}
		if r.pos == len(r.s) {
			break
		}
		c = r.s[r.pos]
		r.pos++
		switch c {
		case '"', '\\', '/':
			b = append(b, c)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			u, err := r.hex4()
			if err != nil {
				return "", err
			}
			if utf16.IsSurrogate(u) {
				var low rune
				if strings.HasPrefix(r.s[r.pos:], `\u`) {
					r.pos += 2
					if low, err = r.hex4(); err != nil {
						return "", err
					}
				}
				if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
					return "", r.fail("lone surrogate in a string")
				}
			}
			b = utf8.AppendRune(b, u)
		default:
			return "", r.fail("unknown escape in a string")
		}
	}
	return "", r.fail("unfinished string")
}

func (r *jsonReader) hex4() (rune, error) {
	if r.pos+4 > len(r.s) {
		return 0, r.fail("unfinished escape")
	}
	v, err := strconv.ParseUint(r.s[r.pos:r.pos+4], 16, 16)
	if err != nil {
		return 0, r.fail("invalid escape")
	}
	r.pos += 4
	return rune(v), nil
}

// number returns the text of a number.
func (r *jsonReader) number() (string, error) {
	r.space()
	start := r.pos
	for r.pos < len(r.s) && strings.IndexByte("+-0123456789.eE", r.s[r.pos]) >= 0 {
		r.pos++
	}
	if r.pos == start {
		return "", r.fail("want a value")
	}
	return r.s[start:r.pos], nil
}

func (r *jsonReader) float() (float64, error) {
	s, err := r.number()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, r.fail("invalid number " + strconv.Quote(s))
	}
	return math.Copysign(roundedTwice(s), f), nil
}

// roundedTwice returns the absolute value of a number as tokenizers reads it: the digits, rounded
// to a float64, multiplied or divided by a power of ten. A quarter of the scores of a Unigram
// model differ by one unit in the last place from the nearest float64, which decides between
// divisions of a text whose sums are equal but for rounding.
func roundedTwice(s string) float64 {
	digits, exponent, fraction := uint64(0), 0, false
	for i, c := range []byte(s) {
		switch {
		case c == '.':
			fraction = true
		case c == 'e' || c == 'E':
			e, _ := strconv.Atoi(s[i+1:])
			return scaled(float64(digits), exponent+e)
		case !isDigit(c):
		case digits > (math.MaxUint64-uint64(c-'0'))/10: // further digits are not read
			if !fraction {
				exponent++
			}
		default:
			digits = digits*10 + uint64(c-'0')
			if fraction {
				exponent--
			}
		}
	}
	return scaled(float64(digits), exponent)
}

// scaled returns f times ten to the power of exponent.
func scaled(f float64, exponent int) float64 {
	switch {
	case f == 0:
		return 0
	case exponent >= 0:
		return f * math.Pow10(exponent)
	}
	for ; exponent < -308 && f != 0; exponent += 308 {
		f /= 1e308
	}
	return f / math.Pow10(-exponent)
}

// id parses a token id.
func (r *jsonReader) id() (int32, error) {
	r.space()
	start, v := r.pos, 0
	for r.pos < len(r.s) && isDigit(r.s[r.pos]) && v <= maxID {
		v = v*10 + int(r.s[r.pos]-'0')
		r.pos++
	}
	if r.pos == start || v > maxID || r.pos < len(r.s) && strings.IndexByte(".eE", r.s[r.pos]) >= 0 {
		return 0, r.fail(fmt.Sprintf("token id must be an integer from 0 to %d", maxID))
	}
	return int32(v), nil
}

// value parses any value: nil, bool, float64, string, []any or map[string]any.
func (r *jsonReader) value() (any, error) {
	r.space()
	if r.pos == len(r.s) {
		return nil, r.fail("want a value")
	}
	if r.values++; r.values > maxValues {
		return nil, r.fail(fmt.Sprintf("more than %d values", maxValues))
	}
	if !r.opening.take(valueBytes) {
		return nil, r.opening.err
	}
	switch r.s[r.pos] {
	case '{':
		if !r.opening.take(mapBytes) {
			return nil, r.opening.err
		}
		m := map[string]any{}
		err := r.object(func(key string) error {
			switch n := len(m); {
			case n == 0 && !r.opening.take(groupBytes), n >= 8 && !r.opening.take(memberBytes):
				return r.opening.err
			}
			v, err := r.value()
			m[key] = v
			return err
		})
		return m, err
	case '[':
		list := []any{}
		err := r.array(func() error {
			v, err := r.value()
			list = append(list, v)
			return err
		})
		return list, err
	}
	return r.scalar()
}

// scalar parses a value that is neither an object nor an array.
func (r *jsonReader) scalar() (any, error) {
	switch r.s[r.pos] {
	case '"':
		return r.string()
	case 't', 'f', 'n':
		for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
			if strings.HasPrefix(r.s[r.pos:], word) {
				r.pos += len(word)
				return v, nil
			}
		}
		return nil, r.fail("want a value")
	}
	return r.float()
}

// skip passes over any value.
func (r *jsonReader) skip() error {
	r.space()
	switch {
	case strings.HasPrefix(r.s[r.pos:], "{"):
		return r.object(func(string) error { return r.skip() })
	case strings.HasPrefix(r.s[r.pos:], "["):
		return r.array(r.skip)
	}
	if r.pos == len(r.s) {
		return r.fail("want a value")
	}
	_, err := r.scalar()
	return err
}

func (r *jsonReader) object(member func(key string) error) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	if r.take('}') {
		return nil
	}
	for {
		r.space()
		key, err := r.string()
		if err != nil {
			return err
		}
		if err := r.want(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if r.take(',') {
			continue
		}
		return r.want('}')
	}
}

func (r *jsonReader) array(element func() error) error {
	if err := r.enter('['); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	if r.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.take(',') {
			continue
		}
		return r.want(']')
	}
}

func (r *jsonReader) enter(c byte) error {
	if r.depth++; r.depth > maxDepth {
		return r.fail(fmt.Sprintf("nesting exceeds %d", maxDepth))
	}
	return r.want(c)
}

// end reports an error if anything but space follows.
func (r *jsonReader) end() error {
	if r.space(); r.pos < len(r.s) {
		return r.fail("data after the value")
	}
	return nil
}

// parseJSON parses a whole document.
func parseJSON(s string, o *opening) (any, error) {
	r := &jsonReader{s: s, opening: o}
	v, err := r.value()
	if err == nil {
		err = r.end()
	}
	return v, err
}

// object reads the fields of a component. The first error is kept.
type object struct {
	fields map[string]any
	err    error
}

// component returns the fields and the type of a component of a tokenizer.json.
func component(v any, what string, depth int) (*object, string, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, "", fmt.Errorf("%s must be an object", what)
	}
	if depth > maxDepth {
		return nil, "", fmt.Errorf("%s: nesting exceeds %d", what, maxDepth)
	}
	kind, ok := fields["type"].(string)
	if !ok {
		return nil, "", fmt.Errorf("%s without a type is not supported", what)
	}
	return &object{fields: fields}, kind, nil
}

func (o *object) fail(name, want string) {
	if o.err == nil {
		o.err = fmt.Errorf("field %q must be %s", name, want)
	}
}

// has reports whether a field is present and not null.
func (o *object) has(name string) bool { return o.fields[name] != nil }

func (o *object) value(name string) any { return o.fields[name] }

func (o *object) bool(name string) bool {
	v, ok := o.fields[name].(bool)
	if !ok {
		o.fail(name, "a boolean")
	}
	return v
}

func (o *object) string(name string) string {
	v, ok := o.fields[name].(string)
	if !ok {
		o.fail(name, "a string")
	}
	return v
}

func (o *object) int(name string) int {
	v, ok := o.fields[name].(float64)
	if !ok || v != math.Trunc(v) || v < 0 || v > math.MaxInt32 {
		o.fail(name, "an integer from 0 to 2147483647")
		return 0
	}
	return int(v)
}

func (o *object) array(name string) []any {
	v, ok := o.fields[name].([]any)
	if !ok {
		o.fail(name, "an array")
	}
	return v
}

func (o *object) char(name string) (rune, error) {
	s := o.string(name)
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || n != len(s) {
		return 0, fmt.Errorf("field %q must be one character, got %q", name, s)
	}
	return r, nil
}
