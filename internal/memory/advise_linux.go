package memory

import (
	"syscall"
	"unsafe"
)

// advise asks for pages of 2 MB. The range includes the beginning and the end of the pages that b
// shares with other blocks: Go's heap consists of larger parts. If the system has no such pages,
// b keeps its pages.
func advise(b []byte) {
	const page = 2 << 20
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	end := (start + uintptr(len(b)) + page - 1) &^ (page - 1)
	start &^= page - 1
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_HUGEPAGE)
}
