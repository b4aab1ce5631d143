package goengine

import (
	"context"
	"errors"
	"os"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/tensor"
)

// divider divides runs of a batch into parts that teams of threads compute at the same time: a team
// of 8 waits less for its threads, and hands work on faster, than one of 64. Products of few rows
// add in another order in a part than in the batch.
type divider struct {
	*optimize.Batch
	pool  *exec.Pool
	graph *ir.Graph // if the model fixes the batch: the graph for one part, until it is compiled
	fixed *program  // its program
}

// checkDivision divides all runs that can be, for any number of threads; ONWARD_CHECK_DIVISION=1
// sets it.
var checkDivision = os.Getenv("ONWARD_CHECK_DIVISION") != ""

const (
	leastThreads = 8       // fewer wait little
	leastWork    = 1 << 21 // multiplications of a part
)

// newDivider returns the divider of a graph before optimization, or nil.
func newDivider(ctx context.Context, g *ir.Graph, opts *driver.Options, pool *exec.Pool) *divider {
	if opts.Deterministic || pool.Threads() < leastThreads && !checkDivision {
		return nil
	}
	batch := optimize.FindBatch(ctx, g, checkDivision, &optimize.Options{Eval: evaluator(ctx)})
	if batch == nil {
		return nil
	}
	d := &divider{Batch: batch, pool: pool}
	if d.Size == 0 {
		return d
	}
	parts := d.parts(d.Size)
	if parts < 2 {
		return nil
	}
	d.graph = g.Clone()
	for i := range g.Values {
		g.Values[i].Owned = false // the clone has the constants too
	}
	g.Shared = true
	for i, id := range d.graph.Inputs {
		if d.Inputs[i] {
			t := d.graph.Values[id].Type
			t.Shape = append([]ir.Dim{ir.Known(d.Size / parts)}, t.Shape[1:]...)
			d.graph.Values[id].Type = t
		}
	}
	if optimize.Resolve(ctx, d.graph, &optimize.Options{Eval: evaluator(ctx)}) != nil {
		return nil
	}
	return d
}

// compile compiles the graph for a part, which shares packed weights with the general plan.
func (d *divider) compile(ctx context.Context, opts *driver.Options, level optimize.Level, eo exec.Options) error {
	if d.graph == nil {
		return nil
	}
	g := d.graph
	d.graph, eo.Packs = nil, eo.Packs.Fork()
	if err := optimizeGraph(ctx, g, opts, optimization{level: level, packs: eo.Packs}); err != nil {
		return err
	}
	plan, err := exec.Compile(ctx, g, eo)
	d.fixed = &program{graph: g, plan: plan}
	return err
}

