// Package recorded reads the cases in internal/ops/all/testdata/recorded: models of one
// node with results of ONNX Runtime, ONNX's reference evaluator or a formula. Scripts next
// to that folder write them.
package recorded

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Case is one node with its inputs and outputs.
type Case struct {
	Op    string // with its domain: Add, com.microsoft.Gelu
	Opset int    // of that domain
	Attrs map[string]Attr
	In    []*Value // nil for an omitted input
	Out   []*Value // nil for an output that is not checked
	Tol   float64  // relative tolerance, 1e-3 if 0
	By    string   // source of the outputs, ONNX Runtime if empty
	Note  string

	// Set for cases of ONNX Runtime's own tests, see [LoadUpstream].
	Const  []int         // inputs that are initializers
	Types  []string      // TypeProtos of the inputs in base64, if their shapes are not those of the values
	Graph  string        // a GraphProto in base64 instead of one node
	Tols   [][2]*float64 // absolute and relative tolerances of the outputs, nil for the default of the type
	Sorted []int         // outputs whose elements have no order
	Fails  string        // the error that ONNX Runtime returns
}

// Attr is an attribute: one of its fields is set.
type Attr struct {
	Int     *int64
	Float   *Number
	String  *string
	Ints    []int64
	Floats  []Number
	Strings []string
	Tensor  *Value
	Graph   *string // a GraphProto in base64
	Type    *string // a TypeProto in base64
}

// Value is a tensor (its type, shape and elements), a sequence, a map (keys and
// values) or an optional (its element, if it has one, and its TypeProto in base64).
type Value struct {
	T   string
	S   []int
	D   []json.RawMessage
	Seq []*Value
	Map []*Value
	Opt []*Value
	Of  string

	Elem string // element type of a sequence of tensors, needed if it is empty
}

// Number is a number, written as "nan", "inf" or "-inf" if it is not finite.
type Number float64

