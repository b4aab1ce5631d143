package tensor

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/memory"
)

// valueOf computes the value of an IEEE-like bit pattern by the formula.
func valueOf(code, expBits, mant, bias int) float64 {
	sign := 1.0
	if code>>(expBits+mant)&1 != 0 {
		sign = -1
	}
	e, m := code>>mant&(1<<expBits-1), float64(code&(1<<mant-1))/float64(int(1)<<mant)
	if e == 0 {
		return sign * m * math.Pow(2, float64(1-bias))
	}
	return sign * (1 + m) * math.Pow(2, float64(e-bias))
}

func sameFloat(a, b float64) bool {
	return a != a && b != b || a == b && math.Signbit(a) == math.Signbit(b)
}

func TestFloat16AllPatterns(t *testing.T) {
	for i := range 1 << 16 {
		h := Float16(i)
		want := valueOf(i, 5, 10, 15)
		if i>>10&31 == 31 {
			want = math.Inf(1 - i>>14&2)
			if i&0x3ff != 0 {
				want = math.NaN()
			}
		}
		got := float64(h.Float32())
		if !sameFloat(got, want) {
			t.Fatalf("%#04x is %v, want %v", i, got, want)
		}
		if h.IsNaN() != math.IsNaN(want) {
			t.Fatalf("%#04x: IsNaN %v", i, h.IsNaN())
		}
		back := NewFloat16(float32(got))
		if want == want && back != h || want != want && (!back.IsNaN() || back>>15 != h>>15) {
			t.Fatalf("%#04x widens and narrows to %#04x", i, back)
		}
	}
}

// roundings checks the neighbourhood of every pair of adjacent finite magnitudes of a 16-bit
// type: the middle rounds to the even one, its neighbours to the nearer one.
func roundings(t *testing.T, inf int, value func(code int) float64, from32 func(float32) int,
	from64 func(float64) int) {
	t.Helper()
	for c := range inf {
		lo, hi := value(c), value(c+1)
		if c+1 == inf {
			hi = 2*lo - value(c-1) // the next value with a wider exponent
		}
		mid := lo + (hi-lo)/2
		even := c + c&1
		for _, s := range []struct {
			f    float64
			want int
		}{
			{lo, c}, {mid, even}, {math.Nextafter(mid, 0), c}, {math.Nextafter(mid, math.Inf(1)), c + 1},
			{math.Nextafter(lo, math.Inf(1)), c}, {math.Nextafter(hi, 0), c + 1},
		} {
			if got := from64(s.f); got != s.want {
				t.Fatalf("float64 %x rounds to %#04x, want %#04x", s.f, got, s.want)
			}
			if s.f != 0 {
				if got := from64(-s.f); got != s.want|0x8000 {
					t.Fatalf("float64 %x rounds to %#04x, want %#04x", -s.f, got, s.want|0x8000)
				}
			}
		}
		f := float32(mid)
		for _, s := range []struct {
			f    float32
			want int
		}{{f, even}, {math.Nextafter32(f, 0), c}, {math.Nextafter32(f, math.MaxFloat32), c + 1}} {
			if got := from32(s.f); got != s.want {
				t.Fatalf("float32 %x rounds to %#04x, want %#04x", s.f, got, s.want)
			}
			if got := from32(-s.f); got != s.want|0x8000 {
				t.Fatalf("float32 %x rounds to %#04x, want %#04x", -s.f, got, s.want|0x8000)
			}
		}
	}
}

func TestFloat16Rounding(t *testing.T) {
	roundings(t, 0x7c00, func(c int) float64 { return valueOf(c, 5, 10, 15) },
		func(f float32) int { return int(NewFloat16(f)) }, func(f float64) int { return int(NewFloat16FromFloat64(f)) })
	for _, f := range []float64{65520, 1e6, 1e300, math.Inf(1)} {
		if a, b := NewFloat16FromFloat64(f), NewFloat16FromFloat64(-f); a != 0x7c00 || b != 0xfc00 {
			t.Errorf("±%v rounds to %#04x and %#04x", f, a, b)
		}
	}
	if NewFloat16FromFloat64(65519.999999) != 0x7bff {
		t.Error("65519.999999 must round to the largest half")
	}
	if h := NewFloat16FromFloat64(1e-300); h != 0 {
		t.Errorf("1e-300 rounds to %#04x", h)
	}
	// A NaN whose payload is below the bits of a half must stay NaN.
	if h := NewFloat16(math.Float32frombits(0x7f800001)); !h.IsNaN() {
		t.Errorf("a signaling NaN becomes %#04x", h)
	}
}

