package tensor

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/memory"
)

func TestDTypes(t *testing.T) {
	for d := TypeFloat32; d < numDTypes; d++ {
		for _, name := range []string{d.String(), d.NumPy()} {
			if got, err := ParseDType(name); err != nil || got != d {
				t.Errorf("%q is %v (%v), want %v", name, got, err, d)
			}
		}
		kinds := btoi(d.IsFloat()) + btoi(d.IsSigned()) + btoi(d.IsUnsigned()) + btoi(isComplex(d)) +
			btoi(d == TypeBool) + btoi(d == TypeString)
		if kinds != 1 || d.IsInteger() != (d.IsSigned() || d.IsUnsigned()) ||
			d.Packed() != (d.Size() == 0 && d != TypeString) {
			t.Errorf("%s is of %d kinds, packed %v", d, kinds, d.Packed())
		}
	}
	for _, name := range []string{"", "undefined", "float128"} {
		if d, err := ParseDType(name); err == nil {
			t.Errorf("%q is %s", name, d)
		}
	}
	if d := DType(200); d.Valid() || d.Bits() != 0 || d.NumPy() != "" || d.String() != "dtype(200)" ||
		Undefined.Valid() {
		t.Error("invalid type: no error")
	}
}

func checkDTypeOf[T Element](t *testing.T, want DType) {
	t.Helper()
	var z T
	if got := DTypeOf[T](); got != want {
		t.Errorf("%T is %s, want %s", z, got, want)
	}
	if want != TypeString && want.Size() != int(unsafe.Sizeof(z)) {
		t.Errorf("%s takes %d bytes, Go's %d", want, want.Size(), unsafe.Sizeof(z))
	}
	x := Must(New(make([]T, 6), 2, 3))
	if s, err := Data[T](x); err != nil || len(s) != 6 || x.DType() != want {
		t.Errorf("%s: %d elements (%v)", x, len(s), err)
	}
	other := TypeFloat32
	if want == other {
		other = TypeInt32
	}
	if _, err := Data[T](Must(Zeros(other, 2))); err == nil {
		t.Errorf("%s is taken for %s", other, want)
	}
}

func TestDTypeOf(t *testing.T) {
	checkDTypeOf[bool](t, TypeBool)
	checkDTypeOf[int8](t, TypeInt8)
	checkDTypeOf[int16](t, TypeInt16)
	checkDTypeOf[int32](t, TypeInt32)
	checkDTypeOf[int64](t, TypeInt64)
	checkDTypeOf[uint8](t, TypeUint8)
	checkDTypeOf[uint16](t, TypeUint16)
	checkDTypeOf[uint32](t, TypeUint32)
	checkDTypeOf[uint64](t, TypeUint64)
	checkDTypeOf[float32](t, TypeFloat32)
	checkDTypeOf[float64](t, TypeFloat64)
	checkDTypeOf[complex64](t, TypeComplex64)
	checkDTypeOf[complex128](t, TypeComplex128)
	checkDTypeOf[string](t, TypeString)
	checkDTypeOf[Float16](t, TypeFloat16)
	checkDTypeOf[BFloat16](t, TypeBFloat16)
	checkDTypeOf[Float8E4M3FN](t, TypeFloat8E4M3FN)
	checkDTypeOf[Float8E4M3FNUZ](t, TypeFloat8E4M3FNUZ)
	checkDTypeOf[Float8E5M2](t, TypeFloat8E5M2)
	checkDTypeOf[Float8E5M2FNUZ](t, TypeFloat8E5M2FNUZ)
	checkDTypeOf[Float8E8M0](t, TypeFloat8E8M0)
}

