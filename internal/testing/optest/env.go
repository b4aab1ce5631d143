package optest

import (
	"context"
	"fmt"
	"sync"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// Env is a small engine for one node, with plain memory and at most two workers. New memory
// is filled with a pattern, so that elements that an operator does not write are detected.
type Env struct {
	Ctx   context.Context
	Two   bool // run ranges on two goroutines, cut as finely as the grain allows
	Limit int64
	held  int64
}

const MemoryLimit = 1 << 30

// NewCall returns a call without a node, for parts of operators: it has one worker and is never
// cancelled.
func NewCall() *ir.Call {
	return &ir.Call{Env: &Env{Ctx: context.Background(), Limit: MemoryLimit}}
}

func (e *Env) Context() context.Context { return e.Ctx }

func (e *Env) Alloc(c *ir.Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(dtype, shape)
	if err != nil {
		return nil, err
	}
	if err := e.Reserve(c, int64(n)); err != nil {
		return nil, err
	}
	t, err := tensor.Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	for k := range t.Bytes() {
		t.Bytes()[k] = 0xa5
	}
	return t, nil
}

func (e *Env) Scratch(c *ir.Call, n int) ([]byte, error) {
	if err := e.Reserve(c, int64(n)); err != nil {
		return nil, err
	}
	b := memory.Aligned(n)
	for k := range b {
		b[k] = 0x5a
	}
	return b, nil
}

func (e *Env) Reserve(c *ir.Call, n int64) error {
	if n < 0 || e.held+n > e.Limit {
		return fmt.Errorf("%d bytes exceed the memory limit of %d", n, e.Limit)
	}
	e.held += n
	return nil
}

// stop unwinds the operator if the run must stop, as the engine does.
func (e *Env) stop() {
	if err := e.Ctx.Err(); err != nil {
		panic(err)
	}
}

func (e *Env) Parallel(n, grain int, fn func(lo, hi int)) {
	if n <= 0 {
		return
	}
	defer e.stop()
	if !e.Two {
		fn(0, n)
		return
	}
	grain = max(grain, 1, n/64)
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := 0
	for range e.Threads() {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil && p != e.Ctx.Err() { // stop ends the run below
					panic(p)
				}
			}()
			for {
				mu.Lock()
				lo := next
				next = min(n, lo+grain)
				hi := next
				mu.Unlock()
				if lo >= n {
					return
				}
				fn(lo, hi)
			}
		})
	}
	wg.Wait()
}

// Threads returns the number of goroutines of Parallel.
func (e *Env) Threads() int { return 2 }

// Serial calls fn for pieces in order.
func (e *Env) Serial(n, grain int, fn func(lo, hi int)) {
	grain = max(grain, 1, n/64)
	for lo := 0; lo < n; lo += grain {
		fn(lo, min(n, lo+grain))
		e.stop()
	}
}

// RunBody is RunGraph.
func (e *Env) RunBody(c *ir.Call, k int, in []tensor.Value) ([]tensor.Value, error) {
	return e.RunGraph(c, k, in)
}

// RunGraph interprets a subgraph without captures.
func (e *Env) RunGraph(c *ir.Call, k int, in []tensor.Value) ([]tensor.Value, error) {
	g := c.Node.Graphs[k]
	vals := make([]tensor.Value, len(g.Values))
	for i, v := range g.Values {
		vals[i] = v.Const
	}
	for i, id := range g.Inputs {
		vals[id] = in[i]
	}
	for _, n := range g.Nodes {
		sub := &ir.Call{Node: n, Env: e, Generic: c.Generic, In: make([]tensor.Value, len(n.In)),
			Out: make([]tensor.Value, len(n.Out))}
		for i, id := range n.In {
			if id != ir.None {
				sub.In[i] = vals[id]
			}
		}
		if err := n.Op.Run(sub); err != nil {
			return nil, err
		}
		for i, id := range n.Out {
			if id != ir.None {
				vals[id] = sub.Out[i]
			}
		}
	}
	out := make([]tensor.Value, len(g.Outputs))
	for i, id := range g.Outputs {
		out[i] = vals[id]
	}
	return out, nil
}

func (e *Env) Release(c *ir.Call, v tensor.Value) {}
func (e *Env) Seed() uint64                       { return 42 }

// Extend returns nil: the calls have no states.
func (e *Env) Extend(c *ir.Call, out, length int) (*ir.Cache, error) { return nil, nil }

// Cache returns nil: the calls have no states.
func (e *Env) Cache(c *ir.Call, i int) *ir.Cache { return nil }
