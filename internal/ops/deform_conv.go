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
// group, and their weights, including the mask.
func (d *deform[T]) corners(img, group, t, o int, index *[1 << deformAxes]int, weight *[1 << deformAxes]float64) int {
	n, out, taps := len(d.In), kit.Product(d.Out), d.Taps()
	k := (img*d.groups+group)*taps + t
	count := 1
	index[0], weight[0] = 0, 1
	if d.mask != nil {
		weight[0] = float64(d.mask[k*out+o])
	}
	div, tdiv := out, taps
	for a := range n {
		div, tdiv = div/d.Out[a], tdiv/d.Kernel[a]
		pos, tap := o/div%d.Out[a], t/tdiv%d.Kernel[a]
		x := float64(pos*d.Stride[a]-d.Before[a]+tap*d.Dilation[a]) + float64(d.off[(k*n+a)*out+o])
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

// plain computes output by output, in float64.
func (d *deform[T]) plain(c *ir.Call) error {
	in, out, taps := kit.Product(d.In), kit.Product(d.Out), d.Taps()
	c.Parallel(d.N*d.M, 1, func(lo, hi int) {
		m := &ir.Meter{C: c}
		var index [1 << deformAxes]int
		var weight [1 << deformAxes]float64
		for p := lo; p < hi; p++ {
			img, ch := p/d.M, p%d.M
			for o := range out {
				sum := 0.0
				if d.bias != nil {
					sum = float64(d.bias[ch])
				}
				for k := range d.Cg {
					ci := ch/d.Mg*d.Cg + k
					for t := range taps {
						n := d.corners(img, ci/(d.C/d.groups), t, o, &index, &weight)
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

// gemm samples parts of the input to matrices and multiplies them.
func (d *deform[T]) gemm(c *ir.Call) error {
	in, out, taps, depth := kit.Product(d.In), kit.Product(d.Out), d.Taps(), d.Depth()
	tile := max(1, window.ConvTile/depth/gemm.PanelWidth) * gemm.PanelWidth
	tile = min(tile, gemm.Panels(out)*gemm.PanelWidth)
	tiles := (out + tile - 1) / tile
	items := d.N * d.Group * tiles
	scratch, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*depth*tile)
	if err != nil {
		return err
	}
	per := d.C / d.groups // channels per offset group
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		tl, item := item%tiles, item/tiles
		g, img := item%d.Group, item/d.Group
		p0 := tl * tile
		p1 := min(p0+tile, out)
		col := scratch[ws*depth*tile:][:depth*tile]
		first, end := g*d.Cg, (g+1)*d.Cg
		m := &ir.Meter{C: c}
		var index [1 << deformAxes]int
		var weight [1 << deformAxes]float64
		for og := first / per; og*per < end; og++ {
			for t := range taps {
				for o := p0; o < p1; o++ {
					n := d.corners(img, og, t, o, &index, &weight)
					for ci := max(first, og*per); ci < min(end, (og+1)*per); ci++ {
						from := d.x[(img*d.C+ci)*in:][:in]
						sum := 0.0
						for i, at := range index[:n] {
							sum += weight[i] * float64(from[at])
						}
						col[((ci-first)*taps+t)*tile+o-p0] = T(sum)
					}
					if !m.Spend(per * (n + 1)) {
						return c.Err()
					}
				}
			}
		}
		ch := g * d.Mg
		a := gemm.Args[T]{M: d.Mg, N: p1 - p0, K: depth, A: d.w[ch*depth:][:d.Mg*depth], LdA: depth, B: col, LdB: tile,
			C: d.y[(img*d.M+ch)*out+p0:], LdC: out}
		if d.bias != nil {
			a.BiasRow = d.bias[ch:][:d.Mg]
		}
		matmul.GemmHere(c, &a)
		return nil
	})
}
