package window

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// ConvTransposePlain adds up, for every output, the inputs that contribute to it.
func ConvTransposePlain[T kit.RealFloat](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	in, out, taps, n := kit.Product(s.Out), kit.Product(s.In), s.Taps(), len(s.In)
	c.Parallel(s.N*s.C, kit.GrainFor(out), func(lo, hi int) {
		m := &ir.Meter{C: c}
		pos, tap := make([]int, n), make([]int, n)
		for p := lo; p < hi; p++ {
			img, ch := p/s.C, p%s.C
			first := ch / s.Cg * s.Mg // first input channel of the group
			clear(pos)
			for o := range out {
				sum := 0.0
				if bias != nil {
					sum = float64(bias[ch])
				}
				for t := 0; t < taps && s.Mg > 0; t++ {
					i, ok := 0, true
					for d := range n {
						at := pos[d] + s.Before[d] - tap[d]*s.Dilation[d]
						ok = ok && at >= 0 && at%s.Stride[d] == 0 && at/s.Stride[d] < s.Out[d]
						i = i*s.Out[d] + at/s.Stride[d]
					}
					kit.NextIndex(tap, s.Kernel)
					if !m.Spend(n + s.Mg) {
						return
					}
					for ci := first; ok && ci < first+s.Mg; ci++ {
						sum += float64(x[(img*s.M+ci)*in+i]) * float64(w[(ci*s.Cg+ch%s.Cg)*taps+t])
					}
				}
				y[p*out+o] = T(sum)
				kit.NextIndex(pos, s.In)
			}
		}
	})
	return c.Err()
}

// ConvTransposeGemm multiplies weights and input by GEMM and adds the columns of the result to the
// output (col2im).
func ConvTransposeGemm[T kit.RealFloat](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	if s.onePixel() {
		return convTransposePixel(c, s, x, w, bias, y)
	}
	if xf, ok := any(x).([]float32); ok {
		last := len(s.In) - 1
		switch wf, bf, yf := any(w).([]float32), any(bias).([]float32), any(y).([]float32); {
		case s.spreads():
			return convTransposeSpread(c, s, xf, wf, bf, yf)
		case s.shifts():
			return convTransposeShifted(c, s, xf, wf, bf, yf)
		case s.Mg > 0 && kit.Product(s.Out) > 0 && s.Dilation[last] == 1 && s.Kernel[last] > s.Out[last] &&
			s.Kernel[last] >= kit.ShortRow:
			return convTransposeRows(c, s, xf, wf, bf, yf)
		}
	}
	in, out, taps := kit.Product(s.Out), kit.Product(s.In), s.Taps()
	if s.Mg == 0 || in == 0 {
		taps = 0
	}
	block := max(1, min(s.Cg, 4*ConvTile/max(1, taps*in))) // output channels at a time
	blocks := (s.Cg + block - 1) / block
	items := s.N * s.Group * blocks
	cols, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*block*taps*in)
	if err != nil {
		return err
	}
	stride := s.Stride[len(s.Stride)-1]
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		c0 := b * block
		num := min(block, s.Cg-c0)
		col := cols[ws*block*taps*in:][:num*taps*in]
		if taps > 0 {
			a := gemm.Args[T]{M: num * taps, N: in, K: s.Mg, LdA: s.Cg * taps, TransA: true, LdB: in, LdC: in, C: col,
				A: w[(g*s.Mg*s.Cg+c0)*taps:], B: x[(img*s.M+g*s.Mg)*in:][:s.Mg*in]}
			gemmOfItem(c, items, &a)
		}
		m := &ir.Meter{C: c}
		for k := range num {
			ch := g*s.Cg + c0 + k
			yp := y[(img*s.C+ch)*out:][:out]
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
			s.EachRow(func(r Row) bool {
				dst, src := yp[r.In:], from[r.Tap*in+r.Out+r.Lo:r.Tap*in+r.Out+r.Hi]
				if f, ok := any(src).([]float32); ok && stride == 1 && len(f) >= kit.ShortRow {
					sum := any(dst[:len(src)]).([]float32)
					vec.AddF32(cpu.Active(), sum, sum, f)
				} else if stride == 1 {
					dst = dst[:len(src)]
					for i, v := range src {
						dst[i] += v
					}
				} else {
					for i, v := range src {
						dst[i*stride] += v
					}
				}
				return m.Spend(len(src))
			})
		}
		return c.Err()
	})
}

