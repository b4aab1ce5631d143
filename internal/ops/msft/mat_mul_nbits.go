package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// MatMulNBits multiplies A, [..., K], by the transpose of weights [N, K] of 2, 4 or 8
// bits, packed in blocks along K, low bits first. Code w of a block represents (w − zero
// point)·scale. Zero points default to half the range
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits).
//
// With accuracy level 4, kernels may quantize blocks of A to 8 bits.
type MatMulNBits struct {
	N, K, Bits, Block int
	AccuracyLevel     int
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulNBits", Since: kit.Versions{1},
	MACs: kit.MatMulMACs,
	In:   "A:T1, B:uint8, scales:T1, zero_points:T3?, g_idx:int32?, bias:T1?",
	Out:  "Y:T1", Types: "T1: float float16 bfloat16; T3: uint8 float16 float bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("N", "K", "block_size")
		op := &MatMulNBits{a.Int("N", 1), a.Int("K", 1), a.Int("bits", 4), a.Int("block_size", 32),
			a.Int("accuracy_level", 0)}
		if a.Int("weight_prepacked", 0) != 0 {
			a.Errorf("weight_prepacked is not supported: such weights are packed for a GPU")
		}
		if op.N < 1 || op.K < 1 || op.N > math.MaxInt32 || op.K > math.MaxInt32 {
			a.Errorf("N and K must be positive int32 values, got %d and %d", op.N, op.K)
		}
		if op.Bits != 2 && op.Bits != 4 && op.Bits != 8 {
			a.Errorf("bits is %d, want 2, 4 or 8", op.Bits)
		}
		if b := op.Block; b < 16 || b > 1<<20 || b&(b-1) != 0 {
			a.Errorf("block_size is %d, want a power of two from 16 to 2^20", b)
		}
		return op
	}})

func (op *MatMulNBits) blocks() int { return (op.K + op.Block - 1) / op.Block }

// Infer replaces the last dimension of A by N.
func (op *MatMulNBits) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	if s := c.Shape(0); s != nil {
		if len(s) == 0 || s[len(s)-1].Differs(ir.Known(op.K)) {
			return fail.Errorf("A has shape %v, want a last dimension of %d", s, op.K)
		}
		t.Shape = append(append([]ir.Dim{}, s[:len(s)-1]...), ir.Known(op.N))
	}
	c.SetOut(0, t)
	return nil
}

// nbitsColumns is the number of rows of weights that a worker unpacks at once.
const nbitsColumns = gemm.PanelWidth

