package vec

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"addI32", "addI64", "addF64", "addU8", "subI32", "subI64", "subF64", "subU8",
	"mulI32", "mulI64", "mulF64", "mulU8", "divF64",
	"maxI8", "maxU8", "maxI32", "maxU32", "maxI64", "maxU64", "maxF64",
	"minI8", "minU8", "minI32", "minU32", "minI64", "minU64", "minF64",
	"absF64", "signF32", "signF64", "sqrtF64",
)

// TestNumbers compares the kernels of one and two operands of integers and float64 with Go's
// operators, in place too.
func TestNumbers(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		testNumbers(t, l, "I32", AddI32, SubI32, MulI32, nil, MaxI32, MinI32)
		testNumbers(t, l, "I64", AddI64, SubI64, MulI64, nil, MaxI64, MinI64)
		testNumbers(t, l, "F64", AddF64, SubF64, MulF64, DivF64, MaxF64, MinF64)
		testNumbers(t, l, "U8", AddU8, SubU8, MulU8, nil, MaxU8, MinU8)
		testNumbers(t, l, "I8", nil, nil, nil, nil, MaxI8, MinI8)
		testNumbers(t, l, "U32", nil, nil, nil, nil, MaxU32, MinU32)
		testNumbers(t, l, "U64", nil, nil, nil, nil, MaxU64, MinU64)
		testUnary(t, l, "abs", AbsI32, func(x int32) int32 { return max(x, -x) })
		testUnary(t, l, "abs", AbsI64, func(x int64) int64 { return max(x, -x) })
		testUnary(t, l, "abs", AbsF64, math.Abs)
		testUnary(t, l, "sign", SignF64, func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		})
		testUnary(t, l, "sign", SignF32, func(x float32) float32 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		})
		testUnary(t, l, "sqrt", SqrtF64, math.Sqrt)
		testUnary(t, l, "sign", SignI32, func(x int32) int32 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return 0
		})
	})
}

func testNumbers[T extremeNumber](t *testing.T, l level, typ string,
	add, sub, mul, div, most, least func(level, []T, []T, []T)) {
	in := castInputs[T]()
	for _, k := range []struct {
		name string
		f    func(l level, dst, a, b []T)
		want func(a, b T) T
	}{
		{"add", add, func(a, b T) T { return a + b }}, {"sub", sub, func(a, b T) T { return a - b }}, {"mul", mul, func(a, b T) T { return a * b }},
		{"div", div, func(a, b T) T { return a / b }}, {"max", most, func(a, b T) T { return max(a, b) }}, {"min", least, func(a, b T) T { return min(a, b) }},
	} {
		if k.f == nil {
			continue
		}
		testkit.Sides(func(side string, s testkit.Side) {
			for _, n := range append(shortLengths, chunk+21) {
				for off := range 4 {
					a, b := in[off*n%31:][:n], in[len(in)-n:]
					x, y := testkit.GuardedCopy(t, a, s, off), testkit.GuardedCopy(t, b, s, off)
					for _, dst := range [][]T{testkit.Guarded[T](t, n, s, off), x, y} {
						copy(x, a)
						k.f(l, dst, x, y)
						for i, v := range dst {
							if want := k.want(a[i], b[i]); v != want && (v == v || want == want) {
								t.Fatalf("%s%s %s: %v and %v, element %d of %d, give %v, want %v", k.name, typ, side,
									a[i], b[i], i, n, v, want)
							}
						}
					}
				}
			}
		})
	}
}

// shortLengths has the lengths around those of vectors.
var shortLengths = []int{0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 70}

func testUnary[T foldNumber | float32](t *testing.T, l level, name string, f func(l level, dst, x []T), op func(T) T) {
	in := castInputs[T]()
	testkit.Sides(func(side string, s testkit.Side) {
		for _, n := range append(shortLengths, chunk+21) {
			x := testkit.GuardedCopy(t, in[:n], s, n%4)
			dst := testkit.Guarded[T](t, n, s, n%4)
			f(l, dst, x)
			for i, v := range dst {
				if want := op(x[i]); v != want && (v == v || want == want) {
					t.Fatalf("%s %s: %v, element %d of %d, gives %v, want %v", name, side, x[i], i, n, v, want)
				}
			}
		}
	})
}
