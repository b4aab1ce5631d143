package pipeline

import (
	"slices"
	"testing"
)

func TestPackSigns(t *testing.T) {
	got := PackSigns([]float32{1, -1, 0, 2, 0.5, -3, -0, 1e-9, -1, 7})
	if want := []uint8{0b10011001, 0b01000000}; !slices.Equal(got, want) {
		t.Errorf("got %08b, want %08b", got, want)
	}
	if got, want := Int8([]uint8{0, 127, 128, 255}), []int8{-128, -1, 0, 127}; !slices.Equal(got, want) {
		t.Errorf("Int8: got %d, want %d", got, want)
	}
}

func TestRanges(t *testing.T) {
	r, err := NewRanges([][]float32{{0, 5, -1}, {255, 5, 254}, {51, 5, 0}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v    []float32
		want []uint8
	}{
		{[]float32{0, 5, -1}, []uint8{0, 0, 0}},
		{[]float32{255, 5, 254}, []uint8{255, 0, 255}},
		{[]float32{7.9, 5.5, 126.5}, []uint8{7, 0, 127}},
		{[]float32{-40, 3, 300}, []uint8{0, 0, 255}}, // out of range
	} {
		if got, err := r.Uint8(c.v); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Uint8(%v) = %d, %v, want %d", c.v, got, err, c.want)
		}
	}
	if _, err := r.Uint8([]float32{1}); err == nil {
		t.Error("a vector of one dimension must fail")
	}
	if _, err := NewRanges([][]float32{{1}}); err == nil {
		t.Error("ranges of one vector must fail")
	}
	if _, err := NewRanges([][]float32{{1}, {1, 2}}); err == nil {
		t.Error("ranges of vectors of different dimensions must fail")
	}
}

// TestTextQuantize compares with quantize_embeddings of sentence-transformers.
func TestTextQuantize(t *testing.T) {
	for _, folder := range oracleFolders(t, "quantize") {
		want := expected[struct {
			Vectors                      [][]float32
			Uint8, Int8, Ubinary, Binary [][]int
		}](t, folder)
		r, err := NewRanges(want.Vectors)
		if err != nil {
			t.Fatal(err)
		}
		same := func(name string, i int, got, want []int) {
			if !slices.Equal(got, want) {
				t.Errorf("%s of vector %d: got %v, want %v", name, i, got, want)
			}
		}
		for i, v := range want.Vectors {
			q, err := r.Uint8(v)
			if err != nil {
				t.Fatal(err)
			}
			same("uint8", i, ints(q), want.Uint8[i])
			same("int8", i, ints(Int8(q)), want.Int8[i])
			same("ubinary", i, ints(PackSigns(v)), want.Ubinary[i])
			same("binary", i, ints(Int8(PackSigns(v))), want.Binary[i])
		}
	}
}

func ints[T uint8 | int8](v []T) []int {
	list := make([]int, len(v))
	for i, x := range v {
		list[i] = int(x)
	}
	return list
}
