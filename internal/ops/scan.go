package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Scan runs its body once for each slice of its scan inputs along their scan axes. The inputs of
// the body are the state variables and one slice of each scan input. Its outputs are the new state
// variables, whose shapes must not change, and items that are stacked along the axes of the scan
// outputs (https://onnx.ai/onnx/operators/onnx__Scan.html).
type Scan struct {
	Body       int
	NumScan    int
	InAxes     []int // nil: 0
	InReverse  []bool
	OutAxes    []int
	OutReverse []bool

	// Batch selects the form of opset 8: the first input holds the lengths of the sequences; the
	// others have a leading batch dimension and are scanned along axis 1.
	Batch bool
}

var _ = kit.Register(&kit.Def{Name: "Scan", Since: kit.Versions{8, 9, 11, 16, 19, 21, 23, 24, 25},
	In: "initial_state_and_scan_inputs:any*", Out: "final_state_and_scan_outputs:any*",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("num_scan_inputs")
		op := &Scan{Body: a.Graph("body"), NumScan: a.Int("num_scan_inputs", 0), Batch: opset < 9}
		states := a.NumIn - op.NumScan
		if op.Batch {
			states--
		}
		if op.NumScan < 1 || states < 0 {
			a.Errorf("attribute num_scan_inputs is %d, want 1 to %d, the number of inputs", op.NumScan, a.NumIn)
			return op
		}
		outs := max(a.NumOut-states, 0)
		if op.Batch {
			op.InReverse = scanFlags(a, "directions", op.NumScan)
			return op
		}
		op.InReverse = scanFlags(a, "scan_input_directions", op.NumScan)
		op.OutReverse = scanFlags(a, "scan_output_directions", outs)
		op.InAxes = scanList(a, "scan_input_axes", op.NumScan)
		op.OutAxes = scanList(a, "scan_output_axes", outs)
		return op
	},
	Gradient: &gradient.Gradient{Subgraphs: true}})

func scanList(a *kit.Attrs, name string, n int) []int {
	v := a.Ints(name)
	if v != nil && len(v) != n {
		a.Errorf("attribute %s has %d elements, want %d", name, len(v), n)
		return nil
	}
	return v
}

func scanFlags(a *kit.Attrs, name string, n int) []bool {
	v := scanList(a, name, n)
	if v == nil {
		return nil
	}
	r := make([]bool, n)
	for i, d := range v {
		if d != 0 && d != 1 {
			a.Errorf("attribute %s has %d, want 0 or 1", name, d)
		}
		r[i] = d == 1
	}
	return r
}

// Iterates implements ir.Iterating.
func (op *Scan) Iterates() {}

// first returns the index of the first state variable.
func (op *Scan) first() int {
	if op.Batch {
		return 1
	}
	return 0
}

func (op *Scan) inAxis(i, rank int) (int, error) {
	axis := 0
	if op.InAxes != nil {
		axis = op.InAxes[i]
	}
	a, err := kit.NormalAxis(axis, rank)
	if err != nil {
		err = fail.Errorf("scan input %d: %w", i, err)
	}
	return a, err
}

func (op *Scan) outAxis(i int) int {
	if op.OutAxes != nil {
		return op.OutAxes[i]
	}
	return 0
}

// Recurrent implements [ir.Recurrent].
func (*Scan) Recurrent() {}

