package move

import (
	"bytes"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

func TestCopyCached(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 19, 1<<19 + 1, 3<<19 - 5, 8 << 20, 8<<20 + 1} {
		src := make([]byte, n)
		for i := range src {
			src[i] = byte(i >> 8)
		}
		dst := make([]byte, n)
		if copyCached(dst, src); !slices.Equal(dst, src) {
			t.Errorf("%d bytes differ", n)
		}
	}
}

// TestMoveMapped compares moves by index lists, with moves of single elements.
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
		src, dst := Buf{Width: size, Raw: make([]byte, size*3*height*width)},
			Buf{Width: size, Raw: make([]byte, size*len(planes)*h*w)}
		for i := range src.Raw {
			src.Raw[i] = byte(i + i>>8)
		}
		from, to := AdjacentRun(maps)
		Mapped(optest.NewCall(), dst, src, maps, from, to)
		for i := range len(planes) * h * w {
			got, at := dst.Raw[i*size:][:size], maps[0][i/w/h]+maps[1][i/w%h]+maps[2][i%w]
			if want := src.Raw[at*size:][:size]; !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, enlarged by %v: element %d of row %d is %v, want %v", size,
					times, i%w, i/w, got, want)
			}
		}
	}
}

func moveMapped[E Elem](t *testing.T, elem func(i int) E) {
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
			moveMappedOf(optest.NewCall(), got, src, [][]int{rows, columns}, from, to)
			for i, v := range got {
				if want := src[rows[i/n]+columns[i%n]]; v != want {
					t.Errorf("%d columns of %T, %s: element %d is %v, want %v", n, v, name, i, v, want)
				}
			}
		}
	}
}
