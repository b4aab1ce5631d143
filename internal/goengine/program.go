package goengine

import (
	"context"
	"slices"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// program is a graph and its plan: the general one of an engine, or one that is specialized to
// input shapes. Inputs and outputs of all programs of an engine have the same order.
type program struct {
	graph  *ir.Graph
	plan   *exec.Plan
	pruned sync.Map // mask of wanted outputs as a string → *exec.Plan
	shapes string   // the input shapes as "x=1x3x320x320", or "" for the general program
}

// planFor returns the plan of a run. If the plan computes only the wanted outputs,
// planFor also returns their indices, else nil.
func (p *program) planFor(req *driver.Request) (*exec.Plan, []int) {
	if !req.Options.OnlyPathToFetches || req.Wanted == nil || !slices.Contains(req.Wanted, false) {
		return p.plan, nil
	}
	key := make([]byte, len(req.Wanted))
	var index []int
	for i, w := range req.Wanted {
		if w {
			key[i] = 1
			index = append(index, i)
		}
	}
	q, ok := p.pruned.Load(string(key))
	if !ok {
		q, _ = p.pruned.LoadOrStore(string(key), p.plan.Prune(req.Wanted))
	}
	return q.(*exec.Plan), index
}

// program returns the program for a run with the given inputs, in the order of the graph.
func (e *engine) program(ctx context.Context, in []tensor.Value) *program {
	if e.special != nil {
		if p := e.special.program(ctx, in); p != nil {
			return p
		}
	}
	return e.general
}

// planName returns the name of a program's plan for [driver.NodeRun]; "" if the engine has one
// plan.
func (e *engine) planName(p *program) string {
	switch {
	case e.special == nil:
		return ""
	case p == e.general:
		return driver.GeneralPlan
	}
	return p.shapes
}
