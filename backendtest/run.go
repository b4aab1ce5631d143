package backendtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// runCase loads a case, asks the backend whether it supports the model, prepares the model
// once and runs all data sets.
func (r *Runner) runCase(ctx context.Context, it *item, res *Result) (err error) {
	// A panic in one case must not end the others.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	m, sets, err := r.load(ctx, it.test)
	if err != nil {
		return err
	}
	defer m.Close()
	if it.test.lightPath() != "" && len(sets) > 0 && sets[0].Outputs == nil {
		by := oracle(r.backend)
		if err := expect(ctx, by, m, sets); err != nil {
			return fmt.Errorf("the suite has no expected outputs, and provider %s cannot compute them: %w", by, err)
		}
		res.Against = by.Name()
	}
	if r.coverage != nil {
		r.coverage.AddLoaded(m, it.test.Kind == "real")
	}
	if err := backend.Compatible(r.backend, m); err != nil {
		return &skipError{"Not compatible with backend: " + err.Error()}
	}
	rep, err := backend.Prepare(ctx, m, r.backend, r.prepareOptions(it))
	if errors.Is(err, backend.ErrSkip) {
		return &skipError{err.Error()}
	}
	if err != nil {
		return err
	}
	defer rep.Close()
	checks := r.opts.Checks
	if checks == nil {
		checks = RandomChecks
	}
	if check, ok := checks[it.test.Name]; ok {
		res.Checked = check.Why
		err = r.runCheck(ctx, it, rep, m, sets, check)
	} else {
		err = r.runSets(ctx, it, rep, m.Graph, sets, res)
	}
	if err != nil {
		return err
	}
	if r.coverage != nil {
		r.coverage.AddPassed(m, it.test.Kind == "real")
	}
	return nil
}

func (r *Runner) prepareOptions(it *item) *backend.Options {
	o := r.opts.Prepare
	if c, ok := r.opts.Cases[it.test.Name]; ok && c.Prepare != nil {
		o = c.Prepare
	}
	if o == nil {
		o = &backend.Options{}
	}
	p := *o
	p.Device = it.device
	return &p
}

func (r *Runner) tolerances(c *TestCase) (rtol, atol float64) {
	rtol, atol = c.Rtol, c.Atol
	if u, ok := upstream[c.Name]; ok && c.root != "" {
		rtol, atol = max(rtol, u.rtol), max(atol, u.atol)
	}
	if o, ok := r.opts.Cases[c.Name]; ok {
		if o.Rtol != nil {
			rtol = *o.Rtol
		}
		if o.Atol != nil {
			atol = *o.Atol
		}
	}
	return rtol, atol
}

func (r *Runner) runSets(ctx context.Context, it *item, rep *backend.Rep, g *onnx.Graph, sets []DataSet,
	res *Result) error {
	rtol, atol := r.tolerances(it.test)
	for k, s := range sets {
		feed, err := named(g, s.Inputs)
		if err != nil {
			return err
		}
		for n := range max(r.opts.Runs, 1) {
			out, err := rep.Run(ctx, feed, nil)
			if err != nil {
				return fmt.Errorf("data set %d, run %d: %w", k, n, err)
			}
			a, rel, err := Compare(out.Values, s.Outputs, rtol, atol)
			res.MaxAbs, res.MaxRel = worse(res.MaxAbs, a), worse(res.MaxRel, rel)
			if err != nil {
				return fmt.Errorf("data set %d, run %d: %w", k, n, err)
			}
		}
	}
	return nil
}

// runCheck tests the distribution of the results. Of a model with seeds it tests one
// draw, and the distribution of the model without them.
func (r *Runner) runCheck(ctx context.Context, it *item, rep *backend.Rep, m *onnx.Model, sets []DataSet,
	check Check) error {
	unseeded := rep
	if w := withoutSeeds(m); w != nil {
		var err error
		if unseeded, err = backend.Prepare(ctx, w, r.backend, r.prepareOptions(it)); err != nil {
			return fmt.Errorf("without seeds: %w", err)
		}
		defer unseeded.Close()
	}
	for k, s := range sets {
		feed, err := named(m.Graph, s.Inputs)
		if err != nil {
			return err
		}
		if unseeded != rep {
			out, err := rep.Run(ctx, feed, nil)
			if err == nil {
				_, err = check.Draw(out.Values, s)
			}
			if err != nil {
				return fmt.Errorf("data set %d, with seeds: %w", k, err)
			}
		}
		run := func(seed uint64) ([]tensor.Value, error) {
			out, err := unseeded.Run(ctx, feed, &onward.RunOptions{Seed: seed})
			if err != nil {
				return nil, err
			}
			return out.Values, nil
		}
		if err := check.verify(run, s); err != nil {
			return fmt.Errorf("data set %d: %w", k, err)
		}
	}
	return nil
}

// named returns inputs by name. Those that are nil or missing are omitted.
func named(g *onnx.Graph, in []tensor.Value) (backend.Named, error) {
	if len(in) > len(g.Inputs) {
		return nil, fmt.Errorf("got %d inputs, the graph has %d", len(in), len(g.Inputs))
	}
	feed := backend.Named{}
	for i, v := range in {
		if v != nil {
			feed[g.Inputs[i].Name] = v
		}
	}
	return feed, nil
}

// load reads the model and the data of a case.
func (r *Runner) load(ctx context.Context, c *TestCase) (*onnx.Model, []DataSet, error) {
	if c.Model != nil {
		if c.Model.Graph == nil {
			return nil, nil, errors.New("the model has no graph")
		}
		return c.Model, c.DataSets, nil
	}
	if path := c.lightPath(); path != "" {
		m, err := readModel(path)
		if err != nil {
			return nil, nil, err
		}
		s, err := lightData(path, m.Graph)
		return m, []DataSet{s}, err
	}
	dir := c.ModelDir
	if dir == "" {
		var err error
		if dir, err = r.remote(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	m, err := readModel(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return nil, nil, err
	}
	sets, err := dataSets(dir, m.Graph)
	return m, sets, err
}

func readModel(path string) (*onnx.Model, error) {
	m, err := onnx.ReadFile(path, nil)
	if err == nil && m.Graph == nil {
		return nil, fmt.Errorf("%s: the model has no graph", path)
	}
	return m, err
}
