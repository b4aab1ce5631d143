package blocked

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Linear is a dense layer with constant weights, made by the optimizer from MatMul, Gemm or
// MatMulIntegerToFloat and its epilogue:
//
//	Y[…,N] = fn(act(alpha·X[…,K]·W + bias + Z))
//
// The last input, Z, is optional and has the shape of Y. X is float32, or 8-bit integers with two
// more inputs: its scale and its zero point.
type Linear struct {
	K, N   int
	Alpha  float32
	HasAdd bool
	Act    kit.Activation
	Then   kit.VecUnary // fn, or nil

	packed *matmul.PackedReals
	bytes  *byteWeights // instead of packed
	bias   []float32    // N elements, or nil
}

// NewLinear packs K×N weights of float32, float16 or bfloat16, with trans N×K ones. With own it may
// do so in w's memory. packs has weights that are packed already.
func NewLinear(w *tensor.Tensor, trans, own bool, packs *ir.Packs) (*Linear, error) {
	if !matmul.Packable(w) || w.Rank() != 2 {
		return nil, fail.Errorf("weights are %s, want a float matrix", w)
	}
	data, err := ir.Packed(packs, matrixPack{trans}, w, nil, func() (*matmul.PackedReals, int64, error) {
		p, err := matmul.PackMatrix(w, trans, own)
		return p, p.Bytes(), err
	})
	if err != nil {
		return nil, err
	}
	l := &Linear{K: w.Dim(0), N: w.Dim(1), Alpha: 1, packed: data}
	if trans {
		l.K, l.N = l.N, l.K
	}
	return l, nil
}

// matrixPack is the way in which the weights of a Linear are packed.
type matrixPack struct{ trans bool }

// IsRowBias reports whether b is a float bias with one element for each of n columns.
func IsRowBias(b *tensor.Tensor, n int) bool {
	return b.DType() == tensor.TypeFloat32 && b.Len() == n && (b.Rank() <= 1 || b.Dim(b.Rank()-1) == n)
}

// WithBias returns the layer with b added to its bias; nil when b has another
// number of elements.
func (l *Linear) WithBias(b *tensor.Tensor) *Linear {
	if !IsRowBias(b, l.N) {
		return nil
	}
	c := *l
	c.bias = make([]float32, l.N)
	copy(c.bias, l.bias)
	for i, v := range tensor.MustData[float32](b) {
		c.bias[i] += v
	}
	return &c
}

// Rounded implements [ir.Rounder].
func (l *Linear) Rounded() ir.Operator {
	if l.packed == nil {
		return nil
	}
	data := l.packed.Rounded()
	if data == nil {
		return nil
	}
	c := *l
	c.packed = data
	return &c
}

// Infer replaces the last dimension by N.
func (l *Linear) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	if s == nil {
		c.SetOut(0, ir.UnrankedTensor(tensor.TypeFloat32))
		return nil
	}
	if len(s) == 0 || s[len(s)-1].Differs(ir.Known(l.K)) {
		return fail.Errorf("input has shape %v, want %d columns", s, l.K)
	}
	out := append(append([]ir.Dim{}, s[:len(s)-1]...), ir.Known(l.N))
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, out...))
	return nil
}

// Run computes all rows.
func (l *Linear) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) == 0 || s[len(s)-1] != l.K {
		return fail.Errorf("input has shape %v, want %d columns", s, l.K)
	}
	var dims [8]int
	shape := append(append(dims[:0], s[:len(s)-1]...), l.N)
	y, err := c.Output(0, tensor.TypeFloat32, shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	if l.bytes != nil {
		return l.runBytes(c, x, y)
	}
	g := ir.Kept[gemm.Args[float32]](c)
	*g = gemm.Args[float32]{M: kit.Product(s[:len(s)-1]), N: l.N, K: l.K, A: tensor.MustData[float32](x), LdA: l.K,
		C: tensor.MustData[float32](y), LdC: l.N}
	l.packed.In(g)
	g.Alpha, g.BiasCol, g.Act, g.Lo, g.Hi = l.Alpha, l.bias, l.Act.Gemm(), l.Act.Lo, l.Act.Hi
	if g.Add, err = l.residual(c, 1, y); err != nil {
		return err
	}
	g.LdAdd = l.N
	g.Then = l.Then
	return matmul.LaunchProduct(c, g)
}

// residual returns the elements of Z, which is input i, or nil.
func (l *Linear) residual(c *ir.Call, i int, y *tensor.Tensor) ([]float32, error) {
	if !l.HasAdd {
		return nil, nil
	}
	z := c.Tensor(i)
	if z.Len() != y.Len() {
		return nil, fail.Errorf("input Z has shape %v, want %v", z.Shape(), y.Shape())
	}
	return tensor.MustData[float32](z), nil
}
