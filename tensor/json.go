package tensor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// maxJSONRank limits the nesting of literals for [ParseJSON].
const maxJSONRank = 64

// maxEmptyRows limits the number of brackets in the JSON form of an array without elements.
const maxEmptyRows = 1 << 20

// MarshalJSON returns the elements as nested arrays, or a scalar as a plain literal. Integers are
// written in full, floating-point numbers with the shortest digits that read back as the same
// number of their type, complex numbers as pairs. NaN and infinities, which JSON lacks, become the
// strings "NaN", "Infinity" and "-Infinity". Bytes of strings that are not UTF-8 become U+FFFD.
func (t *Tensor) MarshalJSON() ([]byte, error) {
	if t.Len() == 0 {
		rows := 1
		for _, d := range t.shape {
			if d == 0 {
				break
			}
			if rows > maxEmptyRows/d {
				return nil, fail.Errorf("tensor: shape %v has more than %d empty rows, too many for JSON",
					t.shape, maxEmptyRows)
			}
			rows *= d
		}
	}
	return appendJSON(nil, t, 0, new(int))
}

func appendJSON(b []byte, t *Tensor, dim int, at *int) ([]byte, error) {
	var err error
	if dim == len(t.shape) {
		b, err = appendJSONElement(b, t, *at)
		*at++
		return b, err
	}
	b = append(b, '[')
	for i := range t.shape[dim] {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, t, dim+1, at); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendJSONElement(b []byte, t *Tensor, i int) ([]byte, error) {
	switch {
	case t.dtype == TypeString:
		s, err := json.Marshal(t.strs[i])
		if err != nil {
			return nil, fail.Errorf("tensor: string %d: %w", i, err)
		}
		return append(b, s...), nil
	case t.dtype == TypeBool:
		return strconv.AppendBool(b, t.data[i] != 0), nil
	case isComplex(t.dtype):
		parts := span{TypeFloat32, elementTensor(t, i).data, 2}
		if t.dtype == TypeComplex128 {
			parts.dtype = TypeFloat64
		}
		pair := &Tensor{dtype: parts.dtype, shape: []int{2}, data: parts.data}
		return appendJSON(b, pair, 0, new(int))
	}
	n := len(b)
	b = appendNumber(b, t, i, 17)
	switch string(b[n:]) {
	case "nan":
		return append(b[:n], `"NaN"`...), nil
	case "inf":
		return append(b[:n], `"Infinity"`...), nil
	case "-inf":
		return append(b[:n], `"-Infinity"`...), nil
	}
	return b, nil
}

// MarshalJSON returns an array of the items.
func (s *Sequence) MarshalJSON() ([]byte, error) {
	if s.Items == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(s.Items)
}

// MarshalJSON returns an object in the order of the keys. Integer keys become strings.
func (m *Map) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := range m.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		key := elementString(m.Keys, i)
		if m.Keys.dtype == TypeString {
			key = m.Keys.strs[i]
		}
		k, err := json.Marshal(key)
		if err != nil {
			return nil, fail.Errorf("tensor: key %d: %w", i, err)
		}
		b = append(append(b, k...), ':')
		v, err := mapValue(m, i)
		if err != nil {
			return nil, err
		}
		j, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(b, j...)
	}
	return append(b, '}'), nil
}

// MarshalJSON returns the value, or null if it is absent.
func (o *Optional) MarshalJSON() ([]byte, error) {
	if IsNil(o.Value) {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}

// MarshalJSON returns an object with the members shape, indices and values, in COO format.
func (s *Sparse) MarshalJSON() ([]byte, error) {
	s, err := s.COO()
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Shape   []int   `json:"shape"`
		Indices *Tensor `json:"indices"`
		Values  *Tensor `json:"values"`
	}{append([]int{}, s.Shape...), s.Indices, s.Values})
}

// ParseJSON parses a JSON literal (a number, bool or string, or nested arrays of them) as a tensor
// of type dtype. If dtype is Undefined, the literal determines the type: bool, string, int64, or
// float if a number has a fraction or an exponent.
//
// Integers must be in the range of dtype and have no fraction; floating-point numbers must not
// exceed its largest. "NaN", "Infinity" and "-Infinity" are floating-point numbers, 0 and 1 are
// also bools, and a pair of numbers is a complex number.
//
// The literal must have the given shape, in which negative dimensions are unknown. A flat,
// single-element or empty literal also fits any shape with the same number of elements. If shape is
// nil, the result has the shape of the literal.
func ParseJSON(data []byte, dtype DType, shape []int) (*Tensor, error) {
	return ParseJSONContext(context.Background(), data, dtype, shape)
}

