package conv

import "github.com/onward-ml/onward/internal/cpu"

// ChooseWinograd returns the tile size for a 3×3 convolution with stride 1 and a dilation at the
// given output size: 4, 2, or 0 if the direct convolution is as fast.
func ChooseWinograd(level cpu.Level, cin, cout, h, w, dilation int) int {
	if level == cpu.Generic || cin < 8 || cout < 8 || min(h, w) < 4 {
		return 0
	}
	if level == cpu.AVX2 {
		return chooseWinogradAVX2(cin, cout, h, w, dilation)
	}
	if dilation == 1 {
		if min(h, w) >= 20 {
			return 4
		}
		return 2
	}
	if cin < 24 || cout < 24 { // the pixels of a tile are copied one by one
		return 0
	}
	// The outputs of a dilated convolution are divided into grids, whose last tiles may be mostly
	// empty. The direct convolution has 9 multiplications per output and channel, but no
	// transforms.
	best, size := 6*h*w, 0
	for _, m := range []int{2, 4} {
		if n := gridTiles(h, m, dilation) * gridTiles(w, m, dilation) * (m + 2) * (m + 2); n < best {
			best, size = n, m
		}
	}
	return size
}

// streamedFrom is the number of filters above which their transforms do not stay in the
// second-level cache.
const streamedFrom = 128 * 128

// chooseWinogradAVX2 compares the multiplications per filter of a convolution. The transforms of a
// channel take as long as those of 10 filters with m = 2, and of 14 with m = 4. Fewer than four
// tiles take as long as four, and to read streamed filters takes as long as eight tiles or pixels.
// Winograd must gain an eighth, or a third if the pixels of a tile are copied one by one.
func chooseWinogradAVX2(cin, cout, h, w, dilation int) int {
	read := 0
	if cin*cout > streamedFrom {
		read = 8
	}
	best, size := 8*(h*w+read), 0
	if dilation > 1 {
		best = 6 * (h*w + read)
	}
	for _, c := range []struct{ m, transforms int }{{2, 10}, {4, 14}} {
		n := max(4, gridTiles(h, c.m, dilation)*gridTiles(w, c.m, dilation)) + read
		n *= (c.m + 2) * (c.m + 2)
		if n += n * c.transforms * (cin + cout) / (cin * cout); n < best {
			best, size = n, c.m
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
