package memory

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func TestRecycleClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1<<recycleFirst+1, 1<<recycleLast).Draw(t, "n")
		c := recycleClass(n)
		if c < 0 || c >= len(recycled.classes) {
			t.Fatalf("%d bytes are of class %d", n, c)
		}
		if s := recycleSize(c); s < n || s-n > n/8 {
			t.Fatalf("class %d of %d bytes has blocks of %d", c, n, s)
		}
		if c > 0 && recycleSize(c-1) >= n {
			t.Fatalf("%d bytes are of class %d, and class %d would do", n, c, c-1)
		}
	})
	for _, n := range []int{0, 1, 1 << recycleFirst, 1<<recycleLast + 1, 1 << 30} {
		if c := recycleClass(n); c != -1 {
			t.Errorf("%d bytes are of class %d, want none", n, c)
		}
	}
}

// A block is recycled only after all slices of it have become unreachable.
func TestRecycledAreUsedAgain(t *testing.T) {
	const n = 300_007
	held := Recycled(n)[n-1:]
	held[0] = 42
	for deadline := time.Now().Add(10 * time.Second); ; {
		for range 8 {
			b := Recycled(n)
			if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
				t.Fatalf("%d bytes of %d at %p", len(b), cap(b), b)
			}
			clear(b)
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run beside
		if p, _ := recycled.classes[recycleClass(n+64)].free.Get().(*byte); p != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no block came back within 10 s of collections")
		}
	}
	if held[0] != 42 {
		t.Error("a block that is held was used again")
	}
}

// What is out at a time is bounded, and blocks beyond it are ordinary ones.
func TestRecycledAreBounded(t *testing.T) {
	var held [][]byte
	for range 2 * recycleLimit / (1 << 20) {
		held = append(held, Recycled(1<<20-64))
		if out := recycled.handed.Load(); out > recycleLimit {
			t.Fatalf("%d bytes are out, want at most %d", out, recycleLimit)
		}
	}
	runtime.KeepAlive(held)
}
