package calibration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// maxNesting is the deepest nesting of subgraphs in a model that is quantized.
const maxNesting = 100

// editor changes a copy of a model's main graph. It copies structs of the original before it
// changes them.
type editor struct {
	m *onnx.Model
	g *onnx.Graph
	// inits are the initializers. Those that are inputs too, as all were before IR version 4, count
	// as constants, as in ONNX Runtime's quantizer.
	inits  map[string]*onnx.Tensor
	floats map[string]bool // tensors of float32, initializers included
	// captured are the names that subgraphs take from the main graph.
	captured map[string]bool
	outputs  map[string]bool
	inputs   map[string]bool
	made     map[string]bool       // names of values and initializers
	names    map[string]*onnx.Node // the first node of each name in the original
	data     map[string][]float32
}

func newEditor(m *onnx.Model) (*editor, error) {
	if m == nil || m.Graph == nil {
		return nil, errors.New("the model has no graph")
	}
	if _, err := m.CountNodes(maxNesting); err != nil {
		return nil, err
	}
	var scopes onnx.Scopes
	c, g := *m, *m.Graph
	e := &editor{
		m: &c, g: &g,
		inits: map[string]*onnx.Tensor{}, floats: map[string]bool{}, captured: map[string]bool{},
		outputs: map[string]bool{}, inputs: map[string]bool{}, made: map[string]bool{}, data: map[string][]float32{},
		names: map[string]*onnx.Node{},
	}
	c.Graph = &g
	c.OpsetImports = slices.Clone(m.OpsetImports)
	c.MetadataProps = slices.Clone(m.MetadataProps)
	g.Nodes = make([]*onnx.Node, len(m.Graph.Nodes))
	for i, n := range m.Graph.Nodes {
		n := *n
		n.Inputs, n.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
		g.Nodes[i] = &n
		if e.names[n.Name] == nil {
			e.names[n.Name] = &n
		}
		for _, name := range scopes.Reads(&n)[len(n.Inputs):] {
			e.captured[name] = true
		}
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			e.made[name] = true
		}
	}
	g.Initializers = slices.Clone(g.Initializers)
	for _, v := range g.Inputs {
		e.inputs[v.Name] = true
		e.made[v.Name] = true
	}
	for _, v := range g.Outputs {
		e.outputs[v.Name] = true
	}
	for _, t := range g.Initializers {
		e.made[t.Name] = true
		e.inits[t.Name] = t
		delete(e.inputs, t.Name)
	}
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	for _, v := range a.Values {
		t := v.ElementType()
		e.floats[v.Name] = t.Kind == tensor.KindTensor && t.Elem == tensor.TypeFloat32
	}
	return e, nil
}

// opset returns the version of ai.onnx: as at run time the newest, if the model imports other
// domains only, and 1 without imports, which IR versions before 3 have.
func (e *editor) opset() int64 {
	if v, ok := e.m.OpsetVersion(""); ok {
		return v
	}
	if len(e.m.OpsetImports) > 0 {
		return onnx.LatestOpset
	}
	return 1
}

// weight returns the constant float32 initializer with the given name, or nil. The weights of
// absent adapters are inputs whose default has no elements: they are not constant.
func (e *editor) weight(name string) *onnx.Tensor {
	t := e.inits[name]
	if t != nil && t.DataType == onnx.Float && !e.outputs[name] && !slices.Contains(t.Dims, 0) {
		return t
	}
	return nil
}

// values returns the elements of a float32 initializer.
func (e *editor) values(t *onnx.Tensor) ([]float32, error) {
	if v, ok := e.data[t.Name]; ok {
		return v, nil
	}
	d, err := e.m.DecodeTensor(t)
	if err != nil {
		return nil, err
	}
	v, err := tensor.Data[float32](d)
	if err != nil {
		return nil, fmt.Errorf("initializer %q: %w", t.Name, err)
	}
	e.data[t.Name] = v
	return v, nil
}

// unused returns an unused name that begins with the given one.
func (e *editor) unused(name string) string {
	r := name
	for i := 1; e.made[r]; i++ {
		r = fmt.Sprintf("%s_%d", name, i)
	}
	e.made[r] = true
	return r
}

// addInit adds an initializer and returns its name.
func (e *editor) addInit(name string, data any, dims ...int64) string {
	name = e.unused(name)
	t, err := onnx.NewTensor(name, data)
	if err != nil {
		panic(err) // callers pass supported types
	}
	t.Dims = dims
	e.g.Initializers = append(e.g.Initializers, t)
	e.inits[name] = t
	return name
}

// addBytes adds an initializer with packed or 8-bit elements.
func (e *editor) addBytes(name string, dtype onnx.DataType, raw []byte, dims ...int64) string {
	name = e.unused(name)
	t := &onnx.Tensor{Name: name, DataType: dtype, RawData: raw, Dims: dims}
	e.g.Initializers = append(e.g.Initializers, t)
	e.inits[name] = t
	return name
}

// newNode returns a node. The attributes have types that onnx.NewAttribute supports.
func newNode(opType, name string, inputs, outputs []string, attrs onnx.Attrs) *onnx.Node {
	n := &onnx.Node{OpType: opType, Name: name, Inputs: inputs, Outputs: outputs}
	keys := make([]string, 0, len(attrs))
	for k := range attrs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		a, err := onnx.NewAttribute(k, attrs[k])
		if err != nil {
			panic(err) // callers pass supported types
		}
		n.Attributes = append(n.Attributes, a)
	}
	return n
}

