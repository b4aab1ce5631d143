package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Reshape returns a tensor of another shape with the same elements in the same order. One entry of
// the shape may be −1, which is inferred. An entry 0 copies the dimension of the input, or is a
// zero if AllowZero is set (https://onnx.ai/onnx/operators/onnx__Reshape.html). With AllowZero, the
// specification forbids a shape with both. Like ONNX Runtime, Reshape accepts it for an input
// without elements.
type Reshape struct{ AllowZero bool }

var _ = kit.Register(&kit.Def{Name: "Reshape", Since: kit.Versions{1, 5, 13, 14, 19, 21, 23, 24, 25},
	In: "data:T, shape:int64", Out: "reshaped:T", Types: "T: @all",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 5 {
			a.Ignore("consumed_inputs")
			if s := a.Ints("shape"); s != nil {
				a.SetInputInts(1, s)
			} else {
				a.SetInputInts(1, []int{})
			}
		}
		op := &Reshape{}
		if opset >= 14 {
			op.AllowZero = a.Bool("allowzero", false)
		}
		return op
	},
	Gradient: gradient.Reshape})

// ViewOf implements ir.View.
func (op *Reshape) ViewOf() int { return 0 }

// Infer implements ir.Operator.
func (op *Reshape) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 1, 1, "shape"); err != nil {
		return err
	}
	in, want := c.Shape(0), c.Contents(1)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if want == nil {
		return nil
	}
	if len(want) > tensor.MaxRank {
		return fail.Errorf("shape has %d entries, want at most %d", len(want), tensor.MaxRank)
	}
	out := make([]ir.Dim, len(want))
	infer := -1
	for i, d := range want {
		n, known := d.Value()
		switch {
		case !known:
			out[i] = d
		case n < -1:
			return fail.Errorf("shape has %d at position %d, want at least -1", n, i)
		case n == -1:
			if infer >= 0 {
				return fail.Errorf("shape %v has more than one -1", want)
			}
			infer = i
		case n == 0 && !op.AllowZero:
			if in == nil {
				break
			}
			if i >= len(in) {
				return fail.Errorf("shape %v copies dimension %d of an input of rank %d", want, i, len(in))
			}
			out[i] = in[i]
		default:
			out[i] = d
		}
	}
	if in != nil {
		rest, others := cancelDims(in, out, infer)
		p, q := ir.Product(rest), ir.Product(others)
		switch {
		case infer < 0:
			if p.Differs(q) {
				return fail.Errorf("input of shape %v cannot be reshaped to %v: it has %s elements, want %s", in, out,
					ir.Product(in), ir.Product(out))
			}
		case q.Is(0):
		default:
			m, known := p.Value()
			if n, ok := q.Value(); known && ok && m%n != 0 {
				return fail.Errorf("input of shape %v cannot be reshaped to %v: %s elements are not a multiple of %d",
					in, want, ir.Product(in), n)
			}
			out[infer] = p.Div(q)
		}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	kit.KeepContents(c, out)
	return nil
}

// cancelDims returns the dimensions of a and b, except the one at index skip of b, without those
// that occur in both.
func cancelDims(a, b []ir.Dim, skip int) (x, y []ir.Dim) {
	x = append(x, a...)
	for i, d := range b {
		if i == skip {
			continue
		}
		found := false
		for k, e := range x {
			if d.Same(e) && !d.Is(0) {
				x = append(x[:k], x[k+1:]...)
				found = true
				break
			}
		}
		if !found {
			y = append(y, d)
		}
	}
	return x, y
}

// Run implements ir.Operator.
func (op *Reshape) Run(c *ir.Call) error {
	data := c.Tensor(0)
	shape, err := op.Resolve(data.Shape(), c.Tensor(1))
	if err != nil {
		return err
	}
	out, err := data.Reshape(shape...)
	if err != nil {
		return err
	}
	c.Set(0, out)
	return nil
}

// Resolve returns the dimensions of the result for an input of shape in.
func (op *Reshape) Resolve(in []int, shape *tensor.Tensor) ([]int, error) {
	want, err := kit.SmallInts(shape, "shape")
	if err != nil {
		return nil, err
	}
	return reshapeTo(in, want, op.AllowZero)
}

// reshapeTo resolves the entries 0 and −1 of a shape.
func reshapeTo(in, want []int, allowZero bool) ([]int, error) {
	out := make([]int, len(want))
	infer := -1
	for i, n := range want {
		switch {
		case n < -1:
			return nil, fail.Errorf("shape has %d at position %d, want at least -1", n, i)
		case n == -1:
			if infer >= 0 {
				return nil, fail.Errorf("shape %v has more than one -1", want)
			}
			infer = i
			out[i] = 1
		case n == 0 && !allowZero:
			if i >= len(in) {
				return nil, fail.Errorf("shape %v copies dimension %d of an input of rank %d", want, i, len(in))
			}
			out[i] = in[i]
		default:
			out[i] = n
		}
	}
	n, err := tensor.Elements(out)
	if err != nil {
		return nil, err
	}
	total := kit.Product(in)
	switch {
	case infer < 0 && n != total:
		return nil, fail.Errorf("input of shape %v has %d elements and cannot be reshaped to %v, which has %d",
			in, total, want, n)
	case infer < 0:
	case n == 0 && total != 0 || n != 0 && total%n != 0:
		return nil, fail.Errorf("input of shape %v has %d elements and cannot be reshaped to %v: want a multiple of %d",
			in, total, want, n)
	case n == 0:
		if out[infer], err = emptyRest(in, want, allowZero); err != nil {
			return nil, err
		}
	default:
		out[infer] = total / n
	}
	return out, nil
}

// emptyRest resolves the −1 of a shape for an input without elements. With allowZero it is the
// product of the input's dimensions other than 0, divided by that of the shape's, as in ONNX
// Runtime. Otherwise it is what Infer returns for any batch size: copied dimensions do not count,
// and it is 0 if the other dimensions do not determine it.
func emptyRest(in, want []int, allowZero bool) (int, error) {
	rest := slices.Clone(in)
	if allowZero {
		rest = slices.DeleteFunc(rest, func(n int) bool { return n == 0 })
	}
	var others []int
	for i, n := range want {
		switch {
		case n > 0:
			others = append(others, n)
		case n == 0 && !allowZero:
			rest[i] = 1
		}
	}
	p, err := tensor.Elements(rest)
	if err != nil {
		return 0, err
	}
	q, err := tensor.Elements(others)
	switch {
	case err != nil:
		return 0, err
	case p%q == 0:
		return p / q, nil
	case allowZero:
		return 0, fail.Errorf("input of shape %v cannot be reshaped to %v: its dimensions other than 0 have the "+
			"product %d, want a multiple of %d", in, want, p, q)
	}
	return 0, nil
}
