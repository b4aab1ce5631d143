package window

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// convType lists the accumulator types of convolutions.
type convType interface{ float32 | float64 }

// Convolve computes y = x ⋆ w + bias. bias may be nil.
func Convolve[T convType](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	switch {
	case len(y) == 0:
		return nil
	case s.Cg == 0:
		for p, out := 0, kit.Product(s.Out); p < s.N*s.M; p++ {
			for i := range y[p*out:][:out] {
				y[p*out+i] = 0
				if bias != nil {
					y[p*out+i] = bias[p%s.M]
				}
			}
		}
		return nil
	case c.Generic:
		return convPlain(c, s, x, w, bias, y)
	}
	s = s.asRows()
	if s.Cg == 1 && s.Mg <= 4 || ByRows(&s.Geometry, s.Cg, s.M) {
		return convRows(c, s, x, w, bias, y)
	}
	return convGemm(c, s, x, w, bias, y)
}

// ByRows reports whether a convolution of cg channels per group to m channels is fastest row by
// row: it moves by one column, blocks of channels would be mostly padding, and rows are long for
// the number of calls that they take.
func ByRows(g *Geometry, cg, m int) bool {
	n := len(g.Out) - 1
	return max(cg, m) <= 4 && g.Stride[n] == 1 && g.Out[n] >= 2*kit.ShortRow*max(4, cg*m)
}

// convPlain computes a convolution by its definition, one output at a time. Floating-point sums are
// float64.
func convPlain[T convType](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	const block = 4 // output channels at a time, so that an input is read once for all of them
	in, out, taps, depth := kit.Product(s.In), kit.Product(s.Out), s.Taps(), s.Depth()
	n := len(s.In)
	blocks := (s.Mg + block - 1) / block
	items := s.N * s.Group * blocks
	weights, err := ir.ScratchOf[float64](c, kit.WorkspaceCount(c, items)*depth*block)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, item int) error {
		b, item := item%blocks, item/blocks
		g, img := item%s.Group, item/s.Group
		ch := g*s.Mg + b*block // first output channel
		num := min(block, s.Mg-b*block)
		wd := weights[ws*depth*block:][:depth*block] // [depth][block]
		clear(wd)
		for k := range num {
			for i, v := range w[(ch+k)*depth:][:depth] {
				wd[i*block+k] = float64(v)
			}
		}
		m := &ir.Meter{C: c}
		pos, tap := make([]int, n), make([]int, n)
		from, with := make([]int, 0, taps), make([]int, 0, taps) // corresponding elements of a plane and a kernel
		for o := range out {
			from, with = from[:0], with[:0]
			for t := range taps {
				i, ok := 0, true
				for d := range n {
					at := pos[d]*s.Stride[d] - s.Before[d] + tap[d]*s.Dilation[d]
					ok = ok && at >= 0 && at < s.In[d]
					i = i*s.In[d] + at
				}
				if ok {
					from, with = append(from, i), append(with, t)
				}
				kit.NextIndex(tap, s.Kernel)
			}
			var s0, s1, s2, s3 float64
			for ci := range s.Cg {
				xc := x[(img*s.C+g*s.Cg+ci)*in:][:in]
				wc := wd[ci*taps*block:][:taps*block]
				for k, i := range from {
					v, u := float64(xc[i]), wc[with[k]*block:][:block]
					s0 += v * u[0]
					s1 += v * u[1]
					s2 += v * u[2]
					s3 += v * u[3]
				}
				if !m.Spend(len(from)) {
					return c.Err()
				}
			}
			for k, sum := range [block]float64{s0, s1, s2, s3} {
				if k >= num {
					break
				}
				if bias != nil {
					sum += float64(bias[ch+k])
				}
				y[(img*s.M+ch+k)*out+o] = convResult[T](sum)
			}
			kit.NextIndex(pos, s.Out)
			if !m.Spend(taps * n) {
				return c.Err()
			}
		}
		return nil
	})
}

