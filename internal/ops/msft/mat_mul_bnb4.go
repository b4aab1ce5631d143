package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// MatMulBnb4 multiplies A by N rows of K 4-bit weights, in blocks that share an absolute
// maximum. A byte holds two weights, the first in the upper bits
// (https://arxiv.org/abs/2305.14314,
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulBnb4).
type MatMulBnb4 struct {
	K, N, Block int
	NF4, TransB bool // TransB: A is [... K] and Y [... N], else A is [... N] and Y [... K]
}

// bnb4Codes holds the values of the 16 codes of FP4 and NF4.
var bnb4Codes = [2][16]float32{
	{0, 0.00520833333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25, 0, -0.00520833333, -0.66666667, -1,
		-0.33333333, -0.5, -0.16666667, -0.25},
	{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0,
		0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
		0.5626170039176941, 0.7229568362236023, 1},
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulBnb4", Since: kit.Versions{1},
	In: "A:T1, B:T2, absmax:T1", Out: "Y:T1",
	MACs:  kit.MatMulMACs,
	Types: "T1: float float16 bfloat16; T2: uint8", Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("K", "N", "block_size", "quant_type")
		op := &MatMulBnb4{K: a.Int("K", 1), N: a.Int("N", 1), Block: a.Int("block_size", 16),
			NF4: a.Int("quant_type", 0) == 1, TransB: a.Bool("transB", true)}
		a.Ignore("training_mode") // has no effect on results
		if op.N < 1 || op.K < 1 || op.N > 1<<30 || op.K > 1<<30 {
			a.Errorf("N and K must be 1 to 2^30, got %d and %d", op.N, op.K)
		}
		if b := op.Block; b < 16 || b > 1<<20 || b&(b-1) != 0 {
			a.Errorf("block_size is %d, want a power of two from 16 to 2^20", b)
		}
		if q := a.Int("quant_type", 0); q != 0 && q != 1 {
			a.Errorf("quant_type is %d, want 0 for FP4 or 1 for NF4", q)
		}
		return op
	}})

// sizes returns the last dimensions of A and Y.
func (op *MatMulBnb4) sizes() (in, out int) {
	if op.TransB {
		return op.K, op.N
	}
	return op.N, op.K
}

// Infer replaces the last dimension of A.
func (op *MatMulBnb4) Infer(c *ir.InferContext) error {
	in, out := op.sizes()
	return inferLastDim(c, in, out)
}

// inferLastDim sets output 0 to the type of input 0 with its last dimension, which must
// be in, replaced by out.
func inferLastDim(c *ir.InferContext, in, out int) error {
	t := ir.UnrankedTensor(c.Elem(0))
	if s := c.Shape(0); s != nil {
		if len(s) == 0 || s[len(s)-1].Differs(ir.Known(in)) {
			return fail.Errorf("A has shape %v, want a last dimension of %d", s, in)
		}
		t.Shape = append(slices.Clone(s[:len(s)-1]), ir.Known(out))
	}
	c.SetOut(0, t)
	return nil
}

// Run unpacks the weights and multiplies.
func (op *MatMulBnb4) Run(c *ir.Call) error {
	x, s := c.Tensor(0), c.Tensor(0).Shape()
	in, out := op.sizes()
	if len(s) == 0 || s[len(s)-1] != in {
		return fail.Errorf("A has shape %v, want a last dimension of %d", s, in)
	}
	n := op.N * op.K
	if b, m := c.Tensor(1), c.Tensor(2); b.Len() != (n+1)/2 || m.Len() != (n+op.Block-1)/op.Block {
		return fail.Errorf("B and absmax have shapes %v and %v, want [%d] and [%d]", b.Shape(), m.Shape(), (n+1)/2,
			(n+op.Block-1)/op.Block)
	}
	scales, err := kit.RealIn[float32](c, c.Tensor(2))
	if err != nil {
		return err
	}
	w, err := ir.ScratchOf[float32](c, n)
	if err != nil {
		return err
	}
	codes, data := &bnb4Codes[kit.BoolToInt(op.NF4)], tensor.MustData[uint8](c.Tensor(1))
	c.Parallel(n, kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			v := codes[data[i/2]>>(4-i%2*4)&15] * scales[i/op.Block]
			if op.TransB {
				w[i] = v
			} else {
				w[i%op.K*op.N+i/op.K] = v // transposed, as mulRows requires
			}
		}
	})
	return mulRows(c, x, w, in, out)
}

// mulRows multiplies the rows of x, each of in elements, by the out rows of w and writes
// output 0.
func mulRows(c *ir.Call, x *tensor.Tensor, w []float32, in, out int) error {
	a, err := kit.RealIn[float32](c, x)
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape())
	shape[len(shape)-1] = out
	y, err := kit.RealOut[float32](c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	matmul.MulTransposed(c, kit.Product(shape[:len(shape)-1]), out, in, a, in, w, in, nil, y.Data, out)
	if err := c.Err(); err != nil {
		return err
	}
	y.Store()
	return nil
}