// Infer implements ir.Operator.
func (op *Scan) Infer(c *ir.InferContext) error {
	first := op.first()
	n := c.NumIn() - first - op.NumScan
	if n < 0 {
		return fail.Errorf("node has %d inputs, want at least %d scan inputs", c.NumIn()-first, op.NumScan)
	}
	in := make([]ir.Value, n+op.NumScan)
	batch, length := ir.Unknown, ir.Unknown
	merge := func(d *ir.Dim, e ir.Dim, what string) error {
		m, err := ir.Merge(*d, e)
		if err != nil {
			return fail.Errorf("inputs differ in %s: %s and %s", what, *d, e)
		}
		*d = m
		return nil
	}
	for i := range in {
		t := c.Type(first + i)
		if t.Kind != tensor.KindTensor {
			return fail.Errorf("input %d is %s, want a tensor", first+i, t)
		}
		if t.Shape != nil && op.Batch {
			if len(t.Shape) == 0 {
				return fail.Errorf("input %d is a scalar, want a batch dimension", first+i)
			}
			if err := merge(&batch, t.Shape[0], "the batch dimension"); err != nil {
				return err
			}
			t.Shape = t.Shape[1:]
		}
		if t.Shape != nil && i >= n {
			axis, err := op.inAxis(i-n, len(t.Shape))
			if err != nil {
				return err
			}
			if err := merge(&length, t.Shape[axis], "the length to scan"); err != nil {
				return err
			}
			t.Shape = slices.Delete(slices.Clone(t.Shape), axis, axis+1)
		}
		in[i] = ir.Value{Type: t}
	}
	out, err := c.InferGraph(op.Body, in)
	if err != nil {
		return err
	}
	if len(out) < max(n, c.NumOut()) {
		return fail.Errorf("body has %d outputs, which does not match %d state variables and %d outputs of the node",
			len(out), n, c.NumOut())
	}
	for i := range c.NumOut() {
		t := out[i].Type
		switch {
		case t.Known() && t.Kind != tensor.KindTensor:
			return fail.Errorf("output %d of the body is %s, want a tensor", i, t)
		case i < n:
			if t, err = widenBranch(in[i].Type, t); err != nil {
				return fail.Errorf("state variable %d before and after the body: %w", i, err)
			}
		case t.Shape != nil:
			axis, err := kit.NormalAxis(op.outAxis(i-n), len(t.Shape)+1)
			if err != nil {
				return fail.Errorf("scan output %d: %w", i-n, err)
			}
			t.Shape = slices.Insert(slices.Clone(t.Shape), axis, length)
		}
		if op.Batch && t.Shape != nil {
			t.Shape = append([]ir.Dim{batch}, t.Shape...)
		}
		c.SetOut(i, t)
	}
	return nil
}

// scanInput is a scan input with its scan axis first.
type scanInput struct {
	dtype   tensor.DType
	shape   []int // of a slice
	data    move.Buf
	reverse bool
}

// at returns slice k of n.
func (s *scanInput) at(c *ir.Call, k, n int) (*tensor.Tensor, error) {
	if s.reverse {
		k = n - 1 - k
	}
	return bufTensor(c, s.data, s.dtype, s.shape, k)
}

// bufTensor returns item k of a buffer of items of one shape as a tensor, which shares the memory
// if the type allows it.
func bufTensor(c *ir.Call, b move.Buf, d tensor.DType, shape []int, k int) (*tensor.Tensor, error) {
	size := kit.Product(shape)
	item := b.Slice(k*size, (k+1)*size)
	switch {
	case d == tensor.TypeString:
		return tensor.New(item.Strs, shape...)
	case d.Packed():
		t, err := move.New(c, d, shape...)
		if err == nil {
			memory.PackUint(t.Bytes(), item.Raw, d.Bits())
		}
		return t, err
	}
	t := &tensor.Tensor{}
	t.Reset(d, item.Raw, shape)
	return t, nil
}

// prepare moves the scan axis of a scan input to the front.
func (op *Scan) prepare(c *ir.Call, i int, x *tensor.Tensor) (*scanInput, int, error) {
	axis, err := op.inAxis(i, x.Rank())
	if err != nil {
		return nil, 0, err
	}
	s := &scanInput{dtype: x.DType(), reverse: op.InReverse != nil && op.InReverse[i]}
	n := x.Dim(axis)
	s.shape = slices.Delete(slices.Clone(x.Shape()), axis, axis+1)
	src, err := move.In(c, x)
	if err != nil {
		return nil, 0, err
	}
	if s.data = src; axis == 0 {
		return s, n, nil
	}
	// Do not copy to scratch memory: slices outlive the call if the body returns them unchanged.
	outer, inner := move.AxisBlocks(x.Shape(), axis)
	if src.Width == 0 {
		if err := c.Reserve(int64(16 * len(src.Strs))); err != nil {
			return nil, 0, err
		}
		s.data = move.Buf{Strs: make([]string, len(src.Strs))}
	} else {
		if err := c.Reserve(int64(len(src.Raw))); err != nil {
			return nil, 0, err
		}
		s.data = move.Buf{Width: src.Width, Raw: make([]byte, len(src.Raw))}
	}
	move.Strided(c, s.data, src, []int{n, outer, inner}, []int{outer * inner, inner, 1}, 0,
		[]int{inner, n * inner, 1}, 0)
	return s, n, nil
}

