package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
)

// The QuantizeLinear and DequantizeLinear of com.microsoft support 16- and 4-bit types,
// which ONNX's versions got later. Without the attribute axis there is one scale, so that
// the axis does not matter.
var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QuantizeLinear", Since: kit.Versions{1},
	In: "x:T1, y_scale:T1, y_zero_point:T2?", Out: "y:T2",
	Class: kit.ClassArithmetic,
	Types: "T1: float float16; T2: int8 uint8 int16 uint16 int4 uint4",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.QuantizeLinear{Quantization: quant.Quantization{Axis: a.Int("axis", 0)}, Saturate: true}
	}})
