package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/tensor"
)

// RNN is a one-layer recurrent network: Ht = f(Xt·Wᵀ + Ht−1·Rᵀ + Wb + Rb)
// (https://onnx.ai/onnx/operators/onnx__RNN.html).
type RNN struct{ recurrent.Layer }

var _ = kit.Register(&kit.Def{Name: "RNN", Since: kit.Versions{1, 7, 14, 22}, In: recurrent.Inputs, Out: "Y:T?, Y_h:T?",
	Types: "T: @float",
	MACs:  kit.RecurrentMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &RNN{recurrent.Build(a, opset, 1, "Tanh")}
	}})

// Infer sets the shapes of Y and Y_h.
func (op *RNN) Infer(c *ir.InferContext) error { return op.InferWith(c, 1) }

// Run computes the directions one after the other.
func (op *RNN) Run(c *ir.Call) error {
	return recurrent.RunAs(c, func() error { return runRNN[float32](op, c, nil) },
		func() error { return runRNN[float64](op, c, nil) })
}

func runRNN[T kit.RealFloat](op *RNN, c *ir.Call, packed *recurrent.Weights) error {
	r, err := recurrent.NewRun[T](c, &op.Layer, packed, 5)
	if err != nil {
		return err
	}
	if packed != nil {
		r := any(r).(*recurrent.Run[float32])
		err := packed.Run(r, 1, false, false, func(cell *recurrent.Cell) bool {
			for i := range cell.Rows {
				a := cell.Gates[i*cell.GateStep:][:cell.N]
				recurrent.ApplyCell(c, &op.Act[cell.D][0], op.Clip, a)
				copy(cell.Next[i*cell.Step:], a)
				if cell.Y != nil {
					copy(cell.Y[i*cell.YStep:], a)
				}
			}
			return true
		})
		if err == nil {
			r.Store()
		}
		return err
	}
	h := r.Hidden
	hr, err := ir.ScratchOf[T](c, r.Batch*h)
	if err != nil {
		return err
	}
	for d := range op.Reverse {
		err := r.Direction(d, 1, func(state [][]T, each func(func(i int, xw []T))) error {
			r.Recurrence(d, 0, 1, state[0], nil, hr)
			each(func(i int, xw []T) {
				ht, z := state[0][i*h:][:h], hr[i*h:][:h]
				for k := range ht {
					ht[k] = xw[k] + z[k]
				}
				recurrent.ApplyCell(c, &op.Act[d][0], op.Clip, ht)
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

// rnnPacked is an RNN with constant weights.
type rnnPacked struct {
	RNN
	p *recurrent.Weights
}

// Prepare packs constant weights.
func (op *RNN) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	p, err := op.Pack(in, types, 1)
	if p == nil || err != nil {
		return nil, nil, err
	}
	return &rnnPacked{*op, p}, []int{1, 2}, nil
}

// Run computes with packed weights.
func (op *rnnPacked) Run(c *ir.Call) error { return runRNN[float32](&op.RNN, c, op.p) }
