package ir

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// NodeError is an error at a node. It wraps the cause once, during inference or when running.
type NodeError struct {
	Stage  string // "shape inference" or "run"
	Node   string // the node's label
	OpType string
	Domain string
	Opset  int
	Inputs string // the types of the inputs
	Err    error
}

// Error returns the stage, the node and the cause.
func (e *NodeError) Error() string {
	op := e.OpType
	if e.Domain != "" {
		op = e.Domain + "." + op
	}
	return fmt.Sprintf("%s of node %.200q (%.200s, opset %d) with inputs (%.1000s): %v", e.Stage, e.Node, op,
		e.Opset, e.Inputs, e.Err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Infer infers the types of all values of a graph whose inputs and constants are typed. Nodes must
// be in topological order. It fails if the context ends.
func Infer(ctx context.Context, g *Graph) error {
	for _, n := range g.Nodes {
		if err := InferNode(ctx, g, n); err != nil {
			return err
		}
	}
	return nil
}

// inference is the memory of one call of InferNode. Passes infer each node several times.
type inference struct {
	context InferContext
	in      []*Value
	base    []tensor.Type
	out     []Value
}

var inferences = sync.Pool{New: func() any { return new(inference) }}

func (f *inference) put() {
	f.context = InferContext{}
	clear(f.in)
	clear(f.base)
	clear(f.out)
	f.in, f.base, f.out = f.in[:0], f.base[:0], f.out[:0]
	inferences.Put(f)
}

// InferNode infers the types of the outputs of one node. It fails if the context has ended.
func InferNode(ctx context.Context, g *Graph, n *Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := inferences.Get().(*inference)
	defer f.put()
	f.in = slices.Grow(f.in, len(n.In))[:len(n.In)]
	f.base = slices.Grow(f.base, len(n.In))[:len(n.In)]
	f.out = slices.Grow(f.out, len(n.Out))[:len(n.Out)]
	for i, id := range n.In {
		if id != None {
			f.in[i] = &g.Values[id]
			f.base[i] = f.in[i].Type.Base()
		}
	}
	c, base := &f.context, f.base
	*c = InferContext{node: n, in: f.in, out: f.out,
		sub: func(k int, in []Value) ([]Value, error) { return inferSub(ctx, g, n, k, in) }}
	err := func() error {
		if n.Sig != nil {
			if err := n.Sig.Check(base, len(n.Out)); err != nil {
				return err
			}
		}
		return n.Op.Infer(c)
	}()
	if err == nil {
		for i, id := range n.Out {
			t := &c.out[i].Type
			switch {
			case id == None:
				continue
			case !t.Known():
				err = fail.Errorf("type of output %d (%s) is unknown", i, g.Values[id].Name)
			case slices.ContainsFunc(t.Shape, Dim.negative):
				err = fail.Errorf("output %d (%s) has shape %v, whose sizes must be non-negative", i,
					g.Values[id].Name, t.Shape)
			}
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		types := make([]Type, len(n.In))
		for i, v := range f.in {
			if v != nil {
				types[i] = v.Type
			}
		}
		return &NodeError{Stage: "shape inference", Node: n.Label(g), OpType: n.OpType, Domain: n.Domain,
			Opset: n.Opset, Inputs: JoinTypes(types), Err: err}
	}
	for i, id := range n.Out {
		if id == None {
			continue
		}
		v := &g.Values[id]
		v.Type = c.out[i].Type
		v.Contents = c.out[i].Contents
	}
	return nil
}

func inferSub(ctx context.Context, g *Graph, n *Node, k int, in []Value) ([]Value, error) {
	if k < 0 || k >= len(n.Graphs) {
		return nil, fail.Errorf("subgraph %d does not exist", k)
	}
	sub := n.Graphs[k]
	if len(in) != len(sub.Inputs) {
		return nil, fail.Errorf("subgraph %q has %d inputs, want %d", sub.Name, len(sub.Inputs), len(in))
	}
	for i, id := range sub.Inputs {
		v := &sub.Values[id]
		if in[i].Type.Known() {
			v.Type, v.Const, v.Contents = in[i].Type, in[i].Const, in[i].Contents
		} else if !v.Type.Known() {
			return nil, fail.Errorf("type of input %q of subgraph %q is unknown", v.Name, sub.Name)
		}
	}
	for _, c := range sub.Captures {
		from, to := &g.Values[c.Outer], &sub.Values[c.Inner]
		to.Type, to.Const, to.Contents = from.Type, from.Const, from.Contents
		from.Owned = false
	}
	if err := Infer(ctx, sub); err != nil {
		return nil, err
	}
	out := make([]Value, len(sub.Outputs))
	for i, id := range sub.Outputs {
		out[i] = sub.Values[id]
	}
	return out, nil
}

// InputTypes returns the types of run-time inputs for messages.
func InputTypes(in []tensor.Value) string {
	types := make([]Type, len(in))
	for i, v := range in {
		if v != nil {
			types[i] = TypeOf(v)
		}
	}
	return JoinTypes(types)
}
