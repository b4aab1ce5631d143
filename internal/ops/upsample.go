package ops

import (
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Upsample is the oldest form of [Resize]: output o of an axis has the input coordinate o/scale.
// Integers are truncated.
var _ = kit.Register(&kit.Def{Name: "Upsample", Since: kit.Versions{1, 7, 9}, Until: 9, Successor: "Resize",
	In: "X:T, scales:float?", Out: "Y:T",
	Types:   "T: @number string bool @complex",
	Selects: resizeSelects, Build: func(a *kit.Attrs, opset int) kit.Operator {
		r := NewUpsample(a, "nearest", "linear", "bilinear")
		r.Truncate = true
		switch {
		case opset < 7:
			a.Require("height_scale", "width_scale")
			s := []float32{1, 1, a.Float("height_scale", 1), a.Float("width_scale", 1)}
			a.SetInput(1, tensor.Must(tensor.New(s, len(s))))
		case opset < 9:
			a.Require("scales")
			s := a.Floats("scales")
			a.SetInput(1, tensor.Must(tensor.New(append([]float32{}, s...), len(s))))
		}
		return r
	},
	Gradient: gradient.Nearest})
