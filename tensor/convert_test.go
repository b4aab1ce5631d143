package tensor

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/memory"
)

// numericTypes lists the types of numbers and bool.
var numericTypes = func() (l []DType) {
	for d := TypeFloat32; d < numDTypes; d++ {
		if d != TypeString && !isComplex(d) {
			l = append(l, d)
		}
	}
	return l
}()

// The oracle converts one element at a time with exact numbers: an element is NaN, an infinity,
// a negative zero, or a big.Int or big.Float.
type exact struct {
	special float64 // NaN, ±Inf or -0; else 0
	v       *big.Float
}

func bigOf(v float64) exact {
	if v != v || math.IsInf(v, 0) || v == 0 && math.Signbit(v) {
		return exact{special: v, v: new(big.Float)}
	}
	return exact{v: new(big.Float).SetPrec(300).SetFloat64(v)}
}

// codeAt returns the bits of element i, extended with zeros.
func codeAt(t *Tensor, i int) uint64 {
	w := t.dtype.Bits()
	v := uint64(0)
	for b := range w {
		p := i*w + b
		v |= uint64(t.data[p/8]>>(p%8)&1) << b
	}
	return v
}

type binaryFormat struct {
	exp, mant, bias int
	fnuz, finite    bool // finite: the all-ones exponent holds numbers too
	nan, max        uint64
}

var binaryFormats = map[DType]binaryFormat{
	TypeFloat16:        {exp: 5, mant: 10, bias: 15, max: 0x7bff},
	TypeBFloat16:       {exp: 8, mant: 7, bias: 127, max: 0x7f7f},
	TypeFloat32:        {exp: 8, mant: 23, bias: 127, max: 0x7f7fffff},
	TypeFloat64:        {exp: 11, mant: 52, bias: 1023, max: 0x7fefffffffffffff},
	TypeFloat8E5M2:     {exp: 5, mant: 2, bias: 15, max: 0x7b},
	TypeFloat8E4M3FN:   {exp: 4, mant: 3, bias: 7, finite: true, nan: 0x7f, max: 0x7e},
	TypeFloat8E4M3FNUZ: {exp: 4, mant: 3, bias: 8, finite: true, fnuz: true, nan: 0x80, max: 0x7f},
	TypeFloat8E5M2FNUZ: {exp: 5, mant: 2, bias: 16, finite: true, fnuz: true, nan: 0x80, max: 0x7f},
	TypeFloat4E2M1:     {exp: 2, mant: 1, bias: 1, finite: true, nan: 99, max: 7},
	TypeFloat6E2M3:     {exp: 2, mant: 3, bias: 1, finite: true, nan: 99, max: 31},
	TypeFloat6E3M2:     {exp: 3, mant: 2, bias: 3, finite: true, nan: 99, max: 31},
}

func (f binaryFormat) value(code uint64) exact {
	neg := code>>(f.exp+f.mant)&1 != 0
	abs := code & (1<<(f.exp+f.mant) - 1)
	if f.fnuz && code == f.nan || !f.fnuz && f.finite && abs == f.nan {
		return exact{special: math.NaN(), v: new(big.Float)}
	}
	if !f.finite && abs > f.max {
		if abs != f.max+1 {
			return exact{special: math.NaN(), v: new(big.Float)}
		}
		return exact{special: math.Inf(1 - 2*btoi(neg)), v: new(big.Float)}
	}
	e, m := int(abs>>f.mant), int64(abs&(1<<f.mant-1))
	if e == 0 {
		e = 1
	} else {
		m |= 1 << f.mant
	}
	if m == 0 && neg {
		return exact{special: math.Copysign(0, -1), v: new(big.Float)}
	}
	v := new(big.Float).SetPrec(300).SetInt64(m)
	v.SetMantExp(v, e-f.bias-f.mant)
	if neg {
		v.Neg(v)
	}
	return exact{v: v}
}

