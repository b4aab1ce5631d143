package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// QMoE is [MoE] with weights of 2, 4 or 8 bits, packed low bits first. A scale and a zero
// point (default 2^(bits−1)) apply to a row of weights or, with BlockSize, to a block of
// consecutive weights. router_weights, if given, replaces the softmax as the weights of
// the selected experts
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QMoE).
type QMoE struct {
	moeAttrs
	Bits      [3]int // bits per weight of FC1, FC2 and FC3
	BlockSize int    // 0: one block per row
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QMoE", Since: kit.Versions{1},
	Class: kit.ClassLinear,
	In: "input:T, router_probs:T, fc1_experts_weights:T1, fc1_scales:T2?, fc1_experts_bias:T?, " +
		"fc2_experts_weights:T1, fc2_scales:T2?, " +
		"fc2_experts_bias:T?, fc3_experts_weights:T1?, fc3_scales:T2?, fc3_experts_bias:T?, fc1_zero_points:T1?, " +
		"fc2_zero_points:T1?, " +
		"fc3_zero_points:T1?, router_weights:T?",
	Out: "output:T", Types: "T: float float16 bfloat16; T1: uint8; T2: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &QMoE{moeAttrs: readMoE(a), BlockSize: a.Int("block_size", 0)}
		bits := a.Int("expert_weight_bits", 4)
		for i, name := range []string{"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"} {
			op.Bits[i] = a.Int(name, bits)
			if b := op.Bits[i]; b != 2 && b != 4 && b != 8 {
				a.Errorf("expert weight bits are %d, want 2, 4 or 8", b)
			}
		}
		if b := op.BlockSize; b < 0 || b != 0 && (b < 16 || b&(b-1) != 0) {
			a.Errorf("attribute block_size is %d, want 0 or a power of two of at least 16", b)
		}
		a.Enum("quant_type", "int", "int")
		a.Int("accuracy_level", 0) // permits rounding of inputs, which this kernel does not do
		if a.Int("weights_prepacked", -1) == 1 {
			a.Errorf("attribute weights_prepacked is 1, which is not supported: the layout depends on the device")
		}
		return op
	}})

// Infer keeps the shape.
func (*QMoE) Infer(c *ir.InferContext) error { return inferMoE(c) }

// Run computes 16-bit types in float32.
func (op *QMoE) Run(c *ir.Call) error {
	x, router := c.Tensor(0), c.Tensor(1)
	_, hidden, err := moeTokens(x.Shape(), router.Shape())
	if err != nil {
		return err
	}
	m := &moeRun{moeAttrs: op.moeAttrs, experts: router.Dim(1), hidden: hidden}
	for i, l := range []**moeLayer{&m.fc1, &m.fc2, &m.fc3} {
		if *l, err = op.layer(c, i, m.experts); err != nil {
			return err
		}
	}
	// On CPUs ONNX Runtime computes the softmax over the selected experts only, regardless
	// of normalize_routing_weights.
	m.Normalize = m.Normalize || !c.Has(14)
	if t := c.Tensor(14); t != nil {
		if !slices.Equal(t.Shape(), router.Shape()) {
			return fail.Errorf("router_weights has shape %v, want %v", t.Shape(), router.Shape())
		}
		if m.mix, err = kit.RealIn[float32](c, t); err != nil {
			return err
		}
	}
	return m.finish(c)
}

