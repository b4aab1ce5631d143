package goengine

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward/driver"
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

// Pass is one rewriting that the provider cpu applies to graphs.
type Pass struct {
	Name  string
	Level driver.OptimizationLevel // the first that has the pass
	Doc   string                   // what it does, in a line
}

// Passes lists the passes of the provider cpu in the order in which they run.
func Passes() []Pass {
	var r []Pass
	for _, p := range optimize.Passes() {
		r = append(r, Pass{Name: p.Name, Level: levelOf[p.Level], Doc: p.Doc})
	}
	return r
}

var levelOf = map[optimize.Level]driver.OptimizationLevel{optimize.None: driver.OptimizeNone, optimize.Basic: driver.OptimizeBasic,
	optimize.Extended: driver.OptimizeExtended, optimize.All: driver.OptimizeAll}

// passLevel returns the level of package optimize.
func passLevel(l driver.OptimizationLevel) optimize.Level {
	for p, of := range levelOf {
		if of == l {
			return p
		}
	}
	return optimize.All
}

// disabledPasses returns the passes that the options name in either place. Unknown names
// are those of another provider.
func disabledPasses(o *driver.Options) map[string]bool {
	r := map[string]bool{}
	for _, name := range slices.Concat(o.DisabledPasses, strings.Split(o.Config[driver.ConfigDisabledPasses], ";")) {
		if name = strings.TrimSpace(name); name != "" {
			r[name] = true
		}
	}
	return r
}

// optimizeGraph runs the passes of a level that the options do not disable. explain
// may be nil.
//
// portable leaves out what ONNX cannot say.
func optimizeGraph(ctx context.Context, g *ir.Graph, opts *driver.Options, level optimize.Level, portable bool, explain func(optimize.Edit)) error {
	limit, left, log := memoryLimit(opts.Limits), foldTime, opts.Log()
	o := &optimize.Options{
		Level:     level,
		Portable:  portable,
		Disabled:  disabledPasses(opts),
		MaxFolded: min(maxFolded, limit/4),
		Explain:   explain,
		Eval: func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
			ctx, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			start := time.Now()
			defer func() { left -= time.Since(start) }()
			return exec.Eval(ctx, g, n, in, limit)
		},
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		o.Explain = func(e optimize.Edit) {
			log.Debug("optimized", "pass", e.Pass, "graph", e.Graph, "edits", e.Edits, "nodes_before", e.Before, "nodes_after", e.After)
			if explain != nil {
				explain(e)
			}
		}
	}
	return optimize.Run(ctx, g, o)
}
