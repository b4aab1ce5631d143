package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
)

// QLinearSoftmax is Softmax of a quantized tensor. Like ONNX Runtime it truncates
// 1/y_scale to an integer, unless Exact is set
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearSoftmax).
type QLinearSoftmax struct {
	reduce.SoftmaxAxis
	// Exact uses 1/y_scale without truncation, as Softmax followed by QuantizeLinear does.
	Exact bool
}

// NewQLinearSoftmax returns the operator that fuses DequantizeLinear, Softmax o and
// QuantizeLinear, and rounds as they do.
func NewQLinearSoftmax(o *ops.Softmax) *QLinearSoftmax {
	return &QLinearSoftmax{SoftmaxAxis: o.SoftmaxAxis, Exact: true}
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearSoftmax", Since: kit.Versions{1},
	Work: 4,
	In:   "X:T, X_scale:float, x_zero_point:T?, y_scale:float, y_zero_point:T", Out: "Y:T", Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("opset")
		version := a.Int("opset", 13)
		o := &QLinearSoftmax{SoftmaxAxis: reduce.SoftmaxAxis{Axis: a.Int("axis", -1), Flatten: version < 13}}
		return o
	}})

// Run sums exponentials read from a table.
func (o *QLinearSoftmax) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s, err := o.Span(x.Shape())
	if err != nil {
		return err
	}
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	if o.Exact && s.Inner == 1 && !c.Generic {
		return o.rows(c, x.Bytes(), y.Bytes(), s, &in, &out)
	}
	// exps[d] is the exponential of an element d quantization steps below the maximum.
	var exps [256]float64
	for i := range exps {
		exps[i] = -float64(i) * float64(in.scale)
	}
	level := cpu.Active()
	if c.Generic {
		level = cpu.Generic
	}
	vec.ExpF64(level, exps[:], exps[:])
	whole := math.Floor(float64(1 / out.scale))
	if o.Exact {
		whole = 1 / float64(out.scale)
	}
	src, dst := x.Bytes(), y.Bytes()
	if !c.Generic && s.Inner == 1 && s.N > 0 && s.N <= shortSoftmax {
		return shortSoftmaxRows(c, dst, src, s.N, &exps, whole, &out)
	}
	return s.EachLine(c, func(base, m int) {
		for j := range m {
			if !c.Generic {
				softmaxBytes(c, dst[base+j:], src[base+j:], s, &exps, whole, &out)
				continue
			}
			top, sum := int32(math.MinInt32), 0.0
			for lo, hi := range ir.Steps(c, s.N) {
				for k := lo; k < hi; k++ {
					top = max(top, in.int(src[base+k*s.Inner+j]))
				}
			}
			for lo, hi := range ir.Steps(c, s.N) {
				for k := lo; k < hi; k++ {
					sum += exps[top-in.int(src[base+k*s.Inner+j])]
				}
			}
			for lo, hi := range ir.Steps(c, s.N) {
				for k := lo; k < hi; k++ {
					at := base + k*s.Inner + j
					v := [1]float32{float32(exps[top-in.int(src[at])] * whole / sum)}
					out.quantize(dst[at:at+1], v[:])
				}
			}
			c.Check()
		}
	})
}

// shortSoftmax is the number of elements up to which a row has too few equal bytes for a table.
const shortSoftmax = 256

