package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

// castTable has one line per conversion of integers and wide floats.
var castTable = []struct {
	name string
	test func(t *testing.T, l level, name string)
}{
	{"f32ToU8", castCase(F32ToU8, f32ToU8Generic)},
	{"f32ToI16", castCase(F32ToI16, f32ToI16Generic)},
	{"f32ToU16", castCase(F32ToU16, f32ToU16Generic)},
	{"i16ToF32", castCase(I16ToF32, i16ToF32Generic)},
	{"u16ToF32", castCase(U16ToF32, u16ToF32Generic)},
	{"i32ToU8", castCase(I32ToU8, i32ToU8Generic)},
	{"i64ToU8", castCase(I64ToU8, i64ToU8Generic)},
	{"i64ToI32", castCase(I64ToI32, i64ToI32Generic)},
	{"f32ToBool", castCase(F32ToBool, f32ToBoolGeneric)},
	{"i32ToBool", castCase(I32ToBool, i32ToBoolGeneric)},
	{"i64ToBool", castCase(I64ToBool, i64ToBoolGeneric)},
	{"u8ToBool", castCase(U8ToBool, u8ToBoolGeneric)},
	{"u8ToI32", castCase(U8ToI32, u8ToI32Generic)},
	{"i8ToI32", castCase(I8ToI32, i8ToI32Generic)},
	{"u8ToI64", castCase(U8ToI64, u8ToI64Generic)},
	{"i8ToI64", castCase(I8ToI64, i8ToI64Generic)},
	{"i32ToI64", castCase(I32ToI64, i32ToI64Generic)},
	{"f32ToF64", castCase(F32ToF64, f32ToF64Generic)},
	{"addF32ToF64", castCase(func(l level, dst []float64, x []float32) {
		copy(dst, slices.Repeat([]float64{0x1p50 + 0.25}, len(dst)))
		AddF32ToF64(l, dst, x)
	}, func(dst []float64, x []float32) {
		copy(dst, slices.Repeat([]float64{0x1p50 + 0.25}, len(dst)))
		addF32ToF64Generic(dst, x)
	})},
	{"i32ToF64", castCase(I32ToF64, i32ToF64Generic)},
	{"f64ToF32", castCase(F64ToF32, f64ToF32Generic)},
	{"f64ToI32", castCase(F64ToI32, f64ToI32Generic)},
	{"f32ToI64", castCase(F32ToI64, f32ToI64Generic)},
	{"f64ToI64", castCase(F64ToI64, f64ToI64Generic)},
	{"i64ToF32", castCase(I64ToF32, i64ToF32Generic)},
	{"i64ToF64", castCase(I64ToF64, i64ToF64Generic)},
}

func castCase[D, S castNumber](f func(level, []D, []S), twin func([]D, []S)) func(*testing.T, level, string) {
	return func(t *testing.T, l level, name string) {
		convertLengths(t, name, castInputs[S](), f, l, twin)
	}
}

// castInputs returns numbers of every magnitude, with numbers out of the range of integers and
// halfway cases.
func castInputs[S castNumber | extremeNumber]() []S {
	r := rand.New(rand.NewPCG(5, 9))
	x := make([]S, 20000)
	for i := range x {
		switch p := any(&x[i]).(type) {
		case *float32:
			*p = math.Float32frombits(r.Uint32())
			if i%2 == 0 {
				*p = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(70))))
			}
		case *float64:
			*p = math.Float64frombits(r.Uint64())
			if i%2 == 0 {
				*p = r.NormFloat64() * math.Exp2(float64(r.IntN(70)))
			}
		case *int64:
			*p = int64(r.Uint64()) >> r.IntN(64)
		case *int32:
			*p = int32(r.Uint32()) >> r.IntN(32)
		case *uint64:
			*p = r.Uint64() >> r.IntN(64)
		case *uint32:
			*p = r.Uint32() >> r.IntN(32)
		case *int16:
			*p = int16(r.Uint32())
		case *uint16:
			*p = uint16(r.Uint32())
		case *int8:
			*p = int8(r.Uint32())
		case *uint8:
			*p = uint8(r.Uint32()) >> r.IntN(8)
		}
		if i%7 == 3 {
			x[i] = 0
		}
	}
	switch p := any(x).(type) {
	case []float32:
		copy(p, testkit.Special32())
		copy(p[100:], []float32{1 << 31, -1 << 31, 1 << 63, -1 << 63, 255.5, -0.5})
	case []float64:
		for i, v := range testkit.Special32() {
			p[i] = float64(v)
		}
		copy(p[100:], []float64{1 << 31, -1 << 31, 1<<31 - 0.5, 1 << 63, -1 << 63, 1e300, math.SmallestNonzeroFloat64})
	}
	return x
}

func TestCast(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, k := range castTable {
			k.test(t, l, k.name)
		}
	})
}

var _ = testkit.Tested(
	"lessI32", "lessI64", "lessF64", "lessU8", "lessI8", "lessU32",
	"lessOrEqualI32", "lessOrEqualI64", "lessOrEqualF64", "lessOrEqualU8", "lessOrEqualI8", "lessOrEqualU32",
	"equalI32", "equalI64", "equalF64", "equalU8",
)

func TestCompareNumbers(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		compareNumbers(t, l, []int32{0, 1, -1, 7, 1 << 30, math.MaxInt32, math.MinInt32}, LessI32,
			LessOrEqualI32, EqualI32)
		compareNumbers(t, l, []int64{0, 1, -1, 1 << 32, 1<<32 + 1, math.MaxInt64, math.MinInt64}, LessI64,
			LessOrEqualI64, EqualI64)
		compareNumbers(t, l, []uint32{0, 1, 7, 1 << 31, 1<<31 - 1, math.MaxUint32, math.MaxUint32 - 1},
			LessU32, LessOrEqualU32, nil)
		compareNumbers(t, l, []uint8{0, 1, 7, 127, 128, 254, 255}, LessU8, LessOrEqualU8, EqualU8)
		compareNumbers(t, l, []int8{0, 1, -1, 7, 127, -127, -128}, LessI8, LessOrEqualI8, nil)
		compareNumbers(t, l, []float64{0, math.Copysign(0, -1), 1, 5e-324, math.Inf(1), math.Inf(-1), math.NaN()},
			LessF64, LessOrEqualF64, EqualF64)
	})
}

func compareNumbers[T numbers](t *testing.T, l level, special []T,
	less, lessOrEqual, equal func(level, []bool, []T, []T)) {
	testkit.Sides(func(side string, s testkit.Side) {
		for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70, chunk + 21} {
			for off := range 4 {
				a, b := testkit.Guarded[T](t, n, s, off), testkit.Guarded[T](t, n, s, off)
				dst := testkit.Guarded[bool](t, n, s, off)
				for i := range a {
					a[i], b[i] = special[i%7], special[(i/7+off)%7]
				}
				check := func(name string, want func(a, b T) bool) {
					for i, v := range dst {
						if v != want(a[i], b[i]) {
							t.Fatalf("%s %s: element %d of %d: %v and %v give %v", name, side, i, n, a[i], b[i], v)
						}
					}
				}
				less(l, dst, a, b)
				check("less", func(a, b T) bool { return a < b })
				lessOrEqual(l, dst, a, b)
				check("less or equal", func(a, b T) bool { return a <= b })
				if equal == nil {
					continue
				}
				equal(l, dst, a, b)
				check("equal", func(a, b T) bool { return a == b })
			}
		}
	})
}