// Run unpacks the weights in strips of rows and multiplies by each strip.
func (op *MatMulNBits) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) == 0 || s[len(s)-1] != op.K {
		return fail.Errorf("A has shape %v, want a last dimension of %d", s, op.K)
	}
	kb, blob := op.blocks(), op.Block*op.Bits/8
	if b := c.Tensor(1); b.Len() != op.N*kb*blob {
		return fail.Errorf("B has shape %v, want [%d %d %d]", b.Shape(), op.N, kb, blob)
	}
	if t := c.Tensor(2); t.Len() != op.N*kb {
		return fail.Errorf("scales has shape %v, want [%d %d]", t.Shape(), op.N, kb)
	}
	zpRow := (kb*op.Bits + 7) / 8
	var zeros []float32
	var packed []uint8
	if z := c.Tensor(3); z != nil {
		var err error
		want := op.N * kb
		if z.DType() == tensor.TypeUint8 {
			packed, want = tensor.MustData[uint8](z), op.N*zpRow
		} else if zeros, err = kit.RealIn[float32](c, z); err != nil {
			return err
		}
		if z.Len() != want {
			return fail.Errorf("zero_points has shape %v, want %d elements", z.Shape(), want)
		}
	}
	group := kit.Ints(c.Tensor(4))
	if g := c.Tensor(4); g != nil {
		if g.Len() < op.K {
			return fail.Errorf("g_idx has shape %v, want [%d]", g.Shape(), op.K)
		}
		if i := slices.IndexFunc(group[:op.K], func(v int) bool { return v < 0 || v >= kb }); i >= 0 {
			return fail.Errorf("g_idx[%d] is %d, want 0 to %d", i, group[i], kb-1)
		}
	}
	if b := c.Tensor(5); b != nil && !slices.Equal(b.Shape(), []int{op.N}) {
		return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), op.N)
	}
	var in [3][]float32
	for k, i := range []int{0, 2, 5} {
		var err error
		if in[k], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	a, scales, bias := in[0], in[1], in[2]
	y, err := kit.RealOut[float32](c, 0, x.DType(), append(append([]int{}, s[:len(s)-1]...), op.N)...)
	if err != nil {
		return err
	}
	rows := len(a) / op.K
	if rows == 0 {
		return nil
	}
	b := tensor.MustData[uint8](c.Tensor(1))
	strips := (op.N + nbitsColumns - 1) / nbitsColumns
	per := nbitsColumns * op.K
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, strips)*per)
	if err != nil {
		return err
	}
	mask, perByte := uint8(1<<op.Bits-1), 8/op.Bits
	err = kit.InWorkspaces(c, strips, func(ws, i int) error {
		j0 := i * nbitsColumns
		n := min(nbitsColumns, op.N-j0)
		w := scratch[ws*per:][:n*op.K]
		for j := range n {
			row, col := w[j*op.K:][:op.K], j0+j
			zero := func(block int) float32 {
				switch {
				case zeros != nil:
					return zeros[col*kb+block]
				case packed != nil:
					return float32(packed[col*zpRow+block/perByte] >> (block % perByte * op.Bits) & mask)
				}
				return float32(int(1) << (op.Bits - 1))
			}
			for block := range kb {
				data := b[(col*kb+block)*blob:][:blob]
				part := row[block*op.Block:]
				part = part[:min(op.Block, len(part))]
				scale, z := scales[col*kb+block], zero(block)
				if group != nil {
					for k := range part {
						g := group[block*op.Block+k]
						q := float32(data[k/perByte] >> (k % perByte * op.Bits) & mask)
						part[k] = (q - zero(g)) * scales[col*kb+g]
					}
					continue
				}
				unpackBlock(part, data, op.Bits, scale, z)
			}
		}
		out := y.Data[j0:]
		if c.Generic {
			for r := range rows {
				for j := range n {
					sum := 0.0
					for k, v := range a[r*op.K:][:op.K] {
						sum += float64(v) * float64(w[j*op.K+k])
					}
					if bias != nil {
						sum += float64(bias[j0+j])
					}
					out[r*op.N+j] = float32(sum)
				}
			}
			return nil
		}
		g := gemm.Args[float32]{M: rows, N: n, K: op.K, A: a, LdA: op.K, B: w, LdB: op.K,
			TransB: true, C: out, LdC: op.N}
		if bias != nil {
			g.BiasCol = bias[j0:][:n]
		}
		attention.GemmSerial(&g)
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	return nil
}

// unpackBlock writes (code − zero)·scale for the codes of one block.
func unpackBlock(dst []float32, data []uint8, bits int, scale, zero float32) {
	switch bits {
	case 8:
		for k := range dst {
			dst[k] = (float32(data[k]) - zero) * scale
		}
	case 4:
		for k := range dst {
			dst[k] = (float32(data[k>>1]>>(k&1*4)&15) - zero) * scale
		}
	default:
		for k := range dst {
			dst[k] = (float32(data[k>>2]>>(k&3*2)&3) - zero) * scale
		}
	}
}

// matMulNBitsPacked is a MatMulNBits with constant, packed weights.
type matMulNBitsPacked struct {
	MatMulNBits
	w *quant.NBits
}

// Prepare packs constant weights of 4 and 8 bits without g_idx.
func (op *MatMulNBits) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	b, ok := in[1].(*tensor.Tensor)
	s, ok2 := in[2].(*tensor.Tensor)
	if !ok || !ok2 || op.Bits == 2 || len(types) > 4 && types[4].Known() {
		return nil, nil, nil
	}
	kb := op.blocks()
	if s.Len() != op.N*kb || b.Len() != op.N*kb*(op.Block*op.Bits/8) {
		return nil, nil, nil // Run returns the error
	}
	scales := make([]float32, s.Len())
	if err := kit.RealConvert(scales, s); err != nil {
		return nil, nil, fail.Errorf("scales: %w", err)
	}
	var zeros []float32
	if len(types) > 3 && types[3].Known() {
		z, ok := in[3].(*tensor.Tensor)
		if !ok {
			return nil, nil, nil
		}
		row := (kb*op.Bits + 7) / 8
		zeros = make([]float32, s.Len())
		switch {
		case z.DType() == tensor.TypeUint8 && z.Len() == op.N*row:
			zs, per, mask := tensor.MustData[uint8](z), 8/op.Bits, uint8(1<<op.Bits-1)
			for i := range zeros {
				n, k := i/kb, i%kb
				zeros[i] = float32(zs[n*row+k/per] >> (k % per * op.Bits) & mask)
			}
		case z.DType() != tensor.TypeUint8 && z.Len() == s.Len():
			if err := kit.RealConvert(zeros, z); err != nil {
				return nil, nil, fail.Errorf("zero_points: %w", err)
			}
		default:
			return nil, nil, nil
		}
	}
	w, err := quant.PackNBits(tensor.MustData[uint8](b), scales, zeros, op.K, op.N, op.Bits, op.Block)
	if err != nil {
		return nil, nil, err
	}
	return &matMulNBitsPacked{*op, w}, []int{1, 2, 3}[:min(len(in), 4)-1], nil
}

