package kit

import (
	"bytes"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
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

// TestMoveMapped compares moves by index lists, with
// moves of single elements.
func TestMoveMapped(t *testing.T) {
	moveMapped[uint8](t, func(i int) uint8 { return uint8(i) })
	moveMapped[uint32](t, func(i int) uint32 { return uint32(i) * 0x01010101 })
	moveMapped[uint64](t, func(i int) uint64 { return uint64(i) << 40 })
	moveMapped[string](t, func(i int) string { return string(rune('a' + i)) })
}

// TestMoveTwice compares nearest-neighbour interpolation of planes with moves of single elements.
func TestMoveTwice(t *testing.T) {
	const height, width = 5, 20
	planes := []int{2, 0, 0, 1} // of src
	for k := range 25 {
		size, times := 1<<(k/5), [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 2}}[k%5]
		maps := [][]int{make([]int, len(planes)), make([]int, times[0]*height), make([]int, times[1]*width)}
		for i, p := range planes {
			maps[0][i] = p * height * width
		}
		for i := range maps[1] {
			maps[1][i] = i / times[0] * width
		}
		for i := range maps[2] {
			maps[2][i] = i / times[1]
		}
		h, w := len(maps[1]), len(maps[2])
		src, dst := MoveBuf{Width: size, Raw: make([]byte, size*3*height*width)}, MoveBuf{Width: size, Raw: make([]byte, size*len(planes)*h*w)}
		for i := range src.Raw {
			src.Raw[i] = byte(i + i>>8)
		}
		from, to := AdjacentRun(maps)
		MoveMapped(&ir.Call{Env: plainEnv{}}, dst, src, maps, from, to)
		for i := range len(planes) * h * w {
			got, at := dst.Raw[i*size:][:size], maps[0][i/w/h]+maps[1][i/w%h]+maps[2][i%w]
			if want := src.Raw[at*size:][:size]; !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, enlarged by %v: element %d of row %d is %v, want %v", size, times, i%w, i/w, got, want)
			}
		}
	}
}

func moveMapped[E MoveElem](t *testing.T, elem func(i int) E) {
	src := make([]E, 64)
	for i := range src {
		src[i] = elem(i)
	}
	for name, at := range map[string]func(i int) int{
		"as it is":  func(i int) int { return i },
		"twice":     func(i int) int { return i / 2 },
		"backwards": func(i int) int { return 7 - i },
		"pieces":    func(i int) int { return i % 3 },
	} {
		for n := 1; n <= 8; n++ {
			rows, columns := []int{16, 16, 48}, make([]int, n)
			for i := range columns {
				columns[i] = at(i)
			}
			got := make([]E, len(rows)*n)
			from, to := AdjacentRun([][]int{rows, columns})
			moveMappedOf(&ir.Call{Env: plainEnv{}}, got, src, [][]int{rows, columns}, from, to)
			for i, v := range got {
				if want := src[rows[i/n]+columns[i%n]]; v != want {
					t.Errorf("%d columns of %T, %s: element %d is %v, want %v", n, v, name, i, v, want)
				}
			}
		}
	}
}