// ParseJSONContext is [ParseJSON], but returns the error of ctx when ctx ends.
func ParseJSONContext(ctx context.Context, data []byte, dtype DType, shape []int) (*Tensor, error) {
	if dtype != Undefined && !dtype.Valid() {
		return nil, fail.Errorf("tensor: invalid element type %d", uint8(dtype))
	}
	p := jsonReader{ctx: ctx, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	if err := p.value(0); err != nil {
		return nil, fail.Errorf("tensor: JSON at byte %d: %w", p.dec.InputOffset(), err)
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, fail.Errorf("tensor: JSON at byte %d: unexpected data after the value", p.dec.InputOffset())
	}
	own := p.shape
	if isComplex(dtype) {
		if len(own) == 0 || own[len(own)-1] != 2 {
			return nil, fail.Errorf("tensor: literal of shape %v, want pairs of numbers for %s", own, dtype)
		}
		own = own[:len(own)-1]
	}
	want, err := fitShape(own, shape)
	if err != nil {
		return nil, err
	}
	if dtype == Undefined {
		dtype = p.infer()
	}
	return p.tensor(dtype, want)
}

// fitShape returns the shape for a literal of shape own, given the wanted shape hint.
func fitShape(own, hint []int) ([]int, error) {
	if hint == nil {
		return own, nil
	}
	if len(own) == len(hint) {
		fits := true
		for i, d := range hint {
			fits = fits && (d < 0 || d == own[i])
		}
		if fits {
			return own, nil
		}
	}
	bad := fail.Errorf("tensor: literal of shape %v, want %v", own, hint)
	n, err := Elements(own)
	if err != nil || len(own) > 1 && n > 0 {
		return nil, bad
	}
	unknown := -1
	shape := slices.Clone(hint)
	for i, d := range hint {
		if d >= 0 {
			continue
		}
		if unknown >= 0 && n != 1 {
			return nil, fail.Errorf("%w: more than one dimension is unknown, nest the brackets", bad)
		}
		unknown, shape[i] = i, 1
	}
	known, err := Elements(shape)
	if err != nil {
		return nil, fail.Errorf("%w: %w", bad, err)
	}
	if unknown >= 0 && known > 0 && n%known == 0 {
		shape[unknown] = n / known
		known = n
	}
	if known != n {
		return nil, bad
	}
	return shape, nil
}

// jsonReader collects the leaves of nested arrays: json.Number, bool or
// string.
type jsonReader struct {
	ctx    context.Context
	dec    *json.Decoder
	shape  []int // length of the first row at each depth
	leaves []any
	rank   int // depth of the leaves, if known
	known  bool
	index  []int
	values int // leaves and arrays so far
}

// itemsPerCheck is the number of values between two checks of the context.
const itemsPerCheck = 1 << 10

func (p *jsonReader) value(depth int) error {
	if p.values++; p.values%itemsPerCheck == 0 && p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	tok, err := p.dec.Token()
	if err != nil {
		return noEOF(err)
	}
	switch v := tok.(type) {
	case json.Delim:
		if v != '[' {
			return errors.New("got an object, want a number, a bool, a string or an array")
		}
		return p.array(depth)
	case nil:
		return errors.New("got null, want a number, a bool, a string or an array")
	}
	if err := p.depth(depth); err != nil {
		return err
	}
	p.leaves = append(p.leaves, tok)
	return nil
}

// depth records that an element or an empty row is at the given depth. It fails if others are at
// another depth.
func (p *jsonReader) depth(depth int) error {
	if p.known && p.rank != depth {
		return fail.Errorf("ragged array: element %v is at depth %d, others at %d", p.index[:depth], depth, p.rank)
	}
	p.rank, p.known = depth, true
	return nil
}

func (p *jsonReader) array(depth int) error {
	if depth == maxJSONRank {
		return fail.Errorf("nesting exceeds depth %d", maxJSONRank)
	}
	if p.known && depth >= p.rank {
		return fail.Errorf("ragged array: element %v is an array, others are at depth %d", p.index[:depth], p.rank)
	}
	first := len(p.shape) == depth
	if first {
		p.shape = append(p.shape, 0)
	}
	p.index = append(p.index[:depth], 0)
	n := 0
	for p.dec.More() {
		p.index[depth] = n
		if err := p.value(depth + 1); err != nil {
			return err
		}
		p.index = p.index[:depth+1]
		n++
	}
	if _, err := p.dec.Token(); err != nil {
		return noEOF(err)
	}
	if n == 0 {
		if err := p.depth(depth + 1); err != nil {
			return err
		}
	}
	if first {
		p.shape[depth] = n
		return nil
	}
	if n != p.shape[depth] {
		return fail.Errorf("ragged array: row %v has %d elements, the first has %d", p.index[:depth], n, p.shape[depth])
	}
	return nil
}

func (p *jsonReader) infer() DType {
	d := TypeFloat32
	for i, v := range p.leaves {
		next := TypeFloat32
		switch v := v.(type) {
		case bool:
			next = TypeBool
		case string:
			if _, ok := specialFloat(v); !ok {
				next = TypeString
			}
		case json.Number:
			if !strings.ContainsAny(string(v), ".eE") {
				next = TypeInt64
			}
		}
		switch {
		case i == 0:
			d = next
		case d == TypeInt64 && next == TypeFloat32:
			d = next
		case d == TypeFloat32 && next == TypeString: // "NaN" among other strings
			d = next
		}
	}
	return d
}

func specialFloat(s string) (float64, bool) {
	switch s {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// all yields the leaves. If the context ends, it stops and sets err.
func (p *jsonReader) all(err *error) iter.Seq2[int, any] {
	return func(yield func(int, any) bool) {
		for i, v := range p.leaves {
			if i%itemsPerCheck == 0 {
				if *err = p.ctx.Err(); *err != nil {
					return
				}
			}
			if !yield(i, v) {
				return
			}
		}
	}
}

// tensor returns the tensor of the leaves.
func (p *jsonReader) tensor(dtype DType, shape []int) (*Tensor, error) {
	t, err := Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	n := len(p.leaves)
	bad := func(i int, format string, args ...any) error {
		return fail.Errorf("tensor: element %v of the literal "+format, append([]any{p.position(i)}, args...)...)
	}
	switch {
	case dtype == TypeString:
		for i, v := range p.all(&err) {
			s, ok := v.(string)
			if !ok {
				return nil, bad(i, "is %v, want a string", v)
			}
			t.strs[i] = s
		}
	case dtype == TypeBool:
		for i, v := range p.all(&err) {
			switch v {
			case true, json.Number("1"):
				t.data[i] = 1
			case false, json.Number("0"):
			default:
				return nil, bad(i, "is %.64q, want true or false", fmt.Sprint(v))
			}
		}
	case dtype.IsInteger():
		vals := make([]int64, n)
		for i, v := range p.all(&err) {
			num, ok := v.(json.Number)
			if !ok {
				return nil, bad(i, "is %.64q, want an integer", fmt.Sprint(v))
			}
			if vals[i], err = jsonInteger(string(num), dtype); err != nil {
				return nil, bad(i, "is %.64s: %w", num, err)
			}
		}
		convertElements(span{dtype, t.data, n}, span{TypeInt64, memory.AsBytes(vals), n}, ConvertOptions{})
	default:
		part := dtype
		switch dtype {
		case TypeComplex64:
			part = TypeFloat32
		case TypeComplex128:
			part = TypeFloat64
		}
		bits := 64
		if part == TypeFloat32 {
			bits = 32
		}
		vals, back := make([]float64, n), make([]float64, n)
		for i, v := range p.all(&err) {
			switch v := v.(type) {
			case json.Number:
				vals[i], err = strconv.ParseFloat(string(v), bits)
				if err != nil {
					return nil, bad(i, "is %.64s, beyond the range of %s", v, dtype)
				}
			case string:
				f, ok := specialFloat(v)
				if !ok {
					return nil, bad(i, `is %.64q, want a number, "NaN", "Infinity" or "-Infinity"`, v)
				}
				vals[i] = f
			default:
				return nil, bad(i, "is %v, want a number", v)
			}
		}
		if err != nil {
			return nil, err
		}
		s := span{part, t.data, n}
		convertElements(s, span{TypeFloat64, memory.AsBytes(vals), n}, ConvertOptions{RoundMode: RoundNearest})
		convertElements(span{TypeFloat64, memory.AsBytes(back), n}, s, ConvertOptions{})
		for i, v := range vals {
			special := v-v != 0 || back[i]-back[i] != 0 // infinite or NaN, before or after the conversion
			if special && !sameOrNaN(v, back[i]) || part.Packed() && math.Abs(v) > packedMax(part) ||
				part == TypeFloat8E8M0 && v < 0 {
				return nil, bad(i, "is %v, beyond the range of %s", p.leaves[i], dtype)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// packedMax returns the largest number of a packed floating-point type, at which conversion
// saturates.
func packedMax(d DType) float64 {
	switch d {
	case TypeFloat6E2M3:
		return 7.5
	case TypeFloat6E3M2:
		return 28
	}
	return 6
}

// position returns the index of a leaf in the literal.
func (p *jsonReader) position(i int) []int {
	at := make([]int, len(p.shape))
	for d := len(at) - 1; d >= 0; d-- {
		at[d] = i % p.shape[d]
		i /= p.shape[d]
	}
	return at
}

// jsonInteger parses an integer of the given type and returns its bits, extended to 64. A zero
// fraction and an exponent are accepted if the number is exactly an integer.
func jsonInteger(s string, dtype DType) (int64, error) {
	bits := dtype.Bits()
	var err error
	if dtype.IsSigned() {
		var v int64
		if v, err = strconv.ParseInt(s, 10, bits); err == nil {
			return v, nil
		}
	} else {
		var v uint64
		if v, err = strconv.ParseUint(s, 10, bits); err == nil {
			return int64(v), nil
		}
	}
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && strings.ContainsAny(s, ".eE-") {
		if f != math.Trunc(f) {
			return 0, fail.Errorf("not an integer, want %s", dtype)
		}
		if math.Abs(f) <= 1<<53 {
			back := strconv.FormatFloat(f, 'f', -1, 64)
			if back == "-0" {
				back = "0"
			}
			if back != s {
				return jsonInteger(back, dtype)
			}
		}
	}
	return 0, fail.Errorf("out of the range of %s", dtype)
}
