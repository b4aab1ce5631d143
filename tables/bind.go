package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/imageinput"
	"github.com/onward-ml/onward/tensor"
)

// A kind is the way from columns to a tensor.
type kind int

const (
	scalars kind = iota // one element per column and row
	lists               // the elements of a list per row
	images              // a decoded image per row
)

// An input is an input of the model with the columns bound to it.
type input struct {
	arg     onward.NodeArg
	dtype   tensor.DType
	kind    kind
	columns []int // in the schema
	rank1   bool  // the declared shape is [rows]
	// inner is the declared shape of a row: fixed sizes, or −1. It is nil if the rank is unknown.
	inner  []int
	layout imageinput.Layout // of images
}

// bind resolves the columns of every required input.
func bind(sess Model, schema *arrow.Schema, opts *Options) ([]*input, error) {
	required, defaults := sess.Inputs(), sess.OverridableInitializers()
	given := map[string][]string{}
	for _, b := range opts.Bind {
		if given[b.Input] != nil {
			return nil, fmt.Errorf("input %q is bound twice", b.Input)
		}
		if !slices.ContainsFunc(slices.Concat(required, defaults), func(a onward.NodeArg) bool {
			return a.Name == b.Input
		}) {
			return nil, fmt.Errorf("the model has no input %q; it has %s", b.Input, names(required))
		}
		given[b.Input] = b.Columns
	}
	var all []*input
	for _, a := range slices.Concat(required, defaults) {
		columns := given[a.Name]
		if columns == nil {
			if !slices.ContainsFunc(required, func(r onward.NodeArg) bool { return r.Name == a.Name }) ||
				strings.HasPrefix(a.Type, "optional(") && len(schema.FieldIndices(a.Name)) == 0 {
				continue
			}
			columns = []string{a.Name}
		}
		in, err := newInput(a, schema, columns, opts)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", a, err)
		}
		all = append(all, in)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the model has no inputs: nothing can be computed per row")
	}
	return all, nil
}

func newInput(a onward.NodeArg, schema *arrow.Schema, columns []string, opts *Options) (*input, error) {
	t := a.ElementType()
	if t.Kind != tensor.KindTensor {
		return nil, fmt.Errorf("only tensors can be bound to columns")
	}
	in := &input{arg: a, dtype: t.Elem}
	if !supported(in.dtype) {
		return nil, fmt.Errorf("element type %s cannot be made from columns", in.dtype)
	}
	if a.Shape != nil {
		if len(a.Shape) == 0 {
			return nil, fmt.Errorf("the input is a scalar and has no axis of rows")
		}
		in.rank1 = len(a.Shape) == 1
		in.inner = make([]int, len(a.Shape)-1)
		for i, d := range a.Shape[1:] {
			in.inner[i] = int(d.Value)
		}
	}
	for _, c := range columns {
		at := schema.FieldIndices(c)
		switch len(at) {
		case 0:
			return nil, fmt.Errorf("the table has no column %q; it has %s. Bind others with input=column,column",
				c, fields(schema))
		case 1:
		default:
			return nil, fmt.Errorf("the table has %d columns %q", len(at), c)
		}
		in.columns = append(in.columns, at[0])
	}
	for _, c := range in.columns {
		f := schema.Field(c)
		k, err := in.kindOf(f.Type, opts)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		if len(columns) > 1 && k != scalars {
			return nil, fmt.Errorf("column %s of type %s cannot be combined with others in one input", f.Name, f.Type)
		}
		if in.kind = k; k == images {
			if in.layout, err = imageinput.For(a); err != nil {
				return nil, err
			}
		}
	}
	if in.kind == scalars {
		want, err := tensor.Elements(in.scalarShape())
		if err != nil {
			return nil, err
		}
		if len(in.inner) == 1 && in.inner[0] >= 0 {
			want = in.inner[0]
		}
		if want != len(columns) {
			return nil, fmt.Errorf("%d columns are bound, want %d: %s", len(columns), want, strings.Join(columns, ", "))
		}
	}
	return in, nil
}

