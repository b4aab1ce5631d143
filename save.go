package onward

import (
	"context"
	"strconv"

	"github.com/onward-ml/onward/internal/export"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
)

// OptimizationEdit is what one pass did to one graph.
type OptimizationEdit struct {
	Pass   string `json:"pass"`
	Graph  string `json:"graph"` // its name
	Edits  int    `json:"edits"` // as the pass counts them
	Before int    `json:"nodes_before"`
	After  int    `json:"nodes_after"`
	// Nodes that went, came, and became another operator: "Relu relu_1".
	Removed []string `json:"removed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// The entries of [SessionOptions.Config] that say where the optimized model keeps its
// weights: a file beside it, for initializers of at least so many bytes.
const (
	ConfigOptimizedExternalFile    = "session.optimized_model_external_initializers_file_name"
	ConfigOptimizedExternalMinimum = "session.optimized_model_external_initializers_min_size_in_bytes"
)

// OptimizeModel rewrites a model as the provider cpu does when it opens it, and
// returns it as ONNX, with what every pass did. Of opts, the optimization level, the
// disabled passes, dimensions, initializers, custom operators and limits count.
//
// Fused operators become operators of ONNX or of ONNX Runtime's domain
// com.microsoft, so that ONNX Runtime runs the result too. Packed weights and
// blocked layouts have no ONNX form: passes beyond [OptimizeExtended] are left out.
// Functions are inlined. m is not changed, and must not be closed while the result
// is in use.
func OptimizeModel(ctx context.Context, m *onnx.Model, opts *SessionOptions) (*onnx.Model, []OptimizationEdit, error) {
	o := orDefault(opts)
	if m == nil || m.Graph == nil {
		return nil, nil, statusf(NoModel, "there is no model")
	}
	custom, err := customDefs(o.CustomOperators)
	if err != nil {
		return nil, nil, err
	}
	prepared, given, err := prepareModel(m, o)
	if err != nil {
		return nil, nil, err
	}
	fo := frontend.Options{Limits: o.Limits.frontend(), Custom: custom, Initializers: given}
	var edits []OptimizationEdit
	r, err := optimized(ctx, prepared, o, fo, o.OptimizationLevel.passLevel(), func(e optimize.Edit) { edits = append(edits, OptimizationEdit(e)) })
	return r, edits, loadStatus(err)
}

// optimized converts, optimizes and writes a model.
func optimized(ctx context.Context, m *onnx.Model, opts *SessionOptions, fo frontend.Options, level optimize.Level, explain func(optimize.Edit)) (*onnx.Model, error) {
	fo.KeepSource = true
	g, err := convert(m, fo)
	if err != nil {
		return nil, err
	}
	o := *opts
	o.DisabledPasses = append(export.Unwritable(m), opts.DisabledPasses...)
	if err := optimizeGraph(ctx, g, &o, min(level, optimize.Extended), true, explain); err != nil {
		return nil, err
	}
	return export.Model(g, m)
}

// saveOptimized writes the optimized model where the options say.
func saveOptimized(ctx context.Context, m *onnx.Model, opts *SessionOptions, fo frontend.Options, level optimize.Level) error {
	r, err := optimized(ctx, m, opts, fo, level, nil)
	if err != nil {
		return err
	}
	if level > optimize.Extended {
		opts.Log().Warn("the optimized model is saved without packed weights and blocked layouts, which ONNX cannot express", "path", opts.OptimizedModelPath)
	}
	w := &onnx.WriteOptions{ExternalData: opts.Config[ConfigOptimizedExternalFile]}
	if s := opts.Config[ConfigOptimizedExternalMinimum]; s != "" {
		if w.Threshold, err = strconv.ParseInt(s, 10, 64); err != nil || w.Threshold < 0 {
			return statusf(InvalidArgument, "%s is %q, want a number of bytes", ConfigOptimizedExternalMinimum, s)
		}
	}
	if err := onnx.WriteFile(opts.OptimizedModelPath, r, w); err != nil {
		return &StatusError{Code: Fail, Message: "the optimized model cannot be saved: " + err.Error(), Err: err}
	}
	return nil
}
