// Package align allocates slices that start on a cache line. A vector load that
// straddles two lines costs twice as much, and make aligns large slices to
// 16 bytes only.
package align

import "unsafe"

// Line is the size of a cache line and of the widest vector register, in bytes.
const Line = 64

// Slice returns a zeroed slice of n elements that is aligned to 64 bytes. T must not contain
// pointers, and its size must divide 64.
func Slice[T any](n int) []T {
	var z T
	size := int(unsafe.Sizeof(z))
	s := make([]T, n+Line/size)
	skip := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(s))) % Line); r != 0 {
		skip = (Line - r) / size
	}
	return s[skip : skip+n : skip+n]
}
