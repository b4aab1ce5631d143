package kit

import (
	"slices"
	"testing"
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
