package dl

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalStack is the kernel's stack_t.
type signalStack struct {
	sp    uintptr
	flags int32
	size  uintptr
}

// KeepSignalStack calls f, which calls native code that may replace the thread's signal stack, and
// restores the signal stack of the thread.
//
// OpenVINO's CPU plug-in installs a signal stack of the kernel's minimum size in the thread that
// loads it, and unmaps it in whatever thread frees it. ONNX Runtime's OpenVINO execution provider
// does both with every session. Go's signal handlers need more room, and after the stack is
// unmapped a signal that preempts a goroutine ends the process. So f runs on one locked thread with
// asynchronous signals blocked until the stack is restored. Threads that f starts inherit the
// blocked signals, which is right for threads that do not run Go.
func KeepSignalStack(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const setSize = 8 // bytes of the kernel's sigset_t
	block := ^uint64(0)
	for _, sig := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} {
		block &^= 1 << (sig - 1)
	}
	var mask uint64
	var own, now signalStack
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&block)),
		uintptr(unsafe.Pointer(&mask)), setSize, 0, 0); e != 0 {
		f()
		return
	}
	_, _, failed := unix.RawSyscall(unix.SYS_SIGALTSTACK, 0, uintptr(unsafe.Pointer(&own)), 0)
	defer func() {
		if failed == 0 {
			_, _, failed = unix.RawSyscall(unix.SYS_SIGALTSTACK, 0, uintptr(unsafe.Pointer(&now)), 0)
		}
		if failed == 0 && now != own {
			unix.RawSyscall(unix.SYS_SIGALTSTACK, uintptr(unsafe.Pointer(&own)), 0, 0)
		}
		unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, setSize, 0, 0)
	}()
	f()
}
