package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/tensor"
)

// GRU is a one-layer gated recurrent unit with the gates z (update), r (reset)
// and h (hidden):
//
//	zt = f(Xt·Wzᵀ + Ht−1·Rzᵀ + Wbz + Rbz)
//	rt = f(Xt·Wrᵀ + Ht−1·Rrᵀ + Wbr + Rbr)
//	ht = g(Xt·Whᵀ + (rt ∘ Ht−1)·Rhᵀ + Rbh + Wbh), or
//	ht = g(Xt·Whᵀ + rt ∘ (Ht−1·Rhᵀ + Rbh) + Wbh) with LinearBeforeReset
//	Ht = (1 − zt) ∘ ht + zt ∘ Ht−1
//
// (https://onnx.ai/onnx/operators/onnx__GRU.html).
type GRU struct {
	recurrent.Layer
	LinearBeforeReset bool
}

var _ = kit.Register(&kit.Def{Name: "GRU", Since: kit.Versions{1, 3, 7, 14, 22}, In: recurrent.Inputs,
	Out: "Y:T?, Y_h:T?", Types: "T: @float",
	MACs: kit.RecurrentMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &GRU{Layer: recurrent.Build(a, opset, 3, "Sigmoid", "Tanh")}
		if opset >= 3 {
			op.LinearBeforeReset = a.Bool("linear_before_reset", false)
		}
		return op
	}})

// Infer sets the shapes of Y and Y_h.
func (op *GRU) Infer(c *ir.InferContext) error { return op.InferWith(c, 1) }

// Run computes the directions one after the other.
func (op *GRU) Run(c *ir.Call) error {
	return recurrent.RunAs(c, func() error { return runGRU[float32](op, c, nil) },
		func() error { return runGRU[float64](op, c, nil) })
}

func runGRU[T kit.RealFloat](op *GRU, c *ir.Call, packed *recurrent.Weights) error {
	r, err := recurrent.NewRun[T](c, &op.Layer, packed, 5)
	if err != nil {
		return err
	}
	if packed != nil {
		return packedGRU(op, any(r).(*recurrent.Run[float32]), packed)
	}
	h := r.Hidden
	scratch, err := ir.ScratchOf[T](c, 4*r.Batch*h)
	if err != nil {
		return err
	}
	zr, hr, reset := scratch[:2*r.Batch*h], scratch[2*r.Batch*h:3*r.Batch*h], scratch[3*r.Batch*h:]
	split := 3
	if op.LinearBeforeReset {
		split = 2
	}
	for d := range op.Reverse {
		f, g := &op.Act[d][0], &op.Act[d][1]
		var rbh []T
		if op.LinearBeforeReset && r.B != nil {
			rbh = r.B[(d*6+5)*h:][:h]
		}
		gates := func(i int, xw []T) {
			z := zr[i*2*h:][:2*h]
			for k := range z {
				z[k] += xw[k]
			}
			recurrent.ApplyCell(c, f, op.Clip, z)
		}
		err := r.Direction(d, split, func(state [][]T, each func(func(i int, xw []T))) error {
			r.Recurrence(d, 0, 2, state[0], nil, zr)
			if op.LinearBeforeReset {
				r.Recurrence(d, 2, 3, state[0], rbh, hr)
			} else {
				// The reset state of sequences that have ended is not used.
				clear(reset)
				each(func(i int, xw []T) {
					gates(i, xw)
					ht, rt := state[0][i*h:][:h], zr[i*2*h+h:][:h]
					for k, v := range ht {
						reset[i*h+k] = rt[k] * v
					}
				})
				r.Recurrence(d, 2, 3, reset, nil, hr)
			}
			each(func(i int, xw []T) {
				if op.LinearBeforeReset {
					gates(i, xw)
				}
				ht, zt, rt, n := state[0][i*h:][:h], zr[i*2*h:][:h], zr[i*2*h+h:][:h], hr[i*h:][:h]
				for k, v := range n {
					if op.LinearBeforeReset {
						v *= rt[k]
					}
					n[k] = xw[2*h+k] + v
				}
				recurrent.ApplyCell(c, g, op.Clip, n)
				for k, z := range zt {
					ht[k] = (1-z)*n[k] + z*ht[k]
				}
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.Store()
	return nil
}

// gruPacked is a GRU with constant weights.
type gruPacked struct {
	GRU
	p *recurrent.Weights
}

// Prepare packs constant weights.
func (op *GRU) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.Pack(in, types, 2, 1)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &gruPacked{*op, p}, []int{1, 2}, nil
}

// Run computes with packed weights.
func (op *gruPacked) Run(c *ir.Call) error { return runGRU[float32](&op.GRU, c, op.p) }

// packedGRU computes z and r in the first stage and h in the second one.
func packedGRU(op *GRU, r *recurrent.Run[float32], p *recurrent.Weights) error {
	split, linear := 3, op.LinearBeforeReset
	if linear {
		split = 2
	}
	err := p.Run(r, split, !linear, linear, func(cell *recurrent.Cell) bool {
		f, l := &op.Act[cell.D][0], cpu.Active()
		if f.Name == "sigmoid" && op.Clip == 0 && vec.GRUResetF32(l, &cell.Cells) {
			return true
		}
		if cell.Rows > 1 {
			return false
		}
		recurrent.ApplyCell(r.C, f, op.Clip, cell.Gates[:2*cell.Unit])
		if !linear {
			vec.MulF32(l, cell.Second[:cell.N], cell.Hidden, cell.Gates[cell.Unit:])
		}
		return true
	}, func(cell *recurrent.Cell) bool {
		g, l := &op.Act[cell.D][1], cpu.Active()
		if g.Name == "tanh" && op.Clip == 0 && vec.GRUStateF32(l, &cell.Cells, cell.First, cell.Recurrence,
			cell.RecurrentStep) {
			return true
		}
		if cell.Rows > 1 {
			return false
		}
		n, z, next := cell.Gates[:cell.N], cell.First[:cell.N], cell.Next[:cell.N]
		if linear {
			v := cell.Recurrence[:cell.N]
			vec.MulF32(l, v, v, cell.First[cell.Unit:])
			vec.AddF32(l, n, n, v)
		}
		recurrent.ApplyCell(r.C, g, op.Clip, n)
		vec.MulF32(l, next, z, cell.Hidden)
		vec.ScaleShiftF32(l, z, z, -1, 1)
		vec.MulF32(l, n, n, z)
		vec.AddF32(l, next, next, n)
		copy(cell.Y, next)
		return true
	})
	if err == nil {
		r.Store()
	}
	return err
}