// run scans n slices and returns the final states and the number of items added to each buffer. The
// caller owns the initial states.
func (op *Scan) run(c *ir.Call, states []tensor.Value, scans []*scanInput, n, total int,
	outs []scanBuffer) ([]tensor.Value, error) {
	in := make([]tensor.Value, len(states)+len(scans))
	copy(in, states)
	for k := range n {
		if err := c.Err(); err != nil {
			return nil, err
		}
		for i, s := range scans {
			var err error
			// A reversed scan of a shorter sequence starts at the end of that sequence.
			if in[len(states)+i], err = s.at(c, k, total); err != nil {
				return nil, err
			}
		}
		out, err := c.RunBody(op.Body, in)
		if err != nil {
			return nil, fail.Errorf("iteration %d: %w", k, err)
		}
		if len(out) < len(states)+len(outs) {
			return nil, fail.Errorf("body has %d outputs, which does not match %d state variables and %d scan outputs",
				len(out), len(states), len(outs))
		}
		for i := range states {
			was, ok1 := in[i].(*tensor.Tensor)
			is, ok2 := out[i].(*tensor.Tensor)
			if !ok1 || !ok2 || was.DType() != is.DType() || !slices.Equal(was.Shape(), is.Shape()) {
				return nil, fail.Errorf("state variable %d is %s after iteration %d, was %s", i, out[i], k, in[i])
			}
			if k > 0 {
				c.Release(in[i])
			}
			in[i] = out[i]
		}
		for i, v := range out[len(states):] {
			if i < len(outs) {
				if err := outs[i].Add(c, v); err != nil {
					return nil, fail.Errorf("iteration %d: scan output %d: %w", k, i, err)
				}
			}
			c.Release(v)
		}
	}
	return in[:len(states)], nil
}

// Run implements ir.Operator.
func (op *Scan) Run(c *ir.Call) error {
	first := op.first()
	n := c.NumIn() - first - op.NumScan
	if n < 0 || len(c.Out) < n {
		return fail.Errorf("node has %d inputs and %d outputs, which does not match %d scan inputs", c.NumIn()-first,
			len(c.Out), op.NumScan)
	}
	in := make([]*tensor.Tensor, n+op.NumScan)
	for i := range in {
		if in[i] = c.Tensor(first + i); in[i] == nil {
			return fail.Errorf("input %d is not a tensor", first+i)
		}
	}
	if op.Batch {
		return op.batched(c, in, n)
	}
	states := make([]tensor.Value, n)
	for i := range states {
		states[i] = in[i]
	}
	scans, length, err := op.inputs(c, in[n:])
	if err != nil {
		return err
	}
	outs := make([]scanBuffer, len(c.Out)-n)
	for i := range outs {
		outs[i].Most = length
	}
	if states, err = op.run(c, states, scans, length, length, outs); err != nil {
		return err
	}
	for i, v := range states {
		if c.Wants(i) {
			if err := move.Value(c, i, v); err != nil {
				return err
			}
		}
	}
	for i := range outs {
		if !c.Wants(n + i) {
			continue
		}
		if length == 0 {
			if err := outs[i].Declare(c, op.Body, n+i); err != nil {
				return err
			}
		}
		if err := outs[i].Stack(c, n+i, op.outAxis(i), length, op.OutReverse != nil && op.OutReverse[i]); err != nil {
			return err
		}
	}
	return nil
}

