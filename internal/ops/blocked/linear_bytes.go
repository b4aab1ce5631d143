package blocked

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// byteWeights are weights of 8-bit integers.
type byteWeights struct {
	packed *matmul.PackedBytes
	scale  []float32 // one element, or one per column
	zero   []int32   // one element, or one per column
}

// NewByteLinear packs K×N weights of 8-bit integers with their scales, one or one per column, and
// zero points, which may be nil. It returns nil for other weights.
func NewByteLinear(w, scale, zero *tensor.Tensor) *Linear {
	if w.Rank() != 2 || scale.DType() != tensor.TypeFloat32 {
		return nil
	}
	k, n := w.Dim(0), w.Dim(1)
	fits := func(t *tensor.Tensor) bool { return t.Rank() <= 1 && (t.Len() == 1 || t.Len() == n) }
	if !fits(scale) || zero != nil && (!fits(zero) || zero.DType() != w.DType()) {
		return nil
	}
	b := &byteWeights{packed: matmul.PackBytes(w), scale: tensor.MustData[float32](scale), zero: []int32{0}}
	if b.packed == nil {
		return nil
	}
	if zero != nil {
		b.zero = make([]int32, zero.Len())
		for i, v := range zero.Bytes() {
			b.zero[i] = int32(v)
			if w.DType() == tensor.TypeInt8 {
				b.zero[i] = int32(int8(v))
			}
		}
	}
	return &Linear{K: k, N: n, Alpha: 1, bytes: b}
}

// runBytes computes all rows of a layer with weights of 8-bit integers.
func (l *Linear) runBytes(c *ir.Call, x, y *tensor.Tensor) error {
	scale, zero := c.Tensor(1), c.Tensor(2)
	if scale.Len() != 1 {
		return fail.Errorf("a_scale has shape %v, want one element", scale.Shape())
	}
	if zero != nil && zero.Len() != 1 {
		return fail.Errorf("a_zero_point has shape %v, want one element", zero.Shape())
	}
	r := &quant.Real{Y: tensor.MustData[float32](y), Bias: l.bias, Then: l.Then}
	var err error
	if r.Add, err = l.residual(c, 3, y); err != nil {
		return err
	}
	if r.Scale, err = ir.ScratchOf[float32](c, len(l.bytes.scale)); err != nil {
		return err
	}
	for i, v := range l.bytes.scale {
		r.Scale[i] = tensor.MustData[float32](scale)[0] * v
	}
	if l.Act.Kind == kit.ActRelu {
		r.Then = vec.ReluF32
	}
	g := &quant.Args{M: y.Len() / l.N, A: x.Bytes(), LdA: l.K, Signed: x.DType() == tensor.TypeInt8,
		BZero: l.bytes.zero, Real: r}
	if zero != nil {
		g.AZero = []int32{int32(zero.Bytes()[0])}
		if g.Signed {
			g.AZero[0] = int32(int8(zero.Bytes()[0]))
		}
	}
	return l.bytes.packed.Multiply(c, g)
}
