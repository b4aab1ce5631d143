package onnx

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
)

// LatestOpset is the default version of the default operator domain in models that are built
// here: that of ONNX 1.22.0. The Go engine also runs the next one (onward.MaxOpset), but
// runtimes accept a new version some releases later. LatestIRVersion is the newest IR version
// that this package supports.
const (
	LatestOpset     = 27
	LatestIRVersion = 14
)

// irOfOpset lists the opset versions of the default domain with which the IR version of ONNX
// releases changed (https://github.com/onnx/onnx/blob/main/docs/Versioning.md, released versions).
var irOfOpset = []struct{ opset, ir int64 }{
	{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}, {1, 3},
}

// IRVersionOf returns the lowest IR version of the ONNX releases with the given opset version of
// the default domain. It is at least 4: older versions require initializers to be inputs. For opset
// versions after [LatestOpset] it returns [LatestIRVersion].
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

// Ref, as the value of an attribute in a function body, refers to the attribute Name of the
// function. Type is the type of the attribute.
type Ref struct {
	Name string
	Type AttributeType
}

// ModelBuilder builds a [Model]. Its embedded GraphBuilder builds the main graph. Errors, such as a
// Go value that cannot be an attribute, are collected and returned by Model.
type ModelBuilder struct {
	*GraphBuilder
	model     *Model
	functions []*FunctionBuilder
}

// GraphBuilder builds a [Graph]: the main graph, or a subgraph that is the value of an attribute.
type GraphBuilder struct {
	graph *Graph
	errs  []error
}

// FunctionBuilder builds a [Function].
type FunctionBuilder struct {
	function *Function
	body     *GraphBuilder
}

// NodeBuilder sets the attributes and names of a node that a GraphBuilder or FunctionBuilder has
// added.
type NodeBuilder struct {
	node *Node
	g    *GraphBuilder
}

// NewModel returns a builder for a model whose main graph has the given name.
func NewModel(name string) *ModelBuilder {
	return &ModelBuilder{GraphBuilder: NewGraph(name), model: &Model{ProducerName: "onward"}}
}

// NewGraph returns a builder for a graph.
func NewGraph(name string) *GraphBuilder {
	return &GraphBuilder{graph: &Graph{Name: name}}
}

// Opset imports a version of an operator domain. The default domain ("") is imported at
// [LatestOpset] unless Opset sets another version.
func (b *ModelBuilder) Opset(domain string, version int64) *ModelBuilder {
	b.model.OpsetImports = append(b.model.OpsetImports, OperatorSetID{domain, version})
	return b
}

// IRVersion sets the IR version. The default is that of the opset, see [IRVersionOf].
func (b *ModelBuilder) IRVersion(v int64) *ModelBuilder {
	b.model.IRVersion = v
	return b
}

// Producer sets the name and version of the program that produces the model.
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

// Function adds a model-local function. Its domain must be imported like that of any operator. The
// function imports the model's opsets unless it has opset imports of its own.
func (b *ModelBuilder) Function(domain, name string) *FunctionBuilder {
	f := &FunctionBuilder{&Function{Domain: domain, Name: name}, NewGraph(name)}
	b.functions = append(b.functions, f)
	return f
}

// Model returns the model and the errors of all builder calls. It does not check the model; see
// [Check].
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

// Must returns the model and panics if building it failed. It is for tests and constant models.
func (b *ModelBuilder) Must() *Model {
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	return m
}

// Graph returns the graph and the errors of all builder calls.
func (b *GraphBuilder) Graph() (*Graph, error) {
	if len(b.errs) > 0 {
		return b.graph, fail.Errorf("build graph %q: %w", b.graph.Name, errors.Join(b.errs...))
	}
	return b.graph, nil
}

func (b *GraphBuilder) fail(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

// Input adds a tensor input. Each dim is an int or int64, a string (symbolic) or nil (unknown).
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

// InputType adds an input of any type. A nil type is left out, which subgraphs allow.
func (b *GraphBuilder) InputType(name string, t *Type) *GraphBuilder {
	b.graph.Inputs = append(b.graph.Inputs, &ValueInfo{Name: name, Type: t})
	return b
}

// OutputType adds an output of any type. A nil type is left out, which subgraphs allow.
func (b *GraphBuilder) OutputType(name string, t *Type) *GraphBuilder {
	b.graph.Outputs = append(b.graph.Outputs, &ValueInfo{Name: name, Type: t})
	return b
}

func (b *GraphBuilder) tensorType(name string, t DataType, dims []any) *Type {
	typ, err := NewTensorType(t, dims...)
	if err != nil {
		b.fail(fail.Errorf("value %q: %w", name, err))
	}
	return typ
}

// Initializer adds a constant: a *[Tensor], which gets the name, or a Go slice or scalar with dims
// as in [NewTensor].
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

// Node adds a node. What precedes the last dot of opType, as in "ai.onnx.ml.Scaler", is the
// domain; without a dot it is the default domain. An empty input or output name leaves that
// input or output out.
func (b *GraphBuilder) Node(opType string, inputs, outputs []string, attrs ...Attrs) *NodeBuilder {
	n := &NodeBuilder{&Node{OpType: opType, Inputs: inputs, Outputs: outputs}, b}
	if i := strings.LastIndexByte(opType, '.'); i >= 0 {
		n.node.Domain, n.node.OpType = opType[:i], opType[i+1:]
	}
	b.graph.Nodes = append(b.graph.Nodes, n.node)
	for _, a := range attrs {
		for _, name := range slices.Sorted(maps.Keys(a)) {
			n.Attr(name, a[name])
		}
	}
	return n
}

// Attr adds an attribute. value is a Go value as in [NewAttribute].
func (n *NodeBuilder) Attr(name string, value any) *NodeBuilder {
	a, err := NewAttribute(name, value)
	if err != nil {
		n.g.fail(fail.Errorf("node %q: %w", n.node.OpType, err))
		return n
	}
	n.node.Attributes = append(n.node.Attributes, a)
	return n
}

// Name sets the name of the node.
func (n *NodeBuilder) Name(name string) *NodeBuilder { n.node.Name = name; return n }

// Domain sets the domain of the operator.
func (n *NodeBuilder) Domain(domain string) *NodeBuilder { n.node.Domain = domain; return n }

// Overload sets the overload of the model-local function that the node calls.
func (n *NodeBuilder) Overload(name string) *NodeBuilder { n.node.Overload = name; return n }

// Node returns the node itself, for further changes.
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

// Overload sets the overload name, which distinguishes functions of the same domain and name.
func (f *FunctionBuilder) Overload(name string) *FunctionBuilder {
	f.function.Overload = name
	return f
}

// Node adds a node to the body, as GraphBuilder.Node does.
func (f *FunctionBuilder) Node(opType string, inputs, outputs []string, attrs ...Attrs) *NodeBuilder {
	return f.body.Node(opType, inputs, outputs, attrs...)
}
