package backend

import (
	"context"
	"maps"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

var errNoModel = invalid("the Rep has no model: it was made from a session, or ReduceSize dropped it")

// model returns the Rep's model.
func (r *Rep) model() (*onnx.Model, error) {
	if r.Model == nil || r.Model.Graph == nil {
		return nil, errNoModel
	}
	return r.Model, nil
}

// transform returns the model that the options describe. It does not modify m.
func (o *Options) transform(m *onnx.Model) (*onnx.Model, error) {
	m, err := yieldsAsInputs(m)
	if err != nil || o.NewOpset == 0 && o.IRVersion == 0 && o.NewOutputs == nil && len(o.StaticInputs) == 0 {
		return m, err
	}
	if m.Graph == nil {
		return nil, errNoModel
	}
	c := *m
	if o.IRVersion != 0 {
		c.IRVersion = o.IRVersion
	}
	if o.NewOpset != 0 {
		c.OpsetImports = slices.DeleteFunc(slices.Clone(m.OpsetImports), func(id onnx.OperatorSetID) bool {
			return onnx.NormalizeDomain(id.Domain) == ""
		})
		c.OpsetImports = append(c.OpsetImports, onnx.OperatorSetID{Version: o.NewOpset})
	}
	if len(o.StaticInputs) > 0 {
		g, err := fixInputs(c.Graph, o.StaticInputs)
		if err != nil {
			return nil, err
		}
		c.Graph = g
	}
	if o.NewOutputs != nil {
		return selectOutputs(&c, o.NewOutputs)
	}
	return &c, nil
}

// fixInputs returns a copy of a graph in which the given names are initializers. They may be
// inputs, or names that the graph uses and does not define.
func fixInputs(g *onnx.Graph, fixed map[string]*tensor.Tensor) (*onnx.Graph, error) {
	c := *g
	c.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *onnx.ValueInfo) bool { return fixed[v.Name] != nil })
	c.Initializers = slices.DeleteFunc(slices.Clone(g.Initializers), func(t *onnx.Tensor) bool {
		return fixed[t.Name] != nil
	})
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		if fixed[name] == nil {
			return nil, invalid("static input %q has no value", name)
		}
		for _, n := range g.Nodes {
			if slices.Contains(n.Outputs, name) {
				return nil, invalid("static input %q is the result of node %q (%s)", name, n.Name, n.OpType)
			}
		}
		t := onnx.FromTensor(fixed[name])
		t.Name = name
		c.Initializers = append(c.Initializers, t)
	}
	return &c, nil
}

// maxNesting is the deepest nesting of subgraphs in which outputs are selected.
const maxNesting = 100

// selectOutputs returns a model whose outputs are the given values of the main graph, with the
// nodes, inputs and initializers that these need.
func selectOutputs(m *onnx.Model, names []string) (*onnx.Model, error) {
	if len(names) == 0 {
		return nil, invalid("the list of new outputs is empty")
	}
	if _, err := m.CountNodes(maxNesting); err != nil {
		return nil, invalid("%w", err)
	}
	g := m.Graph
	producer := map[string]int{}
	for i, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				producer[o] = i
			}
		}
	}
	types := knownTypes(g)
	needed := map[string]bool{"": true} // an omitted input needs nothing
	var scopes onnx.Scopes
	keep := make([]bool, len(g.Nodes))
	work := slices.Clone(names)
	for len(work) > 0 {
		name := work[len(work)-1]
		work = work[:len(work)-1]
		if needed[name] {
			continue
		}
		needed[name] = true
		if i, ok := producer[name]; ok && !keep[i] {
			keep[i] = true
			work = append(work, scopes.Reads(g.Nodes[i])...)
		}
	}
	c := *g
	c.Nodes, c.Outputs = nil, nil
	for i, n := range g.Nodes {
		if keep[i] {
			c.Nodes = append(c.Nodes, n)
		}
	}
	c.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *onnx.ValueInfo) bool { return !needed[v.Name] })
	c.ValueInfo = slices.DeleteFunc(slices.Clone(g.ValueInfo), func(v *onnx.ValueInfo) bool { return !needed[v.Name] })
	c.Initializers = slices.DeleteFunc(slices.Clone(g.Initializers), func(t *onnx.Tensor) bool {
		return !needed[t.Name]
	})
	c.SparseInitializers = slices.DeleteFunc(slices.Clone(g.SparseInitializers), func(t *onnx.SparseTensor) bool {
		return t.Values != nil && !needed[t.Values.Name]
	})
	inferred := false
	for _, name := range names {
		_, made := producer[name]
		if !made && types[name] == nil {
			return nil, invalid("the main graph has no result %q", name)
		}
		if types[name] == nil && !inferred {
			inferred = true
			if err := inferMissing(m, types); err != nil {
				return nil, err
			}
		}
		c.Outputs = append(c.Outputs, &onnx.ValueInfo{Name: name, Type: types[name]})
	}
	r := *m
	r.Graph = &c
	return &r, nil
}

