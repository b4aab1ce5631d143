package move

import (
	"bytes"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestGather compares gathers of consecutive and other indices with copies of single blocks.
func TestGather(t *testing.T) {
	const rows = 7 // of src
	for _, idx := range [][]int{{3}, {0}, {6, 0, 0}, {0, 1, 2, 3, 4, 5, 6}, {1, 2, 3, 4}, {0, 1, 2, 1, 2, 3, 4, 5, 6},
		{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 6, 0}, {0, 1, 2, 4, 5}, {2, 1, 0}, {4, 5, 6, 0, 1, 2, 3}} {
		for k := range 5 * 3 * 3 {
			size, block, outer := 1<<(k/9), 1+k/3%3, []int{1, 2, 40000}[k%3]
			src := Buf{Width: size, Raw: make([]byte, size*outer*rows*block)}
			for i := range src.Raw {
				src.Raw[i] = byte(i + i>>8)
			}
			dst := Buf{Width: size, Raw: make([]byte, size*outer*len(idx)*block)}
			Gather(optest.NewCall(), dst, src, outer, rows*block, idx, block)
			for i := range outer * len(idx) {
				n, from := size*block, (i/len(idx)*rows+idx[i%len(idx)])*size*block
				if got, want := dst.Raw[i*n:][:n], src.Raw[from:][:n]; !bytes.Equal(got, want) {
					t.Fatalf("%d times %v, %d elements of %d bytes: block %d is %v, want %v", outer, idx, block, size,
						i, got, want)
				}
			}
		}
	}
}

func TestConsecutive(t *testing.T) {
	for _, c := range []struct {
		idx  []int
		want int
	}{{[]int{5}, 1}, {[]int{5, 6, 7}, 3}, {[]int{0, 1, 2, 1, 2, 3}, 3}, {[]int{0, 1, 2, 3, 0, 1}, 2},
		{[]int{0, 1, 2, 2, 3}, 1}, {[]int{2, 1}, 1}} {
		if got := consecutive(c.idx); got != c.want {
			t.Errorf("consecutive(%v) = %d, want %d", c.idx, got, c.want)
		}
	}
}
