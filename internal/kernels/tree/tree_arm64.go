//go:build !purego

package tree

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func heaps(out []uint32, sums []float64, weights []float32, tables, keys []uint32, n int) {
	heapsGeneric(out, sums, weights, tables, keys, n)
}

// walkSteps is [walkGeneric] in assembly. Steps do not leave the trees and the rows.
func walkSteps(g *traversals, nodes []uint64, keys []uint32, bits uint, steps, groups int) {
	if cpu.Active() == cpu.NEON {
		walkNEON(g, unsafe.SliceData(nodes), unsafe.SliceData(keys), bits, steps, groups)
		return
	}
	walkGeneric(g, nodes, keys, bits, steps, groups)
}