// UnmarshalJSON reads a number.
func (n *Number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"nan"`:
		*n = Number(math.NaN())
	case `"inf"`:
		*n = Number(math.Inf(1))
	case `"-inf"`:
		*n = Number(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

// Load reads all cases below a folder, by file.
func Load(dir string) (map[string][]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	r := map[string][]*Case{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var cases []*Case
		if err := json.Unmarshal(b, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("%s contains no cases", file)
		}
		r[strings.TrimSuffix(filepath.Base(file), ".json")] = cases
	}
	if len(r) == 0 {
		return nil, fmt.Errorf("%s contains no cases", dir)
	}
	return r, nil
}

func data[T tensor.Element, D any](v *Value, f func(D) T) *tensor.Tensor {
	r := make([]T, len(v.D))
	for i, b := range v.D {
		var d D
		if err := json.Unmarshal(b, &d); err != nil {
			panic(err)
		}
		r[i] = f(d)
	}
	if n := must(tensor.Elements(v.S)); n != len(r) {
		panic(fmt.Sprintf("got %d elements for shape %v", len(r), v.S))
	}
	t, err := tensor.Must(tensor.New(r, len(r))).Reshape(v.S...)
	return tensor.Must(t, err)
}

// Value returns the value, nil for an omitted one. It panics if the file is invalid.
func (v *Value) Value() tensor.Value {
	switch {
	case v == nil:
		return nil
	case v.Map != nil:
		return &tensor.Map{Keys: v.Map[0].Tensor(), Values: v.Map[1].Tensor()}
	case v.Of != "":
		o := &tensor.Optional{Elem: must(protoType(v.Of).ValueType())}
		if len(v.Opt) > 0 {
			o.Value = v.Opt[0].Value()
		}
		return o
	case v.T == "":
		s := &tensor.Sequence{}
		for _, it := range v.Seq {
			s.Items = append(s.Items, it.Value())
			s.Elem = s.Items[0].Type()
		}
		if v.Elem != "" {
			s.Elem = tensor.TensorType(must(tensor.ParseDType(v.Elem)))
		}
		return s
	}
	return v.Tensor()
}

// Tensor returns a value that is a tensor.
func (v *Value) Tensor() *tensor.Tensor {
	switch v.T {
	case "float":
		return data(v, func(n Number) float32 { return float32(n) })
	case "double":
		return data(v, func(n Number) float64 { return float64(n) })
	case "int64":
		return data(v, func(n int64) int64 { return n })
	case "int32":
		return data(v, func(n int32) int32 { return n })
	case "int16":
		return data(v, func(n int16) int16 { return n })
	case "int8":
		return data(v, func(n int8) int8 { return n })
	case "uint64":
		return data(v, func(n uint64) uint64 { return n })
	case "uint32":
		return data(v, func(n uint32) uint32 { return n })
	case "uint16":
		return data(v, func(n uint16) uint16 { return n })
	case "uint8":
		return data(v, func(n uint16) uint8 { return uint8(n) })
	case "bool":
		return data(v, func(n int) bool { return n != 0 })
	case "string":
		return data(v, func(s string) string { return s })
	}
	// Small types: every one of their values is a float32.
	for d := tensor.TypeFloat32; d.Valid(); d++ {
		if d.String() == v.T {
			x := data(v, func(n Number) float32 { return float32(n) })
			r := tensor.Must(tensor.Zeros(d, v.S...))
			if err := tensor.ConvertInto(r, x, nil); err != nil {
				panic(err)
			}
			return r
		}
	}
	panic("unknown element type " + v.T)
}

func fromBase64(s string) []byte { return must(base64.StdEncoding.DecodeString(s)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func protoType(s string) *onnx.Type { return must(onnx.UnmarshalType(fromBase64(s), nil)) }

// Value returns the attribute as [onnx.NewAttribute] takes it.
func (a Attr) Value() any {
	switch {
	case a.Int != nil:
		return *a.Int
	case a.Float != nil:
		return float32(*a.Float)
	case a.String != nil:
		return *a.String
	case a.Strings != nil:
		return a.Strings
	case a.Tensor != nil:
		return a.Tensor.Tensor()
	case a.Graph != nil:
		return must(onnx.UnmarshalGraph(fromBase64(*a.Graph), nil))
	case a.Type != nil:
		return protoType(*a.Type)
	case a.Floats != nil:
		r := make([]float32, len(a.Floats))
		for i, f := range a.Floats {
			r[i] = float32(f)
		}
		return r
	}
	return a.Ints
}

// Domain returns the domain and the name of the operator.
func (c *Case) Domain() (domain, op string) {
	if i := strings.LastIndexByte(c.Op, '.'); i >= 0 {
		return c.Op[:i], c.Op[i+1:]
	}
	return "", c.Op
}

// Model returns a model of the node with a feed for its inputs, i0, i1 and so on. Its
// outputs are o0, o1 and so on; those that are not checked are left out.
func (c *Case) Model() (*onnx.Model, map[string]tensor.Value, error) {
	if c.Graph != "" {
		return c.graphModel()
	}
	domain, op := c.Domain()
	b := onnx.NewModel("case").Opset(domain, int64(c.Opset))
	if domain != "" {
		b.Opset("", 21)
	}
	feed := map[string]tensor.Value{}
	var in, out []string
	for i, v := range c.In {
		name := ""
		if v != nil {
			name = fmt.Sprintf("i%d", i)
			x, constant := v.Value(), slices.Contains(c.Const, i)
			t := onnx.NewType(x.Type())
			if x, ok := x.(*tensor.Tensor); ok {
				t.Tensor.Shape = &onnx.Shape{}
				for _, d := range x.Shape() {
					t.Tensor.Shape.Dims = append(t.Tensor.Shape.Dims, onnx.Dim{Kind: onnx.DimValue, Value: int64(d)})
				}
			}
			if c.Types != nil {
				t = protoType(c.Types[i])
			}
			if c, ok := x.(*tensor.Tensor); ok && constant {
				b.Initializer(name, onnx.FromTensor(c))
			} else {
				b.InputType(name, t)
				feed[name] = x
			}
		}
		in = append(in, name)
	}
	for i, v := range c.Out {
		name := ""
		if v != nil {
			name = fmt.Sprintf("o%d", i)
			b.OutputType(name, nil)
		}
		out = append(out, name)
	}
	n := b.Node(op, in, out).Domain(domain)
	for name, a := range c.Attrs {
		n.Attr(name, a.Value())
	}
	m, err := b.Model()
	return m, feed, err
}
