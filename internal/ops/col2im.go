package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Col2Im adds up columns, each of them a block of an image, into the image. It is the transpose of
// im2col: [N, C·product(block), blocks] becomes [N, C, image…]
// (https://onnx.ai/onnx/operators/onnx__Col2Im.html).
type Col2Im struct {
	Dilations, Pads, Strides []int // nil: ones, zeros, ones
}

var _ = kit.Register(&kit.Def{Name: "Col2Im", Since: kit.Versions{18},
	Class: kit.ClassShape,
	In:    "input:T, image_shape:int64, block_shape:int64", Out: "output:T", Types: "T: @number @complex bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Col2Im{Dilations: a.Ints("dilations"), Pads: a.Ints("pads"), Strides: a.Ints("strides")}
		for name, v := range map[string][]int{"dilations": op.Dilations, "strides": op.Strides, "pads": op.Pads} {
			for _, n := range v {
				if n < 0 || n == 0 && name != "pads" || n > math.MaxInt32 {
					a.Errorf("attribute %s has the element %d, want it positive (pads: non-negative) and at most %d",
						name, n, math.MaxInt32)
				}
			}
		}
		return op
	}})

// Infer implements ir.Operator.
func (op *Col2Im) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "input"); err != nil {
		return err
	}
	for i, what := range []string{1: "image_shape", 2: "block_shape"} {
		if i > 0 {
			if err := kit.CheckRank(c, i, 1, what); err != nil {
				return err
			}
		}
	}
	kit.SetShape(c, 0, c.Elem(0), nil)
	image := c.Contents(1)
	if image == nil {
		return nil
	}
	out := append(ir.UnknownDims(2), image...)
	if s := c.Shape(0); s != nil {
		out[0] = s[0]
		if block := c.Contents(2); block != nil {
			out[1] = s[1].Div(ir.Product(block))
		}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// col2imGeometry is a validated call.
type col2imGeometry struct {
	n, channels            int
	image, block, counts   []int // counts: number of blocks along each dimension
	pads, strides, dilates []int
}

func (op *Col2Im) geometry(x, imageShape, blockShape *tensor.Tensor) (*col2imGeometry, error) {
	g := &col2imGeometry{}
	var err error
	if g.image, err = kit.SmallInts(imageShape, "image_shape"); err != nil {
		return nil, err
	}
	if g.block, err = kit.SmallInts(blockShape, "block_shape"); err != nil {
		return nil, err
	}
	r := len(g.image)
	if x.Rank() != 3 || r == 0 || len(g.block) != r {
		return nil,
			fail.Errorf("input has rank %d, want 3; image_shape has %d elements and block_shape %d, want equal numbers",
				x.Rank(), r, len(g.block))
	}
	list := func(v []int, n, def int, name string) []int {
		if v == nil {
			v = make([]int, n)
			for i := range v {
				v[i] = def
			}
		}
		if len(v) != n {
			err = fail.Errorf("attribute %s has %d elements, want %d", name, len(v), n)
		}
		return v
	}
	g.pads, g.strides, g.dilates = list(op.Pads, 2*r, 0, "pads"), list(op.Strides, r, 1, "strides"),
		list(op.Dilations, r, 1, "dilations")
	if err != nil {
		return nil, err
	}
	g.counts = make([]int, r)
	for i := range r {
		if g.image[i] < 0 || g.image[i] > math.MaxInt32 || g.block[i] < 1 || g.block[i] > math.MaxInt32 {
			return nil, fail.Errorf("image_shape is %v and block_shape %v, want 0 and 1 to %d", g.image,
				g.block, math.MaxInt32)
		}
		room := g.image[i] + g.pads[i] + g.pads[r+i] - g.dilates[i]*(g.block[i]-1) - 1
		if room < 0 {
			return nil, fail.Errorf("block size %d exceeds dimension %d of size %d", g.block[i], i, g.image[i])
		}
		g.counts[i] = room/g.strides[i] + 1
	}
	block, err := tensor.Elements(g.block)
	if err != nil {
		return nil, err
	}
	if x.Dim(1)%block != 0 {
		return nil, fail.Errorf("input has shape %v: %d rows are not a multiple of block_shape %v",
			x.Shape(), x.Dim(1), g.block)
	}
	if n, err := tensor.Elements(g.counts); err != nil || n != x.Dim(2) {
		return nil, fail.Errorf("input has shape %v with %d blocks, image_shape %v needs %v", x.Shape(),
			x.Dim(2), g.image, g.counts)
	}
	g.n, g.channels = x.Dim(0), x.Dim(1)/block
	return g, nil
}

// Run implements ir.Operator.
func (op *Col2Im) Run(c *ir.Call) error {
	x := c.Tensor(0)
	g, err := op.geometry(x, c.Tensor(1), c.Tensor(2))
	if err != nil {
		return err
	}
	shape := append([]int{g.n, g.channels}, g.image...)
	switch x.DType() {
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		out, err := kit.RealOut[float32](c, 0, x.DType(), shape...)
		if err != nil {
			return err
		}
		in, err := kit.RealIn[float32](c, x)
		if err != nil {
			return err
		}
		col2im(c, g, in, out.Data)
		out.Store()
		return nil
	case tensor.TypeFloat32:
		return col2imRun[float32](c, g, x, shape)
	case tensor.TypeFloat64:
		return col2imRun[float64](c, g, x, shape)
	case tensor.TypeBool: // a sum of booleans is true if one of them is, as in NumPy
		sums, err := ir.ScratchOf[int32](c, x.Len()+kit.Product(shape))
		if err != nil {
			return err
		}
		out, err := c.Output(0, tensor.TypeBool, shape...)
		if err != nil {
			return err
		}
		in, sums := sums[:x.Len()], sums[x.Len():]
		for i, v := range x.Bytes() {
			in[i] = int32(v)
		}
		col2im(c, g, in, sums)
		b := out.Bytes()
		for i, v := range sums {
			b[i] = byte(min(v, 1))
		}
		return nil
	case tensor.TypeInt8, tensor.TypeUint8: // addition wraps around in any order
		return col2imRun[int8](c, g, x, shape)
	case tensor.TypeInt16, tensor.TypeUint16:
		return col2imRun[int16](c, g, x, shape)
	case tensor.TypeInt32, tensor.TypeUint32:
		return col2imRun[int32](c, g, x, shape)
	case tensor.TypeInt64, tensor.TypeUint64:
		return col2imRun[int64](c, g, x, shape)
	case tensor.TypeComplex64:
		return col2imRun[complex64](c, g, x, shape)
	case tensor.TypeComplex128:
		return col2imRun[complex128](c, g, x, shape)
	}
	return fail.Errorf("elements of type %s cannot be added", x.DType())
}

type col2imNumber interface {
	scatterNumber | complex64 | complex128
}

func col2imRun[T col2imNumber](c *ir.Call, g *col2imGeometry, x *tensor.Tensor, shape []int) error {
	out, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	col2im(c, g, memory.FromRaw[T](x.Bytes()), memory.FromRaw[T](out.Bytes()))
	return nil
}

func col2im[T col2imNumber](c *ir.Call, g *col2imGeometry, in, out []T) {
	ir.Clear(c, out)
	g.each(c, func(r *col2imBox) { addBox(c, out[r.to:], in[r.from:], r) })
}

// col2imBox is a rectangle of the input, rows of n elements from from on, that are added to every
// stride-th element of rows of the output from to on.
type col2imBox struct {
	to, from, n, stride    int
	rows, toStep, fromStep int
}

// col2imRange is the range of blocks along a dimension whose elements at a kernel position are in
// the image, and the coordinate of the first one.
type col2imRange struct{ from, to, at int }

// ranges returns the ranges for all kernel positions along dimension d.
func (g *col2imGeometry) ranges(d int) []col2imRange {
	list := make([]col2imRange, g.block[d])
	for k := range list {
		p, stride, r := k*g.dilates[d]-g.pads[d], g.strides[d], &list[k]
		if p < 0 {
			r.from = (stride - 1 - p) / stride
		}
		if p < g.image[d] {
			r.to = min(g.counts[d], (g.image[d]-1-p)/stride+1)
		}
		r.at = p + r.from*stride
	}
	return list
}

// each calls add for rectangles of the last two dimensions. Each channel of each image is one task.
func (g *col2imGeometry) each(c *ir.Call, add func(r *col2imBox)) {
	size, block, count := kit.Product(g.image), kit.Product(g.block), kit.Product(g.counts)
	if size == 0 || count == 0 || g.channels == 0 {
		return
	}
	r := len(g.image)
	step := kit.Strides(g.image)
	last := r - 1
	outer := max(0, r-2) // dimensions
	across, down := g.ranges(last), []col2imRange{{to: 1}}
	var rowStep, fromStep int
	if d := r - 2; d >= 0 {
		down, rowStep, fromStep = g.ranges(d), step[d], g.counts[last]
	}
	plane := count / max(1, kit.Product(g.counts[:outer]))
	c.Parallel(g.n*g.channels, 1+(1<<15)/(block*count), func(lo, hi int) {
		kpos, cpos := make([]int, r), make([]int, r)
		for task := lo; task < hi; task++ {
			for k := range block {
				if c.Err() != nil {
					return
				}
				unravel(kpos[:outer], k/(len(down)*len(across)), g.block[:outer])
				x, y := across[k%len(across)], down[k/len(across)%len(down)]
				run := col2imBox{n: x.to - x.from, stride: g.strides[last], rows: y.to - y.from,
					toStep: rowStep * g.strides[max(0, r-2)], fromStep: fromStep}
				if run.n <= 0 || run.rows <= 0 {
					continue
				}
				clear(cpos)
				for lead := 0; lead < count; lead += plane {
					if lead > 0 {
						kit.NextIndex(cpos[:outer], g.counts[:outer])
					}
					base, inside := 0, true
					for d := range outer {
						p := cpos[d]*g.strides[d] + kpos[d]*g.dilates[d] - g.pads[d]
						inside = inside && p >= 0 && p < g.image[d]
						base += p * step[d]
					}
					if inside {
						run.to, run.from = task*size+base+y.at*rowStep+x.at,
							(task*block+k)*count+lead+y.from*fromStep+x.from
						add(&run)
					}
				}
			}
		}
	})
}

// addBox adds a rectangle of x to dst.
func addBox[T col2imNumber](c *ir.Call, dst, x []T, r *col2imBox) {
	if f, ok := any(x).([]float32); ok && !c.Generic && r.stride == 1 {
		addBoxF32(any(dst).([]float32), f, r)
		return
	}
	for i := range r.rows {
		to := dst[i*r.toStep:]
		for k, v := range x[i*r.fromStep:][:r.n] {
			to[k*r.stride] += v
		}
	}
}

var col2imOnes = slices.Repeat([]float32{1}, 64)

// addBoxF32 is addBox for adjacent elements.
func addBoxF32(dst, x []float32, r *col2imBox) {
	for i := 0; i < r.rows; i += len(col2imOnes) {
		vec.AxpyRowsF32(cpu.Active(), dst[i*r.toStep:], r.toStep, x[i*r.fromStep:], r.fromStep, r.n,
			col2imOnes[:min(len(col2imOnes), r.rows-i)])
	}
}

// unravel converts a linear index to coordinates.
func unravel(pos []int, i int, shape []int) {
	for k := len(shape) - 1; k >= 0; k-- {
		pos[k] = i % shape[k]
		i /= shape[k]
	}
}
