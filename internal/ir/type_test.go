package ir_test

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// floats returns the type of a float tensor.
func floats(shape ...ir.Dim) ir.Type { return ir.TensorType(tensor.TypeFloat32, shape...) }

var unranked = ir.UnrankedTensor(tensor.TypeFloat32)

func TestMergeTypes(t *testing.T) {
	for _, c := range []struct {
		a, b      ir.Type
		want, err string
	}{
		{ir.Type{}, floats(n), "tensor(float)[N]", ""},
		{floats(n), ir.Type{}, "tensor(float)[N]", ""},
		{floats(n, ir.Known(3)), floats(ir.Known(2), ir.Unknown), "tensor(float)[2 3]", ""},
		{unranked, floats(n), "tensor(float)[N]", ""},
		{floats(n), unranked, "tensor(float)[N]", ""},
		{ir.SequenceOf(unranked), ir.SequenceOf(floats(n)), "seq(tensor(float))", ""},
		{floats(), floats(n), "", "ranks 0 and 1 differ"},
		{floats(n, ir.Known(2)), floats(n, ir.Known(3)), "", "dimension 1: dimensions 2 and 3 differ"},
		{floats(), ir.TensorType(tensor.TypeInt64), "", "types tensor(float) and tensor(int64) differ"},
		{ir.OptionalOf(floats(n)), ir.OptionalOf(floats()), "", "ranks 1 and 0 differ"},
	} {
		got, err := ir.MergeTypes(c.a, c.b)
		switch {
		case c.err == "" && (err != nil || got.String() != c.want):
			t.Errorf("MergeTypes(%s, %s) = %s, %v, want %s", c.a, c.b, got, err, c.want)
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("MergeTypes(%s, %s): error %v, want %s", c.a, c.b, err, c.err)
		}
	}
	merged, err := ir.MergeTypes(ir.SequenceOf(unranked), ir.SequenceOf(floats(n)))
	if err != nil || merged.Of.String() != "tensor(float)[N]" {
		t.Errorf("elements are %s, %v, want tensor(float)[N]", merged.Of, err)
	}
}

func TestWiden(t *testing.T) {
	for _, c := range []struct {
		a, b ir.Type
		want string
	}{
		{floats(n, ir.Known(3)), floats(n, ir.Known(4)), "tensor(float)[N ?]"},
		{floats(n), floats(n, m), "tensor(float)"},
		{unranked, floats(n), "tensor(float)"},
		{floats(ir.Unknown), floats(ir.Unknown), "tensor(float)[?]"},
	} {
		if got, err := ir.Widen(c.a, c.b); err != nil || got.String() != c.want {
			t.Errorf("Widen(%s, %s) = %s, %v, want %s", c.a, c.b, got, err, c.want)
		}
		if got, err := ir.Widen(ir.OptionalOf(c.a), ir.OptionalOf(c.b)); err != nil || got.Of.String() != c.want {
			t.Errorf("Widen of optionals of %s and %s = %s, %v, want %s", c.a, c.b, got.Of, err, c.want)
		}
	}
	if _, err := ir.Widen(floats(), ir.SequenceOf(floats())); err == nil {
		t.Error("a tensor and a sequence have one type")
	}
}

func TestTypeOfValues(t *testing.T) {
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	sparse := &tensor.Sparse{Values: x, Shape: []int{4, 5}}
	for _, c := range []struct {
		v    tensor.Value
		want string
	}{
		{x, "tensor(float)[2 3]"}, {tensor.Scalar(int64(1)), "tensor(int64)[]"}, {sparse, "sparse_tensor(float)[4 5]"},
		{&tensor.Sequence{Elem: x.Type()}, "seq(tensor(float))"},
	} {
		if got := ir.TypeOf(c.v); got.String() != c.want || !got.Known() {
			t.Errorf("TypeOf = %s, want %s", got, c.want)
		}
	}
	for _, unknown := range []ir.Type{{}, {Kind: tensor.KindTensor}, ir.SequenceOf(ir.Type{}),
		ir.MapOf(tensor.TypeInt64, ir.Type{})} {
		if unknown.Known() {
			t.Errorf("%s is known", unknown)
		}
	}
	if _, ok := ir.Ints([]ir.Dim{ir.Known(1), n}); ok {
		t.Error("N is a number")
	}
	if _, ok := ir.Ints(nil); ok {
		t.Error("an unknown rank has numbers")
	}
	if got := ir.Product([]ir.Dim{ir.Known(2), n, ir.Known(3)}); got.String() != "6*N" {
		t.Errorf("Product = %s, want 6*N", got)
	}
}

