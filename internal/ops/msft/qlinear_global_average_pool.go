package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// QLinearGlobalAveragePool returns the mean of every plane of quantized numbers
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearGlobalAveragePool).
type QLinearGlobalAveragePool struct{ ChannelsLast bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearGlobalAveragePool", Since: kit.Versions{1},
	In: "X:T, x_scale:float, x_zero_point:T, y_scale:float, y_zero_point:T", Out: "Y:T", Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &QLinearGlobalAveragePool{a.Bool("channels_last", false)}
	}})

// Infer sets the spatial dimensions to 1.
func (p *QLinearGlobalAveragePool) Infer(c *ir.InferContext) error {
	if !p.ChannelsLast {
		return window.InferGlobalPool(c)
	}
	t := c.Type(0)
	if s := t.Shape; s != nil {
		if len(s) < 2 {
			return fail.Errorf("input has rank %d, want at least 2", len(s))
		}
		t.Shape = append([]ir.Dim{}, s...)
		for i := range s[1 : len(s)-1] {
			t.Shape[1+i] = ir.Known(1)
		}
	}
	c.SetOut(0, t)
	return nil
}

// Run sums integers.
func (p *QLinearGlobalAveragePool) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) < 2 {
		return fail.Errorf("input has shape %v, want rank at least 2", s)
	}
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	shape := append([]int{}, s...)
	n, ch, plane := s[0], s[1], kit.Product(s[2:])
	if p.ChannelsLast {
		ch, plane = s[len(s)-1], kit.Product(s[1:len(s)-1])
		for i := range s[1 : len(s)-1] {
			shape[1+i] = 1
		}
	} else {
		for i := range s[2:] {
			shape[2+i] = 1
		}
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	src, dst := x.Bytes(), y.Bytes()
	scale := in.scale / (float32(plane) * out.scale)
	mean := func(sum int64) float32 { return float32(sum-int64(plane)*int64(in.zero)) * scale }
	if p.ChannelsLast {
		if !c.Generic && 255*plane < 1<<24 {
			kit.ParallelSpans(c, n*((ch+averaged-1)/averaged), plane*averaged, func(lo, hi int) {
				across := (ch + averaged - 1) / averaged
				for i := lo; i < hi; i++ {
					k := i % across * averaged
					at := i/across*ch + k
					in.averageColumns(dst[at:at+min(averaged, ch-k)], &out, src[i/across*plane*ch:][:plane*ch][k:],
						ch, plane, scale)
				}
			})
			return nil
		}
		const step = 64
		across := (ch + step - 1) / step
		kit.ParallelEach(c, n*across, plane*step, func(i int) {
			k := i % across * step
			var sums [step]int64
			sumColumns(sums[:min(step, ch-k)], src[i/across*plane*ch:][:plane*ch][k:], ch, in.signed)
			for j, v := range sums[:min(step, ch-k)] {
				at, m := i/across*ch+k+j, [1]float32{mean(v)}
				out.quantize(dst[at:at+1], m[:])
			}
		})
		return nil
	}
	level := cpu.Active()
	if c.Generic {
		level = cpu.Generic
	}
	kit.ParallelSpans(c, n*ch, plane, func(lo, hi int) {
		if !c.Generic && plane > 0 && plane <= vec.MostRowsF32 {
			done := in.averageRows(dst[lo:hi], &out, src[lo*plane:hi*plane], plane, scale)
			lo += done
		}
		var means [64]float32
		for ; lo < hi; lo += len(means) {
			m := means[:min(len(means), hi-lo)]
			for i := range m {
				m[i] = mean(sumBytes(level, src[(lo+i)*plane:][:plane], in.signed))
			}
			out.quantize(dst[lo:lo+len(m)], m)
		}
	})
	return nil
}

// averageRows stores the quantized sums of the rows of a matrix with n columns, times scale, in
// groups of rows. Sums of so few bytes are exact in float32. It returns the number of rows done.
func (q *byteQuant) averageRows(dst []byte, to *byteQuant, src []byte, n int, scale float32) (done int) {
	var wide [vec.LeastRowsF32 * vec.MostRowsF32]float32
	var sums [len(wide)]float32
	l, plain := cpu.Active(), byteQuant{scale: 1, signed: q.signed}
	for len(dst)-done >= vec.LeastRowsF32 {
		rows := min(len(dst)-done, len(wide)/n)
		w, s := wide[:rows*n], sums[:rows]
		plain.widen(l, w, src[done*n:][:rows*n])
		vec.SumRowsF32(l, s, w, n, 0)
		vec.SubScalarF32(l, s, s, float32(n*int(q.zero)))
		vec.MulScalarF32(l, s, s, scale)
		to.quantize(dst[done:done+rows], s)
		done += rows
	}
	return done
}

// averaged is the maximum number of columns of averageColumns.
const averaged = 256

// averageColumns stores the quantized sums of the first columns of a matrix of the given number of
// rows, ld elements apart, times scale. The sums must be exact in float32.
func (q *byteQuant) averageColumns(dst []byte, to *byteQuant, src []byte, ld, rows int, scale float32) {
	var wide, sum [4 * averaged]float32
	l, plain := cpu.Active(), byteQuant{scale: 1, signed: q.signed}
	n, together := len(dst), 1 // rows that are added as one
	if ld == n {
		together = len(wide) / n
	}
	for r := 0; r < rows; r += together {
		w := wide[:min(together, rows-r)*n]
		plain.widen(l, w, src[r*ld:][:len(w)])
		vec.AddF32(l, sum[:len(w)], sum[:len(w)], w)
	}
	s := sum[:n]
	for k := 1; k < together; k++ {
		vec.AddF32(l, s, s, sum[k*n:])
	}
	vec.SubScalarF32(l, s, s, float32(rows*int(q.zero)))
	vec.MulScalarF32(l, s, s, scale)
	to.quantize(dst, s)
}

var topBits = func() (x [1024]byte) {
	for i := range x {
		x[i] = 0x80
	}
	return x
}()

// sumBytes returns the sum of the bytes as integers.
func sumBytes(l cpu.Level, b []byte, signed bool) (sum int64) {
	var buf [len(topBits)]byte
	for len(b) > 0 {
		n := min(len(b), len(buf))
		part := b[:n]
		if signed { // x + 128 as uint8
			part = buf[:n]
			vec.AddU8(l, part, b[:n], topBits[:n])
			sum -= int64(n) * 128
		}
		sum += int64(quant.SumU8(l, part))
		b = b[n:]
	}
	return sum
}

// sumColumns returns the sums of the first columns of an int8 or uint8 matrix.
func sumColumns(sums []int64, b []byte, cols int, signed bool) {
	const block = 1 << 20 // rows whose sums fit in int32
	flip, part := byte(0), make([]int32, len(sums))
	if signed {
		flip = 128
	}
	for rows := (len(b) + cols - 1) / cols; rows > 0; rows -= block {
		clear(part)
		for range min(rows, block) {
			for j, v := range b[:len(part)] {
				part[j] += int32(v ^ flip)
			}
			b = b[min(cols, len(b)):]
		}
		for j, v := range part {
			sums[j] += int64(v) - int64(min(rows, block))*int64(flip)
		}
	}
}
