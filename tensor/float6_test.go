package tensor

import (
	"hash/crc32"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/memory"
)

// float6Values are the values of codes 0 to 31 as ml_dtypes 0.6.0 decodes them;
// codes 32 to 63 are their negatives.
var float6Values = map[DType][32]float32{
	TypeFloat6E2M3: {0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875,
		2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5},
	TypeFloat6E3M2: {0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5, 1.75,
		2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28},
}

func TestFloat6Values(t *testing.T) {
	codes := make([]uint8, 64)
	for c := range codes {
		codes[c] = uint8(c)
	}
	for d, want := range float6Values {
		data := make([]byte, memory.PackedLen(64, 6))
		memory.PackUint(data, codes, 6)
		x := Must(FromBytes(d, data, 64))
		wide := Must(Convert(x, TypeFloat32, nil))
		for c, got := range MustData[float32](wide) {
			v := want[c&31]
			if c >= 32 {
				v = -v
				if v == 0 {
					v = float32(math.Copysign(0, -1))
				}
			}
			if math.Float32bits(got) != math.Float32bits(v) {
				t.Errorf("%s: code %d is %v, want %v", d, c, got, v)
			}
		}
		if back := Must(Convert(wide, d, nil)); Equal(back, x) != nil ||
			string(back.Bytes()) != string(data) {
			t.Errorf("%s: the codes become % x on the way to float and back, want % x", d, back.Bytes(), data)
		}
	}
}

// TestFloat6Rounding compares the codes of 2¹⁸ float32 numbers (all upper halves
// with four lower halves: exact, just above, the middle and all ones; infinities
// and NaN of both signs among them) with those of ml_dtypes 0.6.0 by their CRC-32.
func TestFloat6Rounding(t *testing.T) {
	x := make([]float32, 4<<16)
	for k, low := range []uint32{0, 1, 0x8000, 0xffff} {
		for i := range uint32(1 << 16) {
			x[uint32(k)<<16|i] = math.Float32frombits(i<<16 | low)
		}
	}
	src := Must(New(x))
	for d, want := range map[DType]uint32{TypeFloat6E2M3: 0x715e8c31, TypeFloat6E3M2: 0xde3158d3} {
		for _, saturate := range []bool{true, false} { // has no effect
			codes := make([]uint8, len(x))
			memory.UnpackUint(codes, Must(Convert(src, d, &ConvertOptions{Saturate: saturate})).Bytes(), 6)
			if got := crc32.ChecksumIEEE(codes); got != want {
				t.Errorf("%s: the checksum of the codes is %#x, want %#x", d, got, want)
			}
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x          float32
		e2m3, e3m2 uint8
	}{
		{1.0625, 8, 12}, {1.1875, 10, 13}, {1.125, 9, 12}, {1.375, 11, 14}, // halves to even
		{7.25, 30, 23}, {7.75, 31, 24}, {-7.75, 63, 56}, {26, 31, 30}, {29, 31, 31}, {30, 31, 31}, {31, 31, 31},
		{0.0625, 0, 1}, {0.03125, 0, 0}, {-0.03125, 32, 32}, {0.09375, 1, 2},
		{inf, 31, 31}, {-inf, 63, 63}, {math.MaxFloat32, 31, 31}, {nan, 32, 32}, {float32(math.Copysign(float64(nan), -1)), 0, 0},
	} {
		if a, b := NewFloat6E2M3(c.x), NewFloat6E3M2(c.x); a != Float6E2M3(c.e2m3) || b != Float6E3M2(c.e3m2) {
			t.Errorf("%v becomes codes %d and %d, want %d and %d", c.x, a, b, c.e2m3, c.e3m2)
		}
	}
}