func exactAt(t *Tensor, i int) exact {
	c := codeAt(t, i)
	if f, ok := binaryFormats[t.dtype]; ok {
		return f.value(c)
	}
	if t.dtype == TypeFloat8E8M0 {
		if c == 255 {
			return exact{special: math.NaN(), v: new(big.Float)}
		}
		v := new(big.Float).SetPrec(300).SetInt64(1)
		return exact{v: v.SetMantExp(v, int(c)-127)}
	}
	v := new(big.Float).SetPrec(300)
	if w := t.dtype.Bits(); t.dtype.IsSigned() {
		return exact{v: v.SetInt64(int64(c) << (64 - w) >> (64 - w))}
	}
	return exact{v: v.SetUint64(c)}
}

// round finds the code by binary search over the exact values.
func (f binaryFormat) round(d DType, x exact, saturate bool) uint64 {
	sign := uint64(0)
	if x.special != x.special {
		if d.Packed() { // the zero of the other sign
			return uint64(btoi(!math.Signbit(x.special))) << (f.exp + f.mant)
		}
		if f.finite {
			return f.nan
		}
		return f.max + 2 // any NaN
	}
	if math.Signbit(x.special) || x.v.Sign() < 0 {
		sign = 1 << (f.exp + f.mant)
	}
	saturate = saturate && d.IsFloat8() || d.Packed()
	over := math.IsInf(x.special, 0)
	var c uint64
	if !over && x.special == 0 && x.v.Sign() != 0 {
		abs := new(big.Float).SetPrec(300).Abs(x.v)
		lo, hi := uint64(0), f.max+1 // value(lo) <= abs < value(hi), or abs beyond max
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; f.value(mid).v.Cmp(abs) <= 0 {
				lo = mid
			} else {
				hi = mid
			}
		}
		l := f.value(lo).v
		step := new(big.Float).SetPrec(300)
		if lo == f.max {
			step.Sub(l, f.value(lo-1).v)
		} else {
			step.Sub(f.value(lo+1).v, l)
		}
		rest := new(big.Float).SetPrec(300).Sub(abs, l)
		rest.Add(rest, rest)
		c = lo
		if k := rest.Cmp(step); k > 0 || k == 0 && lo&1 != 0 {
			c++
		}
		over = c > f.max
	}
	switch {
	case over && saturate:
		c = f.max
	case over && f.fnuz:
		return f.nan
	case over && f.finite:
		c = f.nan
	case over:
		c = f.max + 1
	}
	if f.fnuz && c == 0 {
		return 0
	}
	return c | sign
}

func convertExact(to DType, x exact, saturate bool) uint64 {
	if f, ok := binaryFormats[to]; ok {
		return f.round(to, x, saturate)
	}
	zero := x.special == 0 && x.v.Sign() == 0
	switch {
	case to == TypeBool:
		return uint64(btoi(!zero))
	case to == TypeFloat8E8M0:
		f := x.special
		if f == 0 {
			f, _ = x.v.Float64()
			if x.v.Cmp(new(big.Float).SetFloat64(f)) != 0 { // up: anything above a power of two will do
				f = math.Nextafter(f, math.Inf(x.v.Sign()))
			}
		}
		f = math.Abs(f)
		e := math.Ceil(math.Log2(f))
		if f != f || f > math.Pow(2, 127) && !saturate || f < math.Pow(2, -127) && !saturate {
			return 255
		}
		return uint64(min(max(e, -127), 127) + 127)
	}
	// Integers. The rules for values out of range are those of Convert's comment.
	w := to.Bits()
	var i *big.Int
	isInt := false
	if x.special == 0 {
		v := x.v
		if to.Packed() {
			f, _ := v.Float64()
			v = new(big.Float).SetFloat64(math.RoundToEven(f))
		}
		i, _ = v.Int(nil)
		isInt = true
	}
	fits := func(bits uint) bool {
		lim := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return isInt && i.Cmp(new(big.Int).Neg(lim)) >= 0 && i.Cmp(lim) < 0
	}
	var u uint64
	switch {
	case to == TypeUint64:
		switch {
		case fits(64):
			u = uint64(i.Int64())
		case isInt && i.Sign() > 0 && i.IsUint64():
			u = i.Uint64()
		case isInt && i.Sign() > 0 || math.IsInf(x.special, 1):
			u = 0
		default:
			u = 1 << 63
		}
	case to == TypeInt64 || to == TypeUint32:
		u = 1 << 63
		if fits(64) {
			u = uint64(i.Int64())
		}
	default:
		u = 1 << 31
		if fits(32) {
			u = uint64(i.Int64())
		}
	}
	if w < 64 {
		u &= 1<<w - 1
	}
	return u
}

