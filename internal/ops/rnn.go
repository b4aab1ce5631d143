package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// RNN is a one-layer recurrent network: Ht = f(Xt·Wᵀ + Ht−1·Rᵀ + Wb + Rb)
// (https://onnx.ai/onnx/operators/onnx__RNN.html).
type RNN struct{ recurrent }

const recurrentInputs = "X:T, W:T, R:T, B:T?, sequence_lens:int32?, initial_h:T?"

var _ = register(Def{Name: "RNN", Since: []int{1, 7, 14, 22}, In: recurrentInputs, Out: "Y:T?, Y_h:T?", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &RNN{buildRecurrent(a, opset, 1, "Tanh")}
	})})

// Infer sets the shapes of Y and Y_h.
func (op *RNN) Infer(c *ir.InferContext) error { return op.infer(c, 1) }

// Run computes all directions, one after the other.
func (op *RNN) Run(c *ir.Call) error {
	return runRecurrent(c, func() error { return runRNN[float32](op, c, nil) }, func() error { return runRNN[float64](op, c, nil) })
}

func runRNN[T realFloat](op *RNN, c *ir.Call, packed *recurrentWeights) error {
	r, err := newRecurrentRun[T](c, &op.recurrent, packed, 5)
	if err != nil {
		return err
	}
	if packed != nil {
		r := any(r).(*recurrentRun[float32])
		err := packed.run(r, 1, false, false, func(cell *recurrentCell) {
			a := cell.gates[:cell.n]
			applyCell(c, &op.act[cell.d][0], op.clip, a)
			copy(cell.next, a)
		})
		if err == nil {
			r.store()
		}
		return err
	}
	h := r.hidden
	hr, err := ir.ScratchOf[T](c, r.batch*h)
	if err != nil {
		return err
	}
	for d := range op.reverse {
		err := r.direction(d, 1, func(state [][]T, each func(func(i int, xw []T))) error {
			r.recurrence(d, 0, 1, state[0], nil, hr)
			each(func(i int, xw []T) {
				ht, z := state[0][i*h:][:h], hr[i*h:][:h]
				for k := range ht {
					ht[k] = xw[k] + z[k]
				}
				applyCell(c, &op.act[d][0], op.clip, ht)
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

// rnnPacked is an RNN with constant weights.
type rnnPacked struct {
	RNN
	p *recurrentWeights
}

// Prepare packs constant weights.
func (op *RNN) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.pack(in, 1)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &rnnPacked{*op, p}, []int{1, 2}, nil
}

// Run computes all directions at once.
func (op *rnnPacked) Run(c *ir.Call) error { return runRNN[float32](&op.RNN, c, op.p) }
