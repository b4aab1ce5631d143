//go:build (!amd64 && !arm64) || purego

package tree

func heaps(out, tables []uint32, keys []uint32, offsets *[heapLanes]uint32, n int) {
	heapsGeneric(out, tables, keys, offsets, n)
}

func walkSteps(g *traversals, nodes []uint64, keys []uint32, bits uint, steps, groups int) {
	walkGeneric(g, nodes, keys, bits, steps, groups)
}