// parts returns into how many parts a batch is divided: equal ones for teams of equal size.
func (d *divider) parts(batch int) int {
	if checkDivision {
		return batch
	}
	a, b := batch, d.pool.Threads()
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// divide returns the inputs of each part of a run; nil if it is not divided.
func (d *divider) divide(in []tensor.Value) [][]tensor.Value {
	batch, each := 0, 0
	for i := range in {
		if !d.Inputs[i] {
			continue
		}
		t, ok := in[i].(*tensor.Tensor)
		if !ok || t.Rank() == 0 || t.Len() == 0 || t.Len()*t.DType().Size() != len(t.Bytes()) ||
			batch > 0 && t.Dim(0) != batch {
			return nil
		}
		if batch = t.Dim(0); batch < 2 {
			return nil
		}
		if n := t.Len() / batch; each == 0 || n < each {
			each = n
		}
	}
	parts := d.parts(batch)
	if parts < 2 || !d.pays(float64(batch/parts), float64(each)) {
		return nil
	}
	r := make([][]tensor.Value, parts)
	views := make([]tensor.Tensor, parts*len(in))
	for p := range r {
		r[p] = make([]tensor.Value, len(in))
		for i, v := range in {
			r[p][i] = v
			if d.Inputs[i] {
				view := &views[p*len(in)+i]
				slice(view, v.(*tensor.Tensor), p, parts)
				r[p][i] = view
			}
		}
	}
	return r
}

// slice sets view to a part of t along its first axis.
func slice(view, t *tensor.Tensor, part, parts int) {
	n := len(t.Bytes()) / parts
	shape := append([]int{t.Dim(0) / parts}, t.Shape()[1:]...)
	view.Reset(t.DType(), t.Bytes()[part*n:(part+1)*n:(part+1)*n], shape)
}

// pays reports whether a part with that many elements of the batch is worth a team, and does not
// read weights as long as it multiplies by them. each is the least number of elements that an input
// has per element of the batch, which the uses of weights grow with.
func (d *divider) pays(size, each float64) bool {
	if checkDivision {
		return true
	}
	free, few := d.Free, d.Few
	if size*each < optimize.FewUses {
		few, free = few+free, 0
	}
	return few <= d.Many+free && size*(d.Known+each*free) >= leastWork
}

// runDivided runs the parts and joins their results. ok is false if the run must be repeated
// without a division.
func (e *engine) runDivided(ctx context.Context, req *exec.Request, parts [][]tensor.Value,
	out []tensor.Value) (ok bool, err error) {
	d := e.divider
	p := d.fixed
	if p == nil {
		p = e.program(ctx, parts[0])
	}
	n := len(parts)
	errs := make([]error, n)
	results := make([][]tensor.Value, n)
	d.pool.Divide(n, func(k int, team exec.Team) {
		r := *req
		r.Inputs, r.MemoryLimit, r.Team = parts[k], max(req.MemoryLimit/int64(n), 1), team
		results[k] = make([]tensor.Value, len(out))
		r.Outputs = make([]tensor.Value, len(out))
		for i, v := range out {
			if !d.Outputs[i] && k == 0 {
				r.Outputs[i] = v // equal in all parts: the first one fills it
			} else if t, ok := v.(*tensor.Tensor); ok && d.Outputs[i] && t.Rank() > 0 && t.Dim(0)%n == 0 &&
				t.Len()*t.DType().Size() == len(t.Bytes()) {
				view := new(tensor.Tensor)
				slice(view, t, k, n)
				r.Outputs[i] = view
			}
		}
		errs[k] = p.plan.RunInto(ctx, &r, results[k])
	})
	for _, err := range errs {
		if errors.Is(err, exec.ErrMemoryLimit) {
			return false, nil
		}
		if err != nil {
			return true, err
		}
	}
	for i := range out {
		if !d.Outputs[i] {
			out[i] = results[0][i]
			continue
		}
		if out[i], ok = joined(results, i, out[i]); !ok {
			return false, nil
		}
	}
	return true, nil
}

// joined returns output i of a run, from the results of its parts. given is the tensor to fill, or
// nil.
func joined(results [][]tensor.Value, i int, given tensor.Value) (tensor.Value, bool) {
	first, ok := results[0][i].(*tensor.Tensor)
	if !ok || first.Rank() == 0 {
		return nil, false
	}
	n, size := len(results), len(first.Bytes())
	shape := append([]int{first.Dim(0) * n}, first.Shape()[1:]...)
	t, ok := given.(*tensor.Tensor)
	if !ok || t.DType() != first.DType() || len(t.Bytes()) != n*size {
		t = new(tensor.Tensor)
		t.Reset(first.DType(), memory.Uninitialized(n*size), shape)
	}
	for k := range results {
		r, ok := results[k][i].(*tensor.Tensor)
		if !ok || len(r.Bytes()) != size {
			return nil, false
		}
		if to := t.Bytes()[k*size:]; size > 0 && &to[0] != &r.Bytes()[0] {
			copy(to, r.Bytes())
		}
	}
	t.Reset(first.DType(), t.Bytes(), shape)
	return t, true
}