// softmaxBytes computes the line that begins dst and src. In a long line, most bytes occur more
// than once, so that it maps them by a table. Four maxima and sums hide the latency of the
// operations.
func softmaxBytes(c *ir.Call, dst, src []byte, s kit.AxisSpan, exps *[256]float64, whole float64, out *byteQuant) {
	flip := byte(0) // makes the order of int8 that of uint8
	if out.signed {
		flip = 0x80
	}
	step := s.Inner
	var t0, t1, t2, t3 byte
	for lo, hi := range ir.Steps(c, s.N) {
		k := lo * step
		for ; k+3*step < hi*step; k += 4 * step {
			t0, t1, t2, t3 = max(t0, src[k]^flip), max(t1, src[k+step]^flip), max(t2, src[k+2*step]^flip),
				max(t3, src[k+3*step]^flip)
		}
		for ; k < hi*step; k += step {
			t0 = max(t0, src[k]^flip)
		}
	}
	top := max(t0, t1, t2, t3)
	var s0, s1, s2, s3 float64
	for lo, hi := range ir.Steps(c, s.N) {
		k := lo * step
		for ; k+3*step < hi*step; k += 4 * step {
			s0 += exps[top-(src[k]^flip)]
			s1 += exps[top-(src[k+step]^flip)]
			s2 += exps[top-(src[k+2*step]^flip)]
			s3 += exps[top-(src[k+3*step]^flip)]
		}
		for ; k < hi*step; k += step {
			s0 += exps[top-(src[k]^flip)]
		}
	}
	sum := s0 + s1 + s2 + s3
	var values [256]float32
	var quantized, results [256]byte
	if s.N <= len(values) {
		for k := range s.N {
			values[k] = float32(exps[top-(src[k*step]^flip)] * whole / sum)
		}
		out.narrow(cpu.Active(), quantized[:s.N], values[:s.N], 1)
		for k, v := range quantized[:s.N] {
			dst[k*step] = v
		}
		return
	}
	for d := range int(top) + 1 {
		values[d] = float32(exps[d] * whole / sum)
	}
	out.narrow(cpu.Active(), quantized[:], values[:], 1)
	for b := range results {
		results[b] = quantized[top-(byte(b)^flip)]
	}
	if step == 1 {
		for lo, hi := range ir.Steps(c, s.N) {
			vec.MapU8(cpu.Active(), dst[lo:hi], src[lo:hi], &results)
		}
		return
	}
	for lo, hi := range ir.Steps(c, s.N) {
		for k := lo * step; k < hi*step; k += step {
			dst[k] = results[src[k]]
		}
	}
}

// shortSoftmaxRows computes rows of n elements, at most shortSoftmax.
func shortSoftmaxRows(c *ir.Call, dst, src []byte, n int, exps *[256]float64, whole float64, out *byteQuant) error {
	l, flip := cpu.Active(), byte(0)
	if out.signed {
		flip = 0x80
	}
	c.Parallel(len(src)/n, max(1, kit.GrainCheap/(8*n)), func(lo, hi int) {
		var powers [shortSoftmax]float64
		var values [2 * shortSoftmax]float32
		for block := len(values) / n; lo < hi; lo += block {
			from, to := lo*n, min(lo+block, hi)*n
			v := values[:to-from]
			for at := 0; at < len(v); at += n {
				row, power, scaled := src[from+at:][:n], powers[:n], v[at:][:n]
				top := byte(0)
				switch {
				case n < 4*kit.ShortRow:
					for _, b := range row {
						top = max(top, b^flip)
					}
				case out.signed:
					top = byte(vec.ReduceMaxI8(l, memory.FromRaw[int8](row))) ^ flip
				default:
					top = vec.ReduceMaxU8(l, row)
				}
				var s0, s1 float64 // two sums hide the latency of the additions
				k := 0
				for ; k+1 < n; k += 2 {
					p, q := exps[top-(row[k]^flip)], exps[top-(row[k+1]^flip)]
					power[k], power[k+1] = p, q
					s0, s1 = s0+p, s1+q
				}
				if k < n {
					power[k] = exps[top-(row[k]^flip)]
					s0 += power[k]
				}
				factor := whole / (s0 + s1)
				for k, p := range power {
					scaled[k] = float32(p * factor)
				}
			}
			out.narrow(l, dst[from:to], v, 1)
		}
	})
	return c.Err()
}

// rows dequantizes, normalizes and quantizes blocks of rows, so that each block stays in
// the cache.
func (o *QLinearSoftmax) rows(c *ir.Call, src, dst []byte, s kit.AxisSpan, in, out *byteQuant) error {
	if s.N == 0 {
		return nil
	}
	n := len(src) / s.N
	x, err := ir.ScratchOf[float32](c, len(src))
	if err != nil {
		return err
	}
	l := cpu.Active()
	block := max(1, 2048/s.N) // number of rows converted together
	normalize := ops.SoftmaxRows(c)
	c.Parallel(n, max(1, kit.GrainCheap/s.N), func(lo, hi int) {
		for ; lo < hi; lo += block {
			from, to := lo*s.N, min(lo+block, hi)*s.N
			for i, j := range ir.Steps(c, to-from) {
				in.widen(l, x[from+i:from+j], src[from+i:from+j])
			}
			normalize(x[from:to], x[from:to], s.N)
			for i, j := range ir.Steps(c, to-from) {
				out.narrow(l, dst[from+i:from+j], x[from+i:from+j], out.scale)
			}
		}
	})
	return nil
}