// gemmOfItem computes the GEMM of one of several items on the calling thread, that of a single item
// on all threads.
func gemmOfItem[T kit.RealFloat](c *ir.Call, items int, g *gemm.Args[T]) {
	if items > 1 {
		matmul.GemmHere(c, g)
		return
	}
	_ = matmul.One(c, g) // fails if the context ends, which the items check
}

// onePixel reports whether each image of the input is one pixel, and the output its kernels.
func (s *ConvShape) onePixel() bool {
	for i, k := range s.Kernel {
		if s.Out[i] != 1 || s.In[i] != k || s.Before[i] != 0 || s.Dilation[i] != 1 {
			return false
		}
	}
	return s.Group == 1 && s.M > 0
}

// convTransposePixel multiplies a matrix of all pixels by the weights.
func convTransposePixel[T kit.RealFloat](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	taps := s.Taps()
	var each []T // the bias of each column
	if bias != nil {
		var err error
		if each, err = ir.ScratchOf[T](c, s.C*taps); err != nil {
			return err
		}
		for i := range each {
			each[i] = bias[i/taps]
		}
	}
	matmul.MulPlain(c, s.N, s.C*taps, s.M, x, w, each, y)
	return c.Err()
}

// spreads reports whether [convTransposeSpread] supports the shape and takes less time than
// [convTransposeShifted]: two axes, stride 1, rows that fill half of a vector, and kernels that are
// no wider but so wide that the padding of a row exceeds a quarter of it.
func (s *ConvShape) spreads() bool {
	return len(s.In) == 2 && s.Mg > 0 && kit.Product(s.Out) > 0 && s.Stride[0] == 1 && s.Stride[1] == 1 &&
		s.Out[1] >= 8 && s.Kernel[1] <= s.Out[1] && 4*(s.Kernel[1]-1)*s.Dilation[1] > s.Out[1]
}

// convTransposeSpread is ConvTransposeGemm for stride 1. One call adds the results of a tap to the
// outputs row by row.
func convTransposeSpread(c *ir.Call, s *ConvShape, x, w, bias, y []float32) error {
	in, out, taps := kit.Product(s.Out), kit.Product(s.In), s.Taps()
	block := max(1, min(s.Cg, 4*ConvTile/(taps*in))) // output channels at a time
	blocks := (s.Cg + block - 1) / block
	items := s.N * s.Group * blocks
	each := block * taps * in
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, items)*each)
	if err != nil {
		return err
	}
	ones, err := ir.ScratchOf[float32](c, s.Out[0])
	if err != nil {
		return err
	}
	vec.FillF32(ones, 1)
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		c0 := b * block
		num := min(block, s.Cg-c0)
		products := scratch[ws*each:][:num*taps*in]
		gemmOfItem(c, items, &gemm.Args[float32]{M: num * taps, N: in, K: s.Mg, LdA: s.Cg * taps, TransA: true, LdB: in,
			LdC: in, C: products,
			A: w[(g*s.Mg*s.Cg+c0)*taps:], B: x[(img*s.M+g*s.Mg)*in:][:s.Mg*in]})
		l, m := cpu.Active(), &ir.Meter{C: c}
		for k := range num {
			ch := g*s.Cg + c0 + k
			sums := y[(img*s.C+ch)*out:][:out]
			var v float32
			if bias != nil {
				v = bias[ch]
			}
			vec.FillF32(sums, v)
			for t := range taps {
				// Element (i, j) of the input contributes to output (i+dy, j+dx), for i in [top,
				// bottom) and j in [left, right).
				dy, dx := t/s.Kernel[1]*s.Dilation[0]-s.Before[0], t%s.Kernel[1]*s.Dilation[1]-s.Before[1]
				top, bottom := max(0, -dy), min(s.Out[0], s.In[0]-dy)
				left, right := max(0, -dx), min(s.Out[1], s.In[1]-dx)
				if top < bottom && left < right {
					from := products[(k*taps+t)*in+top*s.Out[1]+left:]
					vec.AxpyRowsF32(l, sums[(top+dy)*s.In[1]+left+dx:], s.In[1], from, s.Out[1],
						right-left, ones[top:bottom])
				}
				if !m.Spend(in) {
					return c.Err()
				}
			}
		}
		return c.Err()
	})
}

