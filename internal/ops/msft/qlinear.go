package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// The QLinear operators of com.microsoft work on 8-bit integers with one scale and one
// zero point per tensor
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
// Functions of one element are computed by tables of 256 entries.

const byteTypes = "int8 uint8"

// byteQuant is the scale and the zero point of a tensor of 8-bit integers.
type byteQuant struct {
	scale  float32
	zero   int32
	signed bool
}

// byteQuantOf reads the scale, input is, and the zero point, input iz or 0 if missing, of
// tensors of type d.
func byteQuantOf(c *ir.Call, name string, d tensor.DType, is, iz int) (byteQuant, error) {
	q := byteQuant{signed: d == tensor.TypeInt8}
	s, z := c.Tensor(is), c.Tensor(iz)
	if s.Len() != 1 {
		return q, fail.Errorf("the scale of %s has shape %v, want one element", name, s.Shape())
	}
	q.scale = tensor.MustData[float32](s)[0]
	if z == nil {
		return q, nil
	}
	if z.Len() != 1 {
		return q, fail.Errorf("the zero point of %s has shape %v, want one element", name, z.Shape())
	}
	if z.DType() != d {
		return q, fail.Errorf("the zero point of %s is %s, want %s", name, z.DType(), d)
	}
	q.zero = q.int(z.Bytes()[0])
	return q, nil
}

// int returns byte b as an integer of q's signedness.
func (q *byteQuant) int(b byte) int32 {
	if q.signed {
		return int32(int8(b))
	}
	return int32(b)
}

// reals returns the dequantized value (x − zero)·scale of every byte x.
func (q *byteQuant) reals() *[256]float32 {
	var t [256]float32
	for i := range t {
		t[i] = float32(q.int(byte(i))-q.zero) * q.scale
	}
	return &t
}

// widen dequantizes src to dst with vector kernels. The results are bitwise equal to
// those of reals.
func (q *byteQuant) widen(l cpu.Level, dst []float32, src []byte) {
	if q.signed {
		vec.I8ToF32(l, dst, memory.FromRaw[int8](src))
	} else {
		vec.U8ToF32(l, dst, src)
	}
	if q.zero != 0 {
		vec.SubScalarF32(l, dst, dst, float32(q.zero))
	}
	if q.scale != 1 {
		vec.MulScalarF32(l, dst, dst, q.scale)
	}
}

// narrow quantizes x / scale with vector kernels; see quantize.
func (q *byteQuant) narrow(l cpu.Level, dst []byte, x []float32, scale float32) {
	if q.signed {
		quant.Quantize(l, memory.FromRaw[int8](dst), x, scale, int8(q.zero))
	} else {
		quant.Quantize(l, dst, x, scale, uint8(q.zero))
	}
}

// requantize converts src from q's scale and zero point to those of to.
func (q *byteQuant) requantize(l cpu.Level, dst []byte, to *byteQuant, src []byte) {
	st := elementwise.LoopStates.Get().(*elementwise.LoopState)
	defer elementwise.LoopStates.Put(st)
	for lo := 0; lo < len(src); lo += kit.LoopBlock {
		hi := min(len(src), lo+kit.LoopBlock)
		u := st.Widened[0][:hi-lo]
		q.widen(l, u, src[lo:hi])
		to.narrow(l, dst[lo:hi], u, to.scale)
	}
}

