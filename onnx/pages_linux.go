package onnx

import (
	"syscall"
	"unsafe"
)

// dropPages removes the pages of a part of a file mapping from the process's memory. Accessing them
// reads them from the file again.
func dropPages(part []byte) {
	page := uintptr(syscall.Getpagesize())
	from := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	skip := -from & (page - 1)
	if n := (uintptr(len(part)) - skip) &^ (page - 1); uintptr(len(part)) > skip+page {
		syscall.Madvise(part[skip:skip+n], syscall.MADV_DONTNEED) // on failure the pages stay, which is harmless
	}
}
