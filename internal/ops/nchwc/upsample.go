package nchwc

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// Upsample is [ops.Resize] by integer factors, see the package documentation.
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "Upsample", Since: kit.Versions{1},
	In: "X:T, scales:float?", Out: "Y:T", Types: "T: float",
	Class: kit.ClassShape,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		r := ops.NewUpsample(a, "nearest", "linear")
		at := a.Enum("coordinate_transformation_mode", "asymmetric", "asymmetric", "align_corners", "half_pixel")
		if r.Mode == "linear" {
			r.Coordinates = at
		}
		a.Require("scales")
		var scales []float32
		for _, s := range a.Ints("scales") {
			if s < 1 || s > window.Limit {
				a.Errorf("scales holds %d, want 1 to %d", s, window.Limit)
			}
			scales = append(scales, float32(s))
		}
		a.SetInput(1, tensor.Must(tensor.New(scales, len(scales))))
		return r
	}})
