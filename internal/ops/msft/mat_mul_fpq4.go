package msft

import (
	"encoding/binary"
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MatMulFpQ4 multiplies A by a matrix of 4-bit weights, stored column by column in blocks
// of 32 or 64. A block consists of:
//
//   - a float32 scale
//   - a zero point byte, if the format has one, else the zero point is 8. The difference of a
//     weight and the zero point is an int8; it wraps if the zero point is not that of a 4-bit
//     number.
//   - 16 bytes per 32 weights, of which the low bits hold the first 16
//
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulFpQ4).
type MatMulFpQ4 struct {
	// Kind is 0 for blocks of 32 without zero points, 1 for blocks of 32 with zero points,
	// and 2 for blocks of 64 without zero points. ONNX Runtime's CPU kernel treats 2 like 1;
	// the number of bytes decides which format it is.
	Kind int
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulFpQ4", Since: kit.Versions{1},
	In: "A:T1, B:T2, B_shape:T3", Out: "Y:T1",
	MACs:  kit.MatMulMACs,
	Types: "T1: float; T2: uint8; T3: int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		kind := a.Int("blk_quant_type", 1)
		if kind < 0 || kind > 2 {
			a.Errorf("blk_quant_type is %d, want 0 to 2", kind)
		}
		return &MatMulFpQ4{kind}
	}})

// fpq4Shape reads B_shape, [in, out].
func fpq4Shape(v []int) (in, out int, err error) {
	if len(v) != 2 || v[0] < 1 || v[1] < 1 || v[0] > 1<<30 || v[1] > 1<<30 {
		return 0, 0, fail.Errorf("B_shape is %v, want [in out], each 1 to 2^30", v)
	}
	return v[0], v[1], nil
}

// Infer replaces the last dimension of A if B_shape is known.
func (*MatMulFpQ4) Infer(c *ir.InferContext) error {
	if v, ok := kit.KnownInts(c, 2); ok {
		in, out, err := fpq4Shape(v)
		if err != nil {
			return err
		}
		return inferLastDim(c, in, out)
	}
	c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
	return nil
}

// Run unpacks the weights and multiplies.
func (op *MatMulFpQ4) Run(c *ir.Call) error {
	x, s := c.Tensor(0), c.Tensor(0).Shape()
	in, out, err := fpq4Shape(kit.Ints(c.Tensor(2)))
	if err != nil {
		return err
	}
	if len(s) == 0 || s[len(s)-1] != in {
		return fail.Errorf("A has shape %v, want a last dimension of %d", s, in)
	}
	data := tensor.MustData[uint8](c.Tensor(1))
	size, head := 32, 4 // weights in a block, bytes before its weights
	if wide := out * ((in + 63) / 64) * (4 + 32); op.Kind == 2 && len(data) == wide {
		size = 64
	} else if op.Kind != 0 {
		head = 5
	}
	blocks, per := (in+size-1)/size, head+size/2
	if len(data) != out*blocks*per {
		return fail.Errorf("B has %d bytes, want %d columns of %d blocks of %d bytes", len(data), out, blocks, per)
	}
	w, err := ir.ScratchOf[float32](c, in*out)
	if err != nil {
		return err
	}
	c.Parallel(out, kit.GrainFor(in), func(lo, hi int) {
		for n := lo; n < hi && c.Err() == nil; n++ {
			for k := range blocks {
				block := data[(n*blocks+k)*per:][:per]
				scale, zero := math.Float32frombits(binary.LittleEndian.Uint32(block)), byte(8)
				if head == 5 {
					zero = block[4]
				}
				for i := range min(size, in-k*size) {
					w[n*in+k*size+i] = float32(int8(block[head+i/32*16+i%16]>>(i%32/16*4)&15-zero)) * scale
				}
			}
		}
	})
	return mulRows(c, x, w, in, out)
}
