package tensor

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/memory"
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
	}{{TypeInt4, []int8{8}}, {TypeInt4, []int8{-9}}, {TypeInt2, []int8{2}}, {TypeInt2, []int8{-3}},
		{TypeUint4, []int8{1}}, {TypeInt8, []int8{1}}} {
		if x, err := Pack(c.dtype, c.in); err == nil {
			t.Errorf("%s of %v: got %x, want an error", c.dtype, c.in, x.Bytes())
		}
	}
	if _, err := Pack(TypeUint2, []uint8{4}); err == nil {
		t.Error("4 as uint2: no error")
	}
	if _, err := Pack(TypeFloat4E2M1, []Float4E2M1{16}); err == nil {
		t.Error("code 16 as float4e2m1: no error")
	}
	if _, err := Pack(TypeFloat6E2M3, []Float6E2M3{64}); err == nil {
		t.Error("code 64 as float6e2m3: no error")
	}
	if _, err := Pack(TypeFloat6E2M3, []Float6E3M2{1}); err == nil {
		t.Error("elements of the other 6-bit type as float6e2m3: no error")
	}
	// The bytes follow the formula at raw_data in onnx.proto.
	x := Must(Pack(TypeFloat6E3M2, []Float6E3M2{0x2d, 0x13, 0x3a, 0x25, 0x3f}))
	if want := []byte{0x2d | 0x13&3<<6, 0x13>>2 | 0x3a&15<<4, 0x3a>>4 | 0x25<<2, 0x3f}; !slices.Equal(x.Bytes(), want) {
		t.Errorf("6 bits pack to %x, want %x", x.Bytes(), want)
	}
	if _, err := Unpack[uint8](Must(Pack(TypeInt4, []int8{1}))); err == nil {
		t.Error("int4 to uint8: no error")
	}
}

func packRound[T packable](r *rapid.T, d DType, lo, hi int) {
	in := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) T { return T(rapid.IntRange(lo, hi).Draw(r, "v")) }), 2, 70).
		Draw(r, "in")
	x, err := Pack(d, in)
	if err != nil {
		r.Fatal(err)
	}
	bits := d.Bits()
	for i, v := range in { // by hand
		if got := codeAt(x, i); got != uint64(v)&(1<<bits-1) {
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
		packRound[Float6E2M3](r, TypeFloat6E2M3, 0, 63)
		packRound[Float6E3M2](r, TypeFloat6E3M2, 0, 63)
	})
}

// TestPackedElements checks that elements are read and set separately, also across bytes.
func TestPackedElements(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bits := rapid.SampledFrom([]int{2, 4, 6}).Draw(r, "bits")
		code := rapid.Custom(func(r *rapid.T) uint8 { return uint8(rapid.IntRange(0, 1<<bits-1).Draw(r, "code")) })
		want := rapid.SliceOfN(code, 1, 40).Draw(r, "codes")
		packed := make([]byte, memory.PackedLen(len(want), bits))
		memory.PackUint(packed, want, bits)
		i := rapid.IntRange(0, len(want)-1).Draw(r, "i")
		want[i] = code.Draw(r, "new")
		memory.SetPacked(packed, i, bits, want[i]|^uint8(1<<bits-1)) // higher bits are ignored
		for k, v := range want {
			if got := memory.PackedAt(packed, k, bits); got != v {
				r.Fatalf("after setting element %d, element %d is %#x, want %#x", i, k, got, v)
			}
		}
		again := make([]byte, len(packed))
		for k := range again {
			again[k] = 0xff // previous contents must be overwritten
		}
		memory.PackUint(again, want, bits)
		if !slices.Equal(again, packed) {
			r.Fatalf("%x by elements, %x at once", packed, again)
		}
		// Bits after the last element are ignored.
		if used := len(want) * bits % 8; used != 0 {
			again[len(again)-1] |= 0xff << used
		}
		got := make([]uint8, len(want))
		memory.UnpackUint(got, again, bits)
		if !slices.Equal(got, want) {
			r.Fatalf("%v unpacks to %v", want, got)
		}
	})
}

func TestPackedLen(t *testing.T) {
	for _, bits := range []int{2, 4, 6} {
		for n := range 20 {
			if got, want := memory.PackedLen(n, bits), (n*bits+7)/8; got != want {
				t.Errorf("%d elements of %d bits take %d bytes, want %d", n, bits, got, want)
			}
		}
		if n := math.MaxInt; memory.PackedLen(n, bits) < n/8*bits {
			t.Errorf("the length of %d elements of %d bits overflows: %d", n, bits, memory.PackedLen(n, bits))
		}
	}
}
