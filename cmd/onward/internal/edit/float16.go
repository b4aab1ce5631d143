package edit

import (
	"math"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/opset"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// HalfReport says what Half did.
type HalfReport struct {
	Nodes     int            `json:"nodes"`     // that compute in 16 bits
	Kept      map[string]int `json:"kept"`      // nodes that stay in float32, by operator
	Casts     int            `json:"casts"`     // that were inserted
	Saturated []string       `json:"saturated"` // weights with numbers beyond the range, ±65504 for float16
}

// Half returns a model that computes in float16 or bfloat16 and has float32 inputs and outputs.
// These nodes stay in float32: those with subgraphs, those whose operator has no form for the type
// in the model's opset, and those for which keep returns true. Weights beyond the range of the type
// become its largest numbers; infinities stay.
func Half(m *onnx.Model, elem tensor.DType, keep func(*onnx.Node) bool) (*onnx.Model, *HalfReport, error) {
	all, err := values(m)
	if err != nil {
		return nil, nil, err
	}
	opsets := map[string]int64{}
	for _, o := range m.OpsetImports {
		opsets[onnx.NormalizeDomain(o.Domain)] = o.Version
	}
	h := &half{m: m, elem: elem, values: all, r: &HalfReport{Kept: map[string]int{}, Saturated: []string{}},
		single: map[string]bool{}, double: map[string]bool{}, only: map[string]bool{}, init: map[string]*onnx.Tensor{}}
	for name, v := range all {
		h.single[name] = v.ElementType().Kind == tensor.KindTensor && v.ElementType().Elem == tensor.TypeFloat32
	}
	h.c = copyOf(m)
	g := h.c.Graph
	for _, t := range g.Initializers {
		h.init[t.Name] = t
	}
	g.ValueInfo = nil // declares float32
	nodes := g.Nodes
	g.Nodes = nil
	var scopes onnx.Scopes
	for _, n := range nodes {
		if !h.computes(n, opsets) || keep != nil && keep(n) {
			for _, in := range scopes.Reads(n) {
				if h.only[in] {
					h.cast(h.name(in), in, onnx.Float)
				}
			}
			if slices.ContainsFunc(slices.Concat(n.Inputs, n.Outputs), func(v string) bool { return h.single[v] }) {
				h.r.Kept[n.OpType]++
			}
			g.Nodes = append(g.Nodes, n)
			continue
		}
		h.node(n)
	}
	for _, v := range g.Outputs {
		if h.only[v.Name] {
			h.cast(h.name(v.Name), v.Name, onnx.Float)
		}
	}
	h.removeUnusedWeights()
	return h.c, h.r, nil
}

// half converts a graph. A value x of float32 keeps its name; its 16-bit form is name(x).
type half struct {
	m      *onnx.Model
	elem   tensor.DType
	values map[string]onward.NodeArg
	c      *onnx.Model
	r      *HalfReport
	single map[string]bool // values of float32
	double map[string]bool // of these, those that have a 16-bit form
	only   map[string]bool // of these, those that have no float32 form yet
	init   map[string]*onnx.Tensor
}

func (h *half) name(x string) string { return x + "_" + h.elem.String() }

// cast appends a Cast.
func (h *half) cast(from, to string, t onnx.DataType) {
	n := &onnx.Node{OpType: "Cast", Name: "cast_" + to, Inputs: []string{from}, Outputs: []string{to}}
	a, err := onnx.NewAttribute("to", int64(t))
	if err != nil {
		panic(err) // an int64 is valid
	}
	n.Attributes = []*onnx.Attribute{a}
	h.c.Graph.Nodes = append(h.c.Graph.Nodes, n)
	h.r.Casts++
	delete(h.only, to)
}

// computes reports whether a node can compute in 16 bits: it has float32 inputs or outputs, and its
// operator has a form with the 16-bit type in their place.
func (h *half) computes(n *onnx.Node, opsets map[string]int64) bool {
	domain := onnx.NormalizeDomain(n.Domain)
	def, err := kit.Lookup(domain, n.OpType, int(opsets[domain]))
	if err != nil || len(n.Subgraphs()) > 0 {
		return false
	}
	switch n.OpType {
	case "Cast", "Constant", "ConstantOfShape", "RandomNormal", "RandomUniform", "RandomNormalLike",
		"RandomUniformLike", "EyeLike", "Bernoulli",
		"HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "QuantizeLinear",
		"DequantizeLinear", "CastLike":
		return false // attributes or other inputs decide the type
	}
	if !slices.ContainsFunc(slices.Concat(n.Inputs, n.Outputs), func(v string) bool { return h.single[v] }) {
		return false
	}
	if domain == "" {
		return opset.Accepts(n, opsets[""], func(name string) string {
			if h.single[name] {
				return tensor.TensorType(h.elem).String()
			}
			if t := h.values[name].ElementType(); t.Kind != tensor.KindInvalid {
				return t.String()
			}
			return ""
		}) == nil
	}
	sig := def.Signature()
	allowed := func(names []string, params []ir.Param) bool {
		for i, v := range names {
			if v == "" || !h.single[v] || len(params) == 0 {
				continue
			}
			p := params[min(i, len(params)-1)] // the last may be variadic
			if p.Pattern != "any" && !slices.ContainsFunc(sig.Types(p.Pattern), func(t tensor.Type) bool {
				return t.Equal(tensor.TensorType(h.elem))
			}) {
				return false
			}
		}
		return true
	}
	return allowed(n.Inputs, sig.In) && allowed(n.Outputs, sig.Out)
}

// node appends a node in 16 bits.
func (h *half) node(n *onnx.Node) {
	c := *n
	c.Inputs, c.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
	for i, in := range c.Inputs {
		if in == "" || !h.single[in] {
			continue
		}
		if !h.double[in] {
			h.double[in] = true
			if t := h.init[in]; t == nil || !h.weight(in, t) {
				h.cast(in, h.name(in), onnx.DataType(h.elem))
			}
		}
		c.Inputs[i] = h.name(in)
	}
	for i, out := range c.Outputs {
		if out != "" && h.single[out] {
			c.Outputs[i] = h.name(out)
			h.double[out] = true
			h.only[out] = true
		}
	}
	h.r.Nodes++
	h.c.Graph.Nodes = append(h.c.Graph.Nodes, &c)
}

// weight adds the 16-bit form of an initializer. It returns false if the initializer is also an
// input, whose value a run may replace.
func (h *half) weight(name string, t *onnx.Tensor) bool {
	if slices.ContainsFunc(h.c.Graph.Inputs, func(v *onnx.ValueInfo) bool { return v.Name == name }) {
		return false
	}
	x, err := h.m.DecodeTensor(t)
	if err != nil {
		return false
	}
	most := float32(65504)
	if h.elem == tensor.TypeBFloat16 {
		most = math.Float32frombits(0x7f7f0000)
	}
	data := slices.Clone(tensor.MustData[float32](x))
	beyond := false
	for i, v := range data {
		if a := float32(math.Abs(float64(v))); a > most && !math.IsInf(float64(v), 0) {
			data[i] = float32(math.Copysign(float64(most), float64(v)))
			beyond = true
		}
	}
	if beyond {
		h.r.Saturated = append(h.r.Saturated, name)
	}
	shape := x.Shape()
	y, err := tensor.New(data, shape...)
	if err == nil && len(shape) == 0 {
		y, err = y.Reshape()
	}
	if err == nil {
		y, err = tensor.Convert(y, h.elem, nil)
	}
	if err != nil {
		return false
	}
	w := onnx.FromTensor(y)
	w.Name = h.name(name)
	h.c.Graph.Initializers = append(h.c.Graph.Initializers, w)
	return true
}

// removeUnusedWeights removes the float32 weights that only 16-bit nodes read.
func (h *half) removeUnusedWeights() {
	var scopes onnx.Scopes
	read := map[string]bool{}
	g := h.c.Graph
	for _, n := range g.Nodes {
		for _, name := range scopes.Reads(n) {
			read[name] = true
		}
	}
	for _, v := range slices.Concat(g.Outputs, g.Inputs) {
		read[v.Name] = true
	}
	g.Initializers = slices.DeleteFunc(g.Initializers, func(t *onnx.Tensor) bool { return !read[t.Name] })
}
