//go:build !purego

package conv

import "github.com/onward-ml/onward/internal/cpu"

func runTile(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, Lanes, t)
		return
	}
	tile1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		tile1NEON(pixels, &second)
	}
}

func runNCHW(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, 1, t)
		return
	}
	nchw1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		nchw1NEON(pixels, &second)
	}
}

func runPermuted(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, 0, t)
		return
	}
	permuted1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		permuted1NEON(pixels, &second)
	}
}

func runDepthwise(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		for i := range t.times {
			u := t.nth(i)
			depthwiseNEON(pixels, &u)
		}
	} else {
		for i := range t.times {
			u := t.nth(i)
			depthwiseGeneric(pixels, &u)
		}
	}
}

func runMaximum(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		maximumNEON(pixels, t)
	} else {
		maximumGeneric(pixels, t)
	}
}

func runSum(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		sumNEON(pixels, t)
	} else {
		sumGeneric(pixels, t)
	}
}

func runAffine(l cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	const most = 1 << 10 // pixels per call
	if l != cpu.NEON {
		affineGeneric(dst, x, scale, shift, lo, hi)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst)/Lanes, most)
		affineNEON(&dst[0], &x[0], &scale[0], &shift[0], n, lo, hi)
		dst, x = dst[n*Lanes:], x[n*Lanes:]
	}
}