func TestBFloat16AllPatterns(t *testing.T) {
	for i := range 1 << 16 {
		h := BFloat16(i)
		want := valueOf(i, 8, 7, 127)
		if i>>7&255 == 255 {
			want = math.Inf(1 - i>>14&2)
			if i&0x7f != 0 {
				want = math.NaN()
			}
		}
		got := float64(h.Float32())
		if !sameFloat(got, want) || h.IsNaN() != math.IsNaN(want) {
			t.Fatalf("%#04x is %v, want %v", i, got, want)
		}
		back := NewBFloat16(float32(got))
		if want == want && back != h || want != want && (!back.IsNaN() || back>>15 != h>>15) {
			t.Fatalf("%#04x widens and narrows to %#04x", i, back)
		}
	}
	roundings(t, 0x7f80, func(c int) float64 { return valueOf(c, 8, 7, 127) },
		func(f float32) int { return int(NewBFloat16(f)) }, func(f float64) int {
			return int(NewBFloat16FromFloat64(f))
		})
	if h := NewBFloat16(math.Float32frombits(0x7f800001)); !h.IsNaN() {
		t.Errorf("a signaling NaN becomes %#04x", h)
	}
}

// smallType is a type of at most 8 bits, with the rules of its encoding beyond the finite
// numbers.
type smallType struct {
	dtype           DType
	name            string
	expBits, mant   int
	bias            int
	max             float64
	fnuz            bool
	over            int // code of values that overflow without saturation
	nan             int
	special         func(code int) (float64, bool)
	decode          func(code int) float32
	encode          func(f float32, saturate bool) int
	alwaysSaturates bool
	finite          []float64 // values of the codes without a sign
}

// decodes converts codes, one per byte, like [Convert].
func (s *smallType) decodes(dst []float32, codes []uint8) {
	n, packed := len(codes), codes
	if s.dtype.Packed() {
		packed = make([]byte, memory.PackedLen(n, s.dtype.Bits()))
		memory.PackUint(packed, codes, s.dtype.Bits())
	}
	convertElements(span{TypeFloat32, memory.AsBytes(dst), n}, span{s.dtype, packed, n}, ConvertOptions{})
}

// encodes is the inverse of decodes.
func (s *smallType) encodes(codes []uint8, src []float32, saturate bool) {
	n, packed := len(src), make([]byte, memory.PackedLen(len(src), s.dtype.Bits()))
	convertElements(span{s.dtype, packed, n}, span{TypeFloat32, memory.AsBytes(src), n},
		ConvertOptions{Saturate: saturate})
	if s.dtype.Packed() {
		memory.UnpackUint(codes[:n], packed, s.dtype.Bits())
	} else {
		copy(codes, packed)
	}
}

