package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"f16ToF32", "f32ToF16", "bf16ToF32", "f32ToBF16", "i8ToF32", "u8ToF32", "i32ToF32", "f32ToI32",
)

// TestConvert compares every level with the generic function bit by bit, for all halves and
// bfloat16s. These two functions are checked against arithmetic.
func TestConvert(t *testing.T) {
	half := make([]uint16, 1<<16)
	for i := range half {
		half[i] = uint16(i)
	}
	wide := make([]float32, 1<<16)
	f16ToF32Generic(wide, half)
	for i, v := range wide {
		h := uint16(i)
		e, m := int(h>>10&31), float64(h&1023)
		var want float64
		switch e {
		case 31:
			want = math.Inf(1)
			if m != 0 {
				want = math.NaN()
			}
		case 0:
			want = m * 0x1p-24
		default:
			want = math.Ldexp(1+m/1024, e-15)
		}
		if h>>15 != 0 {
			want = -want
		}
		if float64(v) != want && !(v != v && want != want) {
			t.Fatalf("half %#04x is %g, want %g", h, v, want)
		}
	}
	back := make([]uint16, 1<<16)
	f32ToF16Generic(back, wide)
	for i, v := range wide {
		if back[i] != half[i] && v == v {
			t.Fatalf("half %#04x is %#04x after a round trip", i, back[i])
		}
	}
	r := rand.New(rand.NewPCG(11, 11))
	values := append(testkit.Special32(), wide...)
	for i := range wide[:len(wide)-1] { // between neighbouring halves: ties and their neighbours
		if a, b := wide[i], wide[i+1]; a == a && b == b && !math.IsInf(float64(b), 0) {
			mid := float32((float64(a) + float64(b)) / 2)
			values = append(values, mid, math.Nextafter32(mid, a), math.Nextafter32(mid, b))
		}
	}
	for range 50000 {
		values = append(values, math.Float32frombits(r.Uint32()))
	}
	got, want := make([]uint16, len(values)), make([]uint16, len(values))
	testkit.Levels(t, func(t *testing.T, l level) {
		same := func(name string, g, w []uint16) {
			t.Helper()
			for i := range g {
				if g[i] != w[i] {
					t.Fatalf("%s of %g (%#08x) is %#04x, want %#04x", name, values[i],
						math.Float32bits(values[i]), g[i], w[i])
				}
			}
		}
		f32ToF16Generic(want, values)
		F32ToF16(l, got, values)
		same("F32ToF16", got, want)
		f32ToBF16Generic(want, values)
		F32ToBF16(l, got, values)
		same("F32ToBF16", got, want)
		for i, v := range values[:2000] {
			if near := math.Float32frombits(uint32(want[i]) << 16); v == v && math.Abs(float64(v)) < 3e38 &&
				math.Abs(float64(near)-float64(v)) > math.Abs(float64(v))*0x1p-8+0x1p-134 {
				t.Fatalf("bfloat16 of %g is %g", v, near)
			}
		}
		convertLengths(t, "f16ToF32", half[31000:], F16ToF32, l, f16ToF32Generic)
		convertLengths(t, "bf16ToF32", half[31000:], BF16ToF32, l, bf16ToF32Generic)
		convertLengths(t, "f32ToF16", values, F32ToF16, l, f32ToF16Generic)
		convertLengths(t, "f32ToBF16", values, F32ToBF16, l, f32ToBF16Generic)
		i8, u8, i32 := make([]int8, 20000), make([]uint8, 20000), make([]int32, 20000)
		for i := range i8 {
			i8[i], u8[i], i32[i] = int8(r.Int32()), uint8(r.Int32()), int32(r.Uint32())
		}
		convertLengths(t, "i8ToF32", i8, I8ToF32, l, i8ToF32Generic)
		convertLengths(t, "u8ToF32", u8, U8ToF32, l, u8ToF32Generic)
		convertLengths(t, "f32ToI32", values, F32ToI32, l, f32ToI32Generic)
		convertLengths(t, "i32ToF32", i32, I32ToF32, l, i32ToF32Generic)
		all := make([]float32, 1<<16)
		F16ToF32(l, all, half)
		for i := range all {
			if math.Float32bits(all[i]) != math.Float32bits(wide[i]) {
				t.Fatalf("F16ToF32(%#04x) = %#08x, want %#08x", i, math.Float32bits(all[i]), math.Float32bits(wide[i]))
			}
		}
	})
}

func convertLengths[D, S any](t *testing.T, name string, in []S, f func(level, []D, []S), l level,
	twin func([]D, []S)) {
	t.Helper()
	testkit.Sides(func(sn string, side testkit.Side) {
		for off := range 5 {
			x := testkit.GuardedCopy(t, in[:70], side, off)
			d := testkit.Guarded[D](t, 70, side, off)
			w := make([]D, 70)
			for n := range 71 {
				a, b := x[:n], d[:n]
				if side == testkit.High {
					a, b = x[70-n:], d[70-n:]
				}
				f(l, b, a)
				twin(w[:n], a)
				for i := range b {
					if bits(b[i]) != bits(w[i]) {
						t.Fatalf("%s %s off %d len %d: %v gives %v, want %v", name, sn, off, n, a[i], b[i], w[i])
					}
				}
			}
		}
	})
	d, w := make([]D, min(len(in), 2*chunk+5)), make([]D, min(len(in), 2*chunk+5))
	f(l, d, in[:len(d)])
	twin(w, in[:len(d)])
	for i := range d {
		if bits(d[i]) != bits(w[i]) {
			t.Fatalf("%s long: element %d: %v gives %v, want %v", name, i, in[i], d[i], w[i])
		}
	}
}

func bits(v any) any {
	if f, ok := v.(float32); ok {
		return math.Float32bits(f)
	}
	if f, ok := v.(float64); ok {
		return math.Float64bits(f)
	}
	return v
}
