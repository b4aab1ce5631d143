package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// LatestOpset is the newest operator set version of the default domain that [NewModel] uses by default
// (ONNX 1.22.0), and LatestIRVersion the newest IR version that this package knows.
const (
	LatestOpset     = 27
	LatestIRVersion = 14
)

// irOfOpset has the opset versions of the default domain at which ONNX releases went to the next IR
// version (https://github.com/onnx/onnx/blob/main/docs/Versioning.md, released versions).
var irOfOpset = []struct{ opset, ir int64 }{
	{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}, {1, 3},
}

// IRVersionOf returns the lowest IR version of the ONNX releases with that opset version of the default
// domain; but at least 4, where initializers need not be inputs. For versions past the newest known one
// it is LatestIRVersion.
func IRVersionOf(opset int64) int64 {
	for _, v := range irOfOpset {
		if opset >= v.opset {
			return max(4, v.ir)
		}
	}
	return 4
}

// Attrs are attributes by name, with the Go values that [NewAttribute] takes.
type Attrs map[string]any

// Ref, as the value of an attribute in a function body, stands for the attribute of that name of the
// function. Type is the type of the attribute.
type Ref struct {
	Name string
	Type AttributeType
}

// ModelBuilder builds a [Model]. Its embedded GraphBuilder is the main graph. Errors, such as a Go value
// that no attribute can hold, are collected and come with Model.
type ModelBuilder struct {
	*GraphBuilder
	model     *Model
	functions []*FunctionBuilder
}

// GraphBuilder builds a [Graph]: a main graph, or a subgraph that is the value of an attribute.
type GraphBuilder struct {
	graph *Graph
	errs  []error
}

// FunctionBuilder builds a [Function].
type FunctionBuilder struct {
	function *Function
	body     *GraphBuilder
}

// NodeBuilder adds to a node that a GraphBuilder or a FunctionBuilder made.
type NodeBuilder struct {
	node *Node
	g    *GraphBuilder
}

// NewModel begins a model whose main graph has that name.
func NewModel(name string) *ModelBuilder {
	return &ModelBuilder{GraphBuilder: NewGraph(name), model: &Model{ProducerName: "onward"}}
}

// NewGraph begins a graph.
func NewGraph(name string) *GraphBuilder {
	return &GraphBuilder{graph: &Graph{Name: name}}
}

// Opset imports a version of a domain. Without a call for the default domain ("") it is [LatestOpset].
func (b *ModelBuilder) Opset(domain string, version int64) *ModelBuilder {
	b.model.OpsetImports = append(b.model.OpsetImports, OperatorSetID{domain, version})
	return b
}

// IRVersion sets the IR version. Without it the model gets that of its opset, see [IRVersionOf].
func (b *ModelBuilder) IRVersion(v int64) *ModelBuilder {
	b.model.IRVersion = v
	return b
}

// Producer sets the name and version of the program that makes the model.
func (b *ModelBuilder) Producer(name, version string) *ModelBuilder {
	b.model.ProducerName, b.model.ProducerVersion = name, version
	return b
}

// Doc sets the documentation of the model.
func (b *ModelBuilder) Doc(text string) *ModelBuilder {
	b.model.DocString = text
	return b
}

// Metadata adds a metadata property.
func (b *ModelBuilder) Metadata(key, value string) *ModelBuilder {
	b.model.MetadataProps = append(b.model.MetadataProps, StringStringEntry{key, value})
	return b
}

// Function begins a model-local function. The domain must be imported too, as for any operator; the
// function imports the model's opsets unless it is given its own.
func (b *ModelBuilder) Function(domain, name string) *FunctionBuilder {
	f := &FunctionBuilder{&Function{Domain: domain, Name: name}, NewGraph(name)}
	b.functions = append(b.functions, f)
	return f
}

