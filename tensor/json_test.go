package tensor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMarshalJSON(t *testing.T) {
	for _, c := range []struct {
		v    Value
		want string
	}{
		{Scalar(float32(0.1)), "0.1"},
		{Must(New([]float64{0.1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 5e-324}, 2, 3)), `[[0.1,"NaN","Infinity"],["-Infinity",1e+300,5e-324]]`},
		{Must(New([]int64{math.MaxInt64, math.MinInt64}, 2)), "[9223372036854775807,-9223372036854775808]"},
		{Must(New([]uint64{math.MaxUint64}, 1)), "[18446744073709551615]"},
		{Must(New([]Float16{NewFloat16(0.1)}, 1)), "[0.1]"},
		{Must(Pack(TypeInt2, []int8{-2, 1})), "[-2,1]"},
		{Must(Pack(TypeFloat6E2M3, []Float6E2M3{1, 2, 63, 32, 30})), "[0.125,0.25,-7.5,-0,7]"},
		{Must(New([]string{"a\"b", "<\x1b"}, 2)), `["a\"b","\u003c\u001b"]`},
		{Must(New([]complex128{1 + 2i}, 1)), "[[1,2]]"},
		{Must(Zeros(TypeInt8, 2, 0)), "[[],[]]"},
		{&Sequence{}, "[]"},
		{&Sequence{Items: []Value{Scalar(int8(1)), Must(New([]bool{true}, 1))}}, "[1,[true]]"},
		{&Map{Must(New([]int64{3, -1}, 2)), Must(New([]float32{.5, 1}, 2))}, `{"3":0.5,"-1":1}`},
		{&Map{Must(New([]string{"k\""}, 1)), &Sequence{Items: []Value{Must(New([]int8{1, 2}))}}}, `{"k\"":[1,2]}`},
		{&Optional{}, "null"},
		{&Optional{Value: Scalar(int8(1))}, "1"},
		{&Sparse{Values: Must(New([]int8{5}, 1)), Indices: Must(New([]int64{2}, 1)), Shape: []int{3}}, `{"shape":[3],"indices":[2],"values":[5]}`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s (%v), want %s", c.v.Type(), got, err, c.want)
		}
	}
	if b, err := json.Marshal(Must(Zeros(TypeInt8, 1<<40, 0))); err == nil {
		t.Errorf("a million million empty rows are written: %d bytes", len(b))
	}
}

func TestParseJSON(t *testing.T) {
	for _, c := range []struct {
		in    string
		dtype DType
		shape []int
		want  *Tensor
	}{
		{"3", TypeInt64, nil, Scalar(int64(3))},
		{"[[1,2],[3,4]]", TypeFloat32, nil, Must(New([]float32{1, 2, 3, 4}, 2, 2))},
		{" [ 1.5 , -2e3 ] ", Undefined, nil, Must(New([]float32{1.5, -2000}))},
		{"[1,2]", Undefined, nil, Must(New([]int64{1, 2}))},
		{"[1,2.5]", Undefined, nil, Must(New([]float32{1, 2.5}))},
		{`["NaN", 1]`, Undefined, nil, Must(New([]float32{float32(math.NaN()), 1}))},
		{`["NaN", "x"]`, Undefined, nil, Must(New([]string{"NaN", "x"}))},
		{"[true,false]", Undefined, nil, Must(New([]bool{true, false}))},
		{"[1,false]", TypeBool, nil, Must(New([]bool{true, false}))},
		{`"x"`, TypeString, nil, Scalar("x")},
		{`["NaN","Infinity","-Infinity"]`, TypeFloat16, nil, Must(New([]Float16{0x7e00, 0x7c00, 0xfc00}))},
		{"[]", TypeFloat32, nil, Must(Zeros(TypeFloat32, 0))},
		{"[[],[]]", TypeInt8, nil, Must(Zeros(TypeInt8, 2, 0))},
		{"[18446744073709551615]", TypeUint64, nil, Must(New([]uint64{math.MaxUint64}, 1))},
		{"[-9223372036854775808, 9223372036854775807]", TypeInt64, nil, Must(New([]int64{math.MinInt64, math.MaxInt64}))},
		{"[1.0, 2e2, -0, -0.0]", TypeUint8, nil, Must(New([]uint8{1, 200, 0, 0}))},
		{"[-8, 7]", TypeInt4, nil, Must(Pack(TypeInt4, []int8{-8, 7}))},
		{"[[1,2],[3,4]]", TypeComplex64, nil, Must(New([]complex64{1 + 2i, 3 + 4i}))},
		{"[16777217]", TypeFloat64, nil, Must(New([]float64{16777217}, 1))},
		{"[1,2,3,4]", TypeInt8, []int{2, 2}, Must(New([]int8{1, 2, 3, 4}, 2, 2))},
		{"[1,2,3,4]", TypeInt8, []int{-1, 2}, Must(New([]int8{1, 2, 3, 4}, 2, 2))},
		{"[[1,2]]", TypeInt8, []int{-1, -1}, Must(New([]int8{1, 2}, 1, 2))},
		{"5", TypeInt8, []int{-1, 1}, Must(New([]int8{5}, 1, 1))},
		{"5", TypeInt8, []int{-1, -1}, Must(New([]int8{5}, 1, 1))},
		{"[5]", TypeInt8, []int{}, Scalar(int8(5))},
		{"[]", TypeInt8, []int{5, 0}, Must(Zeros(TypeInt8, 5, 0))},
	} {
		got, err := ParseJSON([]byte(c.in), c.dtype, c.shape)
		if err == nil {
			err = Equal(got, c.want)
		}
		if err != nil {
			t.Errorf("%s as %s%v: %v", c.in, c.dtype, c.shape, err)
		}
	}
}

