package tensor

import (
	"runtime"
	"slices"
	"testing"
)

// TestSizeOfCountsHeaders: many tensors with few elements take no more memory than SizeOf returns.
func TestSizeOfCountsHeaders(t *testing.T) {
	long := slices.Repeat([]int{1}, MaxRank)
	for _, shape := range [][]int{{}, {0}, {1}, long} {
		const count = 1 << 12
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := &Sequence{Elem: TensorType(TypeFloat32), Items: make([]Value, count)}
		for i := range s.Items {
			s.Items[i] = Must(Zeros(TypeFloat32, shape...))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n, size := int64(after.TotalAlloc)-int64(before.TotalAlloc), SizeOf(s); n > size || size > 2*n {
			t.Errorf("%d tensors of rank %d take %d bytes, SizeOf returns %d", count, len(shape), n, size)
		}
	}
}
