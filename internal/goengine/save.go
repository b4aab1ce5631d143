package goengine

import (
	"context"
	"strconv"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/export"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
)

// Edit reports what one pass changed in one graph.
type Edit = optimize.Edit

// Optimize returns a model with the optimizations of cpu that ONNX can express. It calls
// explain for the changes of every pass.
func Optimize(ctx context.Context, m *onnx.Model, opts *driver.Options, explain func(Edit)) (*onnx.Model, error) {
	custom, err := customDefs(opts.CustomOperators)
	if err != nil {
		return nil, err
	}
	fo := frontend.Options{Context: ctx, Limits: frontendLimits(opts.Limits), Custom: custom,
		Initializers: initializers(opts)}
	return optimized(ctx, m, opts, fo, passLevel(opts.OptimizationLevel), explain)
}

// optimized converts a model to a graph, optimizes that and exports it to ONNX.
func optimized(ctx context.Context, m *onnx.Model, opts *driver.Options, fo frontend.Options, level optimize.Level,
	explain func(optimize.Edit)) (*onnx.Model, error) {
	fo.KeepSource = true
	g, err := convert(m, fo)
	if err != nil {
		return nil, err
	}
	how := optimization{level: min(level, optimize.Extended), opset: export.Opset(m), explain: explain}
	if err := optimizeGraph(ctx, g, opts, how); err != nil {
		return nil, err
	}
	r, err := export.Model(g, m)
	return r, status(err)
}

// saveOptimized writes the optimized model to OptimizedModelPath of the options.
func saveOptimized(ctx context.Context, m *onnx.Model, opts *driver.Options, fo frontend.Options,
	level optimize.Level) error {
	r, err := optimized(ctx, m, opts, fo, level, nil)
	if err != nil {
		return err
	}
	if level > optimize.Extended {
		opts.Log().Warn(
			"the optimized model is saved without packed weights and blocked layouts, which ONNX cannot express",
			"path", opts.OptimizedModelPath)
	}
	w := &onnx.WriteOptions{ExternalData: opts.Config[driver.ConfigOptimizedExternalFile]}
	if s := opts.Config[driver.ConfigOptimizedExternalMinimum]; s != "" {
		if w.Threshold, err = strconv.ParseInt(s, 10, 64); err != nil || w.Threshold < 0 {
			return driver.Errorf(driver.CodeInvalidArgument, "%s must be a number of bytes, got %q",
				driver.ConfigOptimizedExternalMinimum, s)
		}
	}
	if err := onnx.WriteFile(opts.OptimizedModelPath, r, w); err != nil {
		return &driver.StatusError{Code: driver.CodeFail, Message: "the optimized model cannot be saved: " +
			err.Error(), Err: err}
	}
	return nil
}
