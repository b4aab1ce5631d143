package kit

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// TestStoreNumber stores numbers around the halves and the limits of every integer type.
func TestStoreNumber(t *testing.T) {
	for _, cut := range []bool{false, true} {
		storeNumbers[int8](t, cut, math.MinInt8, math.MaxInt8)
		storeNumbers[int16](t, cut, math.MinInt16, math.MaxInt16)
		storeNumbers[int32](t, cut, math.MinInt32, math.MaxInt32)
		storeNumbers[int64](t, cut, math.MinInt64, math.MaxInt64)
		storeNumbers[uint8](t, cut, 0, math.MaxUint8)
		storeNumbers[uint16](t, cut, 0, math.MaxUint16)
		storeNumbers[uint32](t, cut, 0, math.MaxUint32)
		storeNumbers[uint64](t, cut, 0, math.MaxUint64)
	}
}

func storeNumbers[I numberInt](t *testing.T, cut bool, lo, hi I) {
	x := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, near := range []float64{0, 100, float64(lo), float64(hi), 1 << 30, -1 << 30, 1 << 60} {
		for d := -3.; d <= 3; d += 0.25 {
			x = append(x, near+d)
		}
	}
	out, err := tensor.Zeros(tensor.DTypeOf[I](), len(x))
	if err != nil {
		t.Fatal(err)
	}
	RealOutput[float64]{Data: x, T: out}.StoreNumber(cut)
	got, err := tensor.Data[I](out)
	if err != nil {
		t.Fatal(err)
	}
	round := math.RoundToEven
	if cut {
		round = math.Trunc
	}
	for i, f := range x {
		want := I(0)
		switch r := round(f); {
		case r >= float64(hi):
			want = hi
		case r <= float64(lo):
			want = lo
		case r == r:
			want = I(r)
		}
		if got[i] != want {
			t.Errorf("%v as %T, cut %v: %d, want %d", f, want, cut, got[i], want)
		}
	}
}
