package modelgraph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/weights"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Weight is the summary of an initializer or of a constant. Elements are in it only
// if they are few.
type Weight struct {
	Name     string      `json:"n"`
	Type     string      `json:"t"`
	Bytes    int64       `json:"b"`
	Elements string      `json:"v,omitempty"` // such as "[1, -1]"
	Count    int64       `json:"c"`
	Stats    *[5]float64 `json:"s,omitempty"` // minimum, maximum, mean, standard deviation, share of zeros
	Odd      int64       `json:"odd,omitempty"`
	Bins     []int64     `json:"h,omitempty"`
	Error    string      `json:"e,omitempty"`
}

const fewElements = 8

// summary reads a tensor. It also returns the tensor if its elements are few.
func (b *builder) summary(name string, t *onnx.Tensor) (w Weight, few *tensor.Tensor) {
	w = Weight{Name: clean(name), Type: tensorType(t.DataType.String(), t.Dims)}
	x, err := b.m.DecodeTensor(t)
	if err != nil {
		w.Error = clean(err.Error())
		return w, nil
	}
	w.Count, w.Bytes = int64(x.Len()), int64(len(x.Bytes()))
	if x.Len() <= fewElements {
		w.Elements, few = elements(x), x
	}
	s, err := weights.Summarize(x)
	if err != nil || s.Count == 0 {
		return w, few // strings and complex numbers have no statistics
	}
	w.Stats = &[5]float64{s.Min, s.Max, s.Mean, s.StdDev, float64(s.Zeros) / float64(s.Count)}
	w.Odd = s.NotFinite
	if x.Len() > fewElements {
		w.Bins = s.Histogram
	}
	return w, few
}

// tensorType returns a type with its shape: "float[64,3,7,7]".
func tensorType(elem string, dims []int64) string {
	s := make([]string, len(dims))
	for i, d := range dims {
		s[i] = strconv.FormatInt(d, 10)
	}
	return elem + "[" + strings.Join(s, ",") + "]"
}

// filled returns the result of a ConstantOfShape whose shape is a constant, nil for other nodes.
func (b *builder) filled(n *onnx.Node, s *scope) *Weight {
	if n.OpType != "ConstantOfShape" || onnx.NormalizeDomain(n.Domain) != "" || len(n.Inputs) != 1 ||
		len(n.Outputs) != 1 {
		return nil
	}
	v, ok := s.find(n.Inputs[0])
	dims, known := b.shapes[v]
	if !ok || !known {
		return nil
	}
	value := &onnx.Tensor{Dims: []int64{1}, DataType: onnx.Float, FloatData: []float32{0}}
	if a := n.Attribute("value"); a != nil && a.T != nil {
		value = a.T
	}
	one, _ := b.summary(n.Outputs[0], value)
	if one.Count != 1 || one.Stats == nil {
		return nil
	}
	size := one.Bytes
	one.Type, one.Elements = tensorType(value.DataType.String(), dims), ""
	for _, d := range dims {
		if d < 0 || d > 0 && one.Count > (1<<53)/d/size {
			return nil
		}
		one.Count *= d
	}
	one.Bytes = one.Count * size
	return &one
}

// elements returns the elements of a small tensor as text.
func elements(x *tensor.Tensor) string {
	y, err := tensor.Convert(x, tensor.TypeString, nil)
	if x.DType() == tensor.TypeString {
		y, err = x, nil
	}
	if err != nil {
		return ""
	}
	list := tensor.MustData[string](y)
	for i, s := range list {
		if x.DType() == tensor.TypeString {
			list[i] = strconv.Quote(s)
		}
	}
	if x.Rank() == 0 && len(list) == 1 {
		return clean(list[0])
	}
	return clean("[" + strings.Join(list, ", ") + "]")
}

