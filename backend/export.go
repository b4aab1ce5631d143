package backend

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// Sequence describes a model as its file does: opsets, graph and functions.
type Sequence struct {
	Producer     string           `json:"producer"`
	IRVersion    int64            `json:"ir_version"`
	Opsets       map[string]int64 `json:"opsets"` // by domain; "" is ai.onnx
	Graph        GraphSequence    `json:"graph"`
	FunctionDefs []FunctionInfo   `json:"functions,omitempty"`
}

// GraphSequence describes a graph.
type GraphSequence struct {
	Name         string            `json:"name"`
	Inputs       []ValueInfo       `json:"inputs"` // without those that are initializers
	Initializers []InitializerInfo `json:"initializers"`
	Nodes        []SequenceNode    `json:"nodes"`
	Outputs      []ValueInfo       `json:"outputs"`
}

// ValueInfo describes an input or output.
type ValueInfo struct {
	Name string `json:"name"`
	Type string `json:"type"` // "tensor(float)[N,2]"
}

// InitializerInfo describes an initializer without its elements.
type InitializerInfo struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Dims  []int64 `json:"dims"`
}

// SequenceNode describes a node.
type SequenceNode struct {
	Name       string                   `json:"name"`
	OpType     string                   `json:"op_type"`
	Domain     string                   `json:"domain,omitempty"`
	Inputs     []string                 `json:"inputs"`
	Outputs    []string                 `json:"outputs"`
	Attributes map[string]any           `json:"attributes,omitempty"` // numbers, strings, lists of them; tensors and types as text
	Graphs     map[string]GraphSequence `json:"graphs,omitempty"`     // subgraphs by attribute
}

// FunctionInfo describes a model-local function.
type FunctionInfo struct {
	Name    string         `json:"name"`
	Domain  string         `json:"domain"`
	Inputs  []string       `json:"inputs"`
	Outputs []string       `json:"outputs"`
	Nodes   []SequenceNode `json:"nodes"`
}

// ToSequence describes the Rep's model; see [SequenceOf].
func (r *Rep) ToSequence() (*Sequence, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	return SequenceOf(m)
}

// SequenceOf describes a model with its subgraphs and functions. No engine has to be able to run
// the model.
func SequenceOf(m *onnx.Model) (*Sequence, error) {
	if m == nil || m.Graph == nil {
		return nil, invalid("the model has no graph")
	}
	s := &Sequence{Producer: strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion), IRVersion: m.IRVersion,
		Opsets: map[string]int64{}, Graph: graphSequence(m.Graph)}
	for _, o := range m.OpsetImports {
		s.Opsets[onnx.NormalizeDomain(o.Domain)] = o.Version
	}
	for _, f := range m.Functions {
		s.FunctionDefs = append(s.FunctionDefs, FunctionInfo{Name: f.Name, Domain: f.Domain, Inputs: list(f.Inputs),
			Outputs: list(f.Outputs), Nodes: sequenceNodes(f.Nodes)})
	}
	return s, nil
}

// ToJSON describes the Rep's model as JSON. Floats that JSON cannot express are the strings
// "NaN", "+Inf" and "-Inf".
func (r *Rep) ToJSON() ([]byte, error) {
	s, err := r.ToSequence()
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func graphSequence(g *onnx.Graph) GraphSequence {
	s := GraphSequence{Name: g.Name, Inputs: []ValueInfo{}, Initializers: []InitializerInfo{}, Outputs: []ValueInfo{},
		Nodes: sequenceNodes(g.Nodes)}
	initialized := map[string]bool{}
	for _, t := range g.Initializers {
		initialized[t.Name] = true
		s.Initializers = append(s.Initializers,
			InitializerInfo{Name: t.Name, DType: t.DataType.String(), Dims: append([]int64{}, t.Dims...)})
	}
	for _, t := range g.SparseInitializers {
		if t.Values != nil {
			initialized[t.Values.Name] = true
			s.Initializers = append(s.Initializers,
				InitializerInfo{Name: t.Values.Name, DType: t.Values.DataType.String(),
					Dims: append([]int64{}, t.Dims...)})
		}
	}
	for _, v := range g.Inputs {
		if !initialized[v.Name] {
			s.Inputs = append(s.Inputs, ValueInfo{v.Name, typeText(v)})
		}
	}
	for _, v := range g.Outputs {
		s.Outputs = append(s.Outputs, ValueInfo{v.Name, typeText(v)})
	}
	return s
}

// typeText returns a declared type with its shape, such as "tensor(float)[N,2]".
func typeText(v *onnx.ValueInfo) string {
	d, err := onward.Describe(&onnx.Model{Graph: &onnx.Graph{Outputs: []*onnx.ValueInfo{{Name: "v", Type: v.Type}}}})
	if err != nil {
		return "undefined"
	}
	return strings.TrimPrefix(d.Outputs[0].String(), "v: ")
}

func sequenceNodes(nodes []*onnx.Node) []SequenceNode {
	r := make([]SequenceNode, len(nodes))
	for i, n := range nodes {
		s := SequenceNode{Name: n.Name, OpType: n.OpType, Domain: onnx.NormalizeDomain(n.Domain),
			Inputs: list(n.Inputs), Outputs: list(n.Outputs)}
		for _, a := range n.Attributes {
			if a.G == nil && len(a.Graphs) == 0 {
				if s.Attributes == nil {
					s.Attributes = map[string]any{}
				}
				s.Attributes[a.Name] = attributeValue(a)
				continue
			}
			if s.Graphs == nil {
				s.Graphs = map[string]GraphSequence{}
			}
			if a.G != nil {
				s.Graphs[a.Name] = graphSequence(a.G)
			}
			for k, g := range a.Graphs {
				s.Graphs[fmt.Sprintf("%s[%d]", a.Name, k)] = graphSequence(g)
			}
		}
		r[i] = s
	}
	return r
}

func attributeValue(a *onnx.Attribute) any {
	switch {
	case a.RefAttrName != "":
		return "@" + a.RefAttrName
	case a.Type == onnx.AttrFloat:
		return number(a.F)
	case a.Type == onnx.AttrInt:
		return a.I
	case a.Type == onnx.AttrString:
		return a.S
	case a.Type == onnx.AttrInts:
		return append([]int64{}, a.Ints...)
	case a.Type == onnx.AttrStrings:
		return list(a.Strings)
	case a.Type == onnx.AttrFloats:
		f := make([]any, len(a.Floats))
		for i, x := range a.Floats {
			f[i] = number(x)
		}
		return f
	case a.T != nil:
		return fmt.Sprintf("tensor(%s)%v", a.T.DataType, a.T.Dims)
	}
	return a.Type.String()
}

func number(f float32) any {
	if x := float64(f); math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'g', -1, 32)
	}
	return f
}

