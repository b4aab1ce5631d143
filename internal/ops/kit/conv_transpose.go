package kit

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// ConvTransposePlain adds up, for every output, the inputs that contribute to it.
func ConvTransposePlain[T RealFloat](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	in, out, taps, n := Product(s.Out), Product(s.In), s.Taps(), len(s.In)
	c.Parallel(s.N*s.C, GrainFor(out), func(lo, hi int) {
		m := &Meter{C: c}
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
					WindowStep(tap, s.Kernel)
					if !m.Spend(n + s.Mg) {
						return
					}
					for ci := first; ok && ci < first+s.Mg; ci++ {
						sum += float64(x[(img*s.M+ci)*in+i]) * float64(w[(ci*s.Cg+ch%s.Cg)*taps+t])
					}
				}
				y[p*out+o] = T(sum)
				WindowStep(pos, s.In)
			}
		}
	})
	return c.Err()
}

// ConvTransposeGemm multiplies weights and input and adds the columns of the product to the output
// (col2im).
func ConvTransposeGemm[T RealFloat](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	in, out, taps := Product(s.Out), Product(s.In), s.Taps()
	if s.Mg == 0 || in == 0 {
		taps = 0
	}
	block := max(1, min(s.Cg, 4*ConvTile/max(1, taps*in))) // output channels at a time
	blocks := (s.Cg + block - 1) / block
	items := s.N * s.Group * blocks
	cols, err := ir.ScratchOf[T](c, WorkspaceCount(items)*block*taps*in)
	if err != nil {
		return err
	}
	stride := s.Stride[len(s.Stride)-1]
	return InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		c0 := b * block
		num := min(block, s.Cg-c0)
		col := cols[ws*block*taps*in:][:num*taps*in]
		if taps > 0 {
			a := gemm.Args[T]{M: num * taps, N: in, K: s.Mg, LdA: s.Cg * taps, TransA: true, LdB: in, LdC: in, C: col,
				A: w[(g*s.Mg*s.Cg+c0)*taps:], B: x[(img*s.M+g*s.Mg)*in:][:s.Mg*in]}
			GemmHere(c, &a)
		}
		m := &Meter{C: c}
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
			s.EachRow(func(r WindowRow) bool {
				dst, src := yp[r.In:], from[r.Tap*in+r.Out+r.Lo:r.Tap*in+r.Out+r.Hi]
				if f, ok := any(src).([]float32); ok && stride == 1 && len(f) >= ShortRow {
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
