package kit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Attrs gives Build access to the attributes of a node and lets it add inputs. Values have type
// int64, float32, string, *tensor.Tensor, *tensor.Sparse, ir.Type, GraphRef, or are slices of
// these. A value of the wrong type is recorded as an error, so that Build can continue.
type Attrs struct {
	OpType        string
	NumIn, NumOut int // numbers of inputs and outputs of the node, including omitted ones
	Block         int // channel block size of the model's operators of DomainNchwc; 0 if unknown
	values        map[string]any
	used          map[string]string // attributes that Build has read, and their kinds
	inputs        map[int]*tensor.Tensor
	errs          []error
	failed        bool // Build may not have read all attributes
}

// GraphRef is the index of a subgraph in its node's Graphs.
type GraphRef int

// NewAttrs returns the attributes of a node with numIn inputs and numOut
// outputs.
func NewAttrs(opType string, values map[string]any, numIn, numOut int) *Attrs {
	return &Attrs{OpType: opType, NumIn: numIn, NumOut: numOut, values: values}
}

func attr[T any](a *Attrs, name string, kind string) (T, bool) {
	var zero T
	a.read(name, kind)
	v, ok := a.values[name]
	if !ok {
		return zero, false
	}
	t, ok := v.(T)
	if !ok {
		a.errs = append(a.errs, fail.Errorf("attribute %s is %s, want %s", name, attrKind(v), kind))
	}
	return t, ok
}

func attrKind(v any) string {
	switch v.(type) {
	case int64:
		return "an int"
	case float32:
		return "a float"
	case string:
		return "a string"
	case *tensor.Tensor:
		return "a tensor"
	case *tensor.Sparse:
		return "a sparse tensor"
	case GraphRef:
		return "a graph"
	case ir.Type:
		return "a type"
	case []int64:
		return "a list of ints"
	case []float32:
		return "a list of floats"
	case []string:
		return "a list of strings"
	}
	return fmt.Sprintf("%T", v)
}

// All returns all attributes. Build must not change attributes that it does not know.
func (a *Attrs) All() map[string]any {
	for name := range a.values {
		a.read(name, "")
	}
	return a.values
}

// Has reports whether the attribute is present.
func (a *Attrs) Has(name string) bool { _, ok := a.values[name]; return ok }

// Int returns an int attribute, or def when it is absent.
func (a *Attrs) Int(name string, def int) int {
	if v, ok := attr[int64](a, name, "an int"); ok {
		return Saturate(v)
	}
	return def
}

// Bool returns whether an int attribute is not 0. Inlined at the calls of all operators, Bool and
// Float take 8 kB.
//
//go:noinline
func (a *Attrs) Bool(name string, def bool) bool {
	if v, ok := attr[int64](a, name, "an int"); ok {
		return v != 0
	}
	return def
}

// Float returns a float attribute, or def when it is absent.
//
//go:noinline
func (a *Attrs) Float(name string, def float32) float32 {
	if v, ok := attr[float32](a, name, "a float"); ok {
		return v
	}
	return def
}

// String returns a string attribute, or def when it is absent.
func (a *Attrs) String(name, def string) string {
	if v, ok := attr[string](a, name, "a string"); ok {
		return v
	}
	return def
}

// Enum returns a string attribute, or def when it is absent. The value must be one of allowed.
func (a *Attrs) Enum(name, def string, allowed ...string) string {
	v := a.String(name, def)
	if !slices.Contains(allowed, v) {
		a.Errorf("attribute %s is %q, want one of %s", name, v, strings.Join(allowed, ", "))
		return def
	}
	return v
}

// Ints returns a list of ints, or nil when it is absent. A list that is present is never nil.
func (a *Attrs) Ints(name string) []int {
	v, ok := attr[[]int64](a, name, "a list of ints")
	if !ok {
		return nil
	}
	r := make([]int, len(v))
	for i, x := range v {
		r[i] = int(x)
	}
	return r
}

// Int64s is like Ints, but returns the list itself, which must not be changed.
func (a *Attrs) Int64s(name string) []int64 {
	v, _ := attr[[]int64](a, name, "a list of ints")
	return v
}

// Floats returns a list of floats, nil when it is absent.
func (a *Attrs) Floats(name string) []float32 {
	v, _ := attr[[]float32](a, name, "a list of floats")
	return v
}

