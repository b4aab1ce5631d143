package ops

import "github.com/onward-ml/onward/internal/ir"

// BitShift shifts the bits of its first input by the second; those that leave
// the number are lost. A signed number keeps its sign when it is shifted right; with
// a shift that is negative or not below its bits, only its sign remains of it (https://onnx.ai/onnx/operators/onnx__BitShift.html).
type BitShift struct{ Left bool }

var _ = register(Def{Name: "BitShift", Since: []int{11, 28}, In: "X:T, Y:T", Out: "Z:T", Types: Types{"T": "@int"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("direction")
		return &BitShift{Left: a.Enum("direction", "LEFT", "LEFT", "RIGHT") == "LEFT"}
	})})

var shiftLeftLoops = loopsOf(loop2(shiftLeftLoop[uint8]), loop2(shiftLeftLoop[uint16]), loop2(shiftLeftLoop[uint32]), loop2(shiftLeftLoop[uint64]),
	loop2(shiftLeftSignedLoop[int8]), loop2(shiftLeftSignedLoop[int16]), loop2(shiftLeftSignedLoop[int32]), loop2(shiftLeftSignedLoop[int64]))

var shiftRightLoops = loopsOf(loop2(shiftRightLoop[uint8]), loop2(shiftRightLoop[uint16]), loop2(shiftRightLoop[uint32]), loop2(shiftRightLoop[uint64]),
	loop2(shiftRightSignedLoop[int8]), loop2(shiftRightSignedLoop[int16]), loop2(shiftRightSignedLoop[int32]), loop2(shiftRightSignedLoop[int64]))

// Infer implements [ir.Operator].
func (*BitShift) Infer(c *ir.InferContext) error {
	return inferBinary(c, axisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *BitShift) Run(c *ir.Call) error {
	if o.Left {
		return runBinary(c, axisBroadcast{}, shiftLeftLoops, grainCheap)
	}
	return runBinary(c, axisBroadcast{}, shiftRightLoops, grainCheap)
}

func shiftLeftLoop[T unsignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] << b[i]
	}
}

func shiftRightLoop[T unsignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >> b[i]
	}
}

// A negative shift becomes one that is not below the bits of any number.
func shiftLeftSignedLoop[T signedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] << uint64(int64(b[i]))
	}
}

// A right shift past a negative number's bits is a fill with sign bits, in Go as in ONNX.
func shiftRightSignedLoop[T signedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >> uint64(int64(b[i]))
	}
}
