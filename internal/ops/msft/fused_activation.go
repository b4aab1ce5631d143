package msft

import (
	"math"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/tensor"
)

// fusedActivation is the activation that FusedGemm and FusedConv apply to their result.
// The zero value applies no activation.
type fusedActivation struct {
	fn     recurrent.Activation
	lo, hi float64 // of clip
	gamma  float64 // of selu
}

// ReadFusedActivation reads the attribute activation. params holds its parameters in
// order; missing ones take their defaults.
func ReadFusedActivation(a *kit.Attrs, params []float32) fusedActivation {
	name := a.String("activation", "")
	f := fusedActivation{fn: recurrent.Activation{Name: strings.ToLower(name)}, lo: math.Inf(-1), hi: math.Inf(1),
		gamma: 1.0507009873554805}
	at := func(i int, def float64) float64 {
		if i < len(params) {
			return float64(params[i])
		}
		return def
	}
	switch f.fn.Name {
	case "", "identity":
		f.fn.Name = ""
	case "clip":
		f.lo, f.hi = at(0, f.lo), at(1, f.hi)
	case "hardswish": // ONNX Runtime's optimizer fuses it with a blocked convolution
		f.fn.Alpha, f.fn.Beta = at(0, 1.0/6), at(1, 0.5)
	case "selu":
		f.fn.Alpha, f.gamma = at(0, 1.6732632423543772), at(1, f.gamma)
	default:
		def, ok := recurrent.ActivationDefaults[f.fn.Name]
		if !ok {
			a.Errorf("activation %q is not supported", name)
		}
		f.fn.Alpha, f.fn.Beta = at(0, def.Alpha), at(1, def.Beta)
	}
	return f
}

// apply applies the activation to output 0 in place.
func (f *fusedActivation) apply(c *ir.Call) error {
	t, ok := c.Out[0].(*tensor.Tensor)
	if f.fn.Name == "" || !ok {
		return nil
	}
	if t.DType() == tensor.TypeFloat64 {
		fusedApply(c, f, tensor.MustData[float64](t))
		return nil
	}
	x, err := kit.RealIn[float32](c, t)
	if err != nil {
		return err
	}
	fusedApply(c, f, x)
	kit.RealOutput[float32]{Data: x, T: t}.Store()
	return nil
}

func fusedApply[T kit.RealFloat](c *ir.Call, f *fusedActivation, x []T) {
	c.Parallel(len(x), 1<<13, func(lo, hi int) {
		x := x[lo:hi]
		switch f.fn.Name {
		case "clip":
			for i, v := range x {
				x[i] = min(max(v, T(f.lo)), T(f.hi))
			}
		case "hardswish":
			for i, v := range x {
				x[i] = v * min(max(T(f.fn.Alpha)*v+T(f.fn.Beta), 0), 1)
			}
		case "selu":
			for i, v := range x {
				if v <= 0 {
					v = T(f.fn.Alpha * math.Expm1(float64(v)))
				}
				x[i] = T(f.gamma) * v
			}
		default:
			recurrent.ApplyCell(c, &f.fn, 0, x)
		}
	})
}