// randomTensor returns a vector of random numbers of type d, including extremes.
func randomTensor(r *rapid.T, d DType, n int) *Tensor {
	t := Must(Zeros(d, n))
	w := d.Bits()
	for i := range n {
		var c uint64
		if f, ok := binaryFormats[d]; ok && rapid.Bool().Draw(r, "small") {
			c = f.round(d, bigOf(rapid.Float64Range(-300, 300).Draw(r, "v")), true)
		} else if rapid.Bool().Draw(r, "edge") {
			c = rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, 1 << (w - 1), 1<<(w-1) - 1}).Draw(r, "edge")
		} else {
			c = rapid.Uint64().Draw(r, "bits")
		}
		if d == TypeBool {
			c &= 1
		}
		for b := range w {
			p := i*w + b
			t.data[p/8] |= byte(c>>b&1) << (p % 8)
		}
	}
	return t
}

func TestConvertAllPairs(t *testing.T) {
	for _, from := range numericTypes {
		for _, to := range numericTypes {
			t.Run(from.String()+"_to_"+to.String(), func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) {
					src := randomTensor(r, from, rapid.IntRange(0, 9).Draw(r, "n"))
					sat := rapid.Bool().Draw(r, "saturate")
					dst, err := Convert(src, to, &ConvertOptions{Saturate: sat})
					if err != nil {
						r.Fatal(err)
					}
					for i := range src.Len() {
						x := exactAt(src, i)
						if to == TypeFloat8E8M0 && (math.Signbit(x.special) || x.v.Sign() < 0) {
							continue // undefined
						}
						var want uint64
						switch {
						case from == to:
							want = codeAt(src, i)
						case from.IsInteger() || from == TypeBool:
							want = convertInteger(to, from, codeAt(src, i), x, sat)
						default:
							want = convertExact(to, x, sat)
						}
						got := codeAt(dst, i)
						if x.special != x.special && to.IsFloat() && from != to {
							g := exactAt(dst, i)
							if want := !to.Packed(); (g.special != g.special) != want {
								r.Fatalf("NaN becomes %#x", got)
							}
							continue
						}
						if got != want {
							r.Fatalf("%#x (%v %v) becomes %#x, want %#x", codeAt(src, i), x.v, x.special, got, want)
						}
					}
				})
			})
		}
	}
}

// convertInteger is the oracle from integers and bool: the low bits, or the
// exact value to floating point.
func convertInteger(to, from DType, code uint64, x exact, sat bool) uint64 {
	if !to.IsInteger() {
		return convertExact(to, x, sat)
	}
	if w := from.Bits(); from.IsSigned() {
		code = uint64(int64(code) << (64 - w) >> (64 - w))
	}
	if w := to.Bits(); w < 64 {
		code &= 1<<w - 1
	}
	return code
}

