package conv

import "github.com/onward-ml/onward/internal/cpu"

// winogradCost describes the times of 3×3 convolutions at an instruction-set level. The unit is a
// multiplication of a pixel, or of an element of a tile, by all filters.
type winogradCost struct {
	direct     int    // nine multiplications of a pixel in the direct convolution
	transforms [2]int // the transforms of a channel with tiles of 2 and 4, in multiplications by one filter
	least      int    // fewer tiles take as long as these
	// The number of pixels or tiles that take as long as to read the filters: from the second-level
	// cache, with up to 32 MB of them, and with more.
	read [3]int
}

// The costs are fitted to times on Sapphire Rapids: of 50 sizes with AVX-512 and of 21 with AVX2.
// NEON has those of AVX-512, without a measurement.
var winogradCosts = map[cpu.Level]winogradCost{
	cpu.AVX2:   {direct: 8, transforms: [2]int{10, 12}, least: 4, read: [3]int{0, 5, 8}},
	cpu.AVX512: {direct: 9, transforms: [2]int{8, 12}, read: [3]int{3, 5, 12}},
	cpu.NEON:   {direct: 9, transforms: [2]int{8, 12}, read: [3]int{3, 5, 12}},
}

// streamedFrom is the number of filters above which their transforms with tiles of 4 do not stay in
// the second-level cache.
const streamedFrom = 128 * 128

// reading returns the number of tiles that take as long as to read n numbers of filters.
func (k *winogradCost) reading(n int) int {
	switch {
	case n <= 36*streamedFrom:
		return k.read[0]
	case n <= 8<<20:
		return k.read[1]
	}
	return k.read[2]
}

// ChooseWinograd returns the tile size for a 3×3 convolution with stride 1 and a dilation at the
// given output size: 4, 2, or 0 if the direct convolution is as fast.
func ChooseWinograd(level cpu.Level, cin, cout, h, w, dilation int) int {
	k, ok := winogradCosts[level]
	if !ok || cin < 8 || cout < 8 || min(h, w) < 2 {
		return 0
	}
	direct, filters := k.direct, cin*cout
	if dilation > 1 { // the pixels of a tile are copied one by one
		direct = 6
	}
	best, size := direct*(h*w+k.reading(9*filters)), 0
	for i, m := range []int{2, 4} {
		elements := (m + 2) * (m + 2)
		n := max(k.least, gridTiles(h, m, dilation)*gridTiles(w, m, dilation)) + k.reading(elements*filters)
		n *= elements
		if n += n * k.transforms[i] * (cin + cout) / filters; n < best {
			best, size = n, m
		}
	}
	return size
}

// gridTiles returns the number of tiles of m that cover n outputs, each tile with outputs at a
// distance of dilation.
func gridTiles(n, m, dilation int) int {
	long := n % dilation // grids with one output more than the others
	return long*tiles(n/dilation+1, m) + (dilation-long)*tiles(n/dilation, m)
}

// gridTile returns the first output of tile t of n outputs.
func gridTile(t, n, m, dilation int) int {
	long, each, first := n%dilation, tiles(n/dilation+1, m), 0
	if t >= long*each {
		t, each, first = t-long*each, tiles(n/dilation, m), long
	}
	return first + t/each + t%each*m*dilation
}

// divide returns the number of blocks into which n tiles are divided, and whether threads share one
// block rather than compute whole ones.
func (d *Winograd) divide(n, threads int) (blocks int, shared bool) {
	w := d.Weights
	most, read := 28, 2 // tiles of which V and M of 128 channels stay in the second-level cache
	if w.streamed {
		most, read = 56, 8
	}
	blocks = tiles(n, most)
	if threads <= 1 || blocks >= 8*threads {
		return blocks, false
	}
	// A thread computes so many tiles, and reads the filters of each block, which takes as long as
	// read tiles.
	time := func(blocks int) int { return tiles(blocks, threads) * (max(4, tiles(n, blocks)) + read) }
	best := time(blocks)
	for b := threads; b <= 4*threads; b += threads {
		if b >= blocks && b <= n && time(b) < best {
			blocks, best = b, time(b)
		}
	}
	// To share takes two sections more: as long as some 100,000 multiplications of each thread. V
	// and M go from core to core.
	sections := 1 + 100_000/((w.M+2)*(w.M+2)*w.Cin*w.Cout)
	return blocks, n*5/4/threads+sections < best
}