// knownTypes returns the types that a graph declares, by name.
func knownTypes(g *onnx.Graph) map[string]*onnx.Type {
	types := map[string]*onnx.Type{}
	for _, t := range g.Initializers {
		s := &onnx.Shape{}
		for _, d := range t.Dims {
			s.Dims = append(s.Dims, onnx.Dim{Kind: onnx.DimValue, Value: d})
		}
		types[t.Name] = &onnx.Type{Tensor: &onnx.TensorType{ElemType: t.DataType, Shape: s}}
	}
	for _, list := range [][]*onnx.ValueInfo{g.ValueInfo, g.Inputs, g.Outputs} {
		for _, v := range list {
			if v.Type != nil {
				types[v.Name] = v.Type
			}
		}
	}
	return types
}

func inferMissing(m *onnx.Model, types map[string]*onnx.Type) error {
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return err
	}
	for _, v := range a.Values {
		if types[v.Name] == nil {
			types[v.Name] = v.Declaration().Type
		}
	}
	return nil
}

// prepareAgain prepares a changed model with the options of the Rep.
func (r *Rep) prepareAgain(ctx context.Context, m *onnx.Model) (*Rep, error) {
	o := r.opts
	o.Device = deviceName(r.Device)
	o.SkipCheck = o.SkipCheck || !shaped(m)
	o.NewOutputs, o.StaticInputs, o.NewOpset, o.IRVersion = nil, nil, 0, 0 // applied already
	return Prepare(ctx, m, r.Backend, &o)
}

// BuildIntermediate returns a Rep whose outputs are the given values of the main graph, by
// default the results of all nodes in the order of the file. Nodes that they do not need are
// removed.
func (r *Rep) BuildIntermediate(ctx context.Context, names ...string) (*Rep, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, n := range m.Graph.Nodes {
			for _, o := range n.Outputs {
				if o != "" {
					names = append(names, o)
				}
			}
		}
	}
	if m, err = selectOutputs(m, names); err != nil {
		return nil, err
	}
	return r.prepareAgain(ctx, m)
}

// CheckONNX runs the ONNX checker on the model and returns all errors.
func (r *Rep) CheckONNX() error {
	m, err := r.model()
	if err != nil {
		return err
	}
	return check(r.Backend, m)
}

// InferShapes returns the inferred type and shape of each value of the main graph by name.
func (r *Rep) InferShapes() (map[string]onward.NodeArg, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	return a.ByName(), nil
}

// ShapeInference returns a copy of the model with the inferred types of the values of its main
// graph in value_info.
func (r *Rep) ShapeInference() (*onnx.Model, error) {
	types, err := r.InferShapes()
	if err != nil {
		return nil, err
	}
	c, g := *r.Model, *r.Model.Graph
	c.Graph = &g
	outputs := map[string]bool{}
	for _, o := range g.Outputs {
		outputs[o.Name] = true
	}
	g.ValueInfo = nil
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if a, ok := types[o]; ok && !outputs[o] {
				if t := a.Declaration().Type; t != nil {
					g.ValueInfo = append(g.ValueInfo, &onnx.ValueInfo{Name: o, Type: t})
				}
			}
		}
	}
	return &c, nil
}

// ExecutionOrder returns the nodes of the main graph in the order in which the
// reference engine runs them, with model-local functions inlined.
func (r *Rep) ExecutionOrder() ([]onward.NodeInfo, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	return a.Nodes, nil
}

// Node returns the node with the given name, else the node that computes the value of that name,
// else nil. Nodes of a graph precede those of its subgraphs.
func (r *Rep) Node(name string) *onnx.Node {
	m, err := r.model()
	if err != nil || name == "" {
		return nil
	}
	if n := findNode(m.Graph, func(n *onnx.Node) bool { return n.Name == name }); n != nil {
		return n
	}
	return findNode(m.Graph, func(n *onnx.Node) bool { return slices.Contains(n.Outputs, name) })
}

func findNode(g *onnx.Graph, is func(*onnx.Node) bool) *onnx.Node {
	for _, n := range g.Nodes {
		if is(n) {
			return n
		}
	}
	for _, n := range g.Nodes {
		for _, s := range n.Subgraphs() {
			if f := findNode(s, is); f != nil {
				return f
			}
		}
	}
	return nil
}

// ReduceSize drops the model and keeps the session, so that the Rep still runs. Weights that the
// engine uses in place stay in memory.
func (r *Rep) ReduceSize() {
	if r.Session != nil {
		r.Model = nil
	}
}

// MarshalBinary returns the serialized model, which [Prepare] reads.
func (r *Rep) MarshalBinary() ([]byte, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	return m.Marshal()
}