// phases returns the number of sums of an axis, one for the outputs of each remainder of the
// stride, and the number of elements of such a sum.
func (s *ConvShape) phases(d int) (count, size int) {
	count = s.Stride[d]
	return count, max(s.Out[d]+(s.Kernel[d]-1)*s.Dilation[d]/count, (s.Before[d]+s.In[d]-1)/count+1)
}

// shifts reports whether [convTransposeShifted] supports the shape: two axes, few strides, rows so
// short that it pays, and padding that is small.
func (s *ConvShape) shifts() bool {
	if len(s.In) != 2 || s.Mg == 0 || kit.Product(s.Out) == 0 || s.Out[1] > 64 || s.Taps() > 1<<12 ||
		s.Out[0] > 1<<22/64/3/s.Taps() {
		return false
	}
	for d := range 2 {
		if s.Before[d] < 0 || s.Stride[d] > 4 || s.Stride[d] > s.Kernel[d] || s.Kernel[d] > Limit/s.Dilation[d] {
			return false
		}
		if _, n := s.phases(d); n > 3*s.Out[d]+8*(1-d) {
			return false
		}
	}
	return true
}

// convTransposeShifted is ConvTransposeGemm for short rows. The rows of the input are padded, so
// that the results of a tap are one contiguous range. It is added at an offset to the outputs of
// one phase of the strides.
func convTransposeShifted(c *ir.Call, s *ConvShape, x, w, bias, y []float32) error {
	in, out, taps := kit.Product(s.Out), kit.Product(s.In), s.Taps()
	sy, rows := s.phases(0)
	sx, pitch := s.phases(1)
	wide := s.Out[0] * pitch
	size := (rows + 1) * pitch // of a sum; the end of the last row of products may exceed the last row
	padded, err := ir.ScratchOf[float32](c, s.N*s.M*wide)
	if err != nil {
		return err
	}
	c.Parallel(s.N*s.M, kit.GrainFor(wide), func(lo, hi int) {
		for p := lo; p < hi && c.Err() == nil; p++ {
			for i := range s.Out[0] {
				row := padded[p*wide+i*pitch:][:pitch]
				clear(row[copy(row, x[p*in+i*s.Out[1]:][:s.Out[1]]):])
			}
		}
	})
	block := max(1, min(s.Cg, 4*ConvTile/(taps*wide))) // output channels at a time
	blocks := (s.Cg + block - 1) / block
	items := s.N * s.Group * blocks
	each := block*taps*wide + sy*sx*size
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, items)*each)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		c0 := b * block
		num := min(block, s.Cg-c0)
		products, sums := scratch[ws*each:][:num*taps*wide], scratch[ws*each+block*taps*wide:][:sy*sx*size]
		a := gemm.Args[float32]{M: num * taps, N: wide, K: s.Mg, LdA: s.Cg * taps, TransA: true, LdB: wide,
			LdC: wide, C: products,
			A: w[(g*s.Mg*s.Cg+c0)*taps:], B: padded[(img*s.M+g*s.Mg)*wide:][:s.Mg*wide]}
		gemmOfItem(c, items, &a)
		l, m := cpu.Active(), &ir.Meter{C: c}
		for k := range num {
			ch := g*s.Cg + c0 + k
			var v float32
			if bias != nil {
				v = bias[ch]
			}
			vec.FillF32(sums, v)
			for t := range taps {
				dy, dx := t/s.Kernel[1]*s.Dilation[0], t%s.Kernel[1]*s.Dilation[1]
				at := sums[(dy%sy*sx+dx%sx)*size+dy/sy*pitch+dx/sx:][:wide]
				vec.AddF32(l, at, at, products[(k*taps+t)*wide:][:wide])
				if !m.Spend(wide) {
					return c.Err()
				}
			}
			for i := range s.In[0] {
				oy, to := i+s.Before[0], y[(img*s.C+ch)*out+i*s.In[1]:][:s.In[1]]
				for px := range min(sx, len(to)) {
					ox := px + s.Before[1]
					from := sums[(oy%sy*sx+ox%sx)*size+oy/sy*pitch+ox/sx:]
					if sx == 1 {
						copy(to, from)
						break
					}
					for n := 0; px+n*sx < len(to); n++ {
						to[px+n*sx] = from[n]
					}
				}
			}
		}
		return c.Err()
	})
}

