package opset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// change names a version that changed an operator.
type change struct {
	op      string
	version int64
}

// adapter converts a node whose change of semantics the schemas do not state. It changes x.n, and
// may add nodes around it.
type adapter func(x *step) error

// step converts a node to the next version.
type step struct {
	c             *converter
	s             *scope
	n             *onnx.Node // a copy, which may change
	op            string     // the operator before the step
	from, to      int64
	before, after []*onnx.Node
	gone          bool // remove n
}

func newStep(c *converter, s *scope, n *onnx.Node, from, to int64) *step {
	r := *n
	r.Inputs, r.Outputs, r.Attributes = slices.Clone(n.Inputs), slices.Clone(n.Outputs), slices.Clone(n.Attributes)
	return &step{c: c, s: s, n: &r, op: n.OpType, from: from, to: to}
}

func (x *step) input(i int) string {
	if i < len(x.n.Inputs) {
		return x.n.Inputs[i]
	}
	return ""
}

// setInput sets an input, and omits those between it and the last. What it replaces
// may be unused now.
func (x *step) setInput(i int, name string) {
	for len(x.n.Inputs) <= i {
		x.n.Inputs = append(x.n.Inputs, "")
	}
	x.c.detached[x.n.Inputs[i]] = true
	x.n.Inputs[i] = name
}

// removeInput removes an input that became an attribute.
func (x *step) removeInput(i int) {
	if x.input(i) != "" {
		x.setInput(i, "")
	}
	x.n.Inputs = trim(x.n.Inputs)
}

func (x *step) drop(name string) {
	x.n.Attributes = slices.DeleteFunc(x.n.Attributes, func(a *onnx.Attribute) bool { return a.Name == name })
}

// set sets an attribute. It panics if value is not one of [onnx.NewAttribute].
func (x *step) set(name string, value any) {
	x.drop(name)
	x.n.Attributes = append(x.n.Attributes, attribute(name, value))
}

func attribute(name string, value any) *onnx.Attribute {
	a, err := onnx.NewAttribute(name, value)
	if err != nil {
		panic(err)
	}
	return a
}

func (x *step) int(name string, d int64) int64 {
	if a := x.n.Attribute(name); a != nil {
		return a.I
	}
	return d
}

func (x *step) string(name, d string) string {
	if a := x.n.Attribute(name); a != nil {
		return a.S
	}
	return d
}

// rank returns the rank of a value, or an error if it is unknown.
func (x *step) rank(name string) (int64, error) {
	if s := x.s.value(name).shape; s != nil {
		return int64(len(s)), nil
	}
	return 0, fmt.Errorf("the rank of %q is unknown", name)
}

// ref returns an error if an attribute refers to an attribute of the function, whose
// value is unknown here.
func (x *step) ref(names ...string) error {
	for _, name := range names {
		if a := x.n.Attribute(name); a != nil && a.RefAttrName != "" {
			return fmt.Errorf("attribute %s refers to an attribute of the function, and cannot become an input", name)
		}
	}
	return nil
}

// decode returns the constant that a name stands for. Weights that a run may
// replace are not constant.
func (x *step) decode(name string) (*tensor.Tensor, error) {
	t := x.s.constant(name)
	if t == nil {
		return nil, fmt.Errorf("input %q is not a constant", name)
	}
	return x.c.model.DecodeTensor(t)
}

// ints returns the elements of a constant of int64 or int32.
func (x *step) ints(name string) ([]int64, error) {
	t, err := x.decode(name)
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeInt64:
		return slices.Clone(tensor.MustData[int64](t)), nil
	case tensor.TypeInt32:
		var r []int64
		for _, v := range tensor.MustData[int32](t) {
			r = append(r, int64(v))
		}
		return r, nil
	}
	return nil, fmt.Errorf("input %q is %s, want integers", name, t.DType())
}

// floats returns the elements of a constant of a floating-point type.
func (x *step) floats(name string) ([]float32, error) {
	t, err := x.decode(name)
	if err == nil {
		t, err = tensor.Convert(t, tensor.TypeFloat32, nil)
	}
	if err != nil {
		return nil, err
	}
	return tensor.MustData[float32](t), nil
}

// constant returns the name of a new constant: of an initializer or, in a function, of a Constant.
func (x *step) constant(base string, t *tensor.Tensor) string {
	p := onnx.FromTensor(t)
	p.Name = x.c.fresh(x.anchor(), base)
	x.c.detached[p.Name] = true // a later step may make an attribute of it
	x.s.values[p.Name] = value{tensor.TensorType(t.DType()).String(), p.Dims}
	x.s.consts[p.Name] = p
	if x.s.function {
		x.before = append(x.before, &onnx.Node{OpType: "Constant", Name: p.Name, Outputs: []string{p.Name},
			Attributes: []*onnx.Attribute{attribute("value", p)}})
	} else {
		x.s.added = append(x.s.added, p)
	}
	return p.Name
}

// anchor returns a name for what is added to a node.
func (x *step) anchor() string {
	if i := slices.IndexFunc(x.n.Outputs, func(o string) bool { return o != "" }); i >= 0 {
		return x.n.Outputs[i]
	}
	return x.n.Name
}

