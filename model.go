package onward

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// NodeArg describes an input or output of a model.
type NodeArg struct {
	Name string
	Type string // as ONNX writes it: "tensor(float)", "seq(map(int64,tensor(float)))"
	// Shape holds the dimensions of a tensor. It is nil if the rank is unknown or the
	// value is not a tensor.
	Shape []Dim

	typ tensor.Type
}

// NewNodeArg describes an input or output of something other than a session, such as a pipeline
// in place of one. shape is nil if the rank is unknown.
func NewNodeArg(name string, t tensor.Type, shape []Dim) NodeArg {
	return NodeArg{Name: name, Type: t.String(), Shape: shape, typ: t}
}

// ElementType returns the type of the argument, which Type holds as a string.
func (a NodeArg) ElementType() tensor.Type { return a.typ }

// String returns the name, type and shape: "x: tensor(float)[N,3]".
func (a NodeArg) String() string {
	s := a.Name + ": " + a.Type
	if a.Shape != nil {
		d := make([]string, len(a.Shape))
		for i, x := range a.Shape {
			d[i] = x.String()
		}
		s += "[" + strings.Join(d, ",") + "]"
	}
	return s
}

// Declaration returns the type and shape of the argument as a model file declares them. The type is
// nil if the element type is unknown.
func (a NodeArg) Declaration() *onnx.ValueInfo {
	v := &onnx.ValueInfo{Name: a.Name}
	if a.typ.Kind == tensor.KindInvalid {
		return v
	}
	v.Type = onnx.NewType(a.typ)
	if a.Shape == nil || v.Type.Tensor == nil {
		return v
	}
	v.Type.Tensor.Shape = &onnx.Shape{}
	for _, d := range a.Shape {
		dim := onnx.Dim{}
		switch {
		case d.Value >= 0:
			dim = onnx.Dim{Kind: onnx.DimValue, Value: d.Value}
		case d.Param != "":
			dim = onnx.Dim{Kind: onnx.DimParam, Param: d.Param}
		}
		v.Type.Tensor.Shape.Dims = append(v.Type.Tensor.Shape.Dims, dim)
	}
	return v
}

// ModelMetadata holds the metadata fields of a model file.
type ModelMetadata struct {
	ProducerName     string
	ProducerVersion  string
	GraphName        string
	Domain           string
	Description      string
	GraphDescription string
	Version          int64
	IRVersion        int64
	Opsets           map[string]int64  // by domain, "" for ai.onnx
	Custom           map[string]string // metadata_props
}

// Description holds the inputs, outputs and metadata that a model declares.
type Description struct {
	Inputs                  []NodeArg // without those that have an initializer
	OverridableInitializers []NodeArg // inputs that have an initializer as default
	Outputs                 []NodeArg
	Metadata                ModelMetadata
}

// Describe returns the inputs, outputs and metadata of a model. It works for models that
// cannot be run, too.
func Describe(m *onnx.Model) (*Description, error) {
	if m == nil || m.Graph == nil {
		return nil, driver.LoadError(errors.New("the model has no graph"))
	}
	s, err := describe(context.Background(), m)
	if err != nil {
		return nil, driver.LoadError(err)
	}
	return &Description{Inputs: s.inputs, OverridableInitializers: s.defaults, Outputs: s.outputs, Metadata: s.meta},
		nil
}

// signature holds the inputs, outputs and metadata of a session's model. The indices are
// by name; inIndex counts inputs, then defaults.
type signature struct {
	inputs   []NodeArg
	outputs  []NodeArg
	defaults []NodeArg // inputs with a default
	inIndex  map[string]int
	outIndex map[string]int
	meta     ModelMetadata
}

// arg returns input i. Inputs with a default follow the required ones.
func (s *signature) arg(i int) *NodeArg {
	if i < len(s.inputs) {
		return &s.inputs[i]
	}
	return &s.defaults[i-len(s.inputs)]
}

