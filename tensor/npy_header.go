package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/fail"
)

// npyItem is the item type of a .npy file.
type npyItem struct {
	dtype DType
	size  int  // bytes in the file
	big   bool // big endian
	raw   bool // void, or a type that ReadNPYAs may reinterpret
	text  byte // 'U' or 'S' for text of fixed width
}

type npyHeader struct {
	item    npyItem
	fortran bool
	shape   []int
}

// npyDescr returns the descr string for the items of t. ml_dtypes types have their name, which
// NumPy understands once ml_dtypes is imported.
func npyDescr(t *Tensor) (string, error) {
	switch d := t.dtype; {
	case d == TypeString:
		width := 1
		for i, s := range t.strs {
			if !utf8.ValidString(s) {
				return "", fail.Errorf("string %d, %.40q, is not UTF-8", i, s)
			}
			if strings.HasSuffix(s, "\x00") {
				return "", fail.Errorf("string %d ends in a NUL character, which NumPy's text cannot hold", i)
			}
			width = max(width, utf8.RuneCountInString(s))
		}
		return "<U" + strconv.Itoa(width), nil
	case d == TypeBool:
		return "|b1", nil
	case d == TypeInt8:
		return "|i1", nil
	case d == TypeUint8:
		return "|u1", nil
	case d == TypeFloat16 || d == TypeFloat32 || d == TypeFloat64:
		return "<f" + strconv.Itoa(d.Size()), nil
	case isComplex(d):
		return "<c" + strconv.Itoa(d.Size()), nil
	case d.IsSigned() && !d.Packed():
		return "<i" + strconv.Itoa(d.Size()), nil
	case d.IsUnsigned() && !d.Packed():
		return "<u" + strconv.Itoa(d.Size()), nil
	default:
		return d.NumPy(), nil
	}
}

// npyPreamble returns signature and header, padded to a multiple of 64 bytes.
func npyPreamble(descr string, shape []int) []byte {
	var h strings.Builder
	fmt.Fprintf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr)
	for i, d := range shape {
		if i > 0 {
			h.WriteString(", ")
		}
		h.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		h.WriteByte(',')
	}
	h.WriteString("), }")
	head, version := 10, byte(1)
	if h.Len()+64 > math.MaxUint16 {
		head, version = 12, 2
	}
	total := (head + h.Len() + 1 + 63) &^ 63
	b := make([]byte, 0, total)
	b = append(b, npyMagic...)
	b = append(b, version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(total-head))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(total-head))
	}
	b = append(b, h.String()...)
	for len(b) < total-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}

// itemOf parses a descr string: byte order, kind and size, or the name of an ml_dtypes type.
func itemOf(descr string) (npyItem, error) {
	for d := TypeFloat32; d < numDTypes; d++ {
		if d.NumPy() == descr && d != TypeString {
			return npyItem{dtype: d, size: max(1, d.Size()), raw: !d.Packed() && d.IsInteger()}, nil
		}
	}
	rest := descr
	it := npyItem{}
	if rest != "" && strings.IndexByte("<>|=", rest[0]) >= 0 {
		it.big = rest[0] == '>'
		rest = rest[1:]
	}
	if rest == "" {
		return it, fail.Errorf("empty type %q", descr)
	}
	kind := rest[0]
	if kind == 'O' {
		return it, fail.Errorf("type %q means pickled Python objects, which are refused", descr)
	}
	if kind == 'M' || kind == 'm' {
		return it, fail.Errorf("type %q is a time, which ONNX lacks: save it as int64", descr)
	}
	size, err := strconv.Atoi(rest[1:])
	if err != nil || size < 0 || size > 1<<30 || rest[1] == '+' {
		return it, fail.Errorf("unknown type %q", descr)
	}
	it.size = size
	switch kind {
	case 'U':
		it.dtype, it.text, it.size = TypeString, 'U', 4*size
		return it, nil
	case 'S', 'a':
		it.dtype, it.text, it.big = TypeString, 'S', false
		return it, nil
	case 'V':
		it.raw, it.big = true, false
		if size == 2 {
			it.dtype = TypeBFloat16
		}
		return it, nil
	}
	names := map[string]DType{
		"b1": TypeBool, "i1": TypeInt8, "i2": TypeInt16, "i4": TypeInt32, "i8": TypeInt64,
		"u1": TypeUint8, "u2": TypeUint16, "u4": TypeUint32, "u8": TypeUint64,
		"f1": TypeFloat8E5M2, "f2": TypeFloat16, "f4": TypeFloat32, "f8": TypeFloat64,
		"c8": TypeComplex64, "c16": TypeComplex128,
	}
	d, ok := names[rest]
	if !ok {
		return it, fail.Errorf("type %q has no ONNX counterpart", descr)
	}
	it.dtype, it.raw = d, d.IsInteger() && !it.big
	return it, nil
}

