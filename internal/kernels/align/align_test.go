package align

import (
	"testing"
	"unsafe"
)

func TestSlice(t *testing.T) {
	for n := range 200 {
		f, b := Slice[float32](n), Slice[uint8](n)
		if len(f) != n || cap(f) != n || len(b) != n {
			t.Fatalf("lengths %d, %d, want %d", len(f), len(b), n)
		}
		if n > 0 && (uintptr(unsafe.Pointer(&f[0]))%Line != 0 || uintptr(unsafe.Pointer(&b[0]))%Line != 0) {
			t.Fatalf("n %d: not aligned", n)
		}
	}
}