func TestShapesAreChecked(t *testing.T) {
	long := make([]int, MaxRank+1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(New([]int8{1, 2}, 3)), "2 values for shape [3], which has 3 elements"},
		{second(New([]int8{1, 2}, -2, -1)), "dimension 0 is negative: -2"},
		{second(Zeros(TypeInt8, long...)), "rank 1025 is above the limit"},
		{second(Zeros(TypeInt8, math.MaxInt, 2)), "overflows"},
		{second(Zeros(TypeInt8, 1<<24, 0, 1<<25)), "above the limit"},
		{second(Zeros(TypeInt8, math.MaxInt, 0, math.MaxInt)), "above the limit"},
		{second(Zeros(TypeInt64, math.MaxInt/4)), "in bytes overflows"},
		{second(Zeros(TypeString, math.MaxInt/4)), "in bytes overflows"},
		{second(Zeros(Undefined, 1)), "invalid element type"},
		{second(FromBytes(TypeInt4, make([]byte, 1), 3)), "1 bytes for int4[3], which takes 2"},
		{second(FromBytes(TypeBool, []byte{1, 2})), "2 bytes for bool[]"},
		{second(FromBytes(TypeBool, []byte{1, 2}, 2)), "byte 1 of a bool tensor is 2"},
		{second(FromBytes(TypeString, nil, 0)), "no byte form"},
		{second(Must(New([]int8{1, 2})).Reshape(3)), "cannot reshape [2] (2 elements) to [3]"},
		{second(Must(New([]int8{1, 2})).Reshape(-1, -2)), "negative"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
	if x, err := Zeros(TypeInt64, 1<<20, 0, 1<<28); err != nil || x.Len() != 0 {
		t.Error("empty tensor with large dimensions:", err)
	}
}

func second(_ *Tensor, err error) error { return err }

func TestElementsRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		shape := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, math.MaxInt)), 0, 5).
			Draw(r, "shape")
		want, rest := big.NewInt(1), big.NewInt(1)
		for _, d := range shape {
			want.Mul(want, big.NewInt(int64(d)))
			if d > 0 {
				rest.Mul(rest, big.NewInt(int64(d)))
			}
		}
		n, err := Elements(shape)
		fits := want.IsInt64()
		if want.Sign() == 0 {
			fits = rest.IsInt64() && rest.Int64() <= maxEmpty
		}
		if (err == nil) != fits || fits && int64(n) != want.Int64() {
			r.Fatalf("%v has %d elements (%v), want %v", shape, n, err, want)
		}
	})
}

func TestZerosIsAligned(t *testing.T) {
	for n := range 200 {
		b := memory.Aligned(n)
		if len(b) != n || cap(b) != n || n > 0 && uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
			t.Fatalf("%d bytes at %p, cap %d", n, b, cap(b))
		}
	}
}

func TestAliases(t *testing.T) {
	data := []float32{1, 2, 3, 4}
	x := Must(New(data))
	y := Must(x.Reshape(2, 2))
	c := x.Clone()
	MustData[float32](y)[3] = 9
	if data[3] != 9 || MustData[float32](x)[3] != 9 || MustData[float32](c)[3] != 4 {
		t.Error(data, MustData[float32](c))
	}
	var r Tensor
	shape := []int{2, 2}
	r.Reset(TypeFloat32, x.Bytes(), shape)
	shape[0] = 7
	if r.Dim(0) != 2 || r.Len() != 4 || r.String() != "float[2 2]" {
		t.Error(r.String())
	}
	s := Must(New([]string{"a"}))
	cs := s.Clone()
	MustData[string](s)[0] = "b"
	if MustData[string](cs)[0] != "a" || s.Rank() != 0 || cs.Bytes() != nil {
		t.Error("the clone shares the strings")
	}
	defer func() {
		if recover() == nil {
			t.Error("Of[int32] of a float tensor does not panic")
		}
	}()
	MustData[int32](x)
}

