package onward

import (
	"context"

	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// OptimizationPass is one rewriting that the provider cpu applies to graphs.
type OptimizationPass struct {
	Name  string            `json:"name"`
	Level OptimizationLevel `json:"level"` // the first that has the pass
	Doc   string            `json:"doc"`   // what it does, in a line
}

// OptimizationPasses lists the passes of the provider cpu in the order in which they
// run.
func OptimizationPasses() []OptimizationPass {
	var r []OptimizationPass
	for _, p := range goengine.Passes() {
		r = append(r, OptimizationPass(p))
	}
	return r
}

// OptimizationEdit is what one pass did to one graph.
type OptimizationEdit struct {
	Pass   string `json:"pass"`
	Graph  string `json:"graph"` // its name
	Edits  int    `json:"edits"` // as the pass counts them
	Before int    `json:"nodes_before"`
	After  int    `json:"nodes_after"`
	// Nodes that were removed, added, and changed to another operator: "Relu relu_1".
	Removed []string `json:"removed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// OptimizeModel rewrites a model as the provider cpu does when it opens it, and
// returns it as ONNX, with what every pass did. It uses these fields of opts: the
// optimization level, the disabled passes, dimensions, initializers, custom operators
// and limits.
//
// Fused operators become operators of ONNX or of ONNX Runtime's domain
// com.microsoft, so that ONNX Runtime runs the result too. Packed weights and
// blocked layouts have no ONNX form: passes beyond [OptimizeExtended] are left out.
// Functions are inlined. m is not changed, and must not be closed while the result
// is in use.
func OptimizeModel(ctx context.Context, m *onnx.Model, opts *SessionOptions) (*onnx.Model, []OptimizationEdit, error) {
	if m == nil || m.Graph == nil {
		return nil, nil, statusf(NoModel, "there is no model")
	}
	o := orDefault(opts).driver()
	prepared, err := prepare(m, o)
	if err != nil {
		return nil, nil, loadStatus(err)
	}
	var edits []OptimizationEdit
	r, err := goengine.Optimize(ctx, prepared, o, func(e goengine.Edit) { edits = append(edits, OptimizationEdit(e)) })
	return r, edits, loadStatus(err)
}
