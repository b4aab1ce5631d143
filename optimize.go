package onward

import (
	"context"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// OptimizationPass describes a graph optimization of the provider cpu.
type OptimizationPass struct {
	Name  string            `json:"name"`
	Level OptimizationLevel `json:"level"` // the lowest level that includes the pass
	Doc   string            `json:"doc"`   // what the pass does, in one line
}

// OptimizationPasses returns the passes of the provider cpu in the order in which
// they run.
func OptimizationPasses() []OptimizationPass {
	var r []OptimizationPass
	for _, p := range goengine.Passes() {
		r = append(r, OptimizationPass(p))
	}
	return r
}

// OptimizationEdit reports what one pass changed in one graph.
type OptimizationEdit struct {
	Pass   string `json:"pass"`
	Graph  string `json:"graph"` // name of the graph
	Edits  int    `json:"edits"` // number of changes, as the pass counts them
	Before int    `json:"nodes_before"`
	After  int    `json:"nodes_after"`
	// Removed, Added and Changed list the nodes that were removed, added, or given
	// another operator, as operator and name: "Relu relu_1".
	Removed []string `json:"removed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// OptimizeModel applies the graph optimizations of the provider cpu to a model. It
// returns the optimized model and the changes that each pass made. It uses these
// fields of opts: the optimization level, the disabled passes, free dimensions,
// initializers, custom operators and limits.
//
// Fused operators are written as operators of ONNX or of ONNX Runtime's domain
// com.microsoft, so that ONNX Runtime can run the result. ONNX cannot express packed
// weights and blocked layouts; passes above [OptimizeExtended] are therefore skipped.
// Functions are inlined. OptimizeModel does not change m. The result refers to m,
// which must not be closed while the result is in use.
func OptimizeModel(ctx context.Context, m *onnx.Model, opts *SessionOptions) (*onnx.Model, []OptimizationEdit, error) {
	if m == nil || m.Graph == nil {
		return nil, nil, statusf(CodeNoModel, "the model is nil or has no graph")
	}
	o := orDefault(opts).driver()
	prepared, err := prepare(m, o)
	if err != nil {
		return nil, nil, driver.LoadError(err)
	}
	var edits []OptimizationEdit
	r, err := goengine.Optimize(ctx, prepared, o, func(e goengine.Edit) { edits = append(edits, OptimizationEdit(e)) })
	return r, edits, driver.LoadError(err)
}