// places holds pointers to the occurrences of each name in nodes.
type places map[string][]*string

// rename replaces all occurrences of a name by another.
func (p places) rename(old, new string) {
	for _, at := range p[old] {
		*at = new
	}
	p[new] = append(p[new], p[old]...)
	delete(p, old)
}

// readers returns the names in the inputs of all nodes, makers those in the outputs.
func (e *editor) readers() places {
	p := places{}
	for _, n := range e.g.Nodes {
		for i, in := range n.Inputs {
			p[in] = append(p[in], &n.Inputs[i])
		}
	}
	return p
}

func (e *editor) makers() places {
	p := places{}
	for _, n := range e.g.Nodes {
		for i, out := range n.Outputs {
			p[out] = append(p[out], &n.Outputs[i])
		}
	}
	return p
}

// consumers returns for each value the number of inputs of nodes that read it.
func (e *editor) consumers() map[string]int {
	uses := map[string]int{}
	for _, n := range e.g.Nodes {
		for _, in := range n.Inputs {
			uses[in]++
		}
	}
	return uses
}

// finish sorts the nodes, removes unused initializers and value infos, and sets the
// producer and the least version of the format.
func (e *editor) finish() (*onnx.Model, error) {
	if err := e.sortNodes(); err != nil {
		return nil, err
	}
	e.dropUnused()
	e.nameNodes()
	used, made := map[string]bool{}, map[string]bool{}
	domains := map[string]bool{}
	for _, n := range e.g.Nodes {
		for _, in := range n.Inputs {
			used[in] = true
		}
		for _, out := range n.Outputs {
			made[out] = true
		}
		domains[onnx.NormalizeDomain(n.Domain)] = true
	}
	e.g.Initializers = slices.DeleteFunc(e.g.Initializers, func(t *onnx.Tensor) bool {
		return !used[t.Name] && !e.captured[t.Name] && !e.outputs[t.Name] && !e.inputs[t.Name]
	})
	// A quantized initializer is no input any more. Before IR version 4, no
	// initializer could be overridden.
	kept := map[string]bool{}
	for _, t := range e.g.Initializers {
		kept[t.Name] = true
	}
	e.g.Inputs = slices.DeleteFunc(slices.Clone(e.g.Inputs), func(v *onnx.ValueInfo) bool {
		return e.inits[v.Name] != nil && (e.m.IRVersion < 4 || !kept[v.Name])
	})
	e.g.ValueInfo = slices.DeleteFunc(slices.Clone(e.g.ValueInfo), func(v *onnx.ValueInfo) bool {
		return !made[v.Name]
	})
	for _, o := range []onnx.OperatorSetID{{Domain: microsoft, Version: 1}, {Version: e.opset()}} {
		if _, ok := e.m.OpsetVersion(o.Domain); !ok && domains[o.Domain] {
			e.m.OpsetImports = append(e.m.OpsetImports, o)
		}
	}
	// Before version 4, initializers are inputs too.
	if len(e.g.Initializers) > 0 {
		e.m.IRVersion = max(e.m.IRVersion, 4)
	}
	e.m.ProducerName, e.m.ProducerVersion = "onward", ""
	return e.m, nil
}

// nameNodes makes the names of nodes unique, which ONNX Runtime demands: several nodes may be made
// for one tensor, and the model may have a node of that name already.
func (e *editor) nameNodes() {
	seen := map[string]bool{"": true}
	for name := range e.names {
		seen[name] = true
	}
	for _, n := range e.g.Nodes {
		if n.Name == "" || e.names[n.Name] == n {
			continue
		}
		name := n.Name
		for i := 1; seen[n.Name]; i++ {
			n.Name = fmt.Sprintf("%s_%d", name, i)
		}
		seen[n.Name] = true
	}
}

// dropUnused removes conversions whose results are not used.
func (e *editor) dropUnused() {
	uses := e.consumers()
	for i := len(e.g.Nodes) - 1; i >= 0; i-- {
		n := e.g.Nodes[i]
		switch n.OpType {
		case "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear":
		default:
			continue
		}
		if slices.ContainsFunc(n.Outputs, func(out string) bool {
			return uses[out] > 0 || e.outputs[out] || e.captured[out]
		}) {
			continue
		}
		for _, in := range n.Inputs {
			uses[in]--
		}
		e.g.Nodes = slices.Delete(e.g.Nodes, i, i+1)
	}
}

// microsoft is the domain of ONNX Runtime's own operators.
const microsoft = "com.microsoft"

// sortNodes sorts the nodes topologically.
func (e *editor) sortNodes() error {
	var scopes onnx.Scopes
	nodes, err := scopes.Sort(e.g)
	if err == nil {
		e.g.Nodes = slices.Clone(nodes)
	}
	return err
}

// intAttr returns an integer attribute of a node, or the default.
func intAttr(n *onnx.Node, name string, or int64) int64 {
	if a := n.Attribute(name); a != nil {
		return a.I
	}
	return or
}

func floatAttr(n *onnx.Node, name string, or float32) float32 {
	if a := n.Attribute(name); a != nil {
		return a.F
	}
	return or
}

// input returns input i of a node, empty if it is omitted.
func input(n *onnx.Node, i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}
