package onnx

import (
	"bytes"

	"github.com/onward-ml/onward/internal/fail"
)

// EachTensor calls fn for every tensor of the model until fn returns false: the initializers of all
// graphs, the values of attributes, and the parts of sparse tensors.
func (m *Model) EachTensor(fn func(*Tensor) bool) {
	more := true
	visit := func(t *Tensor) { more = more && (t == nil || fn(t)) }
	sparse := func(s *SparseTensor) {
		if s != nil {
			visit(s.Values)
			visit(s.Indices)
		}
	}
	nodes := func(n *Node) {
		for _, a := range n.Attributes {
			if a == nil {
				continue
			}
			visit(a.T)
			sparse(a.SparseTensor)
			for _, t := range a.Tensors {
				visit(t)
			}
			for _, s := range a.SparseTensors {
				sparse(s)
			}
		}
	}
	m.eachGraph(func(g *Graph) bool {
		for _, t := range g.Initializers {
			visit(t)
		}
		for _, s := range g.SparseInitializers {
			sparse(s)
		}
		for _, n := range g.Nodes {
			if n != nil {
				nodes(n)
			}
		}
		return more
	})
	for _, f := range m.Functions {
		if f == nil {
			continue
		}
		for _, n := range f.Nodes {
			if n != nil && more {
				nodes(n)
			}
		}
	}
}

// MarshalInline returns the model like [Model.Marshal], with its external data inline, for a reader
// that must not open files. The error is [ErrTooBig] if the result exceeds 2 GiB.
func (m *Model) MarshalInline() ([]byte, error) {
	replace := make(map[*Tensor]*Tensor)
	decode := &DecodeOptions{External: m.External()}
	var failed error
	m.EachTensor(func(t *Tensor) bool {
		if t.DataLocation != LocationExternal || replace[t] != nil {
			return true
		}
		v, err := t.Decode(decode)
		if err != nil {
			failed = fail.Errorf("tensor %s: %w", t.Name, err)
			return false
		}
		c := FromTensor(v)
		c.Name, c.DocString, c.Dims = t.Name, t.DocString, t.Dims
		replace[t] = c
		return true
	})
	if failed != nil {
		return nil, failed
	}
	var b bytes.Buffer
	if err := encode(&b, replace, func(e *encoder) { e.model(m) }); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