// TestConvertLong has vectors longer than a block, for every pair of types.
func TestConvertLong(t *testing.T) {
	const n = 2*blockLen + 7
	base := make([]int8, n)
	for i := range base {
		base[i] = int8(i % 2)
	}
	src := Must(New(base))
	for _, from := range numericTypes {
		x := Must(Convert(src, from, &ConvertOptions{Saturate: true}))
		for _, to := range numericTypes {
			y := Must(Convert(x, to, &ConvertOptions{Saturate: true}))
			for i := range n {
				want := uint64(i % 2)
				switch to {
				case TypeFloat8E8M0:
					want *= 127
					if i%2 == 0 && from == TypeFloat8E8M0 {
						want = codeAt(x, i)
					}
				default:
					if f, ok := binaryFormats[to]; ok {
						want = f.round(to, bigOf(float64(i%2)), true)
					}
				}
				if from == TypeFloat8E8M0 && i%2 == 0 {
					continue // has no zero
				}
				if got := codeAt(y, i); got != want {
					t.Fatalf("%s to %s: element %d is %#x, want %#x", from, to, i, got, want)
				}
			}
		}
	}
}

func TestConvertOutOfRangeFloats(t *testing.T) {
	in := []float32{300.7, -5.5, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e20,
		-1e20, 3e9, 1e19}
	check := func(to DType, want any) {
		t.Helper()
		for _, x := range []*Tensor{Must(New(in)), Must(Convert(Must(New(in)), TypeFloat64, nil))} {
			got := Must(Convert(x, to, nil))
			w := Must(FromBytes(to, want.([]byte), len(in)))
			if err := Equal(got, w); err != nil {
				t.Errorf("%s to %s: %v", x.DType(), to, err)
			}
		}
	}
	check(TypeInt8, memory.AsBytes([]int8{44, -5, 0, 0, 0, 0, 0, 0, 0}))
	check(TypeUint8, []byte{44, 251, 0, 0, 0, 0, 0, 0, 0})
	check(TypeInt32,
		memory.AsBytes([]int32{300, -5, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32,
			math.MinInt32, math.MinInt32}))
	check(TypeInt64,
		memory.AsBytes([]int64{300, -5, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64,
			3000000000, math.MinInt64}))
	const top = 1 << 63
	check(TypeUint64, memory.AsBytes([]uint64{300, 1<<64 - 5, top, 0, top, 0, top, 3000000000, 9999999980506447872}))
	check(TypeUint32, memory.AsBytes([]uint32{300, 1<<32 - 5, 0, 0, 0, 0, 0, 3000000000, 0}))
}

// ONNX's pages on 4- and 2-bit types round to nearest, ties to even, and keep the low bits.
func TestConvertRoundsToPackedIntegers(t *testing.T) {
	for _, c := range []struct {
		to   DType
		want string
	}{
		{TypeInt4, "0 0 1 2 2 -2 -1 0 -8 4"},
		{TypeUint4, "0 0 1 2 2 14 15 0 8 4"},
		{TypeInt2, "0 0 1 -2 -2 -2 -1 0 0 0"},
		{TypeUint2, "0 0 1 2 2 2 3 0 0 0"},
		{TypeInt8, "0 0 0 1 2 -1 0 0 7 3"},
	} {
		in := Must(New([]float64{0.3, 0.5, 0.7, 1.5, 2.5, -1.5, -0.7, -0.5, 7.5, 3.5}))
		for _, from := range []DType{TypeFloat64, TypeFloat32, TypeFloat16, TypeBFloat16} {
			x := Must(Convert(Must(Convert(in, from, nil)), c.to, nil))
			if got := strings.Join(MustData[string](Must(Convert(x, TypeString, nil))), " "); got != c.want {
				t.Errorf("%s to %s: %s, want %s", from, c.to, got, c.want)
			}
		}
	}
	// text drops fractions, like text to wider integers
	x := Must(Convert(Must(New([]string{"1.7", "-2.5"})), TypeInt4, nil))
	if got := strings.Join(MustData[string](Must(Convert(x, TypeString, nil))), " "); got != "1 -2" {
		t.Errorf("text to int4: %s, want 1 -2", got)
	}
}

