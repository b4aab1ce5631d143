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

// foldTime bounds the total time of constant folding, since a model could require any
// amount of work before its first run.
const foldTime = 5 * time.Second

// maxFolded bounds the number of bytes that constant folding may add to a model.
const maxFolded = 1 << 30

// Pass describes a graph optimization of the provider cpu.
type Pass struct {
	Name  string
	Level driver.OptimizationLevel // lowest level that includes the pass
	Doc   string                   // what the pass does, in one line
}

// Passes returns the passes of the provider cpu in the order in which they run.
func Passes() []Pass {
	var r []Pass
	for _, p := range optimize.Passes() {
		r = append(r, Pass{Name: p.Name, Level: levelOf[p.Level], Doc: p.Doc})
	}
	return r
}

var levelOf = map[optimize.Level]driver.OptimizationLevel{optimize.None: driver.OptimizeNone,
	optimize.Basic:    driver.OptimizeBasic,
	optimize.Extended: driver.OptimizeExtended, optimize.All: driver.OptimizeAll}

// passLevel converts a level of the options to that of package optimize.
func passLevel(l driver.OptimizationLevel) optimize.Level {
	for p, of := range levelOf {
		if of == l {
			return p
		}
	}
	return optimize.All
}

// disabledPasses returns the set of passes that DisabledPasses or the configuration entry
// names. Unknown names are not errors, since they may be those of another provider.
func disabledPasses(o *driver.Options) map[string]bool {
	r := map[string]bool{}
	for _, name := range slices.Concat(o.DisabledPasses, strings.Split(o.Config[driver.ConfigDisabledPasses], ";")) {
		if name = strings.TrimSpace(name); name != "" {
			r[name] = true
		}
	}
	return r
}

// optimization says how a graph is optimized.
type optimization struct {
	level    optimize.Level
	opset    int                                // version of ai.onnx that must express the result; 0: none
	explain  func(optimize.Edit)                // may be nil
	packs    *ir.Packs                          // packed weights of other plans; nil: none
	unpacked func(*ir.Graph, *optimize.Options) // called before weights are packed; may be nil
}

// evaluator returns a function that runs one node on constant inputs, for [foldTime] in total.
func evaluator(ctx context.Context) func(*ir.Graph, *ir.Node, []tensor.Value, int64) ([]tensor.Value, error) {
	left := foldTime
	return func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		start := time.Now()
		defer func() { left -= time.Since(start) }()
		return exec.Eval(ctx, g, n, in, limit)
	}
}

// optimizeGraph runs the passes up to a level, without those that the options disable.
func optimizeGraph(ctx context.Context, g *ir.Graph, opts *driver.Options, how optimization) error {
	limit, log := MemoryLimit(opts.Limits), opts.Log()
	o := &optimize.Options{
		Level:     how.level,
		Opset:     how.opset,
		Packs:     how.packs,
		Disabled:  disabledPasses(opts),
		MaxFolded: min(maxFolded, limit/16), // the session holds it while runs take the limit
		Limit:     limit,
		Explain:   how.explain,
		Eval:      evaluator(ctx),
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		o.Explain = func(e optimize.Edit) {
			log.Debug("optimized", "pass", e.Pass, "graph", e.Graph, "edits", e.Edits, "nodes_before", e.Before,
				"nodes_after", e.After)
			if how.explain != nil {
				how.explain(e)
			}
		}
	}
	if how.unpacked != nil {
		o.Unpacked = func(g *ir.Graph) { how.unpacked(g, o) }
	}
	return optimize.Run(ctx, g, o)
}
