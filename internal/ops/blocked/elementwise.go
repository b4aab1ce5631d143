package blocked

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Map applies a function to every element of blocked images.
type Map struct {
	In, Out Layout
	fn      func(dst, src []float32, block int)
}

// NewMap makes the operator of an elementwise kernel.
func NewMap(kernel kit.VecUnary, in, out Layout) *Map {
	return &Map{In: in, Out: out, fn: func(dst, src []float32, _ int) { kernel(cpu.Active(), dst, src) }}
}

// Infer gives the blocked type.
func (m *Map) Infer(c *ir.InferContext) error { return inferBlocked(c, &m.Out) }

func inferBlocked(c *ir.InferContext, out *Layout) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) > 0 {
		n = s[0]
	}
	c.SetOut(0, Type(n, *out))
	return nil
}

// Run maps row by row, so that borders stay zero.
func (m *Map) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &m.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &m.Out)
	if err != nil {
		return err
	}
	blockedRows(c, n, []*Layout{&m.Out, &m.In}, func(i, cb, row, w int) {
		o, s := m.Out.At(cb, row, 0), m.In.At(cb, row, 0)
		m.fn(y[i*m.Out.Len()+o:][:w], x[i*m.In.Len()+s:][:w], cb)
	})
	return nil
}

// blockedRows calls fn for every row of every block of n images in the layouts, the first of which
// is that of the output; w is the number of floats of a row. Where no layout has a border at the
// left or right, several rows are one for fn.
func blockedRows(c *ir.Call, n int, layouts []*Layout, fn func(image, block, row, w int)) {
	const enough = 1 << 13
	l := layouts[0]
	blocks, height, width, rows := l.Blocks(), l.H, l.W*conv.Lanes, 1
	if !slices.ContainsFunc(layouts, func(l *Layout) bool { return !l.Flat() }) {
		rows = min(max(1, enough/(width+1)), height)
	}
	units := (height + rows - 1) / rows
	c.Launch(n*blocks*units, 1+enough/(rows*width+1), func(lo, hi int) {
		for u := lo; u < hi; u++ {
			b, row := u/units, u%units*rows
			fn(b/blocks, b%blocks, row, min(rows, height-row)*width)
		}
	})
}

// Binary combines two blocked images element by element; B may be a single
// pixel per image, which counts for all (as in squeeze-and-excitation).
type Binary struct {
	A, B, Out Layout
	Act       kit.Activation
	sum       bool
	product   bool
	fn        func(dst, a, b []float32)
	affine    func(b *[conv.Lanes]float32) (scale, shift [conv.Lanes]float32) // fn for one b
}

// NewBinary makes the operator of op, one of *Add, *Sub, *Mul and *Sum;
// nil for others.
func NewBinary(op kit.Operator, a, b, out Layout, act kit.Activation) *Binary {
	r := &Binary{A: a, B: b, Out: out, Act: act}
	level := cpu.Active
	switch op.(type) {
	case *ops.Add, *ops.Sum:
		r.sum = true
		r.fn = func(d, a, b []float32) { vec.AddF32(level(), d, a, b) }
		r.affine = func(b *[conv.Lanes]float32) (scale, shift [conv.Lanes]float32) { return ones, *b }
	case *ops.Sub:
		r.fn = func(d, a, b []float32) { vec.SubF32(level(), d, a, b) }
		r.affine = func(b *[conv.Lanes]float32) (scale, shift [conv.Lanes]float32) {
			for i, v := range b {
				shift[i] = -v
			}
			return ones, shift
		}
	case *ops.Mul:
		r.product = true
		r.fn = func(d, a, b []float32) { vec.MulF32(level(), d, a, b) }
		r.affine = func(b *[conv.Lanes]float32) (scale, shift [conv.Lanes]float32) { return *b, shift }
	default:
		return nil
	}
	return r
}

var ones = func() (r [conv.Lanes]float32) {
	for i := range r {
		r[i] = 1
	}
	return r
}()

// Infer gives the blocked type.
func (m *Binary) Infer(c *ir.InferContext) error { return inferBlocked(c, &m.Out) }

// Run combines row by row.
func (m *Binary) Run(c *ir.Call) error {
	n, a, err := blockedIn(c, 0, &m.A)
	if err != nil {
		return err
	}
	nb, b, err := blockedIn(c, 1, &m.B)
	if err != nil {
		return err
	}
	if nb != n {
		return fail.Errorf("inputs have %d and %d images, want equal numbers", n, nb)
	}
	y, err := blockedOut(c, n, &m.Out)
	if err != nil {
		return err
	}
	m.combine(c, n, y, a, b)
	return nil
}

// perChannel reports whether B has one element per channel, for all pixels.
func (m *Binary) perChannel() bool { return m.B.H == 1 && m.B.W == 1 && (m.A.H > 1 || m.A.W > 1) }