// layer reads layer k. It returns nil if the layer has no weights.
func (op *QMoE) layer(c *ir.Call, k, experts int) (*moeLayer, error) {
	w, scales, zeros := c.Tensor(2+3*k), c.Tensor(3+3*k), c.Tensor(11+k)
	if w == nil {
		return nil, nil
	}
	per := 8 / op.Bits[k]
	s := w.Shape()
	if len(s) != 3 || s[0] != experts || scales == nil || int64(s[2]) > 1<<40 {
		return nil, fail.Errorf("weights of FC%d have shape %v with scales %s, want [%d out in/%d] and scales", k+1,
			s, scales, experts, per)
	}
	l := &moeLayer{in: s[2] * per, out: s[1]}
	block, blocks := max(1, l.in), 1
	want := []int{experts, l.out}
	if op.BlockSize > 0 {
		if block = op.BlockSize; l.in%block != 0 {
			return nil, fail.Errorf("rows of FC%d have %d weights, want a multiple of block_size %d", k+1, l.in, block)
		}
		blocks = l.in / block
		want = append(want, blocks)
	}
	if !slices.Equal(scales.Shape(), want) {
		return nil, fail.Errorf("scales of FC%d have shape %v, want %v", k+1, scales.Shape(), want)
	}
	// Zero points are packed along their last dimension.
	zeroRow := 0
	if zeros != nil {
		last := len(want) - 1
		packed := slices.Clone(want)
		packed[last] = (want[last] + per - 1) / per
		zeroRow = packed[last]
		if !slices.Equal(zeros.Shape(), packed) {
			return nil, fail.Errorf("zero points of FC%d have shape %v, want %v", k+1, zeros.Shape(), packed)
		}
	}
	var err error
	if l.bias, err = moeBias(c, 4+3*k, experts, l.out); err != nil {
		return nil, err
	}
	scale, err := kit.RealIn[float32](c, scales)
	if err != nil {
		return nil, err
	}
	if l.in > 0 && l.out > math.MaxInt/8/l.in {
		return nil, fail.Errorf("weights of FC%d have shape %v, which is too large", k+1, s)
	}
	wide, err := ir.ScratchOf[float32](c, l.in*l.out)
	if err != nil {
		return nil, err
	}
	codes, bits := w.Bytes(), op.Bits[k]
	zero := func(row, b int) float32 { // row counts over all experts
		if zeros == nil {
			return float32(int(1) << (bits - 1))
		}
		at, n := row*zeroRow, b
		if op.BlockSize == 0 {
			at, n = row/l.out*zeroRow, row%l.out
		}
		return float32(packedCode(tensor.MustData[uint8](zeros)[at:], n, bits))
	}
	l.weights = func(e int) ([]float32, error) {
		c.Parallel(l.out, max(1, kit.GrainCheap/max(1, l.in)), func(lo, hi int) {
			if !c.Generic && l.in > 0 && block%per == 0 {
				widenCodes(cpu.Active(), wide[lo*l.in:hi*l.in], codes[(e*l.out+lo)*s[2]:], bits)
				for i := lo * blocks; i < hi*blocks; i++ {
					f := scale[e*l.out*blocks+i]
					vec.ScaleShiftF32(cpu.Active(), wide[i*block:][:block], wide[i*block:][:block], f,
						-f*zero(e*l.out+i/blocks, i%blocks))
				}
				return
			}
			for i := lo; i < hi; i++ {
				src, dst := codes[(e*l.out+i)*s[2]:], wide[i*l.in:][:l.in]
				for j := range dst {
					row, b := e*l.out+i, j/block
					dst[j] = (float32(packedCode(src, j, bits)) - zero(row, b)) * scale[row*blocks+b]
				}
			}
		})
		return wide, c.Err()
	}
	return l, nil
}

// widenCodes converts codes of 2, 4 or 8 bits, low bits first.
func widenCodes(level cpu.Level, dst []float32, codes []byte, bits int) {
	if bits == 8 {
		vec.U8ToF32(level, dst, codes)
		return
	}
	var bytes [512]byte
	for len(dst) > 0 {
		n := min(len(dst), len(bytes))
		memory.UnpackUint(bytes[:n], codes, bits)
		vec.U8ToF32(level, dst[:n], bytes[:n])
		dst, codes = dst[n:], codes[n*bits/8:]
	}
}

// packedCode returns element i of codes of 2, 4 or 8 bits, low bits first.
func packedCode(b []byte, i, bits int) byte {
	switch bits {
	case 2:
		return b[i/4] >> (i % 4 * 2) & 3
	case 4:
		return b[i/2] >> (i % 2 * 4) & 15
	}
	return b[i]
}
