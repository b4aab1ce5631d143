package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// DeformConv is a convolution each of whose taps reads the input at a place that
// is moved by an offset, by multilinear interpolation with zeros around the
// input, and scaled by a mask (https://arxiv.org/abs/1811.11168).
type DeformConv struct {
	Window
	Group, OffsetGroup int
}

// deformAxes bounds the spatial axes: a tap reads 2^axes elements.
const deformAxes = 6

var _ = register(Def{Name: "DeformConv", Since: []int{19, 22}, In: "X:T, W:T, offset:T, B:T?, mask:T?", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		d := &DeformConv{Group: readGroup(a), OffsetGroup: a.Int("offset_group", 1), Window: Window{AutoPad: "NOTSET",
			Kernel: windowAttr(a, "kernel_shape", 1), Strides: windowAttr(a, "strides", 1), Dilations: windowAttr(a, "dilations", 1), Pads: windowAttr(a, "pads", 0)}}
		if d.OffsetGroup < 1 || d.OffsetGroup > windowLimit {
			a.Errorf("attribute offset_group is %d, want 1 to %d", d.OffsetGroup, windowLimit)
			d.OffsetGroup = 1
		}
		return d
	})})

// Infer checks channels and computes the windows' number.
func (d *DeformConv) Infer(c *ir.InferContext) error {
	return inferConv(c, &d.Window, d.Group, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run computes half types as float.
func (d *DeformConv) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return deformConv[float64](c, d)
	}
	return deformConv[float32](c, d)
}

// deform is a DeformConv at work.
type deform[T realFloat] struct {
	convShape
	groups          int // of offsets
	x, w, off, mask []T
	bias, y         []T
}

