// Package goengine implements the providers cpu and reference in Go. cpu optimizes
// graphs, plans memory and uses assembly kernels. reference does none of these; tests
// compare cpu with it.
package goengine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/autodiff"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Default is the provider of sessions whose options name no provider.
const Default = "cpu"

func init() {
	driver.Register(provider{name: Default})
	driver.Register(provider{name: "reference", generic: true})
}

// ErrMemoryLimit is in the error chain of a run that would exceed the memory limit.
var ErrMemoryLimit = exec.ErrMemoryLimit

// provider is the provider cpu, or reference if generic is set.
type provider struct {
	name    string
	generic bool
}

func (p provider) Name() string                  { return p.name }
func (p provider) Available(driver.Config) error { return nil }

// Traits implements [driver.Describer].
func (p provider) Traits() driver.Traits {
	return driver.Traits{Operators: true, AppliesOptions: true, GuardsMapping: true}
}

// sharedPool returns the pool of all sessions whose options set no number of threads.
var sharedPool = sync.OnceValue(func() *exec.Pool { return exec.NewPool(runtime.GOMAXPROCS(0), !cpu.Quota()) })

// pool returns the worker pool of a session, nil for one thread, and whether it is the session's
// own. Under a CPU quota, workers spin only if the session asks for it.
func pool(opts *driver.Options) (p *exec.Pool, own bool, err error) {
	threads := cmp.Or(opts.Threads, runtime.GOMAXPROCS(0))
	bound, err := affinities(opts.Config[driver.ConfigThreadAffinities], threads)
	if err != nil || opts.Threads == 1 {
		return nil, false, err
	}
	spins := !cpu.Quota()
	if s := opts.Config[driver.ConfigAllowSpinning]; s != "" {
		spins = s != "0"
	}
	if opts.Threads == 0 && spins == !cpu.Quota() && bound == nil {
		return sharedPool(), false, nil
	}
	p = exec.NewPool(threads, spins)
	if bound != nil {
		p.Bind(func(worker int) func() {
			restore, err := cpu.Bind(bound[worker])
			if err != nil { // it was possible when the session was opened
				return func() {}
			}
			return restore
		})
	}
	return p, true, nil
}

// compile returns an engine for a model. The engine of a mapped model keeps the mapping
// open if it reads weights from it.
func (p provider) compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (e *engine, err error) {
	mapping := m.Mapping()
	if mapping == nil {
		return p.build(ctx, m, opts, config)
	}
	err = mapping.Check(mapping.Guard(func() (err error) {
		e, err = p.build(ctx, m, opts, config)
		return err
	}))
	if err != nil {
		return nil, err
	}
	mapping.Drop() // weights that have been packed are not read again
	if mapping.Used() {
		mapping.Retain()
		e.mapping = mapping
	}
	return e, nil
}

// build converts, optimizes and plans the graph of a model.
func (p provider) build(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (_ *engine, err error) {
	for k := range config.Options {
		return nil, driver.Errorf(driver.CodeInvalidArgument, "provider %s has no options, got %q", p.name, k)
	}
	custom, err := customDefs(opts.CustomOperators)
	if err != nil {
		return nil, err
	}
	level := optimize.None
	if !p.generic {
		go cpu.Caches() // the first run needs them, and Linux describes them in many files
		level = passLevel(opts.OptimizationLevel)
	}
	fo := frontend.Options{Context: ctx, Reserve: m.Reserve, Limits: frontendLimits(opts.Limits), Custom: custom,
		Initializers: initializers(opts)}
	if opts.OptimizedModelPath != "" {
		if err := saveOptimized(ctx, m.Model, opts, fo, level); err != nil {
			return nil, err
		}
	}
	fo.Release = m.Owned
	g, err := convert(m.Model, fo)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &engine{graph: g, limit: MemoryLimit(opts.Limits)}
	if b := opts.Limits.Budget; b != nil {
		b.SetDefault(memory.Default())
		e.budget = b
		e.limit = min(e.limit, b.Limit()) // beyond it, no attempt can succeed
	}
	eo := exec.Options{Generic: p.generic, Unplanned: opts.DisableMemoryPattern || opts.DisableMemoryReuse,
		BFloat16: !p.generic && cpu.BFloat16(cpu.Active()) &&
			(opts.Precision == driver.PrecisionBFloat16 || optimize.BFloat16Weights(g)),
		Split: !p.generic && opts.Config[driver.ConfigSplitFloat32] != "0"}
	if mapping := m.Mapping(); mapping != nil && mapping.Used() {
		eo.Mapped = mapping
	}
	if !p.generic {
		var own bool
		if eo.Pool, own, err = pool(opts); own {
			e.pool = eo.Pool
		}
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil && e.pool != nil {
			e.pool.Close()
		}
	}()
	var template *ir.Graph
	if level > optimize.Basic {
		if e.divider = newDivider(ctx, g, opts, eo.Pool); e.divider != nil && e.divider.graph != nil {
			eo.Packs = ir.NewPacks()
		}
	}
	if level > optimize.None {
		how := optimization{level: level, packs: eo.Packs}
		if level == optimize.All && opts.SpecializedShapes >= 0 {
			how.unpacked = func(g *ir.Graph, o *optimize.Options) {
				if specializable(g) {
					template = g.Clone()
					for i := range g.Values {
						g.Values[i].Owned = false // the template has the constants too
					}
					g.Shared = true
					if eo.Packs == nil {
						eo.Packs = ir.NewPacks()
						o.Packs = eo.Packs
					}
				}
			}
		}
		if err := optimizeGraph(ctx, g, opts, how); err != nil {
			return nil, err
		}
	}
	eo.Arenas = new(exec.Arenas)
	plan, err := exec.Compile(ctx, g, eo)
	if err != nil {
		return nil, err
	}
	e.general = &program{graph: g, plan: plan}
	if e.divider != nil {
		if err := e.divider.compile(ctx, opts, level, eo); err != nil {
			return nil, err
		}
	}
	if template != nil {
		e.special = newSpecializer(template, opts, level, eo, m.Mapping())
		if err := e.special.packAhead(ctx, eo.Pool); err != nil {
			e.special.close()
			return nil, err
		}
	}
	return e, nil
}

// initializers returns the values that replace initializers of the model.
func initializers(opts *driver.Options) map[string]tensor.Value {
	if len(opts.Initializers)+len(opts.ExternalInitializers) == 0 {
		return nil
	}
	all := maps.Clone(opts.ExternalInitializers)
	if all == nil {
		return opts.Initializers
	}
	maps.Copy(all, opts.Initializers)
	return all
}

// convert returns the typed graph of a model, with its Gradient nodes expanded.
func convert(m *onnx.Model, opts frontend.Options) (*ir.Graph, error) {
	opts.Limits = opts.Limits.OrDefault()
	m, err := autodiff.Expand(m, opts.MaxDepth)
	if err != nil {
		return nil, status(err)
	}
	g, err := frontend.Convert(m, opts)
	return g, status(err)
}

// status wraps the error of a model with unsupported operators in a [driver.StatusError]
// with the code NOT_IMPLEMENTED. It returns other errors unchanged.
func status(err error) error {
	var unsupported *kit.UnsupportedError
	if errors.As(err, &unsupported) {
		return &driver.StatusError{Code: driver.CodeNotImplemented, Message: err.Error(), Err: err}
	}
	return err
}
