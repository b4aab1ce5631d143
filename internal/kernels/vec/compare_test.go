package vec

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"lessF32", "lessOrEqualF32", "equalF32", "selectU8", "selectU16", "selectU32", "selectU64",
)

func TestCompare(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1)), 1e-45, math.MaxFloat32}
	kernels := []struct {
		name string
		f    func(l level, dst []bool, a, b []float32)
		want func(a, b float32) bool
	}{
		{"less", LessF32, func(a, b float32) bool { return a < b }},
		{"less or equal", LessOrEqualF32, func(a, b float32) bool { return a <= b }},
		{"equal", EqualF32, func(a, b float32) bool { return a == b }},
	}
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for _, n := range []int{0, 1, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70, chunk + 21} {
				for off := range 4 {
					a, b := testkit.Guarded[float32](t, n, s, off), testkit.Guarded[float32](t, n, s, off)
					dst := testkit.Guarded[bool](t, n, s, off)
					for i := range a {
						a[i], b[i] = special[i%9], special[(i/9+off)%9]
					}
					for _, k := range kernels {
						k.f(l, dst, a, b)
						for i, v := range dst {
							if v != k.want(a[i], b[i]) {
								t.Fatalf("%s %s: element %d of %d: %g and %g give %v", k.name,
									side, i, n, a[i], b[i], v)
							}
						}
					}
					for i := range dst {
						dst[i] = i*i%7%2 == 0
					}
					testSelect(t, l, side, s, off, dst, SelectU8)
					testSelect(t, l, side, s, off, dst, SelectU16)
					testSelect(t, l, side, s, off, dst, SelectU32)
					testSelect(t, l, side, s, off, dst, SelectU64)
				}
			}
		})
	})
}

func testSelect[T uint8 | uint16 | uint32 | uint64](t *testing.T, l level, side string, s testkit.Side, off int,
	which []bool, f func(l level, dst, x, y []T, which []bool)) {
	n := len(which)
	x, y, out := testkit.Guarded[T](t, n, s, off), testkit.Guarded[T](t, n, s, off), testkit.Guarded[T](t, n, s, off)
	for i := range x {
		x[i], y[i] = T(i), ^T(3*i)
	}
	f(l, out, x, y, which)
	for i, v := range out {
		want := y[i]
		if which[i] {
			want = x[i]
		}
		if v != want {
			t.Fatalf("select %T %s: element %d of %d is %d, want %d", v, side, i, n, v, want)
		}
	}
}
