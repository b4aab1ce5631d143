//go:build !purego

package tree

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// heaps is [heapsGeneric] in assembly. Tables exist only at levels with the kernel.
func heaps(out, tables []uint32, x unsafe.Pointer, offsets *[heapLanes]uint32, n int) {
	_, _ = out[n*heapLanes-1], tables[n*heapTable-1]
	heapsAVX512(&out[0], &tables[0], (*float32)(x), &offsets[0], n)
}

// walkSteps is [walkGeneric] in assembly where the processor has it. Steps do not leave the trees and the rows.
func walkSteps(g *group, x []float32, bits uint, steps int) {
	if level := cpu.Active(); level == cpu.AVX2 || level == cpu.AVX512 {
		walkAVX2(g, unsafe.SliceData(x), bits, steps)
		return
	}
	walkGeneric(g, x, bits, steps)
}