var smallTypes = []*smallType{
	{
		name: "float8e4m3fn", dtype: TypeFloat8E4M3FN, expBits: 4, mant: 3, bias: 7, max: 448, over: 0x7f, nan: 0x7f,
		special: func(c int) (float64, bool) { return math.NaN(), c&0x7f == 0x7f },
		decode:  func(c int) float32 { return Float8E4M3FN(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat8E4M3FN(f, s)) },
	},
	{
		name: "float8e4m3fnuz", dtype: TypeFloat8E4M3FNUZ, expBits: 4, mant: 3, bias: 8, max: 240, fnuz: true, over: 0x80, nan: 0x80,
		special: func(c int) (float64, bool) { return math.NaN(), c == 0x80 },
		decode:  func(c int) float32 { return Float8E4M3FNUZ(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat8E4M3FNUZ(f, s)) },
	},
	{
		name: "float8e5m2", dtype: TypeFloat8E5M2, expBits: 5, mant: 2, bias: 15, max: 57344, over: 0x7c, nan: 0x7e,
		special: func(c int) (float64, bool) {
			if c&0x7f == 0x7c {
				return math.Inf(1 - c>>6&2), true
			}
			return math.NaN(), c&0x7f > 0x7c
		},
		decode: func(c int) float32 { return Float8E5M2(c).Float32() },
		encode: func(f float32, s bool) int { return int(NewFloat8E5M2(f, s)) },
	},
	{
		name: "float8e5m2fnuz", dtype: TypeFloat8E5M2FNUZ, expBits: 5, mant: 2, bias: 16, max: 57344, fnuz: true, over: 0x80, nan: 0x80,
		special: func(c int) (float64, bool) { return math.NaN(), c == 0x80 },
		decode:  func(c int) float32 { return Float8E5M2FNUZ(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat8E5M2FNUZ(f, s)) },
	},
	{
		name: "float4e2m1", dtype: TypeFloat4E2M1, expBits: 2, mant: 1, bias: 1, max: 6, over: 7, nan: 8, alwaysSaturates: true,
		special: func(c int) (float64, bool) { return 0, false },
		decode:  func(c int) float32 { return Float4E2M1(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat4E2M1(f)) },
	},
	{
		name: "float6e2m3", dtype: TypeFloat6E2M3, expBits: 2, mant: 3, bias: 1, max: 7.5, over: 0x1f, nan: 0x20, alwaysSaturates: true,
		special: func(c int) (float64, bool) { return 0, false },
		decode:  func(c int) float32 { return Float6E2M3(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat6E2M3(f)) },
	},
	{
		name: "float6e3m2", dtype: TypeFloat6E3M2, expBits: 3, mant: 2, bias: 3, max: 28, over: 0x1f, nan: 0x20, alwaysSaturates: true,
		special: func(c int) (float64, bool) { return 0, false },
		decode:  func(c int) float32 { return Float6E3M2(c).Float32() },
		encode:  func(f float32, s bool) int { return int(NewFloat6E3M2(f)) },
	},
}

// nearest rounds f by a search over all codes: the nearest value wins, the even code in the
// middle. Beyond the largest value, the next one of a wider exponent takes part.
func (s *smallType) nearest(f float64, saturate bool) int {
	sign := 0
	if math.Signbit(f) {
		sign = 1 << (s.expBits + s.mant)
	}
	if f != f {
		if s.fnuz {
			return s.nan
		}
		return s.nan ^ sign
	}
	abs := math.Abs(f)
	if s.finite == nil {
		for c := range 1 << (s.expBits + s.mant) {
			if _, ok := s.special(c); !ok {
				s.finite = append(s.finite, valueOf(c, s.expBits, s.mant, s.bias))
			}
		}
	}
	best, bestDist := -1, math.Inf(1)
	maxCode := len(s.finite) - 1
	for c, v := range s.finite {
		d := math.Abs(v - abs)
		if d < bestDist || d == bestDist && c&1 == 0 {
			best, bestDist = c, d
		}
	}
	beyond := 2*s.max - s.finite[maxCode-1]
	if d := beyond - abs; abs > beyond || d < bestDist || d == bestDist && maxCode&1 != 0 {
		switch {
		case saturate || s.alwaysSaturates:
			best = maxCode
		case s.fnuz:
			return s.over
		default:
			best = s.over
		}
	}
	if s.fnuz && best == 0 {
		return 0
	}
	return best | sign
}