// convResult converts a sum. Sums of integers are exact in float64 up to 2⁵³ and wrap to int32.
func convResult[T convType](sum float64) T {
	if _, ok := any(T(0)).(int32); ok {
		return T(int64(sum) << 32 >> 32)
	}
	return T(sum)
}

// convRows adds multiples of rows of the input to rows of the output.
func convRows[T convType](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	in, out, taps, wide := kit.Product(s.In), kit.Product(s.Out), s.Taps(), s.Out[len(s.Out)-1]
	stride, rows := s.Stride[len(s.Stride)-1], out/wide
	xf, vector := any(x).([]float32)
	vector = vector && stride == 1 && wide >= kit.ShortRow
	yf, _ := any(y).([]float32)
	band := max(1, rowElements/wide)
	c.Parallel(s.N*s.M*rows, kit.GrainFor(wide*min(s.Depth(), 1<<20)), func(from, to int) {
		m := &ir.Meter{C: c}
		for n := 0; from < to && m.Spend(n*wide); from += n {
			p, first := from/rows, from%rows
			n = min(band, rows-first, to-from)
			img, ch := p/s.M, p%s.M
			var b T
			if bias != nil {
				b = bias[ch]
			}
			for i := range y[from*wide:][:n*wide] {
				y[from*wide+i] = b
			}
			for k := range s.Cg {
				xp, wp := (img*s.C+ch/s.Mg*s.Cg+k)*in, w[(ch*s.Cg+k)*taps:][:taps]
				s.rows(first, first+n, func(r Row) bool {
					l, yp := r.Hi-r.Lo, p*out+r.Out+r.Lo
					if vector && l > 0 {
						vec.AxpyF32(cpu.Active(), yf[yp:][:l], xf[xp+r.In:][:l], float32(wp[r.Tap]))
					} else {
						axpyRow(y[yp:][:l], x[xp+r.In:], stride, wp[r.Tap])
					}
					return m.Spend(l)
				})
			}
		}
	})
	return c.Err()
}

// rowElements is the number of elements of the rows that stay in the first-level cache while
// multiples of other rows are added to them.
const rowElements = 1 << 11

// axpyRow adds a·x[i·stride] to dst[i].
func axpyRow[T convType](dst, x []T, stride int, a T) {
	switch stride {
	case 1:
		x = x[:len(dst)]
		for i, v := range x {
			dst[i] += a * v
		}
	default:
		for i := range dst {
			dst[i] += a * x[i*stride]
		}
	}
}

// ConvTile is the approximate number of elements of the unfolded input that are multiplied at a
// time, so that they stay in the cache.
const ConvTile = 1 << 16

// shareRows is the number of output channels from which threads may share a tile of outputs.
const shareRows = 56

// convTile returns the number of columns of the unfolded input, of out, that are multiplied at a
// time.
func convTile(depth, out int) int {
	// With many taps a few panels are wider than ConvTile, since shorter parts of rows take longer
	// to copy.
	tile := max(1, ConvTile/max(1, depth)/gemm.PanelWidth,
		min(4, 4*ConvTile/max(1, depth)/gemm.PanelWidth)) * gemm.PanelWidth
	return min(tile, gemm.Panels(out)*gemm.PanelWidth)
}

