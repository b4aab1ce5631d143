package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

const (
	maxName   = 1 << 10 // bytes of a name in a request: of a model, tensor, type or parameter
	maxID     = 4 << 10 // bytes of a request's id
	maxText   = 1 << 20 // bytes of the value of a parameter
	maxNumber = 1 << 10 // digits of a number
	maxQuoted = 100     // bytes of a request's text in an error
)

// quote returns a text of a request for an error, shortened and in quotes.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

// shorten returns a text of a request for an error whose quotes are those of Triton.
func shorten(s string) string {
	if len(s) > maxQuoted {
		return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return s
}

// shown returns the value of a parameter for an error, shortened.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return shorten(s)
	}
	return fmt.Sprint(v)
}

// jsonReader reads the JSON of a request. It reserves memory before it allocates any, and refuses
// members that are unknown or given twice. null stands for an omitted value, as in encoding/json.
type jsonReader struct {
	ctx    context.Context
	data   []byte
	at     int
	memory *reservation
	values int // elements and tokens so far
}

// check returns the error of the context, which it asks for every 1024th value.
func (r *jsonReader) check() error {
	if r.values++; r.values%1024 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// readJSON reads exactly one JSON value.
func readJSON(ctx context.Context, data []byte, memory *reservation, read func(r *jsonReader) error) error {
	if !utf8.Valid(data) {
		return errors.New("the JSON is not UTF-8")
	}
	r := &jsonReader{ctx: ctx, data: data, memory: memory}
	if err := read(r); err != nil {
		return err
	}
	if r.next(); r.at < len(r.data) {
		return errors.New("failed to parse the request JSON: data after the end of the object")
	}
	return nil
}

// next returns the next byte that is not white space, and 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) wrong(want string) error {
	got := "the end"
	if r.next(); r.at < len(r.data) {
		got = quote(string(r.data[r.at:min(len(r.data), r.at+16)]))
	}
	return fmt.Errorf("failed to parse the request JSON: at byte %d: got %s, want %s", r.at, got, want)
}

// take skips a byte, if it is the next one.
func (r *jsonReader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

// literal skips a word, if it is next.
func (r *jsonReader) literal(word string) bool {
	r.next()
	end := r.at + len(word)
	if end > len(r.data) || string(r.data[r.at:end]) != word || end < len(r.data) && !delimiter(r.data[end]) {
		return false
	}
	r.at = end
	return true
}

func (r *jsonReader) null() bool { return r.literal("null") }

// delimiter reports whether c ends a number or a literal.
func delimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ']', '}':
		return true
	}
	return false
}

// elements calls each for the elements of an array or the members of an object.
func (r *jsonReader) elements(open, end byte, what string, each func() error) error {
	if !r.take(open) {
		return r.wrong(what)
	}
	if r.take(end) {
		return nil
	}
	for {
		if err := r.check(); err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
		if r.take(end) {
			return nil
		}
		if !r.take(',') {
			return r.wrong("',' or '" + string(end) + "'")
		}
	}
}

// list calls each for the elements of an array.
func (r *jsonReader) list(each func() error) error {
	if r.null() {
		return nil
	}
	return r.elements('[', ']', "an array", each)
}

// entries calls each for the members of an object.
func (r *jsonReader) entries(each func(key string) error) error {
	if r.null() {
		return nil
	}
	return r.elements('{', '}', "an object", func() error {
		key, err := r.text("member", maxName)
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.wrong("':'")
		}
		return each(key)
	})
}

// object calls each with the index of every member of an object, which must be in the list.
func (r *jsonReader) object(members []string, each func(i int) error) error {
	seen := 0
	return r.entries(func(key string) error {
		i := slices.Index(members, key)
		switch {
		case i < 0:
			return fmt.Errorf("failed to parse the request JSON: unknown member %s, want %q", quote(key), members)
		case seen&(1<<i) != 0:
			return twice(key)
		}
		seen |= 1 << i
		return each(i)
	})
}

func twice(key string) error {
	return fmt.Errorf("failed to parse the request JSON: member %s is given twice", quote(key))
}

// raw skips a string, and returns it as it is written.
func (r *jsonReader) raw() ([]byte, error) {
	if r.next() != '"' {
		return nil, r.wrong("a string")
	}
	for i := r.at + 1; i < len(r.data); i++ {
		switch r.data[i] {
		case '\\':
			i++
		case '"':
			b := r.data[r.at : i+1]
			r.at = i + 1
			return b, nil
		}
	}
	r.at = len(r.data)
	return nil, r.wrong("the end of a string")
}

