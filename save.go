package onward

import (
	"context"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
)

func saveOptimized(ctx context.Context, m *onnx.Model, opts *SessionOptions, fo frontend.Options, level optimize.Level) error {
	return statusf(NotImplemented, "the optimized model cannot be saved")
}