// vector returns the name of a new constant vector of int64.
func (x *step) vector(base string, v ...int64) string {
	if v == nil {
		v = []int64{}
	}
	t, err := tensor.New(v, len(v))
	if err != nil {
		panic(err) // the length fits
	}
	return x.constant(base, t)
}

// scalar returns a constant of one element with the type of a value, or of the given shape.
func (x *step) scalar(base, like string, v float64, shape ...int) (string, error) {
	typ := x.s.value(like).typ
	name, ok := strings.CutPrefix(typ, "tensor(")
	if !ok {
		return "", fmt.Errorf("the type of %q is unknown", like)
	}
	d, err := tensor.ParseDType(strings.TrimSuffix(name, ")"))
	if err != nil {
		return "", err
	}
	t := tensor.Scalar(v)
	if len(shape) > 0 {
		if t, err = tensor.Zeros(tensor.TypeFloat64, shape...); err != nil {
			return "", err
		}
		for i := range tensor.MustData[float64](t) {
			tensor.MustData[float64](t)[i] = v
		}
	}
	if t, err = tensor.Convert(t, d, nil); err != nil {
		return "", err
	}
	return x.constant(base, t), nil
}

// emit adds a node before x.n and returns the name of its output, whose type is that of like.
func (x *step) emit(op, like string, inputs []string, attrs ...*onnx.Attribute) string {
	out := x.c.fresh(x.anchor(), strings.ToLower(op))
	x.s.values[out] = value{typ: x.s.value(like).typ}
	x.before = append(x.before,
		&onnx.Node{OpType: op, Name: out, Inputs: inputs, Outputs: []string{out}, Attributes: attrs})
	return out
}

// then adds a node after x.n that reads output i of x.n first. Its output takes the name of i.
func (x *step) then(i int, op string, inputs []string, attrs ...*onnx.Attribute) {
	if i >= len(x.n.Outputs) {
		return // nothing reads it
	}
	out := x.n.Outputs[i]
	inner := x.c.fresh(out, "before_"+strings.ToLower(op))
	x.s.values[inner] = value{typ: x.s.value(out).typ}
	x.n.Outputs[i] = inner
	x.after = append(x.after, &onnx.Node{OpType: op, Name: inner, Inputs: append([]string{inner}, inputs...),
		Outputs: []string{out}, Attributes: attrs})
}

// axes returns the inputs and attributes of Squeeze or Unsqueeze, whose axes are an
// input since opset 13.
func (x *step) axes(input []string, axes ...int64) ([]string, []*onnx.Attribute) {
	if x.to >= 13 {
		return append(input, x.vector("axes", axes...)), nil
	}
	return input, []*onnx.Attribute{attribute("axes", axes)}
}

// unused removes an output if nothing reads it, and fails with a reason otherwise.
func (x *step) unused(i int, why string) error {
	if i >= len(x.n.Outputs) || x.n.Outputs[i] == "" {
		return nil
	}
	if x.c.read[x.n.Outputs[i]] {
		return errors.New(why)
	}
	x.n.Outputs[i] = ""
	return nil
}

// attrToInput makes an input of an attribute of integers.
func attrToInput(name string, input int) adapter {
	return func(x *step) error {
		a := x.n.Attribute(name)
		if a == nil {
			return nil
		}
		if err := x.ref(name); err != nil {
			return err
		}
		x.setInput(input, x.vector(name, a.Ints...))
		x.drop(name)
		return nil
	}
}

// inputToAttr makes an attribute of a constant input of integers.
func inputToAttr(name string, input int) adapter {
	return func(x *step) error {
		if x.input(input) == "" {
			return nil
		}
		v, err := x.ints(x.input(input))
		if err != nil {
			return err
		}
		x.set(name, v)
		x.removeInput(input)
		return nil
	}
}

// both applies adapters in order.
func both(list ...adapter) adapter {
	return func(x *step) error {
		for _, a := range list {
			if err := a(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// constantValue returns the tensor of a Constant, nil if it holds none of the forms
// that a tensor has.
func constantValue(n *onnx.Node) *onnx.Tensor {
	for _, a := range n.Attributes {
		var t *onnx.Tensor
		var err error
		switch {
		case a.RefAttrName != "":
			return nil
		case a.Name == "value":
			t = a.T
		case a.Name == "value_int":
			t, err = onnx.NewTensor("", a.I)
		case a.Name == "value_float":
			t, err = onnx.NewTensor("", a.F)
		case a.Name == "value_string":
			t, err = onnx.NewTensor("", a.S)
		case a.Name == "value_ints":
			t, err = onnx.NewTensor("", append([]int64{}, a.Ints...), int64(len(a.Ints)))
		case a.Name == "value_floats":
			t, err = onnx.NewTensor("", append([]float32{}, a.Floats...), int64(len(a.Floats)))
		case a.Name == "value_strings":
			t, err = onnx.NewTensor("", append([]string{}, a.Strings...), int64(len(a.Strings)))
		}
		if t != nil && err == nil {
			return t
		}
	}
	return nil
}
