package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// LSTM is a one-layer long short-term memory with the gates i (input), o
// (output), f (forget) and c (cell), and peepholes P:
//
//	it = f(Xt·Wiᵀ + Ht−1·Riᵀ + Pi ∘ Ct−1 + Wbi + Rbi)
//	ft = f(Xt·Wfᵀ + Ht−1·Rfᵀ + Pf ∘ Ct−1 + Wbf + Rbf), or 1 − it with InputForget
//	ct = g(Xt·Wcᵀ + Ht−1·Rcᵀ + Wbc + Rbc)
//	Ct = ft ∘ Ct−1 + it ∘ ct
//	ot = f(Xt·Woᵀ + Ht−1·Roᵀ + Po ∘ Ct + Wbo + Rbo)
//	Ht = ot ∘ h(Ct)
//
// (https://onnx.ai/onnx/operators/onnx__LSTM.html).
type LSTM struct {
	recurrent
	InputForget bool
}

var _ = register(Def{Name: "LSTM", Since: []int{1, 7, 14, 22}, In: recurrentInputs + ", initial_c:T?, P:T?", Out: "Y:T?, Y_h:T?, Y_c:T?",
	Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &LSTM{buildRecurrent(a, opset, 4, "Sigmoid", "Tanh", "Tanh"), a.Bool("input_forget", false)}
	})})

// Infer sets the shapes of Y, Y_h and Y_c.
func (op *LSTM) Infer(c *ir.InferContext) error { return op.infer(c, 2) }

// Run computes all directions, one after the other.
func (op *LSTM) Run(c *ir.Call) error {
	return runRecurrent(c, func() error { return runLSTM[float32](op, c, nil, lstmHooks[float32]{}) }, func() error { return runLSTM[float64](op, c, nil, lstmHooks[float64]{}) })
}

// lstmHooks change an LSTM with weights that are not packed; each may be nil.
type lstmHooks[T realFloat] struct {
	round  func(state []T) error         // changes the copy of the hidden state that is multiplied
	before func(d int, gates []T) error  // adds to the gates [batch 4·hidden] of a step of direction d
	after  func(d int, hidden []T) error // sees the hidden state [batch hidden] behind a step
}

// runLSTM runs the LSTM.
func runLSTM[T realFloat](op *LSTM, c *ir.Call, packed *recurrentWeights, hooks lstmHooks[T]) error {
	r, err := newRecurrentRun[T](c, &op.recurrent, packed, 5, 6)
	if err != nil {
		return err
	}
	h := r.hidden
	if p := c.Tensor(7); p != nil && !slices.Equal(p.Shape(), []int{len(op.reverse), 3 * h}) {
		return fmt.Errorf("P has shape %v, want [%d %d]", p.Shape(), len(op.reverse), 3*h)
	}
	peep, err := realIn[T](c, c.Tensor(7))
	if err != nil {
		return err
	}
	if packed != nil {
		return packedLSTM(op, any(r).(*recurrentRun[float32]), packed, any(peep).([]float32))
	}
	gates, err := ir.ScratchOf[T](c, r.batch*4*h)
	if err != nil {
		return err
	}
	var rounded []T
	if hooks.round != nil {
		if rounded, err = ir.ScratchOf[T](c, r.batch*h); err != nil {
			return err
		}
	}
	for d := range op.reverse {
		f, g, hf := &op.act[d][0], &op.act[d][1], &op.act[d][2]
		var pi, po, pf []T
		if peep != nil {
			p := peep[d*3*h:][:3*h]
			pi, po, pf = p[:h], p[h:2*h], p[2*h:]
		}
		err := r.direction(d, 4, func(state [][]T, each func(func(i int, xw []T))) error {
			hidden := state[0]
			if hooks.round != nil {
				hidden = rounded
				copy(hidden, state[0])
				if err := hooks.round(hidden); err != nil {
					return err
				}
			}
			r.recurrence(d, 0, 4, hidden, nil, gates)
			if hooks.before != nil {
				if err := hooks.before(d, gates); err != nil {
					return err
				}
			}
			each(func(i int, xw []T) {
				a := gates[i*4*h:][:4*h]
				for k, v := range xw[:len(a)] {
					a[k] += v
				}
				it, ot, ft, ct := a[:h], a[h:2*h], a[2*h:3*h], a[3*h:]
				ht, cell := state[0][i*h:][:h], state[1][i*h:][:h]
				addProduct(it, pi, cell)
				applyCell(c, f, op.clip, it)
				if op.InputForget {
					for k, v := range it {
						ft[k] = 1 - v
					}
				} else {
					addProduct(ft, pf, cell)
					applyCell(c, f, op.clip, ft)
				}
				applyCell(c, g, op.clip, ct)
				for k, v := range cell {
					cell[k] = ft[k]*v + it[k]*ct[k]
				}
				addProduct(ot, po, cell)
				applyCell(c, f, op.clip, ot)
				copy(ht, cell)
				applyCell(c, hf, op.clip, ht)
				for k, v := range ot {
					ht[k] *= v
				}
			})
			if hooks.after != nil {
				return hooks.after(d, state[0])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.store()
	return nil
}

// addProduct adds a ∘ b to dst; a nil a stands for zeros.
func addProduct[T realFloat](dst, a, b []T) {
	for k, v := range a {
		dst[k] += v * b[k]
	}
}

// lstmPacked is an LSTM with constant weights.
type lstmPacked struct {
	LSTM
	p *recurrentWeights
}

// Prepare packs constant weights.
func (op *LSTM) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.pack(in, 4)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &lstmPacked{*op, p}, []int{1, 2}, nil
}

// Run computes all directions at once.
func (op *lstmPacked) Run(c *ir.Call) error {
	return runLSTM[float32](&op.LSTM, c, op.p, lstmHooks[float32]{})
}

// packedLSTM computes all gates in one stage; peep holds pi, po and pf of every direction, or nothing.
func packedLSTM(op *LSTM, r *recurrentRun[float32], p *recurrentWeights, peep []float32) error {
	h, u := p.h, p.unit
	err := p.run(r, 4, false, false, func(cell *recurrentCell) {
		f, g, hf := &op.act[cell.d][0], &op.act[cell.d][1], &op.act[cell.d][2]
		n, a, state := cell.n, cell.gates, cell.cell
		it, ot, ft, ct := a[:n], a[u:][:n], a[2*u:][:n], a[3*u:][:n]
		if peep == nil && !op.InputForget {
			applyCell(r.c, f, op.clip, a[:3*u])
		} else {
			var pi, pf []float32
			if peep != nil {
				at := peep[cell.d*3*h+cell.u0:]
				pi, pf = at[:n], at[2*h:][:n]
			}
			addProduct(it, pi, state)
			applyCell(r.c, f, op.clip, it)
			if op.InputForget {
				for k, v := range it {
					ft[k] = 1 - v
				}
			} else {
				addProduct(ft, pf, state)
				applyCell(r.c, f, op.clip, ft)
			}
		}
		applyCell(r.c, g, op.clip, ct)
		for k, v := range state {
			state[k] = ft[k]*v + it[k]*ct[k]
		}
		if peep != nil || op.InputForget {
			if peep != nil {
				addProduct(ot, peep[cell.d*3*h+h+cell.u0:][:n], state)
			}
			applyCell(r.c, f, op.clip, ot)
		}
		copy(cell.next, state)
		applyCell(r.c, hf, op.clip, cell.next)
		next := cell.next[:len(ot)]
		for k, v := range ot {
			next[k] *= v
		}
	})
	if err == nil {
		r.store()
	}
	return err
}