func TestParseJSONRefuses(t *testing.T) {
	for _, c := range []struct {
		in    string
		dtype DType
		shape []int
		want  string
	}{
		{"", TypeInt8, nil, "unexpected EOF"},
		{"[1,2", TypeInt8, nil, "unexpected EOF"},
		{"[1 2]", TypeInt8, nil, "JSON at byte"},
		{"[1,]", TypeInt8, nil, "JSON at byte"},
		{"[1]]", TypeInt8, nil, "JSON at byte 3"},
		{"[1] 2", TypeInt8, nil, "unexpected data after"},
		{"{}", TypeInt8, nil, "an object"},
		{"[null]", TypeInt8, nil, "null"},
		{"[[1,2],[3]]", TypeInt8, nil, "ragged array: row [1] has 1 elements, the first has 2"},
		{"[[1],2]", TypeInt8, nil, "ragged array: element [1] is at depth 1, others at 2"},
		{"[1,[2]]", TypeInt8, nil, "ragged array: element [1] is an array, others are at depth 1"},
		{"[[],1]", TypeInt8, nil, "ragged"},
		{"[[],[[]]]", TypeInt8, nil, "ragged"},
		{"[[[]],[]]", TypeInt8, nil, "ragged"},
		{"[[],[1]]", TypeInt8, nil, "ragged"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), TypeInt8, nil, "nesting exceeds depth 64"},
		{strings.Repeat("[", 1<<20), TypeInt8, nil, "nesting exceeds depth 64"},
		{"[[1,2],[3,300]]", TypeInt8, nil, "element [1 1] of the literal is 300: out of the range of int8"},
		{"[-1]", TypeUint8, nil, "out of the range of uint8"},
		{"[8]", TypeInt4, nil, "out of the range of int4"},
		{"[1.5]", TypeInt8, nil, "is 1.5: not an integer"},
		{"[9223372036854775808]", TypeInt64, nil, "out of the range"},
		{"[1e30]", TypeInt64, nil, "out of the range"},
		{"[true]", TypeInt8, nil, `is "true", want an integer`},
		{`["1"]`, TypeFloat32, nil, "want a number"},
		{"[true]", TypeFloat32, nil, "want a number"},
		{"[1]", TypeString, nil, "want a string"},
		{"[2]", TypeBool, nil, "want true or false"},
		{"[1e39]", TypeFloat32, nil, "beyond the range of float"},
		{"[1e400]", TypeFloat64, nil, "beyond the range of double"},
		{"[70000]", TypeFloat16, nil, "beyond the range of float16"},
		{"[1000]", TypeFloat8E4M3FN, nil, "beyond the range"},
		{"[7]", TypeFloat4E2M1, nil, "beyond the range"},
		{`["NaN"]`, TypeFloat4E2M1, nil, "beyond the range"},
		{"[7.6]", TypeFloat6E2M3, nil, "beyond the range"},
		{"[28.5]", TypeFloat6E3M2, nil, "beyond the range"},
		{`["-Infinity"]`, TypeFloat6E3M2, nil, "beyond the range"},
		{`["Infinity"]`, TypeFloat8E4M3FN, nil, "beyond the range"},
		{"[-1]", TypeFloat8E8M0, nil, "beyond the range"},
		{"[1,2,3]", TypeComplex64, nil, "want pairs"},
		{"[[1,2]]", TypeInt8, []int{2, 1}, "literal of shape [1 2], want [2 1]"},
		{"[1,2,3]", TypeInt8, []int{2, -1}, "literal of shape [3], want [2 -1]"},
		{"[1,2]", TypeInt8, []int{-1, -1}, "more than one dimension is unknown"},
		{"[1,2]", TypeInt8, []int{}, "want []"},
		{"[1]", TypeInt8, []int{1 << 40, 1 << 40}, "overflows"},
		{"[1]", 99, nil, "invalid element type"},
	} {
		if got, err := ParseJSON([]byte(c.in), c.dtype, c.shape); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s as %s%v: %v (%v), want %q", c.in, c.dtype, c.shape, got, err, c.want)
		}
	}
}

