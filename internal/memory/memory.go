// Package memory allocates the memory of tensors and converts between bytes and elements.
package memory

import (
	"strings"
	"unsafe"
)

// Aligned returns n zero bytes, aligned to 64 bytes.
func Aligned(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	return aligned(make([]byte, n+63), n)
}

// Uninitialized returns n bytes, aligned to 64 bytes, with undefined contents. It is for
// results of which every byte will be written: clearing a large result first costs as much as
// computing it.
func Uninitialized(n int) []byte {
	const worth = 4 << 10
	if n < worth {
		return Aligned(n)
	}
	return aligned(uncleared(n+64), n)
}

// uncleared allocates n bytes of the Go heap without clearing them.
func uncleared(n int) []byte {
	// Only strings.Builder gives access to such memory. The string itself is not used.
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

// aligned returns the first n bytes of block that start at a multiple of 64. The block has at least
// n+63 bytes.
func aligned(block []byte, n int) []byte {
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(block))) & 63)
	return block[off : off+n : off+n]
}

// AsBytes returns the memory of s as bytes. T must not hold pointers.
func AsBytes[T any](s []T) []byte {
	var z T
	if len(s) == 0 {
		return []byte{}
	}
	n := len(s) * int(unsafe.Sizeof(z))
	h := header{unsafe.Pointer(unsafe.SliceData(s)), n, n}
	return *(*[]byte)(unsafe.Pointer(&h))
}

// FromRaw returns the memory of b as elements of T, without a partial last element. T must not hold
// pointers.
func FromRaw[T any](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return []T{}
	}
	// unsafe.Slice would check that the size does not overflow, in 80 bytes of code.
	h := header{unsafe.Pointer(unsafe.SliceData(b)), n, n}
	return *(*[]T)(unsafe.Pointer(&h))
}

// header is the memory layout of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}
