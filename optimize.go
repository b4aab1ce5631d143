package onward

import (
	"context"
	"time"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/tensor"
)

// foldTime bounds how long the folding of constants may take, since a model could
// ask for any amount of work before its first run.
const foldTime = 5 * time.Second

// maxFolded bounds the bytes by which constant folding may grow a model.
const maxFolded = 1 << 30

func optimizeGraph(ctx context.Context, g *ir.Graph, limit int64) error {
	left := foldTime
	return optimize.Run(ctx, g, &optimize.Options{
		MaxFolded: min(maxFolded, limit/4),
		Eval: func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
			ctx, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			start := time.Now()
			defer func() { left -= time.Since(start) }()
			return exec.Eval(ctx, g, n, in, limit)
		},
	})
}
