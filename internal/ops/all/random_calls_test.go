package all

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestInferenceHoldsInRandomCalls builds, infers and runs every operator with random
// attributes, types, shapes and contents, without the layers above. Each step may return an
// error, but the outputs must be those that Infer returned, however much of the inputs Infer
// knew. ONWARD_TRIES sets the number of tries per version.
func TestInferenceHoldsInRandomCalls(t *testing.T) {
	tries := 30
	if n, err := strconv.Atoi(os.Getenv("ONWARD_TRIES")); err == nil {
		tries = n
	}
	for _, d := range kit.All() {
		t.Run(kit.QualifiedName(d.Domain, d.Name), func(t *testing.T) {
			ran := 0
			for _, opset := range d.Since.List() {
				attrs := d.Attributes(opset, len(d.Signature().In), 1)
				for try := range tries {
					seed := uint64(opset)<<32 | uint64(try)
					if msg := randomCall(d, opset, attrs, rand.New(rand.NewPCG(seed, 7)), &ran); msg != "" {
						t.Errorf("opset %d, try %d: %s", opset, try, msg)
						break
					}
				}
			}
			t.Logf("%d of %d calls gave a result", ran, tries*len(d.Since.List()))
		})
	}
}

func randomCall(d *kit.Def, opset int, attrs map[string]string, r *rand.Rand, ran *int) (msg string) {
	what := ""
	defer func() {
		if p := recover(); p != nil {
			msg = fmt.Sprintf("panics on %s: %v", what, p)
		}
	}()
	sig := d.Signature()
	in := randomInputs(sig, r)
	numOut := len(sig.Out)
	for _, p := range sig.Out {
		if p.Variadic {
			numOut += r.IntN(3)
		}
	}
	values := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if v := randomAttribute(attrs[name], r); v != nil && r.IntN(2) == 0 {
			values[name] = v
		}
	}
	what = fmt.Sprintf("attributes %v, inputs %s", values, showAll(in))
	a := kit.NewAttrs(d.Name, values, len(in), numOut)
	op := d.Build(a, opset)
	if a.Err() != nil {
		return ""
	}
	b := &optest.Built{Sig: sig, NumOut: numOut, Extra: a.Inputs()}
	b.Node = &ir.Node{OpType: d.Name, Domain: d.Domain, Opset: opset, Op: op, Sig: sig}
	for i := range numOut {
		b.Node.Out = append(b.Node.Out, ir.ValueID(1000+i))
	}
	vals := make([]*ir.Value, len(in))
	for i, v := range in {
		if v == nil {
			continue
		}
		vals[i] = &ir.Value{Type: ir.TypeOf(v)}
		switch r.IntN(3) {
		case 0:
			vals[i].Const = v
		case 1:
			vals[i].Type = ir.FromTensorType(v.Type())
		}
	}
	inferred, err := b.Infer(vals)
	if err != nil {
		return ""
	}
	for i, x := range b.Extra {
		for len(in) <= i {
			in = append(in, nil)
		}
		in[i] = x
	}
	for i := range in {
		b.Node.In = append(b.Node.In, ir.ValueID(i))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	const limit = 64 << 20
	c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: ctx, Limit: limit}, Generic: r.IntN(2) == 0, In: in,
		Out: make([]tensor.Value, numOut)}
	start := cputime.Now()
	err = op.Run(c)
	if took := start.Elapsed(); took > 5*time.Second {
		return fmt.Sprintf("runs for %s with %s", took, what)
	}
	if err != nil {
		return ""
	}
	*ran++
	for i, v := range c.Out {
		if v == nil {
			continue
		}
		if _, err := ir.MergeTypes(inferred[i].Type, ir.TypeOf(v)); err != nil && !optest.EmptySequence(v) {
			return fmt.Sprintf("output %d is %s, inferred as %s, with %s", i, ir.TypeOf(v), inferred[i].Type, what)
		}
	}
	return ""
}

func showAll(vs []tensor.Value) string {
	s := ""
	for _, v := range vs {
		s += optest.Show(v) + " "
	}
	return s
}

// randomInputs returns inputs that match the signature.
func randomInputs(sig *ir.Signature, r *rand.Rand) []tensor.Value {
	bound := map[string]tensor.Type{}
	base := randomShape(r)
	var in []tensor.Value
	for _, p := range sig.In {
		if p.Optional && r.IntN(2) == 0 {
			in = append(in, nil)
			continue
		}
		n := 1
		if p.Variadic {
			n = r.IntN(4)
		}
		for range n {
			in = append(in, randomValue(randomType(sig, p.Pattern, bound, r), base, r))
		}
	}
	return in
}

