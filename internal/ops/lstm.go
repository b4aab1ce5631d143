package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
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
	recurrent.Layer
	InputForget bool
}

var _ = kit.Register(&kit.Def{Name: "LSTM", Since: kit.Versions{1, 7, 14, 22},
	In: recurrent.Inputs + ", initial_c:T?, P:T?", Out: "Y:T?, Y_h:T?, Y_c:T?",
	MACs:  kit.RecurrentMACs,
	Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &LSTM{recurrent.Build(a, opset, 4, "Sigmoid", "Tanh", "Tanh"), a.Bool("input_forget", false)}
	}})

// Infer sets the shapes of Y, Y_h and Y_c.
func (op *LSTM) Infer(c *ir.InferContext) error { return op.InferWith(c, 2) }

// Run computes the directions one after the other.
func (op *LSTM) Run(c *ir.Call) error {
	return recurrent.RunAs(c, func() error { return RunLSTM[float32](op, c, nil, LSTMHooks[float32]{}) }, func() error {
		return RunLSTM[float64](op, c, nil, LSTMHooks[float64]{})
	})
}

// LSTMHooks modify an LSTM with unpacked weights. Each may be nil.
type LSTMHooks[T kit.RealFloat] struct {
	// Products is that of [recurrent.Run]. Biases are added after the products.
	Products recurrent.Products[T]
	Before   func(d int, gates []T) error  // adds to the gates [batch 4·hidden] of a step of direction d
	After    func(d int, hidden []T) error // is called with the hidden state [batch hidden] after a step
}