// describe returns the signature of a model.
func describe(ctx context.Context, m *onnx.Model) (s signature, err error) {
	g := m.Graph
	s.meta = ModelMetadata{ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion, GraphName: g.Name,
		Domain:      m.Domain,
		Description: m.DocString, GraphDescription: g.DocString, Version: m.ModelVersion, IRVersion: m.IRVersion,
		Opsets: map[string]int64{}, Custom: map[string]string{}}
	for _, o := range m.OpsetImports {
		s.meta.Opsets[onnx.NormalizeDomain(o.Domain)] = o.Version
	}
	for _, p := range m.MetadataProps {
		s.meta.Custom[p.Key] = p.Value
	}
	init := make(map[string]bool, len(g.Initializers))
	for _, t := range g.Initializers {
		if t != nil {
			init[t.Name] = true
		}
	}
	for _, t := range g.SparseInitializers {
		if t != nil && t.Values != nil {
			init[t.Values.Name] = true
		}
	}
	s.inIndex, s.outIndex = map[string]int{}, map[string]int{}
	for i, v := range g.Inputs {
		if i&0xfff == 0xfff && ctx.Err() != nil {
			return s, ctx.Err()
		}
		a, err := nodeArg(v)
		if err != nil {
			return s, fmt.Errorf("input: %w", err)
		}
		switch {
		case !init[a.Name]:
			s.inputs = append(s.inputs, a)
		case m.IRVersion >= 4:
			s.defaults = append(s.defaults, a)
		}
	}
	for i := range len(s.inputs) + len(s.defaults) {
		name := s.arg(i).Name
		if _, ok := s.inIndex[name]; ok {
			return s, fmt.Errorf("input %.200q is declared twice", name)
		}
		s.inIndex[name] = i
	}
	for i, v := range g.Outputs {
		if i&0xfff == 0xfff && ctx.Err() != nil {
			return s, ctx.Err()
		}
		a, err := nodeArg(v)
		if err != nil {
			return s, fmt.Errorf("output: %w", err)
		}
		s.outputs = append(s.outputs, a)
		s.outIndex[a.Name] = i
	}
	return s, nil
}

func nodeArg(v *onnx.ValueInfo) (NodeArg, error) {
	if v == nil || v.Name == "" {
		return NodeArg{}, errors.New("the name is missing")
	}
	a := NodeArg{Name: v.Name}
	var tt *onnx.TensorType
	a.typ, tt = typeOf(v.Type, 0)
	a.Type = a.typ.String()
	if tt == nil || tt.Shape == nil {
		return a, nil
	}
	a.Shape = make([]Dim, len(tt.Shape.Dims))
	for i, d := range tt.Shape.Dims {
		a.Shape[i] = Dim{Value: -1}
		switch {
		case d.Kind == onnx.DimValue && d.Value >= 0:
			a.Shape[i].Value = d.Value
		case d.Kind == onnx.DimParam:
			a.Shape[i].Param = d.Param
		}
	}
	return a, nil
}

// typeOf converts a declared type. The second result is its tensor type, or nil if the
// type is not a dense tensor.
func typeOf(t *onnx.Type, depth int) (tensor.Type, *onnx.TensorType) {
	const deepest = 64
	if t == nil || depth > deepest {
		return tensor.Type{}, nil
	}
	dtype := func(d onnx.DataType) tensor.DType {
		if d < 0 || d > 255 || !tensor.DType(d).Valid() {
			return tensor.Undefined
		}
		return tensor.DType(d)
	}
	switch {
	case t.Tensor != nil:
		return tensor.TensorType(dtype(t.Tensor.ElemType)), t.Tensor
	case t.SparseTensor != nil:
		return tensor.SparseType(dtype(t.SparseTensor.ElemType)), nil
	case t.Sequence != nil:
		of, _ := typeOf(t.Sequence.Elem, depth+1)
		return tensor.SequenceOf(of), nil
	case t.Optional != nil:
		of, _ := typeOf(t.Optional.Elem, depth+1)
		return tensor.OptionalOf(of), nil
	case t.Map != nil:
		of, _ := typeOf(t.Map.Value, depth+1)
		return tensor.MapOf(dtype(t.Map.Key), of), nil
	}
	return tensor.Type{}, nil
}