func TestSmallFloatDecode(t *testing.T) {
	for _, s := range smallTypes {
		n := 1 << (1 + s.expBits + s.mant)
		codes, got := make([]uint8, n), make([]float32, n)
		largest := 0.0
		for c := range n {
			want, ok := s.special(c)
			if !ok {
				want = valueOf(c, s.expBits, s.mant, s.bias)
				largest = max(largest, want)
			}
			if g := float64(s.decode(c)); !sameFloat(g, want) {
				t.Errorf("%s: %#02x is %v, want %v", s.name, c, g, want)
			}
			codes[c] = uint8(c)
		}
		if largest != s.max {
			t.Errorf("%s: the largest number is %v, want %v", s.name, largest, s.max)
		}
		s.decodes(got, codes)
		for c := range n {
			if g := s.decode(c); math.Float32bits(g) != math.Float32bits(got[c]) {
				t.Errorf("%s: slice conversion of %#02x gives %v, want %v", s.name, c, got[c], g)
			}
		}
	}
}

func TestSmallFloatEncode(t *testing.T) {
	for _, s := range smallTypes {
		// All values of the type, all middles, the neighbours of both, and values out of range.
		in := []float32{0, 1, float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32, math.SmallestNonzeroFloat32,
			math.Float32frombits(0x00800000), math.Float32frombits(0x7f800001), 1e10}
		var vals []float64
		for c := range 1 << (s.expBits + s.mant) {
			if _, ok := s.special(c); !ok {
				vals = append(vals, valueOf(c, s.expBits, s.mant, s.bias))
			}
		}
		vals = append(vals, 2*vals[len(vals)-1]-vals[len(vals)-2])
		for i, v := range vals {
			in = append(in, float32(v))
			if i > 0 {
				in = append(in, float32((v+vals[i-1])/2))
			}
		}
		for _, f := range slices.Clone(in) {
			in = append(in, math.Nextafter32(f, 0), math.Nextafter32(f, float32(math.Inf(1))))
		}
		for i := range 1 << 16 { // and every float32 of 16 bits
			in = append(in, math.Float32frombits(uint32(i)<<16), math.Float32frombits(uint32(i)<<16|1))
		}
		for _, f := range slices.Clone(in) {
			in = append(in, -f)
		}
		out := make([]uint8, len(in))
		for _, sat := range []bool{true, false} {
			s.encodes(out, in, sat)
			for i, f := range in {
				want := s.nearest(float64(f), sat)
				if got := s.encode(f, sat); got != want {
					t.Fatalf("%s: %v (%x, saturate %v) rounds to %#02x, want %#02x", s.name, f, f, sat, got, want)
				}
				if int(out[i]) != want {
					t.Fatalf("%s: slice conversion of %v (saturate %v) gives %#02x, want %#02x", s.name, f,
						sat, out[i], want)
				}
			}
		}
	}
}

func TestSmallFloatEncodeRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.SampledFrom(smallTypes).Draw(r, "type")
		sat := rapid.Bool().Draw(r, "saturate")
		in := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) float32 {
			if rapid.Bool().Draw(r, "any") {
				return math.Float32frombits(rapid.Uint32().Draw(r, "bits"))
			}
			return float32(s.max * rapid.Float64Range(-2, 2).Draw(r, "f"))
		}), 0, 40).Draw(r, "in")
		out := make([]uint8, len(in))
		s.encodes(out, in, sat)
		for i, f := range in {
			want := s.nearest(float64(f), sat)
			if int(out[i]) != want || s.encode(f, sat) != want {
				r.Fatalf("%s: %x rounds to %#02x and %#02x, want %#02x", s.name, f, out[i], s.encode(f, sat), want)
			}
		}
	})
}