// RunLSTM runs the LSTM.
func RunLSTM[T kit.RealFloat](op *LSTM, c *ir.Call, packed *recurrent.Weights, hooks LSTMHooks[T]) error {
	r, err := recurrent.NewRun[T](c, &op.Layer, packed, 5, 6)
	if err != nil {
		return err
	}
	h := r.Hidden
	if p := c.Tensor(7); p != nil && !slices.Equal(p.Shape(), []int{len(op.Reverse), 3 * h}) {
		return fail.Errorf("P has shape %v, want [%d %d]", p.Shape(), len(op.Reverse), 3*h)
	}
	peep, err := kit.RealIn[T](c, c.Tensor(7))
	if err != nil {
		return err
	}
	if packed != nil {
		return packedLSTM(op, any(r).(*recurrent.Run[float32]), packed, any(peep).([]float32))
	}
	gates, err := ir.ScratchOf[T](c, r.Batch*4*h)
	if err != nil {
		return err
	}
	r.Products = hooks.Products
	for d := range op.Reverse {
		f, g, hf := &op.Act[d][0], &op.Act[d][1], &op.Act[d][2]
		var pi, po, pf []T
		if peep != nil {
			p := peep[d*3*h:][:3*h]
			pi, po, pf = p[:h], p[h:2*h], p[2*h:]
		}
		var bias []T
		if hooks.Products != nil {
			if bias, err = r.Bias(d, 4); err != nil {
				return err
			}
		}
		err := r.Direction(d, 4, func(state [][]T, each func(func(i int, xw []T))) error {
			if hooks.Products == nil {
				r.Recurrence(d, 0, 4, state[0], nil, gates)
			} else if err := hooks.Products(d, true, r.Batch, state[0], gates); err != nil {
				return err
			}
			if hooks.Before != nil {
				if err := hooks.Before(d, gates); err != nil {
					return err
				}
			}
			each(func(i int, xw []T) {
				a := gates[i*4*h:][:4*h]
				for k, v := range xw[:len(a)] {
					a[k] += v
				}
				for k, v := range bias {
					a[k] += v
				}
				it, ot, ft, ct := a[:h], a[h:2*h], a[2*h:3*h], a[3*h:]
				ht, cell := state[0][i*h:][:h], state[1][i*h:][:h]
				addProduct(it, pi, cell)
				recurrent.ApplyCell(c, f, op.Clip, it)
				if op.InputForget {
					for k, v := range it {
						ft[k] = 1 - v
					}
				} else {
					addProduct(ft, pf, cell)
					recurrent.ApplyCell(c, f, op.Clip, ft)
				}
				recurrent.ApplyCell(c, g, op.Clip, ct)
				for k, v := range cell {
					cell[k] = ft[k]*v + it[k]*ct[k]
				}
				addProduct(ot, po, cell)
				recurrent.ApplyCell(c, f, op.Clip, ot)
				copy(ht, cell)
				recurrent.ApplyCell(c, hf, op.stateClip(), ht)
				for k, v := range ot {
					ht[k] *= v
				}
			})
			if hooks.After != nil {
				return hooks.After(d, state[0])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.Store()
	return nil
}

// stateClip returns the bound of the cell state at h, 0 for none. The specification clips the
// input of every activation. ONNX Runtime, which defines DynamicQuantizeLSTM, clips only
// those of the gates.
func (op *LSTM) stateClip() float64 {
	if op.Bytes {
		return 0
	}
	return op.Clip
}

// addProduct adds a ∘ b to dst, or nothing if a is nil.
func addProduct[T kit.RealFloat](dst, a, b []T) {
	for k, v := range a {
		dst[k] += v * b[k]
	}
}

// lstmPacked is an LSTM with constant weights.
type lstmPacked struct {
	LSTM
	p *recurrent.Weights
}

// Prepare packs constant weights.
func (op *LSTM) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.Pack(in, types, 4)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &lstmPacked{*op, p}, []int{1, 2}, nil
}

// Run computes with packed weights.
func (op *lstmPacked) Run(c *ir.Call) error {
	return RunLSTM[float32](&op.LSTM, c, op.p, LSTMHooks[float32]{})
}

// packedLSTM computes all gates in one stage. peep holds pi, po and pf of each direction, or is
// empty.
func packedLSTM(op *LSTM, r *recurrent.Run[float32], p *recurrent.Weights, peep []float32) error {
	h := p.H
	plain := func(d int) bool {
		return peep == nil && !op.InputForget && op.Clip == 0 && op.Act[d][0].Name == "sigmoid" &&
			op.Act[d][1].Name == "tanh" && op.Act[d][2].Name == "tanh"
	}
	err := p.Run(r, 4, false, false, func(cell *recurrent.Cell) bool {
		if plain(cell.D) && (vec.LSTMCellF32(cpu.Active(), &cell.Cells) || lstmRows(&cell.Cells)) {
			return true
		}
		if cell.Rows > 1 {
			return false
		}
		f, g, hf := &op.Act[cell.D][0], &op.Act[cell.D][1], &op.Act[cell.D][2]
		n, u, a := cell.N, cell.Unit, cell.Gates
		state, next := cell.Second[:n], cell.Next[:n]
		it, ot, ft, ct := a[:n], a[u:][:n], a[2*u:][:n], a[3*u:][:n]
		if peep == nil && !op.InputForget {
			recurrent.ApplyCell(r.C, f, op.Clip, a[:3*u])
		} else {
			var pi, pf []float32
			if peep != nil {
				at := peep[cell.D*3*h+cell.U0:]
				pi, pf = at[:n], at[2*h:][:n]
			}
			addProduct(it, pi, state)
			recurrent.ApplyCell(r.C, f, op.Clip, it)
			if op.InputForget {
				for k, v := range it {
					ft[k] = 1 - v
				}
			} else {
				addProduct(ft, pf, state)
				recurrent.ApplyCell(r.C, f, op.Clip, ft)
			}
		}
		recurrent.ApplyCell(r.C, g, op.Clip, ct)
		l := cpu.Active()
		vec.MulF32(l, state, state, ft)
		vec.MulF32(l, it, it, ct)
		vec.AddF32(l, state, state, it)
		if peep != nil || op.InputForget {
			if peep != nil {
				addProduct(ot, peep[cell.D*3*h+h+cell.U0:][:n], state)
			}
			recurrent.ApplyCell(r.C, f, op.Clip, ot)
		}
		copy(next, state)
		recurrent.ApplyCell(r.C, hf, op.stateClip(), next)
		vec.MulF32(l, next, next, ot)
		copy(cell.Y, next)
		return true
	})
	if err == nil {
		r.Store()
	}
	return err
}

// lstmRows is [vec.LSTMCellF32] for several rows of adjacent states, with few calls of kernels. It
// replaces the gates.
func lstmRows(c *vec.Cells) bool {
	if c.Rows == 1 || c.Step != c.N {
		return false
	}
	const short = 32 // units for which a call costs more than the sigmoid of a fourth gate
	l, n, u := cpu.Active(), c.N, c.Unit
	state, next := c.Second[:c.Rows*n], c.Next[:c.Rows*n]
	for r := range c.Rows {
		copy(next[r*n:][:n], c.Gates[r*c.GateStep+3*u:])
	}
	vec.TanhF32(l, next, next)
	together := c.GateStep == 4*u && u <= short
	if together {
		vec.SigmoidF32(l, c.Gates[:c.Rows*4*u], c.Gates[:c.Rows*4*u])
	}
	for r := range c.Rows {
		a, s, x := c.Gates[r*c.GateStep:][:3*u], state[r*n:][:n], next[r*n:][:n]
		if !together {
			vec.SigmoidF32(l, a, a)
		}
		vec.MulF32(l, s, s, a[2*u:][:n])
		vec.MulF32(l, x, x, a[:n])
		vec.AddF32(l, s, s, x)
	}
	vec.TanhF32(l, next, state)
	for r := range c.Rows {
		x := next[r*n:][:n]
		vec.MulF32(l, x, x, c.Gates[r*c.GateStep+u:][:n])
		if c.Y != nil {
			copy(c.Y[r*c.YStep:], x)
		}
	}
	return true
}
