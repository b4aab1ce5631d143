package tensor

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/memory"
)

// FormatOptions are the options of [Format]. Zero fields stand for the defaults.
type FormatOptions struct {
	Threshold int // elements above which a tensor is abbreviated; default 1000
	Edge      int // elements shown at either end of an abbreviated dimension; default 3
	Precision int // maximum number of significant digits; default 8
	Indent    int // spaces before every line but the first
}

// Format returns the contents of v as text for people. Tensors are nested brackets with aligned
// columns; large ones have an ellipsis in the middle of each dimension. Sequences and maps have one
// item per line, with its type. Strings are quoted as in Go. Nil options stand for the defaults.
func Format(v Value, opts *FormatOptions) string {
	var o FormatOptions
	if opts != nil {
		o = *opts
	}
	if o.Threshold <= 0 {
		o.Threshold = 1000
	}
	if o.Edge <= 0 {
		o.Edge = 3
	}
	if o.Precision <= 0 {
		o.Precision = 8
	}
	var b strings.Builder
	formatValue(&b, v, o)
	return b.String()
}

func formatValue(b *strings.Builder, v Value, o FormatOptions) {
	if IsNil(v) {
		b.WriteString("none")
		return
	}
	switch v := v.(type) {
	case *Tensor:
		formatTensor(b, v, o)
	case *Sequence:
		formatItems(b, "[", "]", len(v.Items), o, func(i int, o FormatOptions) {
			if t, ok := v.Items[i].(*Tensor); ok && t != nil {
				b.WriteString(t.String() + " ")
			}
			formatValue(b, v.Items[i], o)
		})
	case *Map:
		formatItems(b, "{", "}", v.Len(), o, func(i int, o FormatOptions) {
			b.WriteString(elementString(v.Keys, i) + ": ")
			item, err := mapValue(v, i)
			if err != nil {
				b.WriteString(err.Error())
				return
			}
			formatValue(b, item, o)
		})
	case *Optional:
		formatValue(b, v.Value, o)
	case *Sparse:
		fmt.Fprintf(b, "sparse %s%v values ", v.Values.dtype, v.Shape)
		formatTensor(b, v.Values, o)
		b.WriteString(" indices ")
		formatTensor(b, v.Indices, o)
	}
}

// maxFormat is the number of bytes after which sequences and maps show no further items: the text
// of nested sequences that share items grows exponentially.
const maxFormat = 1 << 20

func formatItems(b *strings.Builder, open, end string, n int, o FormatOptions, item func(i int, o FormatOptions)) {
	b.WriteString(open)
	inner := o
	inner.Indent += 2
	for i := range n {
		if b.Len() > maxFormat {
			newline(b, inner.Indent)
			fmt.Fprintf(b, "… %d items", n)
			break
		}
		if n > o.Threshold && i >= o.Edge && i < n-o.Edge {
			if i == o.Edge {
				newline(b, inner.Indent)
				b.WriteString("...")
			}
			continue
		}
		newline(b, inner.Indent)
		item(i, inner)
		b.WriteByte(',')
	}
	if n > 0 {
		newline(b, o.Indent)
	}
	b.WriteString(end)
}

func newline(b *strings.Builder, indent int) {
	b.WriteByte('\n')
	for range indent {
		b.WriteByte(' ')
	}
}

// tensorPrinter formats one tensor in two passes: the first finds the column width, the second
// writes.
type tensorPrinter struct {
	t     *Tensor
	o     FormatOptions
	edge  int // elements shown at either end of abbreviated dimensions; 0: no abbreviation
	left  int // remaining elements; bounds the output for many small dimensions
	width int
	b     *strings.Builder // nil in the first pass
}

func formatTensor(b *strings.Builder, t *Tensor, o FormatOptions) {
	n := t.Len()
	if n == 0 {
		b.WriteString("[]")
		return
	}
	p := tensorPrinter{t: t, o: o}
	if n > o.Threshold {
		p.edge = o.Edge
	}
	const enough = 10
	p.left = enough * o.Threshold
	p.walk(0, 0, n)
	p.b, p.left = b, enough*o.Threshold
	p.walk(0, 0, n)
}

// walk writes n elements from linear index at: the sub-tensor of dimensions dim and up.
func (p *tensorPrinter) walk(dim, at, n int) {
	if dim == p.t.Rank() {
		p.left--
		s := formatElement(p.t, at, p.o.Precision)
		w := utf8.RuneCountInString(s)
		if p.b == nil {
			p.width = max(p.width, w)
			return
		}
		if p.t.Rank() > 0 {
			for range p.width - w {
				p.b.WriteByte(' ')
			}
		}
		p.b.WriteString(s)
		return
	}
	size := p.t.shape[dim]
	n /= size
	last := dim == p.t.Rank()-1
	p.text("[")
	for i := 0; i < size; i++ {
		skip := p.edge > 0 && size > 2*p.edge && i == p.edge
		if p.left <= 0 {
			p.text("...")
			break
		}
		if i > 0 {
			p.separate(dim, last)
		}
		if skip {
			p.text("...")
			i = size - p.edge - 1
			continue
		}
		p.walk(dim+1, at+i*n, n)
	}
	p.text("]")
}

func (p *tensorPrinter) text(s string) {
	if p.b != nil {
		p.b.WriteString(s)
	}
}

