package elementwise

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// AxisBroadcast is the broadcasting rule of a binary operator. The zero value is NumPy's rule,
// ONNX's since opset 7. Before, inputs had to have the same shape unless the attribute broadcast
// was set: then the shape of B is a part of A's that starts at the attribute axis, by default the
// last part.
type AxisBroadcast struct {
	Legacy  bool
	Repeat  bool // the legacy attribute broadcast
	Axis    int
	HasAxis bool
}

// ReadAxisBroadcast reads the attributes axis and broadcast of opset 6 and below.
func ReadAxisBroadcast(a *kit.Attrs, opset int) AxisBroadcast {
	if opset >= 7 {
		return AxisBroadcast{}
	}
	kit.IgnoreConsumed(a, opset)
	return AxisBroadcast{Legacy: true, Repeat: a.Bool("broadcast", false), HasAxis: a.Has("axis"),
		Axis: a.Int("axis", 0)}
}

// Span returns the range of dimensions of a shape of rank ra that one of rank rb matches, by the
// legacy rule.
func (x AxisBroadcast) Span(ra, rb int) (int, error) {
	at := ra - rb
	if x.HasAxis && x.Axis != -1 {
		at = x.Axis
		if at < 0 {
			at += ra
		}
	}
	if rb > ra || at < 0 || at > ra-rb {
		return 0, fail.Errorf("second input of rank %d exceeds rank %d at axis %d", rb, ra, at)
	}
	return at, nil
}

// Shapes returns the shape of the output and the shape to use for B.
func (x AxisBroadcast) Shapes(a, b []int) (out, bShape []int, err error) {
	if !x.Legacy {
		switch {
		case broadcastsTo(b, a):
			return a, b, nil
		case broadcastsTo(a, b):
			return b, b, nil
		}
		out, err = kit.BroadcastShapes(a, b)
		return out, b, err
	}
	if !x.Repeat {
		if !slices.Equal(a, b) {
			return nil, nil, fail.Errorf("shapes %v and %v differ and the attribute broadcast is not set", a, b)
		}
		return a, b, nil
	}
	at, err := x.Span(len(a), len(b))
	if err != nil {
		return nil, nil, err
	}
	bShape = make([]int, len(a)-at)
	for i := range bShape {
		bShape[i] = 1
	}
	copy(bShape, b)
	for i, n := range b {
		if n != a[at+i] && n != 1 {
			return nil, nil, fail.Errorf("shape %v does not match %v at axis %d: %d and %d", b, a, at, n, a[at+i])
		}
	}
	return a, bShape, nil
}

// broadcastsTo reports whether a shape broadcasts to another one without changing it.
func broadcastsTo(shape, to []int) bool {
	off := len(to) - len(shape)
	if off < 0 {
		return false
	}
	for i, n := range shape {
		if n != 1 && n != to[off+i] {
			return false
		}
	}
	return true
}

// dims is shapes for shapes that are partly unknown.
func (x AxisBroadcast) dims(a, b []ir.Dim) ([]ir.Dim, error) {
	if !x.Legacy {
		return kit.BroadcastDims(a, b)
	}
	if a == nil || b == nil {
		return a, nil
	}
	if !x.Repeat {
		t, err := ir.MergeTypes(ir.TensorType(tensor.TypeFloat32, a...), ir.TensorType(tensor.TypeFloat32, b...))
		if err != nil {
			return nil, fail.Errorf("the attribute broadcast is not set: %w", err)
		}
		return t.Shape, nil
	}
	_, err := x.Span(len(a), len(b))
	return a, err
}

// InferBinary infers an output of type elem. fn computes elements that are known or symbolic; it
// may be nil.
func InferBinary(c *ir.InferContext, x AxisBroadcast, elem tensor.DType, fn func(a, b ir.Dim) ir.Dim) error {
	shape, err := x.dims(c.Shape(0), c.Shape(1))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: elem, Shape: shape})
	if fn == nil || x.Legacy || shape == nil || len(shape) > 1 {
		return nil
	}
	if elem != tensor.TypeInt64 && elem != tensor.TypeInt32 && elem != tensor.TypeBool {
		return nil
	}
	kit.SetContents(c, elem, kit.BinaryContents(c.Contents(0), c.Contents(1), fn))
	return nil
}

