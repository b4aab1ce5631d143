package vec

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	testkit "github.com/onward-ml/onward/internal/testing"
)

func TestIntegers(t *testing.T) {
	special := []int32{0, 1, -1, 7, -8, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1, math.MinInt32 + 1, 65536, 46341}
	halves := []uint16{0, 0x7c00, 0xfc00, 0x7c01, 0x7bff, 0xffff, 0x3c00}
	var table [256]uint8
	for i := range table {
		table[i] = uint8(i*i>>3 ^ i*37)
	}
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for _, n := range []int{0, 1, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 130, 300, chunk + 21} {
				for off := range 4 {
					a, b, y := testkit.Guarded[int32](t, n, s, off), testkit.Guarded[int32](t, n, s, off), testkit.Guarded[int32](t, n, s, off)
					for i := range a {
						a[i], b[i] = special[i%len(special)], special[1+i/len(special)%(len(special)-1)]
					}
					DivI32(l, y, a, b)
					for i, v := range y {
						if want := a[i] / b[i]; v != want {
							t.Fatalf("div %s: element %d of %d: %d / %d is %d, want %d", side, i, n, a[i], b[i], v, want)
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
