//go:build (!amd64 && !arm64) || purego

package tree

import "unsafe"

func heaps(out, tables []uint32, x unsafe.Pointer, offsets *[heapLanes]uint32, n int) {
	heapsGeneric(out, tables, x, offsets, n)
}

func walkSteps(g *group, x []float32, bits uint, steps int) { walkGeneric(g, x, bits, steps) }