func TestSignatures(t *testing.T) {
	s, err := ir.ParseSignature("data:T, axes:int64?, rest:any*", "out:T, more:U+",
		map[string]string{"T": "@float seq(int64)", "U": "int64"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ir.ParseSignature("a:T, b:seq(T), c:T+", "y:T", map[string]string{"T": "float int64"})
	if err != nil {
		t.Fatal(err)
	}
	float, int64s, none := tensor.TensorType(tensor.TypeFloat32), tensor.TensorType(tensor.TypeInt64), tensor.Type{}
	for _, c := range []struct {
		sig *ir.Signature
		in  []tensor.Type
		out int
		err string
	}{
		{s, []tensor.Type{float}, 1, ""},
		{s, []tensor.Type{float, none, none}, 5, ""},
		{s, []tensor.Type{float, int64s, float, int64s, float}, 1, ""},
		{s, []tensor.Type{tensor.SequenceOf(int64s)}, 1, ""},
		{s, nil, 1, "input 0 (data) is missing"},
		{s, []tensor.Type{none, int64s}, 1, "input 0 (data) is missing"},
		{s, []tensor.Type{int64s}, 1, "input 0 (data) has type tensor(int64), which type parameter T does not allow"},
		{s, []tensor.Type{float, float}, 1, "input 1 (axes) has type tensor(float), want int64"},
		{pair, []tensor.Type{float, tensor.SequenceOf(float), float, float}, 1, ""},
		{pair, []tensor.Type{float, tensor.SequenceOf(none), float}, 1, ""},
		{pair, []tensor.Type{float, tensor.SequenceOf(int64s), float}, 1, "input 1 (b) has type tensor(int64), but type parameter T is bound to tensor(float)"},
		{pair, []tensor.Type{float, float, float}, 1, "input 1 (b) has type tensor(float), want seq(T)"},
		{pair, []tensor.Type{float, tensor.SequenceOf(float)}, 1, "input 2 (c) is missing"},
		{pair, []tensor.Type{float, tensor.SequenceOf(float), float}, 2, "node has 2 outputs, want at most 1"},
	} {
		err := c.sig.Check(c.in, c.out)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("inputs %v: %v", c.in, err)
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("inputs %v: error %v, want %s", c.in, err, c.err)
		}
	}
	bound, err := pair.Bind([]tensor.Type{int64s, tensor.SequenceOf(int64s), int64s}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{"T": "tensor(int64)", "seq(T)": "seq(tensor(int64))",
		"optional(T)": "optional(tensor(int64))", "float": "tensor(float)"} {
		if got, ok := pair.Resolve(pattern, bound); !ok || got.String() != want {
			t.Errorf("Resolve(%s) = %s, %v, want %s", pattern, got, ok, want)
		}
	}
	if got, ok := pair.Resolve("T", nil); ok {
		t.Errorf("an unbound variable is %s", got)
	}
	if got := len(s.Types("seq(T)")); got != 5 {
		t.Errorf("seq(T) allows %d types, want 5", got)
	}
}

func TestSignatureErrors(t *testing.T) {
	for _, c := range []struct{ in, types, want string }{
		{"x", "float", `parameter "x" has no type`},
		{"x:V", "float", "type variable V is not declared"},
		{"x:seq(V)", "float", "type variable V is not declared"},
		{"x:decimal", "float", "parameter x: "},
		{"x:T", "decimal", "type variable T: "},
		{"x:T", "bag(float)", `unknown type "bag(float)"`},
		{"x:T", "map(int64)", "needs a key and a value"},
		{"x:T", "map(decimal,float)", "type variable T: "},
	} {
		if _, err := ir.ParseSignature(c.in, "", map[string]string{"T": c.types}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want one with %q", c.in, c.types, err, c.want)
		}
	}
}
