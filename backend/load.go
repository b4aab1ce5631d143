package backend

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// maxStream is the largest model in bytes that is read from a stream, which is held in memory as
// a whole.
const maxStream int64 = 2 << 30

// Source lists the forms in which a model is given: the path of a file, the bytes of a
// ModelProto, a [Stream] of them, a model, a graph, or a variable that holds one of these.
type Source interface {
	string | []byte | Stream | *onnx.Model | *onnx.Graph | Any
}

// Any holds a [Source] of any form, so that a variable or field can. [From] returns it.
type Any struct{ form any }

// From returns a variable for the path of a file, bytes, a [Stream], a model, or a graph.
func From[S Source](source S) Any {
	if a, ok := any(source).(Any); ok {
		return a
	}
	return Any{source}
}

// Form returns what [From] was given; nil for the zero Any.
func (a Any) Form() any { return a.form }

// Preparable lists what [Prepare] and [RunModel] take: a [Source], a model-local
// function, an open session, or a Rep.
type Preparable interface {
	Source | *onnx.Function | *onward.Session | *Rep
}

// Stream is a model that is read from a reader to its end, as in
// Stream{Reader: os.Stdin}.
type Stream struct{ io.Reader }

// Load reads a model. A graph becomes a model of [onward.MaxOpset].
func Load[S Source](model S) (*onnx.Model, error) {
	top, _ := onward.MaxOpset("")
	return load(model, int64(top), nil)
}

// load reads a model in one of the forms of [Source], or makes one that calls a function. The
// opset is that of a graph or a function, the example gives the inputs of a function.
func load(model any, opset int64, example Inputs) (*onnx.Model, error) {
	switch m := model.(type) {
	case Any:
		return load(m.form, opset, example)
	case nil:
		return nil, invalid("the model is not set")
	case string:
		r, err := onnx.ReadFile(m, nil)
		return r, driver.LoadError(err)
	case []byte:
		r, err := onnx.Unmarshal(m, nil)
		return r, driver.LoadError(err)
	case Stream:
		if m.Reader == nil {
			return nil, invalid("the stream has no reader")
		}
		data, err := io.ReadAll(io.LimitReader(m.Reader, maxStream+1))
		if err != nil {
			return nil, err
		}
		if int64(len(data)) > maxStream {
			return nil, invalid("the stream is longer than %d bytes", maxStream)
		}
		return load(data, opset, example)
	case *onnx.Model:
		if m == nil {
			return nil, invalid("the model is nil")
		}
		return m, nil
	case *onnx.Graph:
		if m == nil {
			return nil, invalid("the graph is nil")
		}
		return wrap(m, opset, nil), nil
	case *onnx.Function:
		if m == nil {
			return nil, invalid("the function is nil")
		}
		return functionModel(m, opset, example)
	}
	panic(fmt.Sprintf("backend: unexpected source %T", model)) // the constraints list no other type
}

// wrap returns a model with the graph.
func wrap(g *onnx.Graph, opset int64, imports []onnx.OperatorSetID) *onnx.Model {
	m := &onnx.Model{IRVersion: onnx.IRVersionOf(opset), ProducerName: "onward", Graph: g, OpsetImports: imports}
	if _, ok := m.OpsetVersion(""); !ok {
		m.OpsetImports = append(m.OpsetImports, onnx.OperatorSetID{Version: opset})
	}
	return m
}

// functionModel returns a model of one node that calls the function. The example gives the types
// of the inputs.
func functionModel(f *onnx.Function, opset int64, example Inputs) (*onnx.Model, error) {
	n := &onnx.Node{OpType: f.Name, Domain: f.Domain, Overload: f.Overload, Inputs: f.Inputs, Outputs: f.Outputs}
	m, err := nodeModel(n, example, opset, f.OpsetImports)
	if err != nil {
		return nil, err
	}
	domain := onnx.NormalizeDomain(f.Domain)
	if _, ok := m.OpsetVersion(domain); !ok {
		m.OpsetImports = append(m.OpsetImports, onnx.OperatorSetID{Domain: domain, Version: 1})
	}
	m.Functions = []*onnx.Function{f}
	return m, typeOutputs(m)
}

// shaped reports whether all outputs have the type and rank that the ONNX checker requires.
// Shape inference cannot determine them for each value that [Options.NewOutputs] or a function
// makes an output; such a model is not checked.
func shaped(m *onnx.Model) bool {
	return !slices.ContainsFunc(m.Graph.Outputs, func(o *onnx.ValueInfo) bool {
		return o.Type == nil || o.Type.Tensor != nil && o.Type.Tensor.Shape == nil
	})
}

// typeOutputs sets the missing types of outputs to the inferred ones.
func typeOutputs(m *onnx.Model) error {
	types := map[string]*onnx.Type{}
	if err := inferMissing(m, types); err != nil {
		if errors.Is(err, onward.ErrNotImplemented) {
			return nil // the backend may have the operator, or reports all that are missing
		}
		return err
	}
	for _, o := range m.Graph.Outputs {
		if o.Type == nil {
			o.Type = types[o.Name]
		}
	}
	return nil
}

// nodeModel returns a model of one node whose inputs have the types and shapes of the example.
func nodeModel(n *onnx.Node, example Inputs, opset int64, imports []onnx.OperatorSetID) (*onnx.Model, error) {
	var args []onward.NodeArg
	for _, name := range n.Inputs {
		if name != "" && !slices.ContainsFunc(args, func(a onward.NodeArg) bool { return a.Name == name }) {
			args = append(args, onward.NodeArg{Name: name})
		}
	}
	if example == nil && len(args) > 0 {
		return nil, invalid("the types of the inputs %q of %s are unknown: give an example", n.Inputs, n.OpType)
	}
	g := &onnx.Graph{Name: n.OpType, Nodes: []*onnx.Node{n}}
	if example != nil {
		values, err := example.Bind(args, nil)
		if err != nil {
			return nil, err
		}
		for _, a := range args {
			v, ok := values[a.Name]
			if !ok {
				return nil, invalid("input %q of %s has no value", a.Name, n.OpType)
			}
			g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: a.Name, Type: exactType(v)})
		}
	}
	for _, name := range n.Outputs {
		if name != "" {
			g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: name})
		}
	}
	return wrap(g, opset, imports), nil
}

// exactType returns the type of a value, with the shape of a tensor.
func exactType(v tensor.Value) *onnx.Type {
	t := onnx.NewType(v.Type())
	if x, ok := v.(*tensor.Tensor); ok {
		t.Tensor.Shape = &onnx.Shape{}
		for _, d := range x.Shape() {
			t.Tensor.Shape.Dims = append(t.Tensor.Shape.Dims, onnx.Dim{Kind: onnx.DimValue, Value: int64(d)})
		}
	}
	return t
}