func TestFloat8E8M0(t *testing.T) {
	for c := range 256 {
		want := math.Pow(2, float64(c-127))
		if c == 255 {
			want = math.NaN()
		}
		if got := float64(Float8E8M0(c).Float32()); !sameFloat(got, want) {
			t.Errorf("%#02x is %v, want %v", c, got, want)
		}
	}
	least, most := math.Pow(2, -127), math.Pow(2, 127)
	encode := func(f float64, mode RoundMode, sat bool) int { // independent: by search
		f = math.Abs(f)
		bad := func(code int) int {
			if sat {
				return code
			}
			return 255
		}
		switch {
		case f != f:
			return 255
		case f < least:
			return bad(0)
		case f > 2*most:
			return bad(254)
		}
		c := 0
		for c < 254 && math.Pow(2, float64(c+1-127)) <= f {
			c++
		}
		lo := math.Pow(2, float64(c-127))
		if mode == RoundUp && f > lo || mode == RoundNearest && f-lo >= 2*lo-f {
			c++
		}
		if c > 254 {
			return bad(254)
		}
		return c
	}
	in := []float32{0, float32(math.Inf(1)), float32(math.NaN()), math.SmallestNonzeroFloat32, math.MaxFloat32}
	for c := range 255 {
		v := float32(math.Pow(2, float64(c-127)))
		for _, f := range []float32{v, v + v/2, v + v/4} {
			in = append(in, f, math.Nextafter32(f, 0), math.Nextafter32(f, math.MaxFloat32))
		}
	}
	for i := range 1 << 16 {
		in = append(in, math.Float32frombits(uint32(i)<<16), math.Float32frombits(uint32(i)<<16|3))
	}
	out := make([]Float8E8M0, len(in))
	for _, mode := range []RoundMode{RoundUp, RoundDown, RoundNearest} {
		for _, sat := range []bool{true, false} {
			convertElements(span{TypeFloat8E8M0, memory.AsBytes(out), len(in)},
				span{TypeFloat32, memory.AsBytes(in), len(in)}, ConvertOptions{Saturate: sat, RoundMode: mode})
			for i, f := range in {
				want := encode(float64(f), mode, sat)
				if got := NewFloat8E8M0(f, mode, sat); int(got) != want {
					t.Fatalf("%x (mode %d, saturate %v) rounds to %d, want %d", f, mode, sat, got, want)
				}
				if int(out[i]) != want {
					t.Fatalf("slice conversion of %x (mode %d, saturate %v) gives %d, want %d", f, mode,
						sat, out[i], want)
				}
			}
		}
	}
}

func TestHalfSlices(t *testing.T) {
	all, wide, back := make([]Float16, 1<<16), make([]float32, 1<<16), make([]Float16, 1<<16)
	for i := range all {
		all[i] = Float16(i)
	}
	Float16sToFloat32s(wide, all)
	Float32sToFloat16s(back, wide)
	ball, bwide, bback := memory.FromRaw[BFloat16](memory.AsBytes(all)), make([]float32, 1<<16), make([]BFloat16, 1<<16)
	BFloat16sToFloat32s(bwide, ball)
	Float32sToBFloat16s(bback, bwide)
	for i := range all {
		if wide[i] != all[i].Float32() && !all[i].IsNaN() || back[i] != NewFloat16(wide[i]) {
			t.Fatalf("half %#04x: %v, back %#04x", i, wide[i], back[i])
		}
		if bwide[i] != ball[i].Float32() && !ball[i].IsNaN() || bback[i] != NewBFloat16(bwide[i]) {
			t.Fatalf("bfloat16 %#04x: %v, back %#04x", i, bwide[i], bback[i])
		}
	}
}

func BenchmarkFloat16sToFloat32s(b *testing.B) {
	src, dst := make([]Float16, 4096), make([]float32, 4096)
	for i := range src {
		src[i] = NewFloat16(float32(i) / 7)
	}
	b.SetBytes(4096 * 4)
	for b.Loop() {
		Float16sToFloat32s(dst, src)
	}
}

func BenchmarkFloat32sToFloat16s(b *testing.B) {
	src, dst := make([]float32, 4096), make([]Float16, 4096)
	for i := range src {
		src[i] = float32(i) / 7
	}
	b.SetBytes(4096 * 4)
	for b.Loop() {
		Float32sToFloat16s(dst, src)
	}
}

func BenchmarkConvertFloat8(b *testing.B) {
	src := Must(Zeros(TypeFloat32, 4096))
	dst := Must(Zeros(TypeFloat8E4M3FN, 4096))
	for i := range MustData[float32](src) {
		MustData[float32](src)[i] = float32(i) / 7
	}
	b.SetBytes(4096 * 4)
	for b.Loop() {
		if err := ConvertInto(dst, src, &ConvertOptions{Saturate: true}); err != nil {
			b.Fatal(err)
		}
	}
}
