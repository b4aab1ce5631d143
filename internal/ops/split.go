package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Split splits a tensor along Axis into parts of the sizes in input split, or into as many equal
// parts as there are outputs. Since opset 18 the last part may be smaller
// (https://onnx.ai/onnx/operators/onnx__Split.html).
type Split struct {
	Axis  int
	Parts int  // number of outputs
	Even  bool // parts must be equal
}

// In opset 1 the sizes were an attribute or an input of the type of the data, so the type of the
// second input is not restricted.
var _ = kit.Register(&kit.Def{Name: "Split", Since: kit.Versions{1, 2, 11, 13, 18},
	In: "input:T, split:any?", Out: "outputs:T+", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Split{Axis: a.Int("axis", 0), Parts: a.NumOut, Even: opset < 18}
		if opset < 13 {
			a.SetInputInts(1, a.Ints("split"))
		}
		if opset >= 18 && a.Has("num_outputs") {
			n := a.Int("num_outputs", 0)
			switch {
			case a.NumIn > 1:
				// Either may be set; the sizes take precedence.
			case n < 1:
				a.Errorf("attribute num_outputs is %d, want at least 1", n)
			case n < a.NumOut:
				a.Errorf("attribute num_outputs is %d, but the node has %d outputs", n, a.NumOut)
			case n > 1<<20:
				a.Errorf("attribute num_outputs is %d, want at most %d", n, 1<<20)
			default:
				op.Parts = n
			}
		}
		return op
	},
	Gradient: &gradient.Gradient{Rule: splitGradient}})

// splitGradient adds the gradient of each part to the elements that it was taken from.
func splitGradient(b *gradient.Builder, n *gradient.Node, gs []string) ([]string, error) {
	sum := ""
	from := b.Again(n, b.Positions(n.Inputs[0], 1))
	for k, g := range gs {
		if g == "" {
			continue
		}
		d := b.ScatterBack(1, g, from[k], n.Inputs[0])
		if sum != "" {
			d = b.Op("Add", sum, d)
		}
		sum = d
	}
	return n.First(sum), nil
}

// Infer implements ir.Operator.
func (op *Split) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	for i := range c.NumOut() {
		kit.SetShape(c, i, c.Elem(0), nil)
	}
	if in == nil {
		return nil
	}
	axis, err := kit.NormalAxis(op.Axis, len(in))
	if err != nil {
		return err
	}
	if c.Has(1) && c.Elem(1).IsInteger() {
		if err := kit.CheckSmall(c, 1, "split"); err != nil {
			return err
		}
	}
	sizes := ir.UnknownDims(c.NumOut())
	switch n, known := in[axis].Value(); {
	case c.Has(1):
		if d := c.Contents(1); d != nil {
			if len(d) != op.Parts {
				return fail.Errorf("split has %d sizes, want %d, one per output", len(d), op.Parts)
			}
			sizes = d
		}
	case known:
		parts, err := op.equal(n)
		if err != nil {
			return err
		}
		for i := range sizes {
			sizes[i] = ir.Known(parts[i])
		}
	case op.Even:
		for i := range sizes {
			sizes[i] = in[axis].Div(ir.Known(op.Parts))
		}
	}
	contents := c.Contents(0)
	at := 0
	shapes := make([]ir.Dim, 0, c.NumOut()*len(in)) // one allocation, since there may be a million outputs
	for i := range c.NumOut() {
		shapes = append(shapes, in...)
		out := shapes[len(shapes)-len(in) : len(shapes) : len(shapes)]
		out[axis] = sizes[i]
		kit.SetShape(c, i, c.Elem(0), out)
		n, ok := sizes[i].Value()
		if contents == nil || len(in) != 1 || !ok || n < 0 || at+n > len(contents) {
			contents = nil
			continue
		}
		c.SetContents(i, contents[at:at+n:at+n])
		at += n
	}
	return nil
}

// equal returns the sizes of equal parts of n.
func (op *Split) equal(n int) ([]int, error) {
	if op.Even && n%op.Parts != 0 {
		return nil, fail.Errorf("%d elements along axis %d cannot be split into %d equal parts", n, op.Axis, op.Parts)
	}
	size := n / op.Parts
	if n%op.Parts != 0 {
		size++
	}
	r := make([]int, op.Parts)
	for i := range r {
		r[i] = min(size, n)
		n -= r[i]
	}
	return r, nil
}

// Run implements ir.Operator.
func (op *Split) Run(c *ir.Call) error {
	x := c.Tensor(0)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	sizes, err := op.equal(x.Dim(axis))
	if t := c.Tensor(1); t != nil {
		if t.Rank() > 1 || t.Len() != op.Parts {
			return fail.Errorf("split has shape %v, want %d sizes", t.Shape(), op.Parts)
		}
		if sizes, err = kit.AnyInts(t); err == nil {
			err = splitSizes(sizes, x.Dim(axis))
		}
	}
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	outer, inner := move.AxisBlocks(x.Shape(), axis)
	row := x.Dim(axis) * inner
	shape := append([]int{}, x.Shape()...)
	at := 0
	for i, n := range sizes {
		w := n * inner
		if i < len(c.Out) && c.Wants(i) {
			shape[axis] = n
			dst, err := move.Out(c, i, x.DType(), shape...)
			if err != nil {
				return err
			}
			move.Strided(c, dst, src, []int{outer, w}, []int{w, 1}, 0, []int{row, 1}, at)
			dst.Done()
		}
		at += w
	}
	return nil
}

// splitSizes checks that sizes add up to n.
func splitSizes(sizes []int, n int) error {
	sum := 0
	for i, s := range sizes {
		if s < 0 || s > n-sum {
			return fail.Errorf("split sizes %v do not add up to %d: size %d at position %d", sizes, n, s, i)
		}
		sum += s
	}
	if sum != n {
		return fail.Errorf("split sizes %v add up to %d, want %d", sizes, sum, n)
	}
	return nil
}
