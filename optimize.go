package onward

import (
	"context"

	"github.com/onward-ml/onward/internal/ir"
)

func optimizeGraph(ctx context.Context, g *ir.Graph, limit int64) error { return nil }
