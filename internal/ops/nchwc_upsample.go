package ops

import "github.com/onward-ml/onward/tensor"

// Upsample is [Resize] by whole factors, see [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "Upsample", Since: []int{1}, In: "X:T, scales:float?", Out: "Y:T", Types: Types{"T": "float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		r := newUpsample(a, "nearest", "linear")
		at := a.Enum("coordinate_transformation_mode", "asymmetric", "asymmetric", "align_corners", "half_pixel")
		if r.Mode == "linear" {
			r.Coordinates = at
		}
		a.Require("scales")
		var scales []float32
		for _, s := range a.Ints("scales") {
			if s < 1 || s > windowLimit {
				a.Errorf("scales has %d, want 1 to %d", s, windowLimit)
			}
			scales = append(scales, float32(s))
		}
		a.SetInput(1, tensor.Must(tensor.New(scales, len(scales))))
		return r
	})})