// ToText returns [Sequence.Text] of the Rep's model.
func (r *Rep) ToText() (string, error) {
	s, err := r.ToSequence()
	if err != nil {
		return "", err
	}
	return s.Text(), nil
}

// Text returns a line for each opset, input, initializer, node and output. Subgraphs are
// indented. A name is quoted if it has other characters than letters, digits and the marks
// _./:-@[].
func (s *Sequence) Text() string {
	var b strings.Builder
	for _, d := range slices.Sorted(maps.Keys(s.Opsets)) {
		name := d
		if name == "" {
			name = "ai.onnx"
		}
		fmt.Fprintf(&b, "opset: %s %d\n", word(name), s.Opsets[d])
	}
	textGraph(&b, &s.Graph, "")
	for _, f := range s.FunctionDefs {
		fmt.Fprintf(&b, "function: %s.%s(%s) -> %s\n", word(f.Domain), word(f.Name), words(f.Inputs), words(f.Outputs))
		textNodes(&b, f.Nodes, "  ")
	}
	return b.String()
}

func textGraph(b *strings.Builder, g *GraphSequence, indent string) {
	for _, v := range g.Inputs {
		fmt.Fprintf(b, "%sinput: %s %s\n", indent, word(v.Name), escape(v.Type))
	}
	for _, t := range g.Initializers {
		fmt.Fprintf(b, "%sinit: %s %s%v\n", indent, word(t.Name), t.DType, t.Dims)
	}
	textNodes(b, g.Nodes, indent)
	for _, v := range g.Outputs {
		fmt.Fprintf(b, "%soutput: %s %s\n", indent, word(v.Name), escape(v.Type))
	}
}

func textNodes(b *strings.Builder, nodes []SequenceNode, indent string) {
	for _, n := range nodes {
		fmt.Fprintf(b, "%s%s(%s) -> %s", indent, word(n.qualified()), words(n.Inputs), words(n.Outputs))
		for _, a := range slices.Sorted(maps.Keys(n.Attributes)) {
			if s, ok := n.Attributes[a].(string); ok {
				fmt.Fprintf(b, " %s=%s", word(a), strconv.Quote(s))
				continue
			}
			fmt.Fprintf(b, " %s=%s", word(a), escape(fmt.Sprint(n.Attributes[a])))
		}
		if n.Name != "" {
			fmt.Fprintf(b, " name=%s", word(n.Name))
		}
		b.WriteByte('\n')
		for _, a := range slices.Sorted(maps.Keys(n.Graphs)) {
			g := n.Graphs[a]
			fmt.Fprintf(b, "%s  %s:\n", indent, word(a))
			textGraph(b, &g, indent+"    ")
		}
	}
}

// attributeText returns an attribute as name=value; a long value is cut.
func (n *SequenceNode) attributeText(name string) string {
	const most = 40 // characters
	v := []rune(fmt.Sprint(n.Attributes[name]))
	if len(v) > most {
		v = append(v[:most-1], '…')
	}
	return name + "=" + string(v)
}

func (n *SequenceNode) qualified() string {
	if n.Domain == "" {
		return n.OpType
	}
	return n.Domain + "." + n.OpType
}

// word returns a name, quoted if it is empty or has other characters than letters, digits and
// the marks _./:-@[].
func word(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_./:-@[]", r)
	}
	if s == "" || strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

func words(names []string) string {
	w := make([]string, len(names))
	for i, n := range names {
		w[i] = word(n)
	}
	return strings.Join(w, ", ")
}

// escape replaces control characters by their escapes, so that text stays on one line.
func escape(s string) string {
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
