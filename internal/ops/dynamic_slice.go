package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// DynamicSlice is [Slice] without steps. It is an experimental operator that ONNX removed with
// opset 10 (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#DynamicSlice).
var _ = kit.Register(&kit.Def{Name: "DynamicSlice", Since: kit.Versions{1}, Until: 9, Successor: "Slice",
	In: "data:T, starts:Tind, ends:Tind, axes:Tind?", Out: "output:T",
	Types: "T: uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float double string bool complex64 " +
		"complex128; Tind: int32 int64",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator { return &Slice{} }})