// inputs prepares the scan inputs, which must have the same length.
func (op *Scan) inputs(c *ir.Call, in []*tensor.Tensor) ([]*scanInput, int, error) {
	scans := make([]*scanInput, len(in))
	length := 0
	for i, x := range in {
		s, n, err := op.prepare(c, i, x)
		if err != nil {
			return nil, 0, err
		}
		if i > 0 && n != length {
			return nil, 0, fail.Errorf("scan input 0 has %d slices, scan input %d has %d", length, i, n)
		}
		scans[i], length = s, n
	}
	return scans, length, nil
}

// batched runs the form of opset 8: one scan per batch item, with all outputs stacked along it.
func (op *Scan) batched(c *ir.Call, in []*tensor.Tensor, n int) error {
	rows, length := 0, 0
	for i, x := range in {
		if x.Rank() < 1 || i >= n && x.Rank() < 2 {
			return fail.Errorf("input %d has rank %d, want a batch dimension and for scan inputs a sequence dimension",
				i+1, x.Rank())
		}
		if i > 0 && x.Dim(0) != rows {
			return fail.Errorf("input %d has batch size %d, others have %d", i+1, x.Dim(0), rows)
		}
		if i > n && x.Dim(1) != length {
			return fail.Errorf("scan input %d has length %d, others have %d", i-n, x.Dim(1), length)
		}
		rows = x.Dim(0)
		if i >= n {
			length = x.Dim(1)
		}
	}
	lens := make([]int, 0)
	if t := c.Tensor(0); t != nil {
		if t.DType() != kit.TensorInt64 || t.Len() != rows || t.Rank() != 1 {
			return fail.Errorf("sequence_lens is %s, want int64[%d]", t, rows)
		}
		lens = kit.Ints(t)
		for i, v := range lens {
			if v < 0 || v > length {
				return fail.Errorf("sequence_lens has %d at position %d, want it in [0, %d]", v, i, length)
			}
		}
	}
	data := make([]move.Buf, len(in))
	for i, x := range in {
		var err error
		if data[i], err = move.In(c, x); err != nil {
			return err
		}
	}
	final := make([]scanBuffer, n)
	outs := make([]scanBuffer, len(c.Out)-n) // items of all rows, each row padded
	for b := range rows {
		count := length
		if c.Has(0) {
			count = lens[b]
		}
		states := make([]tensor.Value, n)
		scans := make([]*scanInput, op.NumScan)
		for i, x := range in {
			t, err := bufTensor(c, data[i], x.DType(), x.Shape()[1:], b)
			if err != nil {
				return err
			}
			if i < n {
				states[i] = t
				continue
			}
			s, _, err := (&Scan{InReverse: op.InReverse}).prepare(c, i-n, t)
			if err != nil {
				return err
			}
			scans[i-n] = s
		}
		states, err := op.run(c, states, scans, count, count, outs)
		if err != nil {
			return fail.Errorf("row %d: %w", b, err)
		}
		for i, v := range states {
			if err := final[i].Add(c, v); err != nil {
				return err
			}
		}
		for i := range outs {
			if outs[i].Shape == nil {
				if err := outs[i].Declare(c, op.Body, n+i); err != nil {
					return err
				}
			}
			if err := outs[i].Pad(c, (b+1)*length); err != nil {
				return err
			}
		}
	}
	for i := range final {
		if rows == 0 {
			final[i].DType, final[i].Shape = in[i].DType(), in[i].Shape()[1:]
		}
		if c.Wants(i) {
			if err := final[i].Stack(c, i, 0, rows, false); err != nil {
				return err
			}
		}
	}
	for i := range outs {
		if rows == 0 {
			if err := outs[i].Declare(c, op.Body, n+i); err != nil {
				return err
			}
		}
		// Rows and items form one leading dimension of the buffer.
		outs[i].Shape = append([]int{length}, outs[i].Shape...)
		outs[i].N = rows
		if c.Wants(n + i) {
			if err := outs[i].Stack(c, n+i, 0, rows, false); err != nil {
				return err
			}
		}
	}
	return nil
}
