package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BitShift shifts the bits of its first input by the second. Bits that are shifted out are lost. A
// right shift of a signed number is arithmetic. A signed shift count that is negative or not below
// the number of bits shifts out everything but the sign
// (https://onnx.ai/onnx/operators/onnx__BitShift.html).
type BitShift struct{ Left bool }

var _ = kit.Register(&kit.Def{Name: "BitShift", Since: kit.Versions{11, 28}, In: "X:T, Y:T",
	Out: "Z:T", Types: "T: @int",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("direction")
		return &BitShift{Left: a.Enum("direction", "LEFT", "LEFT", "RIGHT") == "LEFT"}
	}})

var shiftLeftLoops = elementwise.LoopsOf(elementwise.Loop2(shiftLeftLoop[uint8]),
	elementwise.Loop2(shiftLeftLoop[uint16]), elementwise.Loop2(shiftLeftLoop[uint32]),
	elementwise.Loop2(shiftLeftLoop[uint64]),
	elementwise.Loop2(shiftLeftSignedLoop[int8]), elementwise.Loop2(shiftLeftSignedLoop[int16]),
	elementwise.Loop2(shiftLeftSignedLoop[int32]), elementwise.Loop2(shiftLeftSignedLoop[int64]))

var shiftRightLoops = elementwise.LoopsOf(elementwise.Loop2(shiftRightLoop[uint8]),
	elementwise.Loop2(shiftRightLoop[uint16]), elementwise.Loop2(shiftRightLoop[uint32]),
	elementwise.Loop2(shiftRightLoop[uint64]),
	elementwise.Loop2(shiftRightSignedLoop[int8]), elementwise.Loop2(shiftRightSignedLoop[int16]),
	elementwise.Loop2(shiftRightSignedLoop[int32]), elementwise.Loop2(shiftRightSignedLoop[int64]))

// Infer implements [ir.Operator].
func (*BitShift) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, elementwise.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *BitShift) Run(c *ir.Call) error {
	if o.Left {
		return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, shiftLeftLoops, kit.GrainCheap)
	}
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, shiftRightLoops, kit.GrainCheap)
}

func shiftLeftLoop[T kit.UnsignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] << b[i]
	}
}

func shiftRightLoop[T kit.UnsignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >> b[i]
	}
}

// Convert a negative shift count to one that is not below the number of bits of any type.
func shiftLeftSignedLoop[T kit.SignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] << uint64(int64(b[i]))
	}
}

// A right shift by more than the number of bits fills with sign bits, in Go as in ONNX.
func shiftRightSignedLoop[T kit.SignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >> uint64(int64(b[i]))
	}
}