func TestValues(t *testing.T) {
	f := Must(New([]float32{1, 2}))
	seq, err := NewSequence(TensorType(TypeFloat32), f, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSequence(TensorType(TypeInt8), f); err == nil {
		t.Error("float item in seq(tensor(int8)): no error")
	}
	if _, err := NewSequence(TensorType(TypeInt8), nil); err == nil {
		t.Error("nil item: no error")
	}
	m, err := NewMap(Must(New([]string{"a", "b"})), f)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := NewMap(Must(New([]int64{1, 2})), seq)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		k *Tensor
		v Value
	}{{f, f}, {Must(New([]int64{1})), f}, {Must(New([]int64{1, 2, 3})), f}, {Must(New([]int64{1, 2})), nil},
		{Must(Pack(TypeInt4, []int8{1, 2})), f}} {
		if _, err := NewMap(bad.k, bad.v); err == nil {
			t.Errorf("a map of %s to %s", bad.k, typeName(bad.v))
		}
	}
	sp, err := FromDense(f)
	if err != nil {
		t.Fatal(err)
	}
	opt := &Optional{Elem: seq.Type(), Value: seq}
	for want, v := range map[string]Value{
		"tensor(float)": f, "seq(tensor(float))": seq, "map(string,tensor(float))": m, "map(int64,tensor(float))": ms,
		"sparse_tensor(float)": sp, "optional(seq(tensor(float)))": opt,
	} {
		if got := v.Type().String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		c := Clone(v)
		if err := Equal(c, v); err != nil || !c.Type().Equal(v.Type()) || SizeOf(c) != SizeOf(v) || SizeOf(v) < 8 {
			t.Errorf("clone of %s: %v, %d bytes", want, err, SizeOf(v))
		}
	}
	if TensorType(TypeInt8).Equal(SparseType(TypeInt8)) || SequenceOf(TensorType(TypeInt8)).
		Equal(SequenceOf(TensorType(TypeInt4))) ||
		MapOf(TypeInt64, TensorType(TypeInt8)).Equal(MapOf(TypeString, TensorType(TypeInt8))) ||
		OptionalOf(TensorType(TypeInt8)).Equal(Type{Kind: KindOptional}) {
		t.Error("different types are equal")
	}
	MustData[float32](Clone(seq).(*Sequence).Items[0].(*Tensor))[0] = 5
	if MustData[float32](f)[0] != 1 {
		t.Error("the clone shares its items")
	}
}

func TestNewSparseRefuses(t *testing.T) {
	v := Must(New([]float32{1, 2}))
	ix := func(shape []int, i ...int64) *Tensor { return Must(New(i, shape...)) }
	for _, c := range []struct {
		values, indices *Tensor
		shape           []int
		want            string
	}{
		{v, ix([]int{2}, 0, 9), []int{3, 3}, "is 9, outside of 9 elements"},
		{v, ix([]int{2}, -1, 1), []int{9}, "outside"},
		{v, ix([]int{2}, 3, 3), []int{9}, "ascending"},
		{v, ix([]int{2}, 3, 2), []int{9}, "ascending"},
		{v, ix([]int{2, 2}, 0, 0, 0, 3), []int{3, 3}, "coordinate 3 in dimension 1"},
		{v, ix([]int{2, 2}, 1, 0, 0, 1), []int{3, 3}, "ascending"},
		{v, ix([]int{1}, 1), []int{3}, "indices of a sparse tensor have shape [1]"},
		{v, Must(New([]int32{0, 1})), []int{3}, "want int64"},
		{Must(v.Reshape(2, 1)), ix([]int{2}, 0, 1), []int{3}, "rank 2, want 1"},
		{v, ix([]int{2}, 0, 1), []int{-3}, "negative"},
	} {
		if _, err := NewSparse(c.values, c.indices, c.shape...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestFloat8E8M0Slice(t *testing.T) {
	src, dst := make([]Float8E8M0, 256), make([]float32, 256)
	for i := range src {
		src[i] = Float8E8M0(i)
	}
	convertElements(span{TypeFloat32, memory.AsBytes(dst), 256}, span{TypeFloat8E8M0, memory.AsBytes(src), 256},
		ConvertOptions{})
	if i := slices.IndexFunc(src[:255], func(f Float8E8M0) bool { return dst[f] != f.Float32() }); i >= 0 ||
		dst[255] == dst[255] {
		t.Errorf("%#02x is %v", i, dst[max(i, 0)])
	}
}
