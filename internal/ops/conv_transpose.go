package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// ConvTranspose is the transpose of a convolution: every element of an
// N×C×D1…Dk input adds a C×M/Group×K1…Kk kernel scaled by it to the output.
type ConvTranspose struct {
	Window
	Group         int
	OutputPadding []int // more output elements after each axis; nil: 0
	OutputShape   []int // spatial sizes that replace Pads; nil: from Pads
}

var _ = register(Def{Name: "ConvTranspose", Since: []int{1, 11, 22}, In: "X:T, W:T, B:T?", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ConvTranspose{Window: readWindow(a, true), Group: readGroup(a),
			OutputPadding: windowAttr(a, "output_padding", 0), OutputShape: windowAttr(a, "output_shape", 0)}
	})})

// axis returns the padding before the output and its size for axis i of n.
func (v *ConvTranspose) axis(i, n, in, kernel int) (before, out int, err error) {
	if in < 0 || in > windowLimit || kernel < 1 || kernel > windowLimit {
		return 0, 0, fmt.Errorf("input size %d and kernel size %d are out of range", in, kernel)
	}
	s := v.stride(i)
	if in == 0 {
		return 0, 0, nil
	}
	full := s*(in-1) + windowAt(v.OutputPadding, i, 0) + (kernel-1)*v.dilation(i) + 1
	same := v.AutoPad == "SAME_UPPER" || v.AutoPad == "SAME_LOWER"
	if v.OutputShape == nil && !same {
		before, after := 0, 0
		if v.AutoPad == "NOTSET" {
			before, after = v.pads(i, n)
		}
		if full < before+after {
			return 0, 0, fmt.Errorf("pads %d and %d are more than the %d elements of the output", before, after, full)
		}
		return before, full - before - after, nil
	}
	out = s * in
	if v.OutputShape != nil {
		out = v.OutputShape[len(v.OutputShape)-n+i]
	}
	total := max(0, full-out)
	if before = total - total/2; v.AutoPad == "SAME_UPPER" {
		before = total / 2
	}
	return before, out, nil
}

// check fails unless all attributes are for n spatial axes. A list of output
// sizes may begin with those of the batch and the channels.
func (v *ConvTranspose) check(n int) error {
	if err := v.Window.check(n); err != nil {
		return err
	}
	if v.OutputPadding != nil && len(v.OutputPadding) != n {
		return fmt.Errorf("attribute output_padding has %d elements, want %d", len(v.OutputPadding), n)
	}
	if l := len(v.OutputShape); l != 0 && l != n && l != n+2 {
		return fmt.Errorf("attribute output_shape has %d elements, want %d", l, n)
	}
	return nil
}

// Infer computes the output's size.
func (v *ConvTranspose) Infer(c *ir.InferContext) error {
	out := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, out) }()
	x, w := c.Shape(0), c.Shape(1)
	if x != nil && len(x) < 3 {
		return fmt.Errorf("input has rank %d, want at least 3", len(x))
	}
	if x != nil && w != nil && len(x) != len(w) {
		return fmt.Errorf("input has rank %d and weights %d, want the same", len(x), len(w))
	}
	if x == nil {
		return nil
	}
	n := len(x) - 2
	if err := v.check(n); err != nil {
		return err
	}
	out.Shape = ir.UnknownDims(n + 2)
	out.Shape[0] = x[0]
	if w != nil {
		if x[1].Differs(w[0]) {
			return fmt.Errorf("input has %s channels, weights are for %s", x[1], w[0])
		}
		out.Shape[1] = w[1].Mul(ir.Known(v.Group))
	}
	for i := range n {
		k := ir.Unknown
		if w != nil {
			k = w[2+i]
		}
		if v.Kernel != nil {
			if k.Differs(ir.Known(v.Kernel[i])) {
				return fmt.Errorf("attribute kernel_shape is %v, the weights have %v", v.Kernel, w[2:])
			}
			k = ir.Known(v.Kernel[i])
		}
		kn, known := k.Value()
		in, ok := x[2+i].Value()
		switch s := v.stride(i); {
		case ok && known:
			_, o, err := v.axis(i, n, in, kn)
			if err != nil {
				return fmt.Errorf("spatial axis %d: %w", i, err)
			}
			out.Shape[2+i] = ir.Known(o)
		case v.OutputShape != nil:
		case v.AutoPad == "SAME_UPPER" || v.AutoPad == "SAME_LOWER":
			out.Shape[2+i] = x[2+i].Mul(ir.Known(s))
		case known && kn >= 1 && kn <= windowLimit:
			before, after := 0, 0
			if v.AutoPad == "NOTSET" {
				before, after = v.pads(i, n)
			}
			more := windowAt(v.OutputPadding, i, 0) + (kn-1)*v.dilation(i) + 1 - before - after - s
			out.Shape[2+i] = x[2+i].Mul(ir.Known(s)).Add(ir.Known(more))
		}
	}
	return nil
}