func randomType(sig *ir.Signature, pattern string, bound map[string]tensor.Type, r *rand.Rand) tensor.Type {
	if t, ok := bound[pattern]; ok {
		return t
	}
	vars, ok := sig.Vars[pattern]
	if !ok { // a type that is spelled out
		s, err := ir.ParseSignature("x:X", "", map[string]string{"X": pattern})
		if err != nil {
			return tensor.TensorType(tensor.TypeFloat32)
		}
		vars = s.Vars["X"]
	}
	t := vars[r.IntN(len(vars))]
	bound[pattern] = t
	return t
}

func randomShape(r *rand.Rand) []int {
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = []int{0, 1, 1, 2, 2, 3, 4, 5}[r.IntN(8)]
	}
	return shape
}

func randomValue(t tensor.Type, base []int, r *rand.Rand) tensor.Value {
	switch t.Kind {
	case tensor.KindSequence:
		s := &tensor.Sequence{Elem: *t.Of}
		for range r.IntN(3) {
			s.Items = append(s.Items, randomValue(*t.Of, base, r))
		}
		return s
	case tensor.KindOptional:
		o := &tensor.Optional{Elem: *t.Of}
		if r.IntN(2) == 0 {
			o.Value = randomValue(*t.Of, base, r)
		}
		return o
	case tensor.KindMap:
		n := r.IntN(4)
		m := &tensor.Map{Keys: randomTensor(t.Elem, []int{n}, r), Values: randomTensor(t.Of.Elem, []int{n}, r)}
		return m
	case tensor.KindTensor:
		shape := slices.Clone(base)
		switch r.IntN(4) {
		case 0:
			shape = randomShape(r)
		case 1:
			shape = shape[:r.IntN(len(shape)+1)]
		case 2:
			shape = []int{r.IntN(5)}
		}
		return randomTensor(t.Elem, shape, r)
	}
	return nil
}

func randomTensor(d tensor.DType, shape []int, r *rand.Rand) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(d, shape...))
	if d == tensor.TypeString {
		for i := range tensor.MustData[string](t) {
			tensor.MustData[string](t)[i] = []string{"", "a", "b c", "\xff", "1.5", "ab,c"}[r.IntN(6)]
		}
		return t
	}
	b := t.Bytes()
	wild := r.IntN(4) == 0
	for i := range b {
		if wild {
			b[i] = byte(r.Uint32())
		}
	}
	switch {
	case d == tensor.TypeBool:
		for i := range b {
			b[i] = byte(r.IntN(2))
		}
	case d == tensor.TypeInt64 && !wild:
		for i := range tensor.MustData[int64](t) {
			tensor.MustData[int64](t)[i] = randomInt(r)
		}
	case d == tensor.TypeInt32 && !wild:
		for i := range tensor.MustData[int32](t) {
			tensor.MustData[int32](t)[i] = int32(randomInt(r))
		}
	case !wild && !d.Packed():
		small := make([]int8, t.Len())
		for i := range small {
			small[i] = int8(r.IntN(7) - 2)
		}
		_ = tensor.ConvertInto(t, tensor.Must(tensor.New(small, shape...)), nil)
	}
	return t
}

func randomInt(r *rand.Rand) int64 {
	if r.IntN(8) == 0 {
		return []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, 1 << 40,
			-1 << 40, 1 << 20}[r.IntN(7)]
	}
	if r.IntN(8) == 0 {
		return int64(r.IntN(29)) // the number of an element type
	}
	return int64(r.IntN(8) - 2)
}

// randomAttribute returns a value of a kind that Attrs names, nil for graphs.
func randomAttribute(kind string, r *rand.Rand) any {
	switch kind {
	case "", "an int":
		return randomInt(r)
	case "a float":
		return randomFloat(r)
	case "a string":
		return randomText(r)
	case "a list of ints":
		return randomList(r, randomInt)
	case "a list of floats":
		return randomList(r, randomFloat)
	case "a list of strings":
		return randomList(r, randomText)
	case "a tensor":
		return randomTensor(tensor.TypeFloat32+tensor.DType(r.IntN(26)), randomShape(r), r)
	}
	return nil
}

func randomFloat(r *rand.Rand) float32 {
	return []float32{0, 1, -1, 0.5, 2, float32(math.NaN()), float32(math.Inf(1)), 1e30}[r.IntN(8)]
}

func randomText(r *rand.Rand) string {
	return []string{"", "LEFT", "linear", "constant", "nearest", "i,j->ji", "sum", "a,b"}[r.IntN(8)]
}

func randomList[T any](r *rand.Rand, one func(*rand.Rand) T) []T {
	v := make([]T, r.IntN(5))
	for i := range v {
		v[i] = one(r)
	}
	return v
}