// TestJSONRoundTrip checks for every type that reading returns the written tensor.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := anyTensor(r)
		b, err := json.Marshal(x)
		if err != nil {
			r.Fatal(err)
		}
		if x.Len() == 0 && isComplex(x.dtype) {
			return // an empty array does not show whether its last dimension holds pairs
		}
		y, err := ParseJSON(b, x.dtype, x.shape)
		if err != nil {
			r.Fatalf("%s: %v", b, err)
		}
		if err := Equal(y, x); err != nil {
			r.Fatalf("%s: %v", b, err)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{"[[1,2],[3,4]]", `["NaN",1e5]`, "[[],[]]", "[true]", `["a","\u0000"]`, "[[1,2],[3]]", "1e999", "[{}]"} {
		for _, d := range []DType{Undefined, TypeInt4, TypeFloat16, TypeComplex64, TypeString} {
			f.Add([]byte(s), uint8(d))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, dtype uint8) {
		x, err := ParseJSON(data, DType(dtype), nil)
		if err != nil {
			return
		}
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		if x.Len() == 0 && isComplex(x.DType()) {
			return
		}
		y, err := ParseJSON(b, x.DType(), nil)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if err := Equal(y, x); err != nil {
			t.Fatal(err)
		}
	})
}

// endingContext ends at its n-th check.
type endingContext struct {
	context.Context
	n int
}

func (c *endingContext) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestParseJSONStops ends a context while the values of a literal are read, and while they become
// elements.
func TestParseJSONStops(t *testing.T) {
	const n = 1 << 14
	for _, c := range []struct {
		item  string
		dtype DType
	}{
		{`"a"`, TypeString}, {"1", TypeInt64}, {"1.5", TypeFloat32}, {"true", TypeBool}, {"[]", TypeFloat32},
		{"[1,2]", TypeComplex64},
	} {
		text := []byte("[" + strings.Repeat(c.item+",", n-1) + c.item + "]")
		for _, checks := range []int{0, 5, 15, 17, 30} {
			if c.item == "[]" && checks > 15 {
				continue // no elements
			}
			ctx := &endingContext{t.Context(), checks}
			if _, err := ParseJSONContext(ctx, text, c.dtype, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, end at check %d: error is %v, want that of the context", c.item, checks, err)
			}
		}
		if _, err := ParseJSONContext(t.Context(), text, c.dtype, nil); err != nil {
			t.Errorf("%s: %v", c.item, err)
		}
	}
}
