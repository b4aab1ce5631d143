package backend

import (
	"context"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// SwitchInitializersDType returns a Rep of a float64 copy of the model: float32 initializers,
// constants, declared types and targets of Cast become float64. The differences between the
// results of both Reps are the effect of rounding to float32. Inputs must be float64 where the
// model declares float32. An operator that does not support float64, such as some of ai.onnx.ml
// and Resize with its scales, gives an error that names it.
//
// The copy takes memory for the serialized model and three times its weights.
func (r *Rep) SwitchInitializersDType(ctx context.Context) (*Rep, error) {
	m, err := r.model()
	if err != nil {
		return nil, err
	}
	data, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	var read *onnx.ReadOptions
	if e := m.External(); e != nil {
		read = &onnx.ReadOptions{Dir: e.Dir}
	}
	c, err := onnx.Unmarshal(data, read)
	if err != nil {
		return nil, err
	}
	w := &widening{m: c}
	w.graph(c.Graph)
	for _, f := range c.Functions {
		w.nodes(f.Nodes)
		w.infos(f.ValueInfo)
		for _, a := range f.AttributeProtos {
			w.attribute(nil, a)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return r.prepareAgain(ctx, c)
}

// widening replaces float32 by float64 in a model and keeps the first error.
type widening struct {
	m   *onnx.Model
	err error
}

func (w *widening) graph(g *onnx.Graph) {
	for i, t := range g.Initializers {
		g.Initializers[i] = w.tensor(t)
	}
	for _, s := range g.SparseInitializers {
		s.Values = w.tensor(s.Values)
	}
	w.infos(g.Inputs)
	w.infos(g.Outputs)
	w.infos(g.ValueInfo)
	w.nodes(g.Nodes)
}

func (w *widening) infos(list []*onnx.ValueInfo) {
	for _, v := range list {
		w.declared(v.Type)
	}
}

func (w *widening) declared(t *onnx.Type) {
	switch {
	case t == nil:
	case t.Tensor != nil && t.Tensor.ElemType == onnx.Float:
		t.Tensor.ElemType = onnx.Double
	case t.SparseTensor != nil && t.SparseTensor.ElemType == onnx.Float:
		t.SparseTensor.ElemType = onnx.Double
	case t.Sequence != nil:
		w.declared(t.Sequence.Elem)
	case t.Optional != nil:
		w.declared(t.Optional.Elem)
	case t.Map != nil:
		w.declared(t.Map.Value)
	}
}

func (w *widening) tensor(t *onnx.Tensor) *onnx.Tensor {
	if t == nil || t.DataType != onnx.Float || w.err != nil {
		return t
	}
	x, err := w.m.DecodeTensor(t)
	if err == nil {
		x, err = tensor.Convert(x, tensor.TypeFloat64, nil)
	}
	if err != nil {
		w.err = invalid("tensor %q: %w", t.Name, err)
		return t
	}
	r := onnx.FromTensor(x)
	r.Name, r.DocString = t.Name, t.DocString
	return r
}

func (w *widening) nodes(nodes []*onnx.Node) {
	for _, n := range nodes {
		for _, a := range n.Attributes {
			w.attribute(n, a)
		}
		// The default of the attribute value is a float32 zero.
		if n.OpType == "ConstantOfShape" && onnx.NormalizeDomain(n.Domain) == "" && n.Attribute("value") == nil {
			n.Attributes = append(n.Attributes,
				&onnx.Attribute{Name: "value", Type: onnx.AttrTensor,
					T: onnx.FromTensor(tensor.Must(tensor.New([]float64{0}, 1)))})
		}
	}
}

func (w *widening) attribute(n *onnx.Node, a *onnx.Attribute) {
	a.T = w.tensor(a.T)
	for i, t := range a.Tensors {
		a.Tensors[i] = w.tensor(t)
	}
	if a.G != nil {
		w.graph(a.G)
	}
	for _, g := range a.Graphs {
		w.graph(g)
	}
	w.declared(a.TP)
	for _, t := range a.TypeProtos {
		w.declared(t)
	}
	if n == nil || onnx.NormalizeDomain(n.Domain) != "" {
		return
	}
	switch {
	case slices.Contains([]string{"to", "dtype"}, a.Name) && a.Type == onnx.AttrInt && onnx.DataType(a.I) == onnx.Float:
		a.I = int64(onnx.Double)
	case n.OpType == "Constant" && a.Name == "value_float" && a.RefAttrName == "":
		*a = onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: onnx.FromTensor(tensor.Scalar(float64(a.F)))}
	case n.OpType == "Constant" && a.Name == "value_floats" && a.RefAttrName == "":
		x := make([]float64, len(a.Floats))
		for i, f := range a.Floats {
			x[i] = float64(f)
		}
		*a = onnx.Attribute{Name: "value", Type: onnx.AttrTensor,
			T: onnx.FromTensor(tensor.Must(tensor.New(x, len(x))))}
	}
}
