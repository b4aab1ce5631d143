package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Functions returns the sorted names of the unary elementwise float operators of an ai.onnx opset
// for which keep returns true. Further inputs are optional.
func Functions(opset int, keep func(*kit.Def) bool) []string {
	var r []string
	for _, d := range kit.All() {
		if _, ok := d.SinceVersion(opset); d.Domain != "" || !d.Elementwise || !ok || !keep(d) {
			continue
		}
		sig := d.Signature()
		required := slices.ContainsFunc(sig.In[1:], func(p ir.Param) bool { return !p.Optional })
		if p := sig.In[0]; !p.Variadic && !required && p.Pattern == sig.Out[0].Pattern &&
			slices.Contains(sig.Vars[p.Pattern], tensor.TensorType(tensor.TypeFloat32)) {
			r = append(r, d.Name)
		}
	}
	return r
}

// bounded lists the functions that return NaN outside of a small interval, or have poles: few
// of their results in a chain would be compared.
var bounded = words("Acos Acosh Asin Atanh Tan")

// steady reports whether a function is drawn in chains.
func steady(d *kit.Def) bool { return !bounded[d.Name] }

// hasVector reports whether an operator has a vector kernel, which passes fuse.
func hasVector(d *kit.Def) bool { return d.Vector != nil }