// RunBinary computes output 0 from two inputs of one type.
func RunBinary(c *ir.Call, x AxisBroadcast, t Table, grain int) error {
	a, b := c.Tensor(0), c.Tensor(1)
	l, err := t.Loop(a.DType())
	if err != nil {
		return err
	}
	out, bShape, err := x.Shapes(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	return RunLoop(c, l, grain, out, []*tensor.Tensor{a, b}, [][]int{a.Shape(), bShape})
}

// RefuseZeroDivisor returns an error if an integer divisor contains zero.
func RefuseZeroDivisor(t *tensor.Tensor) error {
	i := -1
	switch t.DType() {
	case tensor.TypeInt8:
		i = slices.Index(tensor.MustData[int8](t), 0)
	case tensor.TypeInt16:
		i = slices.Index(tensor.MustData[int16](t), 0)
	case tensor.TypeInt32:
		i = slices.Index(tensor.MustData[int32](t), 0)
	case tensor.TypeInt64:
		i = slices.Index(tensor.MustData[int64](t), 0)
	case tensor.TypeUint8:
		i = slices.Index(tensor.MustData[uint8](t), 0)
	case tensor.TypeUint16:
		i = slices.Index(tensor.MustData[uint16](t), 0)
	case tensor.TypeUint32:
		i = slices.Index(tensor.MustData[uint32](t), 0)
	case tensor.TypeUint64:
		i = slices.Index(tensor.MustData[uint64](t), 0)
	}
	if i >= 0 {
		return fail.Errorf("integer division by zero: element %d of the divisor is 0", i)
	}
	return nil
}

// RunVariadic combines all inputs pairwise in output 0.
func RunVariadic(c *ir.Call, t Table) error {
	in, shapes, shape, err := variadicInputs(c)
	if err != nil {
		return err
	}
	out, err := c.Output(0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	return foldInto(c, t, out, in, shapes)
}

// variadicInputs returns all inputs, their shapes, and the broadcast shape.
func variadicInputs(c *ir.Call) (in []*tensor.Tensor, shapes [][]int, shape []int, err error) {
	n := c.NumIn()
	in, shapes = make([]*tensor.Tensor, n), make([][]int, n)
	for i := range n {
		if in[i] = c.Tensor(i); in[i] == nil {
			return nil, nil, nil, fail.Errorf("input %d of %d is missing", i, n)
		}
		shapes[i] = in[i].Shape()
	}
	shape, err = kit.BroadcastShapes(shapes...)
	return in, shapes, shape, err
}

// foldInto combines tensors pairwise in out.
func foldInto(c *ir.Call, t Table, out *tensor.Tensor, in []*tensor.Tensor, shapes [][]int) error {
	if len(in) == 1 {
		ir.Copy(c, out.Bytes(), in[0].Bytes())
		return nil
	}
	l, err := t.Loop(out.DType())
	if err != nil {
		return err
	}
	acc, accShape := in[0], shapes[0]
	for i := 1; i < len(in); i++ {
		if err := RunLoopInto(c, l, kit.GrainCheap, out, []*tensor.Tensor{acc, in[i]},
			[][]int{accShape, shapes[i]}); err != nil {
			return err
		}
		acc, accShape = out, out.Shape()
	}
	return nil
}

// InferVariadic infers the broadcast of all inputs.
func InferVariadic(c *ir.InferContext) error {
	n := c.NumIn()
	shapes := make([][]ir.Dim, n)
	for i := range n {
		shapes[i] = c.Shape(i)
	}
	shape, err := kit.BroadcastDims(shapes...)
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: c.Elem(0), Shape: shape})
	return nil
}
