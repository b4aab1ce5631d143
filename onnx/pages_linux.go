package onnx

import (
	"syscall"
	"unsafe"
)

// dropPages takes the pages of a part of a file's mapping out of the process's memory. Touched again, they
// come from the file again.
func dropPages(part []byte) {
	page := uintptr(syscall.Getpagesize())
	from := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	skip := -from & (page - 1)
	if n := (uintptr(len(part)) - skip) &^ (page - 1); uintptr(len(part)) > skip+page {
		syscall.Madvise(part[skip:skip+n], syscall.MADV_DONTNEED) // at worst the pages stay
	}
}
