package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// QLinearWhere selects elements of X where the condition is true and of Y elsewhere, both
// quantized, and requantizes them
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearWhere).
type QLinearWhere struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearWhere", Since: kit.Versions{1},
	Class: kit.ClassArithmetic,
	In:    "condition:B, X:T, x_scale:TF, x_zero_point:T, Y:T, y_scale:TF, y_zero_point:T, z_scale:TF, z_zero_point:T",
	Out:   "Z:T", Types: "B: bool; TF: float; T: " + byteTypes,
	Build: kit.WithoutAttrs[QLinearWhere]})

// Infer broadcasts the three shapes.
func (*QLinearWhere) Infer(c *ir.InferContext) error {
	shape, err := kit.BroadcastDims(c.Shape(0), c.Shape(1), c.Shape(4))
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(1), shape)
	return nil
}

// Run implements [ir.Operator].
func (*QLinearWhere) Run(c *ir.Call) error {
	cond, x, y := c.Tensor(0), c.Tensor(1), c.Tensor(4)
	shapes := [][]int{cond.Shape(), x.Shape(), y.Shape()}
	shape, err := kit.BroadcastShapes(shapes...)
	if err != nil {
		return err
	}
	d := x.DType()
	qx, err := byteQuantOf(c, "X", d, 2, 3)
	if err != nil {
		return err
	}
	qy, err := byteQuantOf(c, "Y", d, 5, 6)
	if err != nil {
		return err
	}
	qz, err := byteQuantOf(c, "Z", d, 7, 8)
	if err != nil {
		return err
	}
	tx, ty := qx.table(qz, sameReal), qy.table(qz, sameReal)
	l := elementwise.Loop{In: d, Out: d, Arity: 3, Run: func(dst []byte, in *[3][]byte) {
		which, u, v := memory.FromRaw[bool](in[0])[:len(dst)], in[1][:len(dst)], in[2][:len(dst)]
		for i := range dst {
			r := ty[v[i]]
			if which[i] {
				r = tx[u[i]]
			}
			dst[i] = r
		}
	}, Fast: func(dst []byte, in *[3][]byte) {
		var xs [1024]byte
		level := cpu.Active()
		for lo := 0; lo < len(dst); lo += len(xs) {
			hi := min(len(dst), lo+len(xs))
			part, x := dst[lo:hi], xs[:hi-lo]
			vec.MapU8(level, x, in[1][lo:hi], tx)
			vec.MapU8(level, part, in[2][lo:hi], ty)
			vec.SelectU8(level, part, x, part, memory.FromRaw[bool](in[0])[lo:hi])
		}
	}}
	return elementwise.RunLoop(c, l, kit.GrainCheap, shape, []*tensor.Tensor{cond, x, y}, shapes)
}
