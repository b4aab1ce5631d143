package dl

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestKeepSignalStack exchanges the signal stack as a native library does, on several
// threads, and has the collector send its signals.
func TestKeepSignalStack(t *testing.T) {
	stack := func(set *signalStack) (was signalStack) {
		if _, _, e := unix.RawSyscall(unix.SYS_SIGALTSTACK, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(&was)),
			0); e != 0 {
			t.Error(e)
		}
		return was
	}
	mask := func() (m uint64) {
		unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&m)), 8, 0, 0)
		return m
	}
	foreign, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(foreign)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range 100 {
				before, unblocked := stack(nil), mask()
				KeepSignalStack(func() {
					stack(&signalStack{sp: uintptr(unsafe.Pointer(&foreign[0])), size: uintptr(len(foreign))})
					if mask()&(1<<(unix.SIGURG-1)) == 0 || mask()&(1<<(unix.SIGSEGV-1)) != 0 {
						t.Error("the wrong signals are blocked")
					}
					runtime.Gosched()
				})
				if after := stack(nil); after != before {
					t.Errorf("the signal stack is %+v, was %+v", after, before)
				}
				if mask() != unblocked {
					t.Errorf("the mask is %x, was %x", mask(), unblocked)
				}
				runtime.GC()
			}
		})
	}
	wg.Wait()
}
