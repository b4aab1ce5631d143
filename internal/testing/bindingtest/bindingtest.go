// Package bindingtest registers providers that run every request through an [onward.Binding] and
// check that later runs, and runs into given memory, compute the same.
package bindingtest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// Register registers and returns the provider "binding:inner".
func Register(inner string) string {
	p := provider{inner}
	if driver.Lookup(p.Name()) == nil {
		driver.Register(p)
	}
	return p.Name()
}

type provider struct{ inner string }

func (p provider) Name() string { return "binding:" + p.inner }
func (p provider) Available(config driver.Config) error {
	return driver.Lookup(p.inner).Available(config)
}

func (p provider) Traits() driver.Traits { return driver.Traits{AppliesOptions: true} }

func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (driver.Engine, error) {
	s, err := onward.OpenModel(ctx, m.Model, &onward.SessionOptions{
		Providers: []onward.ProviderConfig{{Name: p.inner, Options: config.Options}},
		Threads:   opts.Threads, OptimizationLevel: opts.OptimizationLevel, Precision: opts.Precision,
		DisabledPasses: opts.DisabledPasses, Config: opts.Config,
		Initializers: opts.Initializers, ExternalInitializers: opts.ExternalInitializers,
		CustomOperators:      opts.CustomOperators,
		DisableMemoryPattern: opts.DisableMemoryPattern, DisableMemoryReuse: opts.DisableMemoryReuse,
		Limits: opts.Limits,
	})
	if err != nil {
		return nil, err
	}
	return &engine{s}, nil
}

type engine struct{ s *onward.Session }

func (e *engine) Close() error { return e.s.Close() }

// Run runs several times: with memory that the runs allocate and reuse, and with given
// memory. All results must be equal.
func (e *engine) Run(ctx context.Context, req *driver.Request) error {
	b, err := e.s.NewBinding()
	if err != nil {
		return err
	}
	defer b.Close()
	inputs := append(e.s.Inputs(), e.s.OverridableInitializers()...)
	for i, v := range req.In {
		if v == nil {
			continue
		}
		if err := b.BindCPUInput(inputs[i].Name, v); err != nil {
			return err
		}
	}
	opts := onward.RunOptions{Seed: req.Options.Seed, Observe: req.Options.Observe}
	run := func(n int) ([]tensor.Value, error) {
		for range n {
			if err := e.s.RunBinding(ctx, b, &opts); err != nil {
				return nil, err
			}
		}
		return b.CopyOutputsToCPU()
	}
	var wanted []int
	for i, o := range e.s.Outputs() {
		if req.Wanted != nil && !req.Wanted[i] {
			continue
		}
		wanted = append(wanted, i)
		if err := b.BindOutput(o.Name, onward.Buffer{}); err != nil {
			return err
		}
	}
	first, err := run(1)
	if err != nil {
		return err
	}
	again, err := run(4)
	if err != nil {
		return fmt.Errorf("again: %w", err)
	}
	given := make([]tensor.Value, len(wanted))
	for k, i := range wanted {
		t, ok := first[k].(*tensor.Tensor)
		if !ok || t.DType() == tensor.TypeString {
			continue
		}
		given[k] = t.Clone()
		if err := b.BindCPUOutput(e.s.Outputs()[i].Name, given[k].(*tensor.Tensor)); err != nil {
			given[k] = nil // the declared shape differs from the computed one
		}
	}
	placed, err := run(5)
	if err != nil {
		return fmt.Errorf("into given memory: %w", err)
	}
	for k, i := range wanted {
		name := e.s.Outputs()[i].Name
		if err := equal(again[k], first[k]); err != nil {
			return fmt.Errorf("output %s of a later run: %w", name, err)
		}
		if err := equal(placed[k], first[k]); err != nil {
			return fmt.Errorf("output %s into given memory: %w", name, err)
		}
		if given[k] != nil {
			if err := equal(given[k], first[k]); err != nil {
				return fmt.Errorf("output %s in given memory: %w", name, err)
			}
		}
		req.Out[i] = first[k]
	}
	return nil
}

// equal compares bit by bit, so that a NaN equals itself.
func equal(a, b tensor.Value) error {
	x, ok := a.(*tensor.Tensor)
	y, same := b.(*tensor.Tensor)
	if ok && same && x.String() == y.String() && x.DType() != tensor.TypeString && bytes.Equal(x.Bytes(), y.Bytes()) {
		return nil
	}
	return tensor.AllClose(a, b, 0, 0)
}