// Model returns the model, and all errors met while building it. It does not check the model; see [Check].
func (b *ModelBuilder) Model() (*Model, error) {
	m := b.model
	if _, ok := m.OpsetVersion(""); !ok {
		m.OpsetImports = append(m.OpsetImports, OperatorSetID{"", LatestOpset})
	}
	if m.IRVersion == 0 {
		v, _ := m.OpsetVersion("")
		m.IRVersion = IRVersionOf(v)
		if len(b.functions) > 0 {
			m.IRVersion = max(8, m.IRVersion)
		}
	}
	g, err := b.Graph()
	errs := []error{err}
	m.Graph = g
	m.Functions = m.Functions[:0]
	for _, f := range b.functions {
		body, err := f.body.Graph()
		errs = append(errs, err)
		f.function.Nodes = body.Nodes
		f.function.ValueInfo = body.ValueInfo
		if len(f.function.OpsetImports) == 0 {
			f.function.OpsetImports = slices.Clone(m.OpsetImports)
		}
		m.Functions = append(m.Functions, f.function)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// Must returns the model and panics where building it failed; for tests and fixed models.
func (b *ModelBuilder) Must() *Model {
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	return m
}

// Graph returns the graph, and all errors met while building it.
func (b *GraphBuilder) Graph() (*Graph, error) {
	if len(b.errs) > 0 {
		return b.graph, fmt.Errorf("build graph %q: %w", b.graph.Name, errors.Join(b.errs...))
	}
	return b.graph, nil
}

func (b *GraphBuilder) fail(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

// Input adds a tensor input. Each dim is an int or int64, a string (a symbolic dim) or nil (unknown).
func (b *GraphBuilder) Input(name string, t DataType, dims ...any) *GraphBuilder {
	return b.InputType(name, b.tensorType(name, t, dims))
}

// Output adds a tensor output, with dims as in Input.
func (b *GraphBuilder) Output(name string, t DataType, dims ...any) *GraphBuilder {
	return b.OutputType(name, b.tensorType(name, t, dims))
}

// Value adds the type of an intermediate value, with dims as in Input.
func (b *GraphBuilder) Value(name string, t DataType, dims ...any) *GraphBuilder {
	b.graph.ValueInfo = append(b.graph.ValueInfo, &ValueInfo{Name: name, Type: b.tensorType(name, t, dims)})
	return b
}

// InputType adds an input of any type; nil leaves the type out, as subgraphs may.
func (b *GraphBuilder) InputType(name string, t *Type) *GraphBuilder {
	b.graph.Inputs = append(b.graph.Inputs, &ValueInfo{Name: name, Type: t})
	return b
}

// OutputType adds an output of any type; nil leaves the type out, as subgraphs may.
func (b *GraphBuilder) OutputType(name string, t *Type) *GraphBuilder {
	b.graph.Outputs = append(b.graph.Outputs, &ValueInfo{Name: name, Type: t})
	return b
}

func (b *GraphBuilder) tensorType(name string, t DataType, dims []any) *Type {
	typ, err := NewTensorType(t, dims...)
	if err != nil {
		b.fail(fmt.Errorf("value %q: %w", name, err))
	}
	return typ
}

// Initializer adds a constant: a *[Tensor], which it names, or a Go slice or scalar with dims as in [NewTensor].
func (b *GraphBuilder) Initializer(name string, data any, dims ...int64) *GraphBuilder {
	t, ok := data.(*Tensor)
	if ok {
		c := *t
		c.Name = name
		t = &c
	} else {
		var err error
		if t, err = NewTensor(name, data, dims...); err != nil {
			b.fail(err)
			return b
		}
	}
	b.graph.Initializers = append(b.graph.Initializers, t)
	return b
}

// SparseInitializer adds a sparse constant.
func (b *GraphBuilder) SparseInitializer(name string, s *SparseTensor) *GraphBuilder {
	c := *s
	if s.Values != nil {
		v := *s.Values
		v.Name = name
		c.Values = &v
	}
	b.graph.SparseInitializers = append(b.graph.SparseInitializers, &c)
	return b
}

// Node adds a node of the default domain. An empty name among inputs or outputs leaves that one out.
func (b *GraphBuilder) Node(opType string, inputs, outputs []string, attrs ...Attrs) *NodeBuilder {
	n := &NodeBuilder{&Node{OpType: opType, Inputs: inputs, Outputs: outputs}, b}
	b.graph.Nodes = append(b.graph.Nodes, n.node)
	for _, a := range attrs {
		for _, name := range slices.Sorted(maps.Keys(a)) {
			n.Attr(name, a[name])
		}
	}
	return n
}

// Attr adds an attribute, with a Go value that [NewAttribute] takes.
func (n *NodeBuilder) Attr(name string, value any) *NodeBuilder {
	a, err := NewAttribute(name, value)
	if err != nil {
		n.g.fail(fmt.Errorf("node %q: %w", n.node.OpType, err))
		return n
	}
	n.node.Attributes = append(n.node.Attributes, a)
	return n
}

// Name sets the name of the node.
func (n *NodeBuilder) Name(name string) *NodeBuilder { n.node.Name = name; return n }

// Domain sets the domain of the operator.
func (n *NodeBuilder) Domain(domain string) *NodeBuilder { n.node.Domain = domain; return n }

// Overload sets which overload of a model-local function the node calls.
func (n *NodeBuilder) Overload(name string) *NodeBuilder { n.node.Overload = name; return n }

// Node returns the node, to be changed further.
func (n *NodeBuilder) Node() *Node { return n.node }

// Inputs adds inputs to the function.
func (f *FunctionBuilder) Inputs(names ...string) *FunctionBuilder {
	f.function.Inputs = append(f.function.Inputs, names...)
	return f
}

// Outputs adds outputs to the function.
func (f *FunctionBuilder) Outputs(names ...string) *FunctionBuilder {
	f.function.Outputs = append(f.function.Outputs, names...)
	return f
}

// Attributes declares attributes without a default.
func (f *FunctionBuilder) Attributes(names ...string) *FunctionBuilder {
	f.function.Attributes = append(f.function.Attributes, names...)
	return f
}

// Default declares an attribute with its default value.
func (f *FunctionBuilder) Default(name string, value any) *FunctionBuilder {
	a, err := NewAttribute(name, value)
	if err != nil {
		f.body.fail(err)
		return f
	}
	f.function.AttributeProtos = append(f.function.AttributeProtos, a)
	return f
}

// Opset imports a version of a domain for the body of the function.
func (f *FunctionBuilder) Opset(domain string, version int64) *FunctionBuilder {
	f.function.OpsetImports = append(f.function.OpsetImports, OperatorSetID{domain, version})
	return f
}

// Overload sets the overload name that tells functions with the same domain and name apart.
func (f *FunctionBuilder) Overload(name string) *FunctionBuilder {
	f.function.Overload = name
	return f
}

// Node adds a node to the body, as GraphBuilder.Node does.
func (f *FunctionBuilder) Node(opType string, inputs, outputs []string, attrs ...Attrs) *NodeBuilder {
	return f.body.Node(opType, inputs, outputs, attrs...)
}