// constant returns the tensor of a Constant, nil for other nodes and for constants of other types.
func constant(n *onnx.Node) *onnx.Tensor {
	if n.OpType != "Constant" || onnx.NormalizeDomain(n.Domain) != "" || len(n.Outputs) != 1 ||
		len(n.Attributes) != 1 || n.Attributes[0].RefAttrName != "" {
		return nil
	}
	var t *onnx.Tensor
	var err error
	switch a := n.Attributes[0]; a.Name {
	case "value":
		t = a.T
	case "value_float":
		t, err = onnx.NewTensor("", a.F)
	case "value_int":
		t, err = onnx.NewTensor("", a.I)
	case "value_string":
		t, err = onnx.NewTensor("", a.S)
	case "value_floats":
		t, err = onnx.NewTensor("", a.Floats)
	case "value_ints":
		t, err = onnx.NewTensor("", a.Ints)
	case "value_strings":
		t, err = onnx.NewTensor("", a.Strings)
	}
	if err != nil {
		return nil
	}
	return t
}

// typeOf returns a type with its shape: "float[N,3]".
func typeOf(a onward.NodeArg) string {
	if a.Shape == nil {
		return short(a.ElementType())
	}
	dims := make([]string, len(a.Shape))
	for i, d := range a.Shape {
		dims[i] = d.String()
	}
	return short(a.ElementType()) + "[" + strings.Join(dims, ",") + "]"
}

// short returns the name of a type, which is that of the elements for a tensor.
func short(t tensor.Type) string {
	if elem, ok := strings.CutPrefix(t.String(), "tensor("); ok {
		return strings.TrimSuffix(elem, ")")
	}
	return t.String()
}

// declared returns the type that a file declares, "" for one that is missing or invalid.
func declared(t *onnx.Type) string {
	v, err := t.ValueType()
	if err != nil {
		return ""
	}
	if t.Tensor == nil || t.Tensor.Shape == nil {
		return short(v)
	}
	dims := make([]string, len(t.Tensor.Shape.Dims))
	for i, d := range t.Tensor.Shape.Dims {
		switch {
		case d.Kind == onnx.DimValue:
			dims[i] = strconv.FormatInt(d.Value, 10)
		case d.Kind == onnx.DimParam && d.Param != "":
			dims[i] = d.Param
		default:
			dims[i] = "?"
		}
	}
	return short(v) + "[" + strings.Join(dims, ",") + "]"
}

// formal returns the names of a signature's parameters for n actual ones.
func formal(list []ir.Param, n int) []string {
	var r []string
	for i := range n {
		switch {
		case i < len(list):
			r = append(r, list[i].Name)
		case len(list) > 0 && list[len(list)-1].Variadic:
			r = append(r, list[len(list)-1].Name)
		}
	}
	return r
}

// attribute returns the value of an attribute as text.
func attribute(a *onnx.Attribute) string {
	if a.RefAttrName != "" {
		return clean("attribute " + a.RefAttrName + " of the call")
	}
	switch a.Type {
	case onnx.AttrFloat:
		return float(a.F)
	case onnx.AttrInt:
		return strconv.FormatInt(a.I, 10)
	case onnx.AttrString:
		return clean(a.S)
	case onnx.AttrFloats:
		return list(a.Floats, float)
	case onnx.AttrInts:
		return list(a.Ints, func(i int64) string { return strconv.FormatInt(i, 10) })
	case onnx.AttrStrings:
		return list(a.Strings, func(s string) string { return strconv.Quote(s) })
	case onnx.AttrTensor:
		if a.T == nil {
			return "tensor"
		}
		if x, err := a.T.Decode(nil); err == nil && x.Len() <= fewElements {
			return clean(fmt.Sprintf("%s %s", x, elements(x)))
		}
		return clean(fmt.Sprintf("%s%v", a.T.DataType, a.T.Dims))
	case onnx.AttrGraph:
		if a.G == nil {
			return "graph"
		}
		return fmt.Sprintf("graph, %d nodes", len(a.G.Nodes))
	case onnx.AttrGraphs:
		return fmt.Sprintf("%d graphs", len(a.Graphs))
	}
	return a.Type.String()
}

func float(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

func list[T any](all []T, element func(T) string) string {
	const most = 32
	var b strings.Builder
	b.WriteByte('[')
	for i, x := range all[:min(len(all), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(element(x))
	}
	if len(all) > most {
		fmt.Fprintf(&b, ", … (%d)", len(all))
	}
	b.WriteByte(']')
	return clean(b.String())
}
