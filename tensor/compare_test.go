package tensor

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAllClose(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f := func(v ...float32) *Tensor { return Must(New(v, len(v))) }
	seq := func(items ...Value) *Sequence {
		return &Sequence{Elem: TensorType(TypeFloat32), Items: items}
	}
	keys := func(k ...string) *Tensor { return Must(New(k, len(k))) }
	sparse := func(shape int, at []int64, v ...float32) *Sparse {
		s, err := NewSparse(f(v...), Must(New(at, len(at))), shape)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name      string
		got, want Value
		rtol      float64
		atol      float64
		err       string // "" for equal
	}{
		{"same", f(1, 2), f(1, 2), 0, 0, ""},
		{"nan", f(nan, inf, -inf), f(nan, inf, -inf), 0, 0, ""},
		{"nan and number", f(nan, 1), f(0, 1), 1, 1, "1 of 2 elements differ, the worst at [0]: got nan, want 0"},
		{"number and nan", f(0, 1), f(nan, 1), 1, 1, "got 0, want nan"},
		{"inf and number", f(inf), f(math.MaxFloat32), 1, 1, "got inf"},
		{"number and inf", f(1), f(inf), 1, 1, "want inf"},
		{"signs of inf", f(-inf), f(inf), 1, 1, "got -inf, want inf"},
		{"within rtol", f(101), f(100), .011, 0, ""},
		{"beyond rtol", f(102), f(100), .011, 0, "max_abs 2, max_rel 0.02, rtol 0.011, atol 0"},
		{"rtol is of want", f(100), f(111), .1, 0, ""},
		{"rtol is not of got", f(111), f(100), .1, 0, "got 111, want 100"},
		{"within atol", f(1.5), f(1), 0, .5, ""},
		{"worst", f(1, 2, 9, 4), f(1, 2, 3, 5), 0, 0, "2 of 4 elements differ, the worst at [2]: got 9, want 3"},
		{"type", f(1), Must(New([]float64{1}, 1)), 0, 0, "got elements of type float, want double"},
		{"shape", f(1, 2), Must(New([]float32{1, 2}, 1, 2)), 0, 0, "got shape [2], want [1 2]"},
		{"index", Must(New([]int8{1, 2, 3, 4}, 2, 2)), Must(New([]int8{1, 2, 0, 4}, 2, 2)), 0, 0, "the worst at [1 0]: got 3, want 0"},
		{"int64 is exact", Must(New([]int64{1<<60 + 1}, 1)), Must(New([]int64{1 << 60}, 1)), 0, 0, "1152921504606846977"},
		{"int64 tolerance", Must(New([]int64{11}, 1)), Must(New([]int64{10}, 1)), 0, 1, ""},
		{"int64 ends", Must(New([]int64{math.MinInt64}, 1)), Must(New([]int64{math.MaxInt64}, 1)), 0, 0, "max_abs 1.845e+19"},
		{"uint64", Must(New([]uint64{0}, 1)), Must(New([]uint64{math.MaxUint64}, 1)), 0, 0, "want 18446744073709551615"},
		{"bool", Must(New([]bool{true}, 1)), Must(New([]bool{false}, 1)), 10, 10, "got true, want false"},
		{"strings", keys("a", "b"), keys("a", "c"), 10, 10, `at [1]: got "b", want "c"`},
		{"half", Must(New([]Float16{NewFloat16(1.001)}, 1)), Must(New([]Float16{NewFloat16(1)}, 1)), 1e-2, 0, ""},
		{"half differs", Must(New([]Float16{NewFloat16(1.1)}, 1)), Must(New([]Float16{NewFloat16(1)}, 1)), 1e-2, 0, "got 1.1, want 1"},
		{"float8 nan", Must(New([]Float8E4M3FN{0xff}, 1)), Must(New([]Float8E4M3FN{0x7f}, 1)), 0, 0, ""},
		{"float8", Must(New([]Float8E5M2{0x3c}, 1)), Must(New([]Float8E5M2{0x3d}, 1)), 0, 0, "got 1, want 1.25"},
		{"int4", Must(Pack(TypeInt4, []int8{1, 2, -3})), Must(Pack(TypeInt4, []int8{1, 2, 3})), 0, 0, "[2]: got -3, want 3"},
		{"uint2", Must(Pack(TypeUint2, []uint8{1, 2, 3})), Must(Pack(TypeUint2, []uint8{1, 2, 3})), 0, 0, ""},
		{"float4", Must(Pack(TypeFloat4E2M1, []Float4E2M1{7, 1})), Must(Pack(TypeFloat4E2M1, []Float4E2M1{6, 1})), 0, 0, "got 6, want 4"},
		{"complex", Must(New([]complex64{1 + 1i}, 1)), Must(New([]complex64{1 + 1.01i}, 1)), .1, 0, ""},
		{"complex differs", Must(New([]complex64{1 + 1i}, 1)), Must(New([]complex64{1 + 2i}, 1)), .1, 0, "got 1+1j, want 1+2j"},
		{"sequence", seq(f(1), f(2)), seq(f(1), f(2)), 0, 0, ""},
		{"sequence item", seq(f(1), f(2)), seq(f(1), f(3)), 0, 0, "differ at [1], the worst at [0]: got 2, want 3"},
		{"sequence length", seq(f(1)), seq(f(1), f(3)), 0, 0, "got a sequence of 1 items, want 2"},
		{"sequence and tensor", f(1), seq(f(1)), 0, 0, "got tensor(float), want seq(tensor(float))"},
		{"map order", &Map{keys("a", "b"), f(1, 2)}, &Map{keys("b", "a"), f(2, 1)}, 0, 0, ""},
		{"map value", &Map{keys("a", "b"), f(1, 2)}, &Map{keys("b", "a"), f(1, 2)}, 0, 0, `{"a"}`},
		{"map key", &Map{keys("a", "b"), f(1, 2)}, &Map{keys("a", "c"), f(1, 2)}, 0, 0, `lacks key`},
		{"optional", &Optional{Value: f(1)}, &Optional{Value: f(1)}, 0, 0, ""},
		{"absent", &Optional{}, &Optional{Value: f(1)}, 0, 0, "got nothing, want tensor(float)"},
		{"both absent", &Optional{}, &Optional{}, 0, 0, ""},
		{"sparse", sparse(1<<40, []int64{1, 5}, 1, 0), sparse(1<<40, []int64{1}, 1), 0, 0, ""},
		{"sparse differs", sparse(9, []int64{1, 5}, 1, 2), sparse(9, []int64{1}, 1), 0, 0, "got 2, want 0"},
		{"typed nil", (*Tensor)(nil), nil, 0, 0, ""},
		{"empty", Must(Zeros(TypeFloat32, 0, 3)), Must(Zeros(TypeFloat32, 0, 3)), 0, 0, ""},
	} {
		err := AllClose(c.got, c.want, c.rtol, c.atol)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	var d *Difference
	if err := Equal(f(1, 5), f(1, 3)); !errors.As(err, &d) || d.Count != 1 || d.Total != 2 || d.MaxAbs != 2 ||
		!slices.Equal(d.Index, []int{1}) {
		t.Errorf("%+v", d)
	}
	if abs, rel, err := Distance(f(1, 5), f(2, 4)); abs != 1 || rel != .5 || err != nil {
		t.Error(abs, rel, err)
	}
	if _, _, err := Distance(f(1), f(1, 2)); err == nil {
		t.Error("Distance of different shapes: no error")
	}
}

func TestSparseDense(t *testing.T) {
	all := append(slices.Clone(numericTypes), TypeString, TypeComplex64, TypeComplex128)
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom(all).Draw(r, "type")
		n := rapid.IntRange(0, 3).Draw(r, "n")
		var x *Tensor
		switch {
		case d == TypeString:
			x = Must(New(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "bc"}), 5*n, 5*n).Draw(r, "s"), n, 5))
		case isComplex(d):
			x = Must(Zeros(d, n, 5))
			for i := range x.data {
				x.data[i] = rapid.SampledFrom([]byte{0, 0, 0, 1}).Draw(r, "b")
			}
		default:
			x, _ = randomTensor(r, d, 5*n).Reshape(n, 5)
		}
		s, err := FromDense(x)
		if err != nil {
			r.Fatal(err)
		}
		if _, err := NewSparse(s.Values, s.Indices, s.Shape...); err != nil {
			r.Fatal(err)
		}
		y, err := s.ToDense(0)
		if err != nil {
			r.Fatal(err)
		}
		if !slices.Equal(x.data, y.data) || !slices.Equal(x.strs, y.strs) || !slices.Equal(x.shape, y.shape) {
			r.Fatalf("%x becomes %x", x.data, y.data)
		}
	})
	s, err := NewSparse(Must(New([]float32{1, 2})), Must(New([]int64{0, 2, 1, 0}, 2, 2)), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if y := Must(s.ToDense(24)); !slices.Equal(MustData[float32](y), []float32{0, 0, 1, 2, 0, 0}) {
		t.Error(MustData[float32](y))
	}
	if _, err := s.ToDense(23); err == nil {
		t.Error("24 bytes with a limit of 23: no error")
	}
}
