package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// DeformConv is a convolution in which an offset moves the position of each tap
// (https://arxiv.org/abs/1811.11168). Inputs are interpolated multilinearly, with zeros outside of
// the input, and multiplied by a mask (https://onnx.ai/onnx/operators/onnx__DeformConv.html).
type DeformConv struct {
	window.Window
	Group, OffsetGroup int
}

// deformAxes limits the number of spatial axes, since a tap reads 2^axes elements.
const deformAxes = 6

var _ = kit.Register(&kit.Def{Name: "DeformConv", Since: kit.Versions{19, 22}, In: "X:T, W:T, offset:T, B:T?, mask:T?",
	Out: "Y:T", Types: "T: @float",
	MACs: kit.ConvMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		d := &DeformConv{Group: window.ReadGroup(a), OffsetGroup: a.Int("offset_group", 1),
			Window: window.Window{AutoPad: "NOTSET",
				Kernel: window.Attr(a, "kernel_shape", 1), Strides: window.Attr(a, "strides", 1),
				Dilations: window.Attr(a, "dilations", 1), Pads: window.Attr(a, "pads", 0)}}
		if d.OffsetGroup < 1 || d.OffsetGroup > window.Limit {
			a.Errorf("attribute offset_group is %d, want 1 to %d", d.OffsetGroup, window.Limit)
			d.OffsetGroup = 1
		}
		return d
	}})

// Infer checks the channels and computes the spatial sizes.
func (d *DeformConv) Infer(c *ir.InferContext) error {
	return window.InferConv(c, &d.Window, d.Group, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run computes half-precision types in float32.
func (d *DeformConv) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return deformConv[float64](c, d)
	}
	return deformConv[float32](c, d)
}

// deform is a run of DeformConv.
type deform[T kit.RealFloat] struct {
	window.ConvShape
	groups          int // of offsets
	x, w, off, mask []T
	bias, y         []T
}

func deformConv[T kit.RealFloat](c *ir.Call, v *DeformConv) error {
	s, err := window.NewConvShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	n := len(s.In)
	if n > deformAxes {
		return fail.Errorf("input has %d spatial axes, want at most %d", n, deformAxes)
	}
	if s.C%v.OffsetGroup != 0 {
		return fail.Errorf("%d channels are not divisible by offset_group %d", s.C, v.OffsetGroup)
	}
	d := &deform[T]{ConvShape: s, groups: v.OffsetGroup}
	for _, p := range []struct {
		name string
		in   int
		ch   int
	}{{"offset", 2, n}, {"mask", 4, 1}} {
		t := c.Tensor(p.in)
		if t == nil {
			continue
		}
		want := append([]int{s.N, v.OffsetGroup * s.Taps() * p.ch}, s.Out...)
		if fmt.Sprint(t.Shape()) != fmt.Sprint(want) {
			return fail.Errorf("%s has shape %v, want %v", p.name, t.Shape(), want)
		}
	}
	if b := c.Tensor(3); b != nil {
		if err := window.ConvBias(b.Shape(), s.M); err != nil {
			return err
		}
	}
	for i, p := range []*[]T{&d.x, &d.w, &d.off, &d.bias, &d.mask} {
		if *p, err = kit.RealIn[T](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), s.Shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	d.y = y.Data
	switch {
	case s.Cg == 0:
		err = window.Convolve(c, &s, d.x, d.w, d.bias, d.y)
	case c.Generic:
		err = d.plain(c)
	default:
		err = d.gemm(c)
	}
	if err == nil {
		y.Store()
	}
	return err
}

// corners finds the elements of a plane that tap t of output o of an image reads for an offset
// group, and their weights, including the mask. pos and tap are the coordinates of o and t.
func (d *deform[T]) corners(img, group, t, o int, pos, tap []int, index *[1 << deformAxes]int,
	weight *[1 << deformAxes]float64) int {
	n, out := len(d.In), kit.Product(d.Out)
	k := (img*d.groups+group)*d.Taps() + t
	count := 1
	index[0], weight[0] = 0, 1
	if d.mask != nil {
		weight[0] = float64(d.mask[k*out+o])
	}
	for a := range n {
		x := float64(pos[a]*d.Stride[a]-d.Before[a]+tap[a]*d.Dilation[a]) + float64(d.off[(k*n+a)*out+o])
		if !(x > -1 && x < float64(d.In[a])) {
			return 0
		}
		low := int(math.Floor(x))
		f := x - float64(low)
		var at [2]int
		var w [2]float64
		kept := 0
		if low >= 0 {
			at[0], w[0] = low, 1-f
			kept = 1
		}
		if low+1 < d.In[a] {
			at[kept], w[kept] = low+1, f
			kept++
		}
		for i := count - 1; i >= 0; i-- {
			from, v := index[i], weight[i]
			for j := kept - 1; j >= 0; j-- {
				index[i*kept+j], weight[i*kept+j] = from*d.In[a]+at[j], v*w[j]
			}
		}
		count *= kept
	}
	return count
}

// coordinates sets at to the coordinates of element i of an array with the given sizes.
func coordinates(at, sizes []int, i int) {
	for a := len(sizes) - 1; a >= 0; a-- {
		at[a] = i % sizes[a]
		i /= sizes[a]
	}
}

// plain computes output by output, in float64.
func (d *deform[T]) plain(c *ir.Call) error {
	in, out, taps := kit.Product(d.In), kit.Product(d.Out), d.Taps()
	c.Parallel(d.N*d.M, 1, func(lo, hi int) {
		m := &ir.Meter{C: c}
		var index [1 << deformAxes]int
		var weight [1 << deformAxes]float64
		pos, tap := make([]int, len(d.In)), make([]int, len(d.In))
		for p := lo; p < hi; p++ {
			img, ch := p/d.M, p%d.M
			for o := range out {
				coordinates(pos, d.Out, o)
				sum := 0.0
				if d.bias != nil {
					sum = float64(d.bias[ch])
				}
				for k := range d.Cg {
					ci := ch/d.Mg*d.Cg + k
					for t := range taps {
						coordinates(tap, d.Kernel, t)
						n := d.corners(img, ci/(d.C/d.groups), t, o, pos, tap, &index, &weight)
						v := 0.0
						for i, at := range index[:n] {
							v += weight[i] * float64(d.x[(img*d.C+ci)*in+at])
						}
						sum += v * float64(d.w[(ch*d.Cg+k)*taps+t])
						if !m.Spend(n + 16) {
							return
						}
					}
				}
				d.y[p*out+o] = T(sum)
			}
		}
	})
	return c.Err()
}

// gemm samples parts of the input to matrices and multiplies them. The input is transposed first,
// so that the channels of an element are adjacent: a sample is a sum of rows. A row of a matrix has
// the channels of a group for each tap.
func (d *deform[T]) gemm(c *ir.Call) error {
	in, out, taps, depth := kit.Product(d.In), kit.Product(d.Out), d.Taps(), d.Depth()
	x, err := ir.ScratchOf[T](c, len(d.x))
	if err != nil {
		return err
	}
	w, err := ir.ScratchOf[T](c, len(d.w))
	if err != nil {
		return err
	}
	channelsLast(c, x, d.x, d.C, in)
	for m := range d.M {
		transposeReal(w[m*depth:], d.Cg, d.w[m*depth:], taps, d.Cg, taps)
	}
	tile := max(1, window.ConvTile/depth/gemm.PanelWidth) * gemm.PanelWidth
	tile = min(tile, gemm.Panels(out)*gemm.PanelWidth)
	tiles := (out + tile - 1) / tile
	items := d.N * d.Group * tiles
	scratch, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*depth*tile)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		tl, item := item%tiles, item/tiles
		g, img := item%d.Group, item/d.Group
		p0 := tl * tile
		p1 := min(p0+tile, out)
		rows := scratch[ws*depth*tile:][:depth*(p1-p0)]
		if err := d.sample(c, rows, x[img*d.C*in:][:d.C*in], img, g, p0); err != nil {
			return err
		}
		ch := g * d.Mg
		a := gemm.Args[T]{M: d.Mg, N: p1 - p0, K: depth, A: w[ch*depth:][:d.Mg*depth], LdA: depth, B: rows, LdB: depth,
			TransB: true, C: d.y[(img*d.M+ch)*out+p0:], LdC: out}
		if d.bias != nil {
			a.BiasRow = d.bias[ch:][:d.Mg]
		}
		matmul.GemmHere(c, &a)
		return nil
	})
}

