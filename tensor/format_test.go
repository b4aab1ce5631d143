package tensor

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	iota := make([]int32, 2000)
	for i := range iota {
		iota[i] = int32(i)
	}
	for _, c := range []struct {
		v    Value
		o    FormatOptions
		want string
	}{
		{Scalar(float32(1.5)), FormatOptions{}, "1.5"},
		{Must(New([]float32{1, -2.5, 10}, 3)), FormatOptions{}, "[   1 -2.5   10]"},
		{Must(New([]int64{1, 2, 3, 40}, 2, 2)), FormatOptions{Indent: 2}, "[[ 1  2]\n   [ 3 40]]"},
		{Must(New([]bool{true, false}, 2)), FormatOptions{}, "[ true false]"},
		{Must(New([]string{"a", "\x1b[2J"}, 2)), FormatOptions{}, `[      "a" "\x1b[2J"]`},
		{Must(New(iota)), FormatOptions{}, "[   0    1    2 ... 1997 1998 1999]"},
		{Must(New(iota, 2, 1000)), FormatOptions{Edge: 1}, "[[   0 ...  999]\n [1000 ... 1999]]"},
		{Must(New(iota, 1000, 2)), FormatOptions{Edge: 1}, "[[   0    1]\n ...\n [1998 1999]]"},
		{Must(Zeros(TypeFloat32, 0, 1<<40)), FormatOptions{}, "[]"},
		{Must(New([]float64{math.Pi, math.NaN(), math.Inf(-1), 1e100}, 4)), FormatOptions{Precision: 3}, "[  3.14    nan   -inf 1e+100]"},
		{Must(New([]float32{0.1, 16777216}, 2)), FormatOptions{}, "[     0.1 16777216]"},
		{Must(New([]Float16{NewFloat16(0.1), NewFloat16(65504)}, 2)), FormatOptions{}, "[  0.1 65504]"},
		{Must(New([]complex64{1 - 2i}, 1)), FormatOptions{}, "[1-2j]"},
		{&Sequence{Items: []Value{Must(New([]int8{1}, 1))}}, FormatOptions{}, "[\n  int8[1] [1],\n]"},
		{&Sequence{}, FormatOptions{}, "[]"},
		{&Map{Must(New([]int64{7}, 1)), Must(New([]float32{.5}, 1))}, FormatOptions{}, "{\n  7: 0.5,\n}"},
		{&Optional{}, FormatOptions{}, "none"},
	} {
		if got := Format(c.v, &c.o); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", typeName(c.v), got, c.want)
		}
	}
}

// TestFormatManySmallDimensions checks that the text of a tensor is bounded if no dimension is
// long enough to be summarised.
func TestFormatManySmallDimensions(t *testing.T) {
	shape := make([]int, 18)
	for i := range shape {
		shape[i] = 2
	}
	if s := Format(Must(Zeros(TypeInt8, shape...)), nil); len(s) > 1<<18 || !strings.Contains(s, "...") {
		t.Errorf("%d bytes of text", len(s))
	}
}

// TestFormatVerbs prints contents for %v, and types and shapes for %s.
func TestFormatVerbs(t *testing.T) {
	x := Must(New([]float32{1, 2.5, 3, 4}, 2, 2))
	seq, err := NewSequence(TensorType(TypeFloat32), x)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMap(Must(New([]int64{7}, 1)), Must(New([]float32{0.5}, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var none *Tensor
	for _, c := range []struct {
		v              any
		contents, text string
	}{
		{x, "[[  1 2.5]\n [  3   4]]", "float[2 2]"},
		{seq, "[\n  float[2 2] [[  1 2.5]\n   [  3   4]],\n]", "seq(tensor(float))[float[2 2]]"},
		{m, "{\n  7: 0.5,\n}", "map(int64,tensor(float))[1]"},
		{none, "<nil>", "<nil>"},
	} {
		if got := fmt.Sprint(c.v); got != c.contents {
			t.Errorf("Sprint: %q, want %q", got, c.contents)
		}
		if got := fmt.Sprintf("%s", c.v); got != c.text {
			t.Errorf("%%s: %q, want %q", got, c.text)
		}
	}
	if got := fmt.Sprintf("%d %q", x, x); got != `%!d(*tensor.Tensor=float[2 2]) "float[2 2]"` {
		t.Errorf("%%d %%q: %s", got)
	}
}
