//go:build !purego

package tree

import "unsafe"

// heaps is [heapsGeneric] in assembly. Tables exist only at levels with the kernel.
func heaps(out, tables []uint32, x unsafe.Pointer, offsets *[heapLanes]uint32, n int) {
	_, _ = out[n*heapLanes-1], tables[n*heapTable-1]
	heapsAVX512(&out[0], &tables[0], (*float32)(x), &offsets[0], n)
}