func deformConv[T realFloat](c *ir.Call, v *DeformConv) error {
	s, err := newConvShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	n := len(s.in)
	if n > deformAxes {
		return fmt.Errorf("input has %d spatial axes, want at most %d", n, deformAxes)
	}
	if s.c%v.OffsetGroup != 0 {
		return fmt.Errorf("%d channels are not divisible by offset_group %d", s.c, v.OffsetGroup)
	}
	d := &deform[T]{convShape: s, groups: v.OffsetGroup}
	for _, p := range []struct {
		name string
		in   int
		ch   int
	}{{"offset", 2, n}, {"mask", 4, 1}} {
		t := c.Tensor(p.in)
		if t == nil {
			continue
		}
		want := append([]int{s.n, v.OffsetGroup * s.taps() * p.ch}, s.out...)
		if fmt.Sprint(t.Shape()) != fmt.Sprint(want) {
			return fmt.Errorf("%s has shape %v, want %v", p.name, t.Shape(), want)
		}
	}
	if b := c.Tensor(3); b != nil {
		if err := convBias(b.Shape(), s.m); err != nil {
			return err
		}
	}
	for i, p := range []*[]T{&d.x, &d.w, &d.off, &d.bias, &d.mask} {
		if *p, err = realIn[T](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), s.shape...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	d.y = y.data
	switch {
	case s.cg == 0:
		err = convolve(c, &s, d.x, d.w, d.bias, d.y)
	case c.Generic:
		err = d.plain(c)
	default:
		err = d.gemm(c)
	}
	if err == nil {
		y.store()
	}
	return err
}

// corners finds the elements of a plane that tap t of output o of an image reads
// for an offset group, and their weights, the mask included.
func (d *deform[T]) corners(img, group, t, o int, index *[1 << deformAxes]int, weight *[1 << deformAxes]float64) int {
	n, out, taps := len(d.in), product(d.out), d.taps()
	k := (img*d.groups+group)*taps + t
	count := 1
	index[0], weight[0] = 0, 1
	if d.mask != nil {
		weight[0] = float64(d.mask[k*out+o])
	}
	div, tdiv := out, taps
	for a := range n {
		div, tdiv = div/d.out[a], tdiv/d.kernel[a]
		pos, tap := o/div%d.out[a], t/tdiv%d.kernel[a]
		x := float64(pos*d.stride[a]-d.before[a]+tap*d.dilation[a]) + float64(d.off[(k*n+a)*out+o])
		if !(x > -1 && x < float64(d.in[a])) {
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
		if low+1 < d.in[a] {
			at[kept], w[kept] = low+1, f
			kept++
		}
		for i := count - 1; i >= 0; i-- {
			from, v := index[i], weight[i]
			for j := kept - 1; j >= 0; j-- {
				index[i*kept+j], weight[i*kept+j] = from*d.in[a]+at[j], v*w[j]
			}
		}
		count *= kept
	}
	return count
}

// plain sums output by output, as double.
func (d *deform[T]) plain(c *ir.Call) error {
	in, out, taps := product(d.in), product(d.out), d.taps()
	c.Parallel(d.n*d.m, 1, func(lo, hi int) {
		m := &meter{c: c}
		var index [1 << deformAxes]int
		var weight [1 << deformAxes]float64
		for p := lo; p < hi; p++ {
			img, ch := p/d.m, p%d.m
			for o := range out {
				sum := 0.0
				if d.bias != nil {
					sum = float64(d.bias[ch])
				}
				for k := range d.cg {
					ci := ch/d.mg*d.cg + k
					for t := range taps {
						n := d.corners(img, ci/(d.c/d.groups), t, o, &index, &weight)
						v := 0.0
						for i, at := range index[:n] {
							v += weight[i] * float64(d.x[(img*d.c+ci)*in+at])
						}
						sum += v * float64(d.w[(ch*d.cg+k)*taps+t])
						if !m.spend(n + 16) {
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

// gemm samples pieces of the input to matrices and multiplies these.
func (d *deform[T]) gemm(c *ir.Call) error {
	in, out, taps, depth := product(d.in), product(d.out), d.taps(), d.depth()
	tile := max(1, convTile/depth/gemm.PanelWidth) * gemm.PanelWidth
	tile = min(tile, gemm.Panels(out)*gemm.PanelWidth)
	tiles := (out + tile - 1) / tile
	items := d.n * d.group * tiles
	scratch, err := ir.ScratchOf[T](c, slotCount(items)*depth*tile)
	if err != nil {
		return err
	}
	per := d.c / d.groups // channels of an offset group
	return inSlots(c, items, func(slot, item int) error {
		tl, item := item%tiles, item/tiles
		g, img := item%d.group, item/d.group
		p0 := tl * tile
		p1 := min(p0+tile, out)
		col := scratch[slot*depth*tile:][:depth*tile]
		first, end := g*d.cg, (g+1)*d.cg
		m := &meter{c: c}
		var index [1 << deformAxes]int
		var weight [1 << deformAxes]float64
		for og := first / per; og*per < end; og++ {
			for t := range taps {
				for o := p0; o < p1; o++ {
					n := d.corners(img, og, t, o, &index, &weight)
					for ci := max(first, og*per); ci < min(end, (og+1)*per); ci++ {
						from := d.x[(img*d.c+ci)*in:][:in]
						sum := 0.0
						for i, at := range index[:n] {
							sum += weight[i] * float64(from[at])
						}
						col[((ci-first)*taps+t)*tile+o-p0] = T(sum)
					}
					if !m.spend(per * (n + 1)) {
						return c.Err()
					}
				}
			}
		}
		ch := g * d.mg
		a := gemm.Args[T]{M: d.mg, N: p1 - p0, K: depth, A: d.w[ch*depth:][:d.mg*depth], LdA: depth, B: col, LdB: tile,
			C: d.y[(img*d.m+ch)*out+p0:], LdC: out}
		if d.bias != nil {
			a.BiasRow = d.bias[ch:][:d.mg]
		}
		gemmBlock(&a, a.Whole())
		return nil
	})
}