// sample computes the rows of the outputs from p0 on for group g. x is the transposed image.
func (d *deform[T]) sample(c *ir.Call, rows, x []T, img, g, p0 int) error {
	taps, depth := d.Taps(), d.Depth()
	per := d.C / d.groups // channels per offset group
	first, end := g*d.Cg, (g+1)*d.Cg
	m := &ir.Meter{C: c}
	var index [1 << deformAxes]int
	var weight [1 << deformAxes]float64
	pos, tap := make([]int, len(d.In)), make([]int, len(d.In))
	clear(rows)
	plane := len(d.In) == 2
	for og := first / per; og*per < end; og++ {
		lo, hi := max(first, og*per), min(end, (og+1)*per)
		for t := range taps {
			coordinates(tap, d.Kernel, t)
			coordinates(pos, d.Out, p0)
			for o := range len(rows) / depth {
				row := rows[o*depth+t*d.Cg+lo-first:][:hi-lo]
				if !m.Spend((hi - lo) << len(d.In)) {
					return c.Err()
				}
				n := 0
				if !plane || !d.square(row, x[lo:], img, og, t, p0+o, pos, tap) {
					n = d.corners(img, og, t, p0+o, pos, tap, &index, &weight)
				}
				for i, at := range index[:n] {
					addRows(row, x[at*d.C+lo:], d.C, []T{T(weight[i])})
				}
				for a := len(pos) - 1; a >= 0; a-- { // the next output
					if pos[a]++; pos[a] < d.Out[a] {
						break
					}
					pos[a] = 0
				}
			}
		}
	}
	return nil
}

// square is corners and addRows for two axes. It reports false, without effect, if the tap does not
// read four elements.
func (d *deform[T]) square(row, x []T, img, group, t, o int, pos, tap []int) bool {
	out := d.Out[0] * d.Out[1]
	k := (img*d.groups+group)*d.Kernel[0]*d.Kernel[1] + t
	r := float64(pos[0]*d.Stride[0]-d.Before[0]+tap[0]*d.Dilation[0]) + float64(d.off[2*k*out+o])
	s := float64(pos[1]*d.Stride[1]-d.Before[1]+tap[1]*d.Dilation[1]) + float64(d.off[(2*k+1)*out+o])
	if !(r >= 0 && r < float64(d.In[0]-1) && s >= 0 && s < float64(d.In[1]-1)) {
		return false
	}
	top, left := int(r), int(s)
	r, s = r-float64(top), s-float64(left)
	above, below := 1-r, r
	if d.mask != nil {
		m := float64(d.mask[k*out+o])
		above, below = m*above, m*below
	}
	x = x[(top*d.In[1]+left)*d.C:]
	addRows(row, x, d.C, []T{T(above * (1 - s)), T(above * s)})
	addRows(row, x[d.In[1]*d.C:], d.C, []T{T(below * (1 - s)), T(below * s)})
	return true
}