func TestConvertToString(t *testing.T) {
	for _, c := range []struct {
		in   *Tensor
		want string
	}{
		{Must(New([]float32{300.7, 0.1, 1.0 / 3, 1e10, 1e-5, 123456789, 1e16, float32(math.Copysign(0, -1))})),
			"300.70001 0.1 0.33333334 1e+10 9.9999997e-06 1.2345679e+08 1e+16 -0"},
		{Must(New([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-45, 100, 12345678, 1.5e-4, 3})),
			"NaN INF -INF 1.4012985e-45 100 12345678 0.00015000001 3"},
		{Must(New([]float64{330.77001342773, 0.11, 1.1e16})), "330.77001 0.11 1.1e+16"},
		{Must(New([]Float16{NewFloat16(0.1), NewFloat16(1.0 / 3), NewFloat16(300.7)})), "0.099975586 0.33325195 300.75"},
		{Must(New([]int64{math.MinInt64, 0, 1 << 62})), "-9223372036854775808 0 4611686018427387904"},
		{Must(New([]uint64{math.MaxUint64})), "18446744073709551615"},
		{Must(New([]bool{true, false})), "1 0"},
		{Must(Pack(TypeInt4, []int8{-8, 7, 1})), "-8 7 1"},
		{Must(Pack(TypeFloat4E2M1, []Float4E2M1{1, 15})), "0.5 -6"},
		{Must(Pack(TypeFloat6E2M3, []Float6E2M3{1, 63})), "0.125 -7.5"},
		{Must(Pack(TypeFloat6E3M2, []Float6E3M2{1, 31})), "0.0625 28"},
	} {
		got := strings.Join(MustData[string](Must(Convert(c.in, TypeString, nil))), " ")
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}

func TestConvertFromString(t *testing.T) {
	in := []string{"3.14", " 3.14 ", "1e-5", "1E8", "+INF", "inf", "-Inf", "NaN", "-nan", "infinity", "+7", "1e400",
		"-0", ".5", "1e-400"}
	inf := math.Inf(1)
	want := []float64{3.14, 3.14, 1e-5, 1e8, inf, inf, -inf, math.NaN(), math.NaN(), inf, 7, inf,
		math.Copysign(0, -1), .5, 0}
	x := Must(New(in))
	for _, d := range []DType{TypeFloat64, TypeFloat32, TypeFloat16, TypeFloat8E5M2} {
		got := Must(Convert(x, d, nil))
		if err := Equal(got, Must(Convert(Must(New(want)), d, nil))); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	ints := Must(Convert(
		Must(New([]string{"12", "-1", "100.5", "1e3", "18446744073709551615", "-9223372036854775808", "+5"})),
		TypeInt64, nil))
	if got := MustData[int64](ints); !slices.Equal(got, []int64{12, -1, 100, 1000, -1, math.MinInt64, 5}) {
		t.Error(got)
	}
	for _, s := range []string{"", "Hello", "0x10", "1_000", "1d", "--1", "1 2", "0x1p4"} {
		for _, d := range []DType{TypeFloat32, TypeFloat64, TypeInt32, TypeBool, TypeInt4} {
			if y, err := Convert(Must(New([]string{"1", s})), d, nil); err == nil ||
				!strings.Contains(err.Error(), "element 1") {
				t.Errorf("%q becomes %v (%v)", s, y, err)
			}
		}
	}
	for _, s := range []string{"INF", "NaN", "1e30"} {
		if _, err := Convert(Must(New([]string{s})), TypeInt64, nil); err == nil {
			t.Errorf("%q converts to an integer: no error", s)
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	for _, c := range [][2]DType{{TypeComplex64, TypeFloat32}, {TypeFloat32, TypeComplex128},
		{TypeString, TypeComplex64},
		{TypeComplex64, TypeString}, {TypeFloat32, Undefined}, {TypeFloat32, 200}} {
		if _, err := Convert(Must(Zeros(c[0], 2)), c[1], nil); err == nil {
			t.Errorf("%s to %s: no error", c[0], c[1])
		}
	}
	if err := ConvertInto(Must(Zeros(TypeInt8, 3)), Must(Zeros(TypeInt16, 2)), nil); err == nil {
		t.Error("2 elements into 3: no error")
	}
	x := Must(Convert(Must(New([]complex64{1 + 2i, 3})), TypeComplex128, nil))
	if !slices.Equal(MustData[complex128](x), []complex128{1 + 2i, 3}) {
		t.Error(x)
	}
}

func TestConvertIntoAllocatesNothing(t *testing.T) {
	for _, p := range [][2]DType{{TypeFloat16, TypeFloat32}, {TypeFloat32, TypeInt4}, {TypeFloat64, TypeBFloat16},
		{TypeInt64, TypeInt32},
		{TypeFloat32, TypeFloat4E2M1}, {TypeFloat8E4M3FN, TypeFloat16}, {TypeInt64, TypeFloat8E5M2}} {
		src, dst := Must(Zeros(p[0], 3, 400)), Must(Zeros(p[1], 3, 400))
		if n := testing.AllocsPerRun(10, func() {
			if err := ConvertInto(dst, src, nil); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s to %s allocates %v times", p[0], p[1], n)
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, p := range [][2]DType{{TypeFloat32, TypeFloat64}, {TypeFloat32, TypeInt64}, {TypeInt64, TypeFloat32},
		{TypeUint8, TypeFloat32},
		{TypeFloat32, TypeFloat16}, {TypeFloat16, TypeFloat32}, {TypeInt4, TypeFloat32}, {TypeFloat64, TypeFloat16}} {
		b.Run(p[0].String()+"_to_"+p[1].String(), func(b *testing.B) {
			src, dst := Must(Zeros(p[0], 4096)), Must(Zeros(p[1], 4096))
			b.SetBytes(4096)
			for b.Loop() {
				if err := ConvertInto(dst, src, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestConvertRoundsOnce uses numbers slightly above the middle of two neighbours, which
// rounding to float32 first would move to the middle.
func TestConvertRoundsOnce(t *testing.T) {
	const bf, e4 = 1<<40 + 1<<32 + 1, 256 + 16
	for _, c := range []struct {
		src  *Tensor
		to   DType
		want float64
	}{
		{Must(New([]int64{bf})), TypeBFloat16, 1<<40 + 1<<33},
		{Must(New([]int64{-bf})), TypeBFloat16, -(1<<40 + 1<<33)},
		{Must(New([]int64{bf - 1})), TypeBFloat16, 1 << 40},
		{Must(New([]uint64{1<<63 + 1<<55 + 1})), TypeBFloat16, 1<<63 + 1<<56},
		{Must(New([]int64{math.MinInt64})), TypeBFloat16, math.MinInt64},
		{Must(New([]float64{1 + 0x1p-8 + 0x1p-40})), TypeBFloat16, 1 + 0x1p-7},
		{Must(New([]float64{1 + 0x1p-11 + 0x1p-40})), TypeFloat16, 1 + 0x1p-10},
		{Must(New([]float64{-1 - 0x1p-11 - 0x1p-40})), TypeFloat16, -1 - 0x1p-10},
		{Must(New([]float64{1 + 0x1p-11})), TypeFloat16, 1},
		{Must(New([]float64{0x1p-25 + 0x1p-70})), TypeFloat16, 0x1p-24},
		{Must(New([]float64{e4 + 0x1p-30})), TypeFloat8E4M3FN, 288},
		{Must(New([]float64{e4})), TypeFloat8E4M3FN, 256},
		{Must(New([]float64{2.5 + 0x1p-40})), TypeFloat4E2M1, 3},
		{Must(New([]float64{1.0625 + 0x1p-40})), TypeFloat6E2M3, 1.125},
		{Must(New([]float64{1.125 + 0x1p-40})), TypeFloat6E3M2, 1.25},
	} {
		v, err := Float64s(Must(Convert(c.src, c.to, nil)))
		if err != nil {
			t.Fatal(err)
		}
		got := v[0]
		if got != c.want {
			t.Errorf("%s to %s: %v, want %v", elementString(c.src, 0), c.to, got, c.want)
		}
	}
}
