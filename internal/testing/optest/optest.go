// Package optest runs single operators in tests: it builds a node from the registry, infers
// its outputs, runs it with both sets of kernels on one and two workers, and compares.
package optest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// inferTestGraph infers a subgraph without captures.
func inferTestGraph(g *ir.Graph, in []ir.Value) ([]ir.Value, error) {
	vals := slices.Clone(g.Values)
	for i, id := range g.Inputs {
		name := vals[id].Name
		vals[id] = in[i]
		vals[id].Name = name
	}
	for _, n := range g.Nodes {
		ins := make([]*ir.Value, len(n.In))
		for i, id := range n.In {
			if id != ir.None {
				ins[i] = &vals[id]
			}
		}
		c := ir.NewInferContext(n, ins, func(k int, in []ir.Value) ([]ir.Value,
			error) {
			return inferTestGraph(n.Graphs[k], in)
		})
		if err := n.Op.Infer(c); err != nil {
			return nil, err
		}
		for i, id := range n.Out {
			if id != ir.None {
				vals[id] = c.Results()[i]
			}
		}
	}
	out := make([]ir.Value, len(g.Outputs))
	for i, id := range g.Outputs {
		out[i] = vals[id]
	}
	return out, nil
}

// attrMap converts the Go values of a test to those that Attrs holds: int to int64, float64
// to float32, bool to 0 or 1, *ir.Graph to a GraphRef.
func attrMap(attrs map[string]any) (map[string]any, []*ir.Graph) {
	r := map[string]any{}
	var graphs []*ir.Graph
	names := make([]string, 0, len(attrs))
	for k := range attrs {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		v := attrs[k]
		switch x := v.(type) {
		case int:
			v = int64(x)
		case tensor.DType:
			v = int64(x)
		case bool:
			v = int64(0)
			if x {
				v = int64(1)
			}
		case float64:
			v = float32(x)
		case []int:
			s := make([]int64, len(x))
			for i, n := range x {
				s[i] = int64(n)
			}
			v = s
		case []float64:
			s := make([]float32, len(x))
			for i, f := range x {
				s[i] = float32(f)
			}
			v = s
		case *ir.Graph:
			v = kit.GraphRef(len(graphs))
			graphs = append(graphs, x)
		}
		r[k] = v
	}
	return r, graphs
}

// Built is a node built for a test.
type Built struct {
	Node   *ir.Node
	Sig    *ir.Signature
	Extra  map[int]*tensor.Tensor // inputs that were attributes
	NumOut int
}

