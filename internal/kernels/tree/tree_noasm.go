//go:build (!amd64 && !arm64) || purego

package tree

func heaps(out []uint32, sums []float64, weights []float32, tables, keys []uint32, n int) {
	heapsGeneric(out, sums, weights, tables, keys, n)
}

func walkSteps(g *traversals, nodes []uint64, keys []uint32, bits uint, steps, groups int) {
	walkGeneric(g, nodes, keys, bits, steps, groups)
}
