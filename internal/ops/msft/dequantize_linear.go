package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DequantizeLinear", Since: kit.Versions{1},
	In: "x:T1, x_scale:T2, x_zero_point:T1?", Out: "y:T2",
	Class: kit.ClassArithmetic,
	Types: "T1: int8 uint8 int16 uint16 int32 int4 uint4; T2: float float16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.DequantizeLinear{Quantization: quant.Quantization{Axis: a.Int("axis", 0)}}
	}})
