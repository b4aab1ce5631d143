//go:build !purego

package tree

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// heaps is [heapsGeneric] in assembly. Tables exist only at levels with the kernel.
func heaps(out []uint32, sums []float64, weights []float32, tables, keys []uint32, n int) {
	heapsAVX512(unsafe.SliceData(out), unsafe.SliceData(sums), unsafe.SliceData(weights),
		&tables[:n*heapTable][0], &keys[0], n)
}

// walkSteps is [walkGeneric] in assembly where the processor has it. Steps do not leave the trees
// and the rows.
func walkSteps(g *traversals, nodes []uint64, keys []uint32, bits uint, steps, groups int) {
	if level := cpu.Active(); level == cpu.AVX2 || level == cpu.AVX512 {
		walkAVX2(g, unsafe.SliceData(nodes), unsafe.SliceData(keys), bits, steps, groups)
		return
	}
	walkGeneric(g, nodes, keys, bits, steps, groups)
}
