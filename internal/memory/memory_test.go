package memory

import (
	"runtime"
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

// TestInUse counts what Slice has allocated until the garbage collector frees it.
func TestInUse(t *testing.T) {
	const n = 1 << 20
	freed(t) // by other tests
	s := Slice[uint8](n)
	if got := InUse(); got != n {
		t.Fatalf("%d bytes in use, want %d", got, n)
	}
	runtime.KeepAlive(s)
	freed(t)
}

// freed waits until the garbage collector has freed the slices that are not in use.
func freed(t *testing.T) {
	for range 1000 {
		if InUse() == 0 {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatalf("%d bytes in use after the memory was freed, want 0", InUse())
}