// convTransposeRows is ConvTransposeGemm for kernels that are wider than the input. It adds rows of
// kernels, multiplied by an element of the input, to the output.
func convTransposeRows(c *ir.Call, s *ConvShape, x, w, bias, y []float32) error {
	n := len(s.In) - 1
	in, out, taps, width := kit.Product(s.Out), kit.Product(s.In), s.Taps(), s.Kernel[n]
	block := max(1, min(s.Cg, 4*ConvTile/(taps*in))) // output channels at a time
	blocks := (s.Cg + block - 1) / block
	items := s.N * s.Group * blocks
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, items)*block*taps*in)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		c0 := b * block
		num := min(block, s.Cg-c0)
		products := scratch[ws*block*taps*in:][:num*taps*in]
		gemmOfItem(c, items, &gemm.Args[float32]{M: in, N: num * taps, K: s.Mg, LdA: in, TransA: true, LdB: s.Cg * taps,
			LdC: num * taps, C: products,
			A: x[(img*s.M+g*s.Mg)*in:][:s.Mg*in], B: w[(g*s.Mg*s.Cg+c0)*taps:]})
		l, m := cpu.Active(), &ir.Meter{C: c}
		for k := range num {
			var v float32
			ch := g*s.Cg + c0 + k
			if bias != nil {
				v = bias[ch]
			}
			vec.FillF32(y[(img*s.C+ch)*out:][:out], v)
		}
		pos, tap := make([]int, n+1), make([]int, n)
		for i := range in {
			first := pos[n]*s.Stride[n] - s.Before[n] // column of the first tap
			lo, hi := max(0, -first), min(width, s.In[n]-first)
			clear(tap)
			for t := 0; t < taps && lo < hi; t += width {
				row, ok := 0, true
				for d := range n {
					o := pos[d]*s.Stride[d] - s.Before[d] + tap[d]*s.Dilation[d]
					ok = ok && o >= 0 && o < s.In[d]
					row = row*s.In[d] + o
				}
				kit.NextIndex(tap, s.Kernel[:n])
				for k := 0; ok && k < num; k++ {
					to := y[(img*s.C+g*s.Cg+c0+k)*out+row*s.In[n]+first+lo:][:hi-lo]
					vec.AddF32(l, to, to, products[(i*num+k)*taps+t+lo:][:hi-lo])
				}
				if !m.Spend(num * width) {
					return c.Err()
				}
			}
			kit.NextIndex(pos, s.Out)
		}
		return c.Err()
	})
}
