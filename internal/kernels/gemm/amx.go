package gemm

// TileConfig returns the configuration of AMX's tile registers for GEMM of one or two tiles with
// the given number of rows (Intel SDM, volume 1, table 18-4). Sums are in the tiles 0 to 3, rows of
// A of width bytes in 4, depth rows of B, 64 bytes each, in 6 and 7.
func TileConfig(halves, rows, width, depth int) (c [64]byte) {
	c[0] = 1 // palette
	set := func(tile, rows, bytes int) { c[48+tile], c[16+2*tile] = byte(rows), byte(bytes) }
	for i := range 2 * halves {
		set(i, rows, 64)
	}
	set(4, rows, width)
	set(6, depth, 64)
	set(7, depth, 64)
	return c
}