// Run multiplies by the packed weights.
func (op *matMulNBitsPacked) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) == 0 || s[len(s)-1] != op.K {
		return fail.Errorf("A has shape %v, want a last dimension of %d", s, op.K)
	}
	if b := c.Tensor(5); b != nil && !slices.Equal(b.Shape(), []int{op.N}) {
		return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), op.N)
	}
	a, err := kit.RealIn[float32](c, x)
	if err != nil {
		return err
	}
	bias, err := kit.RealIn[float32](c, c.Tensor(5))
	if err != nil {
		return err
	}
	var dims [tensor.MaxRank]int
	y, err := kit.RealOut[float32](c, 0, x.DType(), append(append(dims[:0], s[:len(s)-1]...), op.N)...)
	if err != nil {
		return err
	}
	rows, panels := len(a)/op.K, gemm.Panels(op.N)
	if rows == 0 {
		return nil
	}
	k := int64(op.blocks() * op.Block)
	each := 4*quant.PanelGroup*nbitsColumns*k + int64(12*nbitsColumns*rows)
	if err := c.Reserve(8*k*int64(rows) + int64(kit.WorkspaceCount(c, panels))*each); err != nil {
		return err
	}
	r := ir.Kept[nbitsRun](c)
	if r.par == nil {
		r.par = func(n int, fn func(lo, hi int)) { r.c.Parallel(n, r.grain, fn) }
	}
	r.c, r.grain = c, kit.GrainFor(4*op.K*rows)
	r.args = quant.NBitsArgs{M: rows, A: a, LdA: op.K, B: op.w, Bias: bias, C: y.Data, LdC: op.N,
		Int8: op.AccuracyLevel == 4, Split: c.Split}
	quant.ParallelNBits(r.par, cpu.Active(), &r.args)
	y.Store()
	return nil
}

// nbitsRun holds the arguments of the kernel for a call.
type nbitsRun struct {
	c     *ir.Call
	grain int
	args  quant.NBitsArgs
	par   gemm.Par
}