// limits returns the least and the greatest integer of q's type.
func (q *byteQuant) limits() (lo, hi float32) {
	if q.signed {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// quantize stores x + zero, where x is rounded half to even and the sum is saturated; NaN
// becomes the least integer.
func (q *byteQuant) quantize(dst []byte, x []float32) {
	lo, hi := q.limits()
	zero := float32(q.zero)
	for i, v := range x {
		v = float32(math.RoundToEven(float64(v))) + zero
		if !(v >= lo) {
			v = lo
		}
		dst[i] = byte(int32(min(v, hi)))
	}
}

// table returns, for every byte x, f((x − zero)·scale) quantized by to.
func (q *byteQuant) table(to byteQuant, f func(x float32) float32) *[256]byte {
	var r [256]byte
	x := q.reals()
	for i, v := range x {
		x[i] = f(v) / to.scale
	}
	to.quantize(r[:], x[:])
	return &r
}

func sameReal(x float32) float32 { return x }

// runQLinearUnary applies f to the dequantized input and quantizes the result. The inputs
// are X, its scale and zero point, and the scale and zero point of the output.
func runQLinearUnary(c *ir.Call, f func(x float32) float32) error {
	x := c.Tensor(0)
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	t := in.table(out, f)
	src, dst := x.Bytes(), y.Bytes()
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) { kit.MapBytes(dst[lo:hi], src[lo:hi], t) })
	return nil
}

// runQLinearBinary applies fn to two dequantized, broadcast tensors and quantizes the
// result. The inputs are A, B and their scales and zero points, and those of C. scales
// adapts the scales of A and B so that fn returns multiples of C's scale. fast, if not
// nil, replaces the generic loop.
func runQLinearBinary(c *ir.Call, fn func(dst, a, b []float32), scales func(a, b, y *byteQuant),
	fast func(dst, a, b []byte, qa, qb, y *byteQuant)) error {
	a, b := c.Tensor(0), c.Tensor(3)
	shape, err := kit.BroadcastShapes(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	qa, err := byteQuantOf(c, "A", a.DType(), 1, 2)
	if err != nil {
		return err
	}
	qb, err := byteQuantOf(c, "B", a.DType(), 4, 5)
	if err != nil {
		return err
	}
	qc, err := byteQuantOf(c, "C", a.DType(), 6, 7)
	if err != nil {
		return err
	}
	scales(&qa, &qb, &qc)
	ta, tb := qa.reals(), qb.reals()
	l := elementwise.Loop{In: a.DType(), Out: a.DType(), Arity: 2, Run: func(dst []byte, in *[3][]byte) {
		st := elementwise.LoopStates.Get().(*elementwise.LoopState)
		defer elementwise.LoopStates.Put(st)
		for lo := 0; lo < len(dst); lo += kit.LoopBlock {
			hi := min(len(dst), lo+kit.LoopBlock)
			x, y := in[0][lo:hi], in[1][lo:hi]
			u, v := st.Widened[0][:len(x)], st.Widened[1][:len(x)]
			for i, k := range x {
				u[i] = ta[k]
			}
			for i, k := range y {
				v[i] = tb[k]
			}
			fn(u, u, v)
			qc.quantize(dst[lo:hi], u)
		}
	}}
	if fast != nil {
		l.Fast = func(dst []byte, in *[3][]byte) { fast(dst, in[0][:len(dst)], in[1][:len(dst)], &qa, &qb, &qc) }
	}
	return elementwise.RunLoop(c, l, kit.GrainCheap, shape, []*tensor.Tensor{a, b}, [][]int{a.Shape(), b.Shape()})
}

// addBytes adds in multiples of y's scale.
func addBytes(dst, a, b []byte, qa, qb, y *byteQuant) {
	quant.Add(cpu.Active(), dst, a, b, y.signed, quant.Linear{Scale: qa.scale, Zero: qa.zero},
		quant.Linear{Scale: qb.scale, Zero: qb.zero}, y.zero)
}

// qLinearBinary implements Infer for QLinearAdd and QLinearMul.
type qLinearBinary struct{}

const (
	qLinearBinaryIn = "A:T, A_scale:float, A_zero_point:T?, B:T, B_scale:float, B_zero_point:T?, " +
		"C_scale:float, C_zero_point:T?"
	qLinearUnaryIn = "X:T, X_scale:float, X_zero_point:T?, Y_scale:float, Y_zero_point:T?"
)

// Infer broadcasts the shapes.
func (qLinearBinary) Infer(c *ir.InferContext) error {
	shape, err := kit.BroadcastDims(c.Shape(0), c.Shape(3))
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), shape)
	return nil
}
