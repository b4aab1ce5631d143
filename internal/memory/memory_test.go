package memory

import (
	"testing"
	"unsafe"
)

func TestSlice(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 199, 1 << 16, 3<<20 + 5} {
		f, b := Slice[float32](n), Slice[uint8](n)
		if len(f) != n || cap(f) != n || len(b) != n {
			t.Fatalf("lengths %d, %d, want %d", len(f), len(b), n)
		}
		for i, v := range f {
			if v != 0 {
				t.Fatalf("element %d of %d is %g", i, n, v)
			}
			f[i] = 1
		}
		if n > 0 && (uintptr(unsafe.Pointer(&f[0]))%Line != 0 || uintptr(unsafe.Pointer(&b[0]))%Line != 0) {
			t.Fatalf("n %d: not aligned", n)
		}
	}
}