// kindOf returns how a column of a type becomes the input.
func (in *input) kindOf(t arrow.DataType, opts *Options) (kind, error) {
	elem := t
	for {
		l, ok := elem.(arrow.ListLikeType)
		if id := elem.ID(); !ok || id != arrow.LIST && id != arrow.LARGE_LIST && id != arrow.FIXED_SIZE_LIST {
			break
		}
		elem = l.Elem()
	}
	text := isText(elem)
	image := in.dtype != tensor.TypeString && len(in.inner) == 3
	switch {
	case t == elem && image && isBinary(t):
		return images, nil
	case t == elem && image && text:
		if opts.Images == "" {
			return 0, fmt.Errorf("the column has strings and the input images; name the folder of the images to " +
				"read them from files")
		}
		return images, nil
	case in.dtype == tensor.TypeString && !text, in.dtype != tensor.TypeString && !text && !isNumeric(elem):
		return 0, fmt.Errorf("type is %s, which cannot become %s", t, in.dtype)
	case t == elem:
		return scalars, nil
	case text && in.dtype != tensor.TypeString:
		return 0, fmt.Errorf("type is %s, which cannot become %s", t, in.dtype)
	}
	if in.rank1 {
		return 0, fmt.Errorf("type is %s, and the input has one element per row", t)
	}
	return lists, nil
}

// shape returns the shape of a row whose column has the given shape, of n elements.
func (in *input) shape(row []int, n int) ([]int, error) {
	if in.inner == nil {
		return row, nil
	}
	if len(row) == len(in.inner) {
		for i, d := range in.inner {
			if d >= 0 && d != row[i] {
				return nil, fmt.Errorf("shape is %v, want %s", row, dims(in.inner))
			}
		}
		return row, nil
	}
	// Another nesting: the elements are laid out in the declared shape, which may have one
	// size that follows from their number.
	s, known, free := slices.Clone(in.inner), 1, -1
	for i, d := range s {
		if d >= 0 {
			known *= d
		} else if free >= 0 {
			return nil, fmt.Errorf("shape is %v, want lists nested as %s", row, dims(in.inner))
		} else {
			free = i
		}
	}
	if free >= 0 && known > 0 && n%known == 0 {
		s[free] = n / known
		return s, nil
	}
	if free >= 0 || known != n {
		return nil, fmt.Errorf("%d values do not fill the shape %s", n, dims(in.inner))
	}
	return s, nil
}

func dims(d []int) string {
	s := make([]string, len(d))
	for i, v := range d {
		if s[i] = fmt.Sprint(v); v < 0 {
			s[i] = "?"
		}
	}
	return "[" + strings.Join(s, " ") + "]"
}

// rowBytes returns the size of a row, or 0 if it is not fixed.
func (in *input) rowBytes() int {
	if in.dtype == tensor.TypeString {
		return 0
	}
	shape := in.inner
	if in.kind == scalars {
		shape = in.scalarShape()
	}
	if in.kind != scalars && shape == nil || slices.Contains(shape, -1) {
		return 0
	}
	n, err := tensor.ByteLen(in.dtype, shape)
	if err != nil {
		return 0
	}
	return n
}

// batchRows returns the number of rows per run.
func batchRows(in []*input, wanted int) (rows int, fixed bool, err error) {
	for _, x := range in {
		if len(x.arg.Shape) == 0 || x.arg.Shape[0].Value <= 0 {
			continue
		}
		n := int(x.arg.Shape[0].Value)
		if fixed && n != rows {
			return 0, false,
				fmt.Errorf("inputs are of %d and of %d rows; one number of rows per run is needed", rows, n)
		}
		rows, fixed = n, true
	}
	if fixed || wanted > 0 {
		if !fixed {
			rows = wanted
		}
		return rows, fixed, nil
	}
	bytes, known := 0, true
	for _, x := range in {
		n := x.rowBytes()
		known = known && n > 0
		bytes += n
	}
	if !known {
		return 256, false, nil
	}
	return max(1, min(defaultBatch, batchBytes/max(1, bytes))), false, nil
}

func fields(s *arrow.Schema) string {
	names := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

func isText(t arrow.DataType) bool {
	return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING || t.ID() == arrow.STRING_VIEW
}

func isBinary(t arrow.DataType) bool {
	return t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY || t.ID() == arrow.BINARY_VIEW
}

func isNumeric(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || t.ID() == arrow.BOOL || t.ID() == arrow.DECIMAL128
}

// supported reports whether tensors of a type can be made from columns.
func supported(d tensor.DType) bool {
	return d == tensor.TypeString || d == tensor.TypeBool || !d.Packed() && (d.IsFloat() || d.IsInteger())
}
