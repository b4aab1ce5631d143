//go:build !purego

package tree

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func heaps(out, tables []uint32, x unsafe.Pointer, offsets *[heapLanes]uint32, n int) {
	heapsGeneric(out, tables, x, offsets, n)
}

// walkSteps is [walkGeneric] in assembly. Steps do not leave the trees and the rows.
func walkSteps(g *group, x []float32, bits uint, steps int) {
	if cpu.Active() == cpu.NEON {
		walkNEON(g, unsafe.SliceData(x), bits, steps)
		return
	}
	walkGeneric(g, x, bits, steps)
}
