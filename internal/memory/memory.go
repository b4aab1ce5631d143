// Package memory allocates the memory of tensors and converts between bytes and elements.
package memory

import (
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Line is the size of a cache line and of the widest vector register, in bytes. A vector load that
// straddles two lines costs twice as much, and make aligns large slices to 16 bytes only.
const Line = 64

// Slice returns n zero elements, aligned to 64 bytes, for weights and tables that every run reads.
// T must not hold pointers.
func Slice[T any](n int) []T {
	var z T
	b := Lasting(Aligned(n * int(unsafe.Sizeof(z))))
	count(b)
	return FromRaw[T](b)
}

// counted is the number of bytes of the long blocks of [Slice] that are in use.
var counted atomic.Int64

func count(b []byte) {
	const worth = 64 << 10
	if len(b) < worth {
		return
	}
	counted.Add(int64(len(b)))
	runtime.AddCleanup(unsafe.SliceData(b), func(n int64) { counted.Add(-n) }, int64(len(b)))
}

// InUse returns the number of bytes of the long blocks of [Slice] that are in use: the
// weights of all models.
func InUse() int64 { return counted.Load() }

// Lasting returns b, which is used in every run. It requests huge pages for b if b is long and not
// written yet: a page of 2 MB takes one TLB entry instead of 512, and hardware prefetch stops at
// page boundaries.
func Lasting(b []byte) []byte {
	const worth = 64 << 10
	if len(b) >= worth {
		advise(b)
	}
	return b
}

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