// combine combines n images.
func (m *Binary) combine(c *ir.Call, n int, y, a, b []float32) {
	layouts := []*Layout{&m.Out, &m.A, &m.B}
	pixel := m.perChannel()
	if pixel {
		layouts = layouts[:2]
	}
	blockedRows(c, n, layouts, func(i, cb, row, w int) {
		y, a, b := y[i*m.Out.Len():], a[i*m.A.Len():], b[i*m.B.Len():]
		if pixel {
			m.combinePixel(y, a, (*[conv.Lanes]float32)(b[m.B.At(cb, 0, 0):]), cb, row, w)
			return
		}
		d := y[m.Out.At(cb, row, 0):][:w]
		m.fn(d, a[m.A.At(cb, row, 0):][:w], b[m.B.At(cb, row, 0):][:w])
		m.Act.Apply(d)
	})
}

// combinePixel combines w elements from a row of a block on with a pixel, in one image.
func (m *Binary) combinePixel(y, a []float32, pixel *[conv.Lanes]float32, block, row, w int) {
	scale, shift := m.affine(pixel)
	conv.Affine(cpu.Active(), y[m.Out.At(block, row, 0):][:w], a[m.A.At(block, row, 0):][:w], &scale, &shift,
		m.Act.Gemm(), m.Act.Lo, m.Act.Hi)
}

// Affine is [ChannelAffine] on blocked images.
type Affine struct {
	In, Out      Layout
	Act          kit.Activation
	scale, shift []float32 // padded to whole blocks
}

// NewAffine returns a for images in the layouts in and out.
func NewAffine(a *ChannelAffine, in, out Layout) *Affine {
	n := in.Blocks() * conv.Lanes
	r := &Affine{In: in, Out: out, Act: a.Act, scale: make([]float32, n), shift: make([]float32, n)}
	copy(r.scale, a.Scale)
	copy(r.shift, a.Shift)
	return r
}

// Infer gives the blocked type.
func (a *Affine) Infer(c *ir.InferContext) error { return inferBlocked(c, &a.Out) }

// Run scales pixel by pixel.
func (a *Affine) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &a.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &a.Out)
	if err != nil {
		return err
	}
	blockedRows(c, n, []*Layout{&a.Out, &a.In}, func(i, cb, row, w int) {
		a.apply(y[i*a.Out.Len()+a.Out.At(cb, row, 0):][:w], x[i*a.In.Len()+a.In.At(cb, row, 0):][:w], cb)
	})
	return nil
}

// apply computes pixels of a block of channels.
func (a *Affine) apply(dst, src []float32, block int) {
	at := block * conv.Lanes
	conv.Affine(cpu.Active(), dst, src, (*[conv.Lanes]float32)(a.scale[at:]), (*[conv.Lanes]float32)(a.shift[at:]),
		a.Act.Gemm(), a.Act.Lo, a.Act.Hi)
}

// GlobalPool computes the mean or the maximum of each plane of blocked images.
type GlobalPool struct {
	In, Out Layout // Out has one pixel
	Max     bool
}

// Infer sets the type of the output.
func (p *GlobalPool) Infer(c *ir.InferContext) error { return inferBlocked(c, &p.Out) }

// poolPart is the number of elements that one thread reduces, whole rows: blocks of large images
// would be too few for many threads.
const poolPart = 1 << 14

// Run reduces parts of the blocks, then these. Parts do not depend on the number of threads.
func (p *GlobalPool) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &p.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &p.Out)
	if err != nil {
		return err
	}
	blocks, pixels := p.In.Blocks(), p.In.H*p.In.W
	rows := max(1, min(p.In.H, poolPart/(p.In.W*conv.Lanes+1)))
	parts := (p.In.H + rows - 1) / rows
	if parts == 1 {
		c.Launch(n*blocks, 1+(1<<12)/(pixels*conv.Lanes+1), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				p.write(y, b, p.reduce(x, b, 0, p.In.H))
			}
		})
		return nil
	}
	partial, err := ir.LaunchScratchOf[[conv.Lanes]float64](c, n*blocks*parts)
	if err != nil {
		return err
	}
	c.Launch(len(partial), 1, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			row := u % parts * rows
			partial[u] = p.reduce(x, u/parts, row, min(rows, p.In.H-row))
		}
	})
	c.Launch(n*blocks, 1+1024/parts, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			r := partial[b*parts]
			for _, part := range partial[b*parts+1 : (b+1)*parts] {
				for l, v := range part {
					if p.Max {
						r[l] = max(r[l], v)
					} else {
						r[l] += v
					}
				}
			}
			p.write(y, b, r)
		}
	})
	return nil
}

// reduce returns the sums or the maxima of some rows of block b of all images.
func (p *GlobalPool) reduce(x []float32, b, row, rows int) (r [conv.Lanes]float64) {
	image, l := x[b/p.In.Blocks()*p.In.Len():][:p.In.Len()], p.In
	l.Top, l.H = l.Top+row, rows
	if !p.Max {
		return conv.SumBlock(cpu.Active(), &l, image, b%p.In.Blocks())
	}
	for i, v := range conv.MaxBlock(cpu.Active(), &l, image, b%p.In.Blocks()) {
		r[i] = float64(v)
	}
	return r
}

// write writes the results of block b of all images.
func (p *GlobalPool) write(y []float32, b int, r [conv.Lanes]float64) {
	blocks := p.In.Blocks()
	to := y[b/blocks*p.Out.Len()+p.Out.At(b%blocks, 0, 0):]
	for l, v := range r {
		if !p.Max {
			v /= float64(p.In.H * p.In.W)
		}
		to[l] = float32(v)
	}
}