// convGemm unfolds parts of the input to matrices (im2col) and multiplies them.
func convGemm[T convType](c *ir.Call, s *ConvShape, x, w, bias, y []T) error {
	in, out, depth := kit.Product(s.In), kit.Product(s.Out), s.Depth()
	direct := s.pointwise() && (out <= 1024 || s.Mg < 16)
	if xf, ok := any(x).([]float32); ok && !direct {
		if g, ok := s.wide(); ok {
			return convWide(c, s, g, xf, any(w).([]float32), any(bias).([]float32), any(y).([]float32))
		}
	}
	tile := convTile(depth, out)
	tiles := (out + tile - 1) / tile
	// Idle threads may share a tile by splitting its rows.
	parts := 1
	if items := s.N * s.Group * tiles; items < 2*c.Threads() && s.Mg*tile*depth >= 1<<18 {
		parts = max(1, min(2*s.Mg/shareRows, 2*c.Threads()/items))
	}
	items := s.N * s.Group * tiles * parts
	var scratch []T
	if !direct {
		var err error
		if scratch, err = ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*depth*tile); err != nil {
			return err
		}
	}
	return kit.InWorkspaces(c, items, func(ws, i int) error {
		part, i := i%parts, i/parts
		t, i := i%tiles, i/tiles
		g, img := i%s.Group, i/s.Group
		p0 := t * tile
		p1 := min(p0+tile, out)
		xg := x[(img*s.C+g*s.Cg)*in:][:s.Cg*in]
		m0, m1 := s.Mg*part/parts, s.Mg*(part+1)/parts
		ch := g*s.Mg + m0
		a := gemm.Args[T]{M: m1 - m0, N: p1 - p0, K: depth, A: w[ch*depth:][:(m1-m0)*depth], LdA: depth,
			C: y[(img*s.M+ch)*out+p0:], LdC: out}
		if bias != nil {
			a.BiasRow = bias[ch:][:m1-m0]
		}
		if direct {
			a.B, a.LdB = xg[min(p0, len(xg)):], in
		} else {
			a.B, a.LdB = scratch[ws*depth*tile:][:depth*tile], tile
			im2col(&s.Geometry, a.B, tile, xg, s.Cg, p0, p1)
		}
		matmul.GemmHere(c, &a)
		return nil
	})
}

// im2col writes, for every channel and tap, the elements that the outputs [p0, p1) of a plane read:
// rows of ld elements, 0 in the padding. The rest of the last panel of a row is 0 too, since a GEMM
// loads whole vectors: numbers that the memory held before may be subnormal, and slow it down.
func im2col[T convType](g *Geometry, dst []T, ld int, x []T, channels, p0, p1 int) {
	n := len(g.In) - 1
	in, taps := kit.Product(g.In), g.Taps()
	wout, win, kw := g.Out[n], g.In[n], g.Kernel[n]
	s := g.Stride[n]
	pos, tap := make([]int, n), make([]int, n)
	for d, i := n-1, p0/wout; d >= 0; d-- {
		pos[d], i = i%g.Out[d], i/g.Out[d]
	}
	for p := p0; p < p1; {
		ox := p % wout
		width := min(wout-ox, p1-p)
		clear(tap)
		for t := 0; t < taps; t += kw {
			base, ok := 0, true
			for d := range n {
				i := pos[d]*g.Stride[d] - g.Before[d] + tap[d]*g.Dilation[d]
				ok = ok && i >= 0 && i < g.In[d]
				base = base*g.In[d] + i
			}
			kit.NextIndex(tap, g.Kernel[:n])
			for k := range kw {
				lo, hi := 0, 0
				if ok {
					lo, hi = g.span(n, k)
					lo, hi = max(lo-ox, 0), min(hi-ox, width)
					if lo >= hi {
						lo, hi = 0, 0
					}
				}
				first := base*win + (ox+lo)*s - g.Before[n] + k*g.Dilation[n]
				for ch := range channels {
					row := dst[(ch*taps+t+k)*ld+p-p0:][:width]
					if lo > 0 { // calls take longer than short rows
						clear(row[:lo])
					}
					if hi < width {
						clear(row[hi:])
					}
					if lo == hi {
						continue
					}
					src := x[ch*in+first:]
					if s == 1 {
						copy(row[lo:hi], src)
						continue
					}
					for i := range row[lo:hi] {
						row[lo+i] = src[i*s]
					}
				}
			}
		}
		p += width
		kit.NextIndex(pos, g.Out[:n])
	}
	used := p1 - p0
	for from := 0; used%gemm.PanelWidth > 0 && from < channels*taps*ld; from += ld {
		clear(dst[from:][used:min(ld, gemm.Panels(used)*gemm.PanelWidth)])
	}
}