// Strings returns a list of strings, nil when it is absent.
func (a *Attrs) Strings(name string) []string {
	v, _ := attr[[]string](a, name, "a list of strings")
	return v
}

// Tensor returns a tensor, nil when it is absent.
func (a *Attrs) Tensor(name string) *tensor.Tensor {
	v, _ := attr[*tensor.Tensor](a, name, "a tensor")
	return v
}

// Sparse returns a sparse tensor, nil when it is absent.
func (a *Attrs) Sparse(name string) *tensor.Sparse {
	v, _ := attr[*tensor.Sparse](a, name, "a sparse tensor")
	return v
}

// Type returns a type, the zero Type when it is absent.
func (a *Attrs) Type(name string) ir.Type {
	v, _ := attr[ir.Type](a, name, "a type")
	return v
}

// Graph returns the index of a subgraph. The attribute is required.
func (a *Attrs) Graph(name string) int {
	a.Require(name)
	v, _ := attr[GraphRef](a, name, "a graph")
	return int(v)
}

// DType returns an element type that is given by its number, or def when the attribute is absent.
func (a *Attrs) DType(name string, def tensor.DType) tensor.DType {
	v := a.Int(name, int(def))
	if v == int(def) {
		return def
	}
	if v < 0 || v > math.MaxUint8 || !tensor.DType(v).Valid() {
		a.Errorf("attribute %s is %d, want an element type", name, v)
		return def
	}
	return tensor.DType(v)
}

// Require records an error for each attribute that is absent.
func (a *Attrs) Require(names ...string) {
	for _, n := range names {
		if !a.Has(n) {
			a.know(n)
			a.Errorf("required attribute %s is missing", n)
		}
	}
}

// Ignore marks attributes as known that have no effect on the result.
func (a *Attrs) Ignore(names ...string) {
	for _, n := range names {
		a.know(n)
	}
}

func (a *Attrs) know(name string) {
	if _, ok := a.used[name]; !ok {
		a.read(name, "")
	}
}

// read records that Build has read an attribute. Most nodes have none.
func (a *Attrs) read(name, kind string) {
	if a.used == nil {
		a.used = map[string]string{}
	}
	a.used[name] = kind
}

// SetInput makes t input i of the node, for a form of an operator in which the
// input was an attribute. A nil t omits the input.
func (a *Attrs) SetInput(i int, t *tensor.Tensor) {
	if t == nil {
		return
	}
	if a.inputs == nil {
		a.inputs = map[int]*tensor.Tensor{}
	}
	a.inputs[i] = t
}

// SetInputInts makes v input i of the node, as a list of int64; nil omits the input.
func (a *Attrs) SetInputInts(i int, v []int) {
	if v == nil {
		return
	}
	s := make([]int64, len(v))
	for k, x := range v {
		s[k] = int64(x)
	}
	a.SetInput(i, tensor.Must(tensor.New(s, len(s))))
}

// Inputs returns the inputs that SetInput has set.
func (a *Attrs) Inputs() map[int]*tensor.Tensor { return a.inputs }

// Errorf records an error about an attribute. Inlined at the calls of all operators, it takes 20
// kB.
//
//go:noinline
func (a *Attrs) Errorf(format string, args ...any) {
	a.errs = append(a.errs, fail.Errorf(format, args...))
}

// Fail records the error that keeps Build from finishing, and returns nil for Build to return.
func (a *Attrs) Fail(err error) Operator {
	a.errs = append(a.errs, err)
	a.failed = true
	return nil
}

// Attributes returns the attributes that Build reads at a version for a node with that many inputs
// and outputs. Each has its kind: "an int", "a list of floats", or "" if the value does not matter.
func (d *Def) Attributes(opset, numIn, numOut int) map[string]string {
	a := NewAttrs(d.Name, nil, numIn, numOut)
	d.Build(a, opset) // it may miss required attributes
	return a.used
}

// Err returns the recorded errors. If Build has finished, they include one for each attribute that
// it has not read.
func (a *Attrs) Err() error {
	if a.failed {
		return errors.Join(a.errs...)
	}
	errs := a.errs
	var unknown []string
	for name := range a.values {
		if _, ok := a.used[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	for _, name := range unknown {
		errs = append(errs, fail.Errorf("unknown attribute %s", name))
	}
	return errors.Join(errs...)
}