func (p *tensorPrinter) separate(dim int, last bool) {
	if p.b == nil {
		return
	}
	if last {
		p.b.WriteByte(' ')
		return
	}
	newline(p.b, p.o.Indent+dim+1)
}

// elementString returns element i of t as exact text: the shortest digits that identify a number,
// or a quoted string.
func elementString(t *Tensor, i int) string { return formatElement(t, i, 17) }

func formatElement(t *Tensor, i, precision int) string {
	switch t.dtype {
	case TypeString:
		return strconv.Quote(t.strs[i])
	case TypeBool:
		return strconv.FormatBool(t.data[i] != 0)
	}
	return string(appendNumber(nil, t, i, precision))
}

// appendNumber appends element i, a number, with at most precision significant digits. Infinities
// and NaN are written as in NumPy.
func appendNumber(b []byte, t *Tensor, i, precision int) []byte {
	switch t.dtype {
	case TypeUint64:
		return strconv.AppendUint(b, MustData[uint64](t)[i], 10)
	case TypeFloat64:
		return appendFloat(b, MustData[float64](t)[i], 64, precision)
	case TypeFloat32:
		return appendFloat(b, float64(MustData[float32](t)[i]), 32, precision)
	case TypeComplex64:
		v := MustData[complex64](t)[i]
		return appendComplex(b, complex128(v), 32, precision)
	case TypeComplex128:
		return appendComplex(b, MustData[complex128](t)[i], 64, precision)
	}
	e := elementTensor(t, i)
	if t.dtype.IsFloat() {
		var v [1]float64
		convertElements(span{TypeFloat64, memory.AsBytes(v[:]), 1}, span{t.dtype, e.data, 1}, ConvertOptions{})
		if e.dtype.Bits() == 16 && v[0] != math.Trunc(v[0]) { // other narrow types have short exact forms
			precision = min(precision, narrowDigits(e, v[0]))
		}
		return appendFloat(b, v[0], 32, precision)
	}
	var v [1]int64
	convertElements(span{TypeInt64, memory.AsBytes(v[:]), 1}, span{t.dtype, e.data, 1}, ConvertOptions{})
	return strconv.AppendInt(b, v[0], 10)
}

// narrowDigits returns the least number of significant digits that rounds back to e, a scalar of a
// 16-bit floating-point type with value v.
func narrowDigits(e *Tensor, v float64) int {
	if v != v || math.IsInf(v, 0) {
		return 1
	}
	var buf [40]byte
	var back [2]byte
	for digits := 1; digits < 9; digits++ {
		f, err := strconv.ParseFloat(string(strconv.AppendFloat(buf[:0], v, 'g', digits, 64)), 64)
		if err != nil {
			continue
		}
		d := span{e.dtype, back[:len(e.data)], 1}
		convertElements(d, span{TypeFloat64, memory.AsBytes([]float64{f}), 1}, ConvertOptions{Saturate: true})
		if string(d.data) == string(e.data) {
			return digits
		}
	}
	return 9
}

func appendComplex(b []byte, v complex128, bits, precision int) []byte {
	b = appendFloat(b, real(v), bits, precision)
	if im := imag(v); !math.Signbit(im) || im != im {
		b = append(b, '+')
	}
	return append(appendFloat(b, imag(v), bits, precision), 'j')
}

// appendFloat appends the shortest text that reads back as v in the given width, or v with
// precision significant digits if that is shorter.
func appendFloat(b []byte, v float64, bits, precision int) []byte {
	switch {
	case v != v:
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	}
	at := len(b)
	b = strconv.AppendFloat(b, v, 'g', -1, bits)
	digits := 0
	for _, c := range b[at:] {
		if c == 'e' {
			break
		}
		if '0' <= c && c <= '9' && (digits > 0 || c != '0') {
			digits++
		}
	}
	if digits > precision || strings.ContainsRune(string(b[at:]), 'e') {
		b = strconv.AppendFloat(b[:at], v, 'g', min(precision, max(digits, 1)), bits)
	}
	return b
}

// Format implements [fmt.Formatter]: %v, and so fmt.Println, prints the contents as [Format] does,
// and %s the element type and shape, as String does.
func (t *Tensor) Format(s fmt.State, verb rune) { formatVerb(s, verb, t) }

// Format prints the items for %v and their types and shapes for %s, as for a tensor.
func (s *Sequence) Format(f fmt.State, verb rune) { formatVerb(f, verb, s) }

// Format prints the entries for %v and their number for %s, as for a tensor.
func (m *Map) Format(s fmt.State, verb rune) { formatVerb(s, verb, m) }

// Format prints the value for %v and its type and shape for %s, as for a tensor.
func (o *Optional) Format(s fmt.State, verb rune) { formatVerb(s, verb, o) }

func formatVerb(s fmt.State, verb rune, v Value) {
	switch {
	case IsNil(v):
		io.WriteString(s, "<nil>")
	case verb == 'v':
		io.WriteString(s, Format(v, nil))
	case verb == 's' || verb == 'q':
		fmt.Fprintf(s, fmt.FormatString(s, verb), v.(fmt.Stringer).String())
	default:
		fmt.Fprintf(s, "%%!%c(%T=%s)", verb, v, v.(fmt.Stringer).String())
	}
}