// convShape returns the geometry of the convolution whose transpose this is: in
// and out change places.
func (v *ConvTranspose) convShape(x, w []int) (convShape, error) {
	s := convShape{group: v.Group}
	if len(x) < 3 || len(w) != len(x) {
		return s, fmt.Errorf("input has shape %v and weights %v, want the same rank of at least 3", x, w)
	}
	n := len(x) - 2
	if err := v.check(n); err != nil {
		return s, err
	}
	if err := convKernel(&v.Window, w[2:]); err != nil {
		return s, err
	}
	if x[1] != w[0] || x[1]%v.Group != 0 {
		return s, fmt.Errorf("input has %d channels, weights are for %d in %d groups", x[1], w[0], v.Group)
	}
	s.n, s.m, s.mg, s.cg = x[0], x[1], x[1]/v.Group, w[1]
	if s.cg > windowLimit {
		return s, fmt.Errorf("weights have %d output channels, want at most %d", s.cg, windowLimit)
	}
	s.c = s.cg * v.Group
	s.shape = append([]int{s.n, s.c}, x[2:]...)
	s.windowGeom = windowGeom{kernel: w[2:], out: x[2:], in: s.shape[2:], stride: make([]int, n), dilation: make([]int, n), before: make([]int, n)}
	for i := range n {
		s.stride[i], s.dilation[i] = v.stride(i), v.dilation(i)
		var err error
		if s.before[i], s.in[i], err = v.axis(i, n, x[2+i], w[2+i]); err != nil {
			return s, fmt.Errorf("spatial axis %d: %w", i, err)
		}
	}
	return s, nil
}

// Run computes float16 and bfloat16 as float.
func (v *ConvTranspose) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return convTranspose[float64](c, v)
	}
	return convTranspose[float32](c, v)
}

func convTranspose[T realFloat](c *ir.Call, v *ConvTranspose) error {
	s, err := v.convShape(c.Tensor(0).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	if b := c.Tensor(2); b != nil {
		if err := convBias(b.Shape(), s.c); err != nil {
			return err
		}
	}
	var in [3][]T
	for i := range in {
		if in[i], err = realIn[T](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), s.shape...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	if c.Generic {
		err = convTransposePlain(c, &s, in[0], in[1], in[2], y.data)
	} else {
		err = convTransposeGemm(c, &s, in[0], in[1], in[2], y.data)
	}
	if err == nil {
		y.store()
	}
	return err
}

// convTransposePlain gathers, for every output, the inputs that reach it.
func convTransposePlain[T realFloat](c *ir.Call, s *convShape, x, w, bias, y []T) error {
	in, out, taps, n := product(s.out), product(s.in), s.taps(), len(s.in)
	c.Parallel(s.n*s.c, grainFor(out), func(lo, hi int) {
		m := &meter{c: c}
		pos, tap := make([]int, n), make([]int, n)
		for p := lo; p < hi; p++ {
			img, ch := p/s.c, p%s.c
			first := ch / s.cg * s.mg // input channel of the group
			clear(pos)
			for o := range out {
				sum := 0.0
				if bias != nil {
					sum = float64(bias[ch])
				}
				for t := 0; t < taps && s.mg > 0; t++ {
					i, ok := 0, true
					for d := range n {
						at := pos[d] + s.before[d] - tap[d]*s.dilation[d]
						ok = ok && at >= 0 && at%s.stride[d] == 0 && at/s.stride[d] < s.out[d]
						i = i*s.out[d] + at/s.stride[d]
					}
					windowStep(tap, s.kernel)
					if !m.spend(n + s.mg) {
						return
					}
					for ci := first; ok && ci < first+s.mg; ci++ {
						sum += float64(x[(img*s.m+ci)*in+i]) * float64(w[(ci*s.cg+ch%s.cg)*taps+t])
					}
				}
				y[p*out+o] = T(sum)
				windowStep(pos, s.in)
			}
		}
	})
	return c.Err()
}

// convTransposeGemm multiplies weights and input and adds the columns of the
// product to the output.
func convTransposeGemm[T realFloat](c *ir.Call, s *convShape, x, w, bias, y []T) error {
	in, out, taps := product(s.out), product(s.in), s.taps()
	if s.mg == 0 || in == 0 {
		taps = 0
	}
	block := max(1, min(s.cg, 4*convTile/max(1, taps*in))) // output channels at a time
	blocks := (s.cg + block - 1) / block
	items := s.n * s.group * blocks
	cols, err := ir.ScratchOf[T](c, slotCount(items)*block*taps*in)
	if err != nil {
		return err
	}
	stride := s.stride[len(s.stride)-1]
	return inSlots(c, items, func(slot, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.group, item/s.group
		c0 := b * block
		num := min(block, s.cg-c0)
		col := cols[slot*block*taps*in:][:num*taps*in]
		if taps > 0 {
			a := gemm.Args[T]{M: num * taps, N: in, K: s.mg, LdA: s.cg * taps, TransA: true, LdB: in, LdC: in, C: col,
				A: w[(g*s.mg*s.cg+c0)*taps:], B: x[(img*s.m+g*s.mg)*in:][:s.mg*in]}
			gemmBlock(&a, a.Whole())
		}
		m := &meter{c: c}
		for k := range num {
			ch := g*s.cg + c0 + k
			yp := y[(img*s.c+ch)*out:][:out]
			var v T
			if bias != nil {
				v = bias[ch]
			}
			for i := range yp {
				yp[i] = v
			}
			if taps == 0 {
				continue
			}
			from := col[k*taps*in:][:taps*in]
			s.eachRow(func(r windowRow) bool {
				dst, src := yp[r.in:], from[r.tap*in+r.out+r.lo:r.tap*in+r.out+r.hi]
				if stride == 1 {
					dst = dst[:len(src)]
					for i, v := range src {
						dst[i] += v
					}
				} else {
					for i, v := range src {
						dst[i*stride] += v
					}
				}
				return m.spend(len(src))
			})
		}
		return c.Err()
	})
}
