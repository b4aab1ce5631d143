package ops

import (
	"github.com/onward-ml/onward/internal/ir"
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
	recurrent
	LinearBeforeReset bool
}

var _ = register(Def{Name: "GRU", Since: []int{1, 3, 7, 14, 22}, In: recurrentInputs, Out: "Y:T?, Y_h:T?", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		op := &GRU{recurrent: buildRecurrent(a, opset, 3, "Sigmoid", "Tanh")}
		if opset >= 3 {
			op.LinearBeforeReset = a.Bool("linear_before_reset", false)
		}
		return op
	})})

// Infer sets the shapes of Y and Y_h.
func (op *GRU) Infer(c *ir.InferContext) error { return op.infer(c, 1) }

// Run computes all directions, one after the other.
func (op *GRU) Run(c *ir.Call) error {
	return runRecurrent(c, func() error { return runGRU[float32](op, c, nil) }, func() error { return runGRU[float64](op, c, nil) })
}

func runGRU[T realFloat](op *GRU, c *ir.Call, packed *recurrentWeights) error {
	r, err := newRecurrentRun[T](c, &op.recurrent, packed, 5)
	if err != nil {
		return err
	}
	if packed != nil {
		return packedGRU(op, any(r).(*recurrentRun[float32]), packed)
	}
	h := r.hidden
	scratch, err := ir.ScratchOf[T](c, 4*r.batch*h)
	if err != nil {
		return err
	}
	zr, hr, reset := scratch[:2*r.batch*h], scratch[2*r.batch*h:3*r.batch*h], scratch[3*r.batch*h:]
	split := 3
	if op.LinearBeforeReset {
		split = 2
	}
	for d := range op.reverse {
		f, g := &op.act[d][0], &op.act[d][1]
		var rbh []T
		if op.LinearBeforeReset && r.b != nil {
			rbh = r.b[(d*6+5)*h:][:h]
		}
		gates := func(i int, xw []T) {
			z := zr[i*2*h:][:2*h]
			for k := range z {
				z[k] += xw[k]
			}
			applyCell(c, f, op.clip, z)
		}
		err := r.direction(d, split, func(state [][]T, each func(func(i int, xw []T))) error {
			r.recurrence(d, 0, 2, state[0], nil, zr)
			if op.LinearBeforeReset {
				r.recurrence(d, 2, 3, state[0], rbh, hr)
			} else {
				// The reset state of items that have ended is not read.
				clear(reset)
				each(func(i int, xw []T) {
					gates(i, xw)
					ht, rt := state[0][i*h:][:h], zr[i*2*h+h:][:h]
					for k, v := range ht {
						reset[i*h+k] = rt[k] * v
					}
				})
				r.recurrence(d, 2, 3, reset, nil, hr)
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
				applyCell(c, g, op.clip, n)
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
	r.store()
	return nil
}

// gruPacked is a GRU with constant weights.
type gruPacked struct {
	GRU
	p *recurrentWeights
}

// Prepare packs constant weights.
func (op *GRU) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.pack(in, 2, 1)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &gruPacked{*op, p}, []int{1, 2}, nil
}

// Run computes all directions at once.
func (op *gruPacked) Run(c *ir.Call) error { return runGRU[float32](&op.GRU, c, op.p) }

// packedGRU computes z and r in the first stage and h in the second one.
func packedGRU(op *GRU, r *recurrentRun[float32], p *recurrentWeights) error {
	split, linear := 3, op.LinearBeforeReset
	if linear {
		split = 2
	}
	err := p.run(r, split, !linear, linear, func(cell *recurrentCell) {
		applyCell(r.c, &op.act[cell.d][0], op.clip, cell.gates)
		if !linear {
			rt := cell.gates[p.unit:][:cell.n]
			for k, v := range cell.h {
				cell.other[k] = rt[k] * v
			}
		}
	}, func(cell *recurrentCell) {
		n, z := cell.gates[:cell.n], cell.first[:cell.n]
		if linear {
			rt, v := cell.first[p.unit:][:cell.n], cell.recurrence[:cell.n]
			for k := range n {
				n[k] += v[k] * rt[k]
			}
		}
		applyCell(r.c, &op.act[cell.d][1], op.clip, n)
		h, next := cell.h[:len(n)], cell.next[:len(n)]
		for k, v := range z {
			next[k] = (1-v)*n[k] + v*h[k]
		}
	})
	if err == nil {
		r.store()
	}
	return err
}
