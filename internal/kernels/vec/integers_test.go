package vec

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("divI32", "infiniteF16", "nanF16", "signF16", "mapU8", "absI32", "absI64", "signI32")

func TestIntegers(t *testing.T) {
	special := []int32{0, 1, -1, 7, -8, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1,
		math.MinInt32 + 1, 65536, 46341}
	halves := []uint16{0, 0x7c00, 0xfc00, 0x7c01, 0x7bff, 0xffff, 0x3c00}
	var table [256]uint8
	for i := range table {
		table[i] = uint8(i*i>>3 ^ i*37)
	}
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for _, n := range []int{0, 1, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 130, 300, chunk + 21} {
				for off := range 4 {
					a, b, y := testkit.Guarded[int32](t, n, s, off), testkit.Guarded[int32](t, n, s, off),
						testkit.Guarded[int32](t, n, s, off)
					for i := range a {
						a[i], b[i] = special[i%len(special)], special[1+i/len(special)%(len(special)-1)]
					}
					DivI32(l, y, a, b)
					for i, v := range y {
						if want := a[i] / b[i]; v != want {
							t.Fatalf("div %s: element %d of %d: %d / %d is %d, want %d", side, i,
								n, a[i], b[i], v, want)
						}
					}
					h, is := testkit.Guarded[uint16](t, n, s, off), testkit.Guarded[bool](t, n, s, off)
					for i := range h {
						h[i] = halves[i*(off+1)%len(halves)]
					}
					InfiniteF16(l, is, h)
					for i, v := range is {
						if want := h[i] == 0x7c00 || h[i] == 0xfc00; v != want {
							t.Fatalf("infinite %s: element %d of %d: %#x gives %v", side, i, n, h[i], v)
						}
					}
					NaNF16(l, is, h)
					for i, v := range is {
						if want := h[i]&0x7fff > 0x7c00; v != want {
							t.Fatalf("NaN %s: element %d of %d: %#x gives %v", side, i, n, h[i], v)
						}
					}
					SignF16(l, h, h)
					for i, v := range h {
						want := halves[i*(off+1)%len(halves)]
						var f [1]float32
						F16ToF32(cpu.Generic, f[:], []uint16{want})
						if f[0] > 0 {
							want = 0x3c00
						} else if f[0] < 0 {
							want = 0xbc00
						}
						if v != want {
							t.Fatalf("sign %s: element %d of %d is %#x, want %#x", side, i, n, v, want)
						}
					}
					x, m := testkit.Guarded[uint8](t, n, s, off), testkit.Guarded[uint8](t, n, s, off)
					for i := range x {
						x[i] = uint8(i*(2*off+1) + n)
					}
					for range 2 { // the second time in place
						MapU8(l, m, x, &table)
						for i, v := range m {
							if want := table[uint8(i*(2*off+1)+n)]; v != want {
								t.Fatalf("map %s: element %d of %d is %d, want %d", side, i, n, v, want)
							}
						}
						m = x
					}
				}
			}
		})
	})
}

var _ = testkit.Tested("orderF32")

// TestOrder checks that the integers are ordered as the numbers are, from all kinds of them, in
// place too.
func TestOrder(t *testing.T) {
	special := append(testkit.Special32(), float32(math.Inf(-1)), float32(math.Inf(1)),
		math.Float32frombits(0xff800001), math.Float32frombits(0xffffffff), math.Float32frombits(0x7f800001))
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{1, 7, 8, 9, 15, 16, 17, 33, len(special), chunk + 21} {
			x, y := testkit.Guarded[float32](t, n, testkit.High, 0), testkit.Guarded[uint32](t, n, testkit.High, 0)
			for i := range x {
				x[i] = special[i%len(special)]
			}
			OrderF32(l, y, x)
			for i := range min(n, len(special)) {
				for j := range i {
					a, b := x[i], x[j]
					want := cmp.Compare(a, b)
					switch {
					case a != a || b != b: // NaN is the greatest
						want = -want
					case want == 0:
						want = cmp.Compare(math.Copysign(1, float64(a)), math.Copysign(1, float64(b)))
					}
					if got := cmp.Compare(y[i], y[j]); got != want || (a != a) != (y[i] == OrderNaN) || y[i] == 0 {
						t.Fatalf("%g and %g give %#x and %#x", a, b, y[i], y[j])
					}
				}
			}
			OrderF32(l, bits32(x), x)
			if !slices.Equal(bits32(x), y) {
				t.Fatalf("%d numbers in place: got %x, want %x", n, bits32(x), y)
			}
		}
	})
}