func SplitOpName(name string) (domain, op string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// Build looks an operator up and builds it; numOut < 0 means all outputs. Operators of other
// domains are named like com.microsoft.Gelu.
func Build(name string, opset int, attrs map[string]any, numIn, numOut int) (*Built, error) {
	domain, op := SplitOpName(name)
	d, err := kit.Lookup(domain, op, opset)
	if err != nil {
		return nil, err
	}
	b := &Built{Sig: d.Signature(), NumOut: numOut}
	if numOut < 0 {
		b.NumOut = len(b.Sig.Out)
	}
	values, graphs := attrMap(attrs)
	a := kit.NewAttrs(op, values, numIn, b.NumOut)
	since, _ := d.SinceVersion(opset)
	built := d.Build(a, since)
	if err := a.Err(); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	b.Extra = a.Inputs()
	b.Node = &ir.Node{OpType: op, Domain: kit.NormalDomain(domain), Opset: opset, Op: built, Sig: b.Sig, Graphs: graphs}
	for i := range b.NumOut {
		b.Node.Out = append(b.Node.Out, ir.ValueID(1000+i))
	}
	return b, nil
}

// Infer builds an operator and infers its outputs from inputs, which are nil if omitted.
func Infer(t testing.TB, name string, opset int, attrs map[string]any, inputs ...*ir.Value) ([]ir.Value, error) {
	t.Helper()
	return InferN(t, -1, name, opset, attrs, inputs...)
}

// InferN is Infer for a node with numOut outputs.
func InferN(t testing.TB, numOut int, name string, opset int, attrs map[string]any, inputs ...*ir.Value) ([]ir.Value,
	error) {
	t.Helper()
	b, err := Build(name, opset, attrs, len(inputs), numOut)
	if err != nil {
		return nil, err
	}
	return b.Infer(inputs)
}

func (b *Built) Infer(inputs []*ir.Value) ([]ir.Value, error) {
	in := slices.Clone(inputs)
	for i, x := range b.Extra {
		for len(in) <= i {
			in = append(in, nil)
		}
		in[i] = &ir.Value{Type: ir.TypeOf(x), Const: x}
	}
	types := make([]tensor.Type, len(in))
	for i, v := range in {
		if v != nil {
			types[i] = v.Type.Base()
		}
	}
	if err := b.Sig.Check(types, b.NumOut); err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	c := ir.NewInferContext(b.Node, in, func(k int, in []ir.Value) ([]ir.Value,
		error) {
		return inferTestGraph(b.Node.Graphs[k], in)
	})
	if err := b.Node.Op.Infer(c); err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	return c.Results(), nil
}

// Run builds, infers and runs an operator with all outputs of its signature, with the plain
// and the fast kernels, on one and on two workers. It fails the test if
//   - the results differ;
//   - the plain engine fails, and the fast one does not fail with the same error;
//   - an input changes;
//   - an output shares memory with an input that it must not share;
//   - an output does not match the type that Infer returns, for inputs known by content, by
//     shape, by rank or not at all.
//
// It returns the outputs of the fast kernels, and errors of the operator, which the caller
// may expect.
func Run(t testing.TB, name string, opset int, attrs map[string]any, inputs ...tensor.Value) ([]tensor.Value, error) {
	t.Helper()
	return RunN(t, -1, name, opset, attrs, inputs...)
}

// RunN is Run for a node with numOut outputs.
func RunN(t testing.TB, numOut int, name string, opset int, attrs map[string]any,
	inputs ...tensor.Value) ([]tensor.Value, error) {
	t.Helper()
	b, err := Build(name, opset, attrs, len(inputs), numOut)
	if err != nil {
		return nil, err
	}
	in := make([]tensor.Value, len(inputs))
	for i, v := range inputs {
		if x, ok := v.(*tensor.Tensor); !ok || x != nil { // a nil *Tensor is an omitted input
			in[i] = v
		}
	}

	inferred := map[string][]ir.Value{}
	for _, known := range []string{"contents", "shapes", "ranks", "types"} {
		vals := make([]*ir.Value, len(in))
		for i, v := range in {
			if v == nil {
				continue
			}
			vals[i] = &ir.Value{Type: ir.TypeOf(v)}
			switch known {
			case "contents":
				vals[i].Const = v
			case "ranks":
				if s := vals[i].Type.Shape; s != nil {
					vals[i].Type.Shape = ir.UnknownDims(len(s))
				}
			case "types":
				vals[i].Type = ir.FromTensorType(v.Type())
			}
		}
		r, err := b.Infer(vals)
		if err != nil {
			return nil, err
		}
		inferred[known] = r
	}

	for i, x := range b.Extra {
		for len(in) <= i {
			in = append(in, nil)
		}
		in[i] = x
	}
	b.Node.In = make([]ir.ValueID, len(in))
	for i := range in {
		b.Node.In[i] = ir.ValueID(i)
		if in[i] == nil {
			b.Node.In[i] = ir.None
		}
	}
	before := make([]tensor.Value, len(in))
	for i, v := range in {
		before[i] = tensor.Clone(v)
	}

	var results [4][]tensor.Value
	var failed error // of the plain engine
	for k := range results {
		if failed != nil && k != 2 {
			continue
		}
		generic, two := k < 2, k%2 == 1
		if k == 2 { // an operator belongs to one engine
			fast, err := Build(name, opset, attrs, len(inputs), numOut)
			if err != nil {
				return nil, err
			}
			b.Node.Op = fast.Node.Op
		}
		env := &Env{Ctx: t.Context(), Two: two, Limit: MemoryLimit}
		c := &ir.Call{Node: b.Node, Env: env, Generic: generic, In: in, Out: make([]tensor.Value, b.NumOut)}
		err := RunCaught(b.Node.Op, c)
		switch {
		case failed != nil:
			if err == nil || err.Error() != failed.Error() {
				t.Errorf("%s-%d: the fast engine fails with %v, the plain one with %v", name, opset, err, failed)
			}
		case err != nil && k == 0:
			failed = err
		case err != nil:
			return nil, err
		}
		results[k] = c.Out
	}
	if failed != nil {
		return nil, failed
	}
	for i, v := range in {
		if v != nil && !Same(v, before[i], 0) {
			t.Errorf("%s-%d changes its input %d", name, opset, i)
		}
	}
	for i, out := range results[2] {
		if out == nil {
			t.Errorf("%s-%d does not set output %d", name, opset, i)
			continue
		}
		for k, other := range results {
			tol := 0.0
			if k < 2 {
				tol = 1e-3
			}
			if !Same(other[i], out, tol) {
				t.Errorf(
					"%s-%d: output %d differs between engines: %s for plain=%v two workers=%v, %s for the fast one",
					name, opset, i, Show(other[i]), k < 2, k%2 == 1, Show(out))
			}
		}
		for known, vals := range inferred {
			if got := vals[i].Type; !got.Known() {
				t.Errorf("%s-%d: the type of output %d is not inferred from %s", name, opset, i, known)
			} else if _, err := ir.MergeTypes(got, ir.TypeOf(out)); err != nil && !EmptySequence(out) {
				t.Errorf("%s-%d: output %d is %s, inferred from %s as %s: %v", name, opset, i, ir.TypeOf(out), known,
					got, err)
			}
			if d := vals[i].Contents; d != nil {
				checkContents(t, fmt.Sprintf("%s-%d: output %d inferred from %s", name, opset, i, known), d, out)
			}
		}
		view, isView := b.Node.Op.(ir.View)
		for j, v := range in {
			x, ok1 := v.(*tensor.Tensor)
			y, ok2 := out.(*tensor.Tensor)
			if ok1 && ok2 && overlap(x.Bytes(), y.Bytes()) && !(isView && i == 0 && view.ViewOf() == j) {
				t.Errorf("%s-%d: output %d shares memory with input %d", name, opset, i, j)
			}
		}
	}
	return results[2], nil
}

func EmptySequence(v tensor.Value) bool {
	s, ok := v.(*tensor.Sequence)
	return ok && len(s.Items) == 0
}

// RunCaught runs an operator and returns a panic as an error: the context's error if
// the run has ended.
func RunCaught(op kit.Operator, c *ir.Call) (err error) {
	defer func() {
		if p := recover(); p != nil && p == any(c.Err()) {
			err = c.Err()
		} else if p != nil {
			stack := make([]byte, 4096)
			err = fmt.Errorf("PANIC: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	return op.Run(c)
}

func checkContents(t testing.TB, what string, d []ir.Dim, out tensor.Value) {
	t.Helper()
	x, ok := out.(*tensor.Tensor)
	if !ok {
		t.Errorf("%s has contents %v but is %s", what, d, out.Type())
		return
	}
	got := kit.Ints(x)
	if d := x.DType(); d != tensor.TypeInt64 && d != tensor.TypeInt32 {
		for _, v := range Floats(x) {
			got = append(got, int(v))
		}
	}
	if len(got) != len(d) {
		t.Errorf("%s has %d elements, contents %v", what, x.Len(), d)
		return
	}
	for i, e := range d {
		if n, ok := e.Value(); ok && n != got[i] {
			t.Errorf("%s has contents %v, is %v", what, d, got)
			return
		}
	}
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// Tensor returns a tensor for a test. Without a shape, one element makes a scalar, several
// make a vector.
func Tensor[T tensor.Element](data []T, shape ...int) *tensor.Tensor {
	return tensor.Must(tensor.New(data, shape...))
}

// Want runs an operator with one output and compares it, floats within rtol 1e-3 and atol
// 1e-7, the suite's tolerance.
func Want(t testing.TB, name string, opset int, attrs map[string]any, want tensor.Value, inputs ...tensor.Value) {
	t.Helper()
	WantAll(t, name, opset, attrs, []tensor.Value{want}, inputs...)
}

// WantAll is Want for an operator with several outputs.
func WantAll(t testing.TB, name string, opset int, attrs map[string]any, want []tensor.Value, inputs ...tensor.Value) {
	t.Helper()
	got, err := RunN(t, len(want), name, opset, attrs, inputs...)
	if err != nil {
		t.Errorf("%s-%d: %v", name, opset, err)
		return
	}
	for i := range want {
		if !Same(got[i], want[i], 1e-3) {
			t.Errorf("%s-%d %v: output %d is %s, want %s", name, opset, attrs, i, Show(got[i]), Show(want[i]))
		}
	}
}

// Fail runs an operator that must return an error that contains want. A panic fails the
// test.
func Fail(t testing.TB, name string, opset int, attrs map[string]any, want string, inputs ...tensor.Value) {
	t.Helper()
	_, err := RunN(t, 1, name, opset, attrs, inputs...)
	if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(err.Error(), "PANIC") {
		t.Errorf("%s-%d %v: error %v, want one with %q", name, opset, attrs, err, want)
	}
}