// text reads a string of at most limit bytes.
func (r *jsonReader) text(what string, limit int) (s string, err error) {
	if r.null() {
		return "", nil
	}
	b, err := r.raw()
	if err != nil {
		return "", err
	}
	if len(b)-2 > limit {
		return "", tooLong(what, len(b)-2, limit)
	}
	if err := r.memory.grow(int64(len(b))); err != nil {
		return "", err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("failed to parse the request JSON: %w", err)
	}
	return s, nil
}

func tooLong(what string, n, limit int) error {
	return fmt.Errorf("the %s has %d bytes, want at most %d", what, n, limit)
}

// number reads a number as it is written.
func (r *jsonReader) number() (string, error) {
	r.next()
	end := r.at
	for end < len(r.data) && !delimiter(r.data[end]) {
		end++
	}
	b := r.data[r.at:end]
	if len(b) > maxNumber {
		return "", tooLong("number", len(b), maxNumber)
	}
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') || !json.Valid(b) {
		return "", r.wrong("a number")
	}
	r.at = end
	return string(b), nil
}

// ints reads an array of at most limit integers.
func (r *jsonReader) ints(what string, limit int) (l []int64, err error) {
	if r.null() {
		return nil, nil
	}
	l = []int64{}
	err = r.list(func() error {
		if len(l) == limit {
			return fmt.Errorf("%s has more than %d dimensions", what, limit)
		}
		if r.null() {
			l = append(l, 0)
			return nil
		}
		text, err := r.number()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("failed to parse the request JSON: %s holds %s, want an integer", what, quote(text))
		}
		if l, err = grown(r.memory, l); err == nil {
			l = append(l, n)
		}
		return err
	})
	return l, err
}

// unsigned reads a non-negative integer.
func (r *jsonReader) unsigned(what string) (uint64, error) {
	if r.null() {
		return 0, nil
	}
	text, err := r.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("failed to parse the request JSON: %s is %s, want a non-negative integer",
			what, quote(text))
	}
	return n, nil
}

// grown returns a slice with room for another element, whose memory is reserved.
func grown[T any](memory *reservation, l []T) ([]T, error) {
	if len(l) < cap(l) {
		return l, nil
	}
	var t T
	n := max(4, 2*len(l))
	if err := memory.grow(int64(n) * int64(unsafe.Sizeof(t))); err != nil {
		return l, err
	}
	return append(make([]T, 0, n), l...), nil
}

// value skips any value, and returns it as it is written and the length of its longest string. It
// checks no more of it than where it ends, and the length of numbers.
func (r *jsonReader) value() (b []byte, longest int, err error) {
	r.next()
	start, depth := r.at, 0
	for {
		if err := r.check(); err != nil {
			return nil, 0, err
		}
		switch r.next() {
		case 0:
			return nil, 0, r.wrong("a value")
		case '"':
			b, err := r.raw()
			if err != nil {
				return nil, 0, err
			}
			longest = max(longest, len(b))
		case '[', '{':
			r.at++
			depth++
			continue
		case ']', '}':
			if depth == 0 {
				return nil, 0, r.wrong("a value")
			}
			r.at++
			depth--
		case ',', ':':
			if depth == 0 {
				return nil, 0, r.wrong("a value")
			}
			r.at++
			continue
		default:
			from := r.at
			for r.at < len(r.data) && !delimiter(r.data[r.at]) && r.data[r.at] != ':' {
				r.at++
			}
			if n := r.at - from; n > maxNumber {
				return nil, 0, tooLong("number", n, maxNumber)
			}
		}
		if depth == 0 {
			return r.data[start:r.at], longest, nil
		}
	}
}

// parameter reads a bool, number or string.
func (r *jsonReader) parameter(key string) (any, error) {
	switch c := r.next(); {
	case c == '"':
		return r.text("value of parameter "+quote(key), maxText)
	case r.literal("true"):
		return true, nil
	case r.literal("false"):
		return false, nil
	case c == '-' || c >= '0' && c <= '9':
		text, err := r.number()
		if err != nil {
			return nil, err
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("parameter %s is %.32s, which is out of range", quote(key), text)
		}
		return f, nil
	}
	return nil, fmt.Errorf("parameter %s must be a bool, number or string", quote(key))
}

// mapEntry is about what an entry of a map of parameters takes in memory.
const mapEntry = 128

// parameters reads an object of bools, numbers and strings.
func (r *jsonReader) parameters() (map[string]any, error) {
	m := map[string]any{}
	return m, r.entries(func(key string) error {
		if _, ok := m[key]; ok {
			return twice(key)
		}
		if err := r.memory.grow(mapEntry); err != nil {
			return err
		}
		v, err := r.parameter(key)
		m[key] = v
		return err
	})
}