// parseNPYHeader parses the Python dictionary of a header. It must have exactly the keys descr,
// fortran_order and shape.
func parseNPYHeader(text string) (*npyHeader, error) {
	p := literal{text}
	h := &npyHeader{}
	if !p.accept('{') {
		return nil, errors.New("want a dictionary")
	}
	var seen []string
	for !p.accept('}') {
		key, err := p.str()
		if err != nil {
			return nil, fail.Errorf("key: %w", err)
		}
		if slices.Contains(seen, key) {
			return nil, fail.Errorf("duplicate key %q", key)
		}
		seen = append(seen, key)
		if !p.accept(':') {
			return nil, fail.Errorf("no colon after %q", key)
		}
		switch key {
		case "descr":
			if p.peek() == '[' || p.peek() == '(' {
				return nil, errors.New("structured types have no ONNX counterpart")
			}
			var descr string
			if descr, err = p.str(); err == nil {
				h.item, err = itemOf(descr)
			}
		case "fortran_order":
			h.fortran, err = p.boolean()
		case "shape":
			h.shape, err = p.tuple()
		default:
			err = errors.New("want descr, fortran_order and shape")
		}
		if err != nil {
			return nil, fail.Errorf("%q: %w", key, err)
		}
		if !p.accept(',') && p.peek() != '}' {
			return nil, fail.Errorf("no comma after %q", key)
		}
	}
	if len(seen) != 3 {
		return nil, fail.Errorf("has the keys %q, want descr, fortran_order and shape", seen)
	}
	if p.peek() != 0 {
		return nil, errors.New("text after the dictionary")
	}
	return h, nil
}

// literal parses the subset of Python literals that headers use.
type literal struct{ s string }

func (p *literal) peek() byte {
	p.s = strings.TrimLeft(p.s, " \t\r\n")
	if p.s == "" {
		return 0
	}
	return p.s[0]
}

func (p *literal) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *literal) str() (string, error) {
	q := p.peek()
	if q != '\'' && q != '"' {
		return "", errors.New("want a string")
	}
	end := strings.IndexByte(p.s[1:], q)
	if end < 0 {
		return "", errors.New("string is not terminated")
	}
	s := p.s[1 : 1+end]
	if strings.ContainsAny(s, "\\\n") {
		return "", errors.New("string with an escape")
	}
	p.s = p.s[end+2:]
	return s, nil
}

func (p *literal) boolean() (bool, error) {
	p.peek()
	for _, word := range []string{"True", "False"} {
		if rest, ok := strings.CutPrefix(p.s, word); ok {
			p.s = rest
			return word == "True", nil
		}
	}
	return false, errors.New("want True or False")
}

func (p *literal) tuple() ([]int, error) {
	if !p.accept('(') {
		return nil, errors.New("want a tuple")
	}
	shape := []int{}
	for !p.accept(')') {
		p.peek()
		n := 0
		for n < len(p.s) && p.s[n] >= '0' && p.s[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(p.s[:n])
		if err != nil {
			return nil, fail.Errorf("dimension %d is not a number from 0 to %d", len(shape), math.MaxInt)
		}
		if len(shape) == MaxRank {
			return nil, fail.Errorf("rank above the limit of %d", MaxRank)
		}
		shape = append(shape, v)
		p.s = strings.TrimPrefix(p.s[n:], "L") // Python 2
		if !p.accept(',') && p.peek() != ')' {
			return nil, errors.New("no comma between dimensions")
		}
	}
	return shape, nil
}
