package tensor

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPackLayout(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		in    []int8
		want  []byte
	}{
		{TypeInt4, []int8{1, -1, 7}, []byte{0xf1, 0x07}},
		{TypeInt4, []int8{-8}, []byte{0x08}},
		{TypeInt2, []int8{1, -1, -2, 0, 1}, []byte{0b00_10_11_01, 0b01}},
		{TypeInt2, nil, []byte{}},
	} {
		x, err := Pack(c.dtype, c.in)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x.Bytes(), c.want) {
			t.Errorf("%s %v packs to %x, want %x", c.dtype, c.in, x.Bytes(), c.want)
		}
	}
	for _, c := range []struct {
		dtype DType
		in    []int8
	}{{TypeInt4, []int8{8}}, {TypeInt4, []int8{-9}}, {TypeInt2, []int8{2}}, {TypeInt2, []int8{-3}}, {TypeUint4, []int8{1}}, {TypeInt8, []int8{1}}} {
		if x, err := Pack(c.dtype, c.in); err == nil {
			t.Errorf("%s takes %v: %x", c.dtype, c.in, x.Bytes())
		}
	}
	if _, err := Pack(TypeUint2, []uint8{4}); err == nil {
		t.Error("uint2 takes 4")
	}
	if _, err := Pack(TypeFloat4E2M1, []Float4E2M1{16}); err == nil {
		t.Error("float4e2m1 takes code 16")
	}
	if _, err := Unpack[uint8](Must(Pack(TypeInt4, []int8{1}))); err == nil {
		t.Error("int4 unpacks to uint8")
	}
}

func packRound[T int8 | uint8 | Float4E2M1](r *rapid.T, d DType, lo, hi int) {
	in := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) T { return T(rapid.IntRange(lo, hi).Draw(r, "v")) }), 2, 70).Draw(r, "in")
	x, err := Pack(d, in)
	if err != nil {
		r.Fatal(err)
	}
	bits := d.Bits()
	for i, v := range in { // by hand
		if got := x.Bytes()[i*bits/8] >> (i * bits % 8) & (1<<bits - 1); got != uint8(v)&(1<<bits-1) {
			r.Fatalf("element %d of %v is %#x in %x", i, in, got, x.Bytes())
		}
	}
	if used := len(in) * bits % 8; used != 0 && x.Bytes()[len(x.Bytes())-1]>>used != 0 {
		r.Fatalf("padding of %x is not zero", x.Bytes())
	}
	out, err := Unpack[T](x)
	if err != nil || !slices.Equal(in, out) {
		r.Fatalf("%v packs and unpacks to %v (%v)", in, out, err)
	}
}

func TestPackUnpackRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		packRound[int8](r, TypeInt4, -8, 7)
		packRound[uint8](r, TypeUint4, 0, 15)
		packRound[int8](r, TypeInt2, -2, 1)
		packRound[uint8](r, TypeUint2, 0, 3)
		packRound[Float4E2M1](r, TypeFloat4E2M1, 0, 15)
	})
}
