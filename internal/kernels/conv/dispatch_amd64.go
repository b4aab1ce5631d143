//go:build !purego

package conv

import "github.com/onward-ml/onward/internal/cpu"

func runTile(l cpu.Level, pixels, blocks int, t *tileArgs) {
	switch {
	case l == cpu.AVX512 && blocks == 2:
		tile2AVX512(pixels, t)
	case l == cpu.AVX512:
		tile1AVX512(pixels, t)
	case l == cpu.AVX2 && blocks == 2:
		first, second := *t, t.secondBlock()
		first.half = 0
		tile1AVX2(pixels, &first)
		tile1AVX2(pixels, &second)
	case l == cpu.AVX2:
		tile1AVX2(pixels, t)
	default:
		tileGeneric(pixels, blocks, Lanes, t)
	}
}

func runNCHW(l cpu.Level, pixels, blocks int, t *tileArgs) {
	switch {
	case l == cpu.AVX512 && blocks == 2:
		nchw2AVX512(pixels, t)
	case l == cpu.AVX512:
		nchw1AVX512(pixels, t)
	case l == cpu.AVX2:
		nchw1AVX2(pixels, t)
		if blocks == 2 {
			second := t.secondBlock()
			nchw1AVX2(pixels, &second)
		}
	default:
		tileGeneric(pixels, blocks, 1, t)
	}
}

func runPermuted(l cpu.Level, pixels, blocks int, t *tileArgs) {
	switch {
	case l == cpu.AVX512 && blocks == 2:
		permuted2AVX512(pixels, t)
	case l == cpu.AVX512:
		permuted1AVX512(pixels, t)
	case l == cpu.AVX2:
		permuted1AVX2(pixels, t)
		if blocks == 2 {
			second := t.secondBlock()
			permuted1AVX2(pixels, &second)
		}
	default:
		tileGeneric(pixels, blocks, 0, t)
	}
}

func runGrouped(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.AVX512 {
		groupedAVX512(pixels, t)
		return
	}
	groupedGeneric(pixels, t)
}

func runDepthwise(l cpu.Level, pixels int, t *tileArgs) {
	switch l {
	case cpu.AVX512:
		switch side := t.dkw == Lanes*4; { // adjacent kernel columns
		case side && t.kw == 3 && t.pixel == Lanes*4:
			depthwiseK3S1AVX512(pixels, t)
		case side && t.kw == 3 && t.pixel == 2*Lanes*4:
			depthwiseK3S2AVX512(pixels, t)
		case side && t.kw == 5 && t.pixel == Lanes*4:
			depthwiseK5S1AVX512(pixels, t)
		case side && t.kw == 5 && t.pixel == 2*Lanes*4:
			depthwiseK5S2AVX512(pixels, t)
		default:
			depthwiseAVX512(pixels, t)
		}
	case cpu.AVX2:
		u := *t
		depthwiseAVX2(pixels, &u)
		for range t.times - 1 {
			u.advance(1)
			depthwiseAVX2(pixels, &u)
		}
	default:
		for i := range t.times {
			u := t.nth(i)
			depthwiseGeneric(pixels, &u)
		}
	}
}

func runMaximum(l cpu.Level, pixels int, t *tileArgs) {
	switch l {
	case cpu.AVX512:
		maximumAVX512(pixels, t)
	case cpu.AVX2:
		maximumAVX2(pixels, t)
	default:
		maximumGeneric(pixels, t)
	}
}

func runSum(l cpu.Level, pixels int, t *tileArgs) {
	switch l {
	case cpu.AVX512:
		sumAVX512(pixels, t)
	case cpu.AVX2:
		sumAVX2(pixels, t)
	default:
		sumGeneric(pixels, t)
	}
}

func winogradFilter(l cpu.Level, m int, src, dst *float32, xi, n int) {
	switch {
	case l == cpu.AVX512 && m == 4:
		winogradFilter4AVX512(src, dst, &filterPoints[4][0], xi, n)
	case l == cpu.AVX512:
		winogradFilter2AVX512(src, dst, &filterPoints[2][0], xi, n)
	case l == cpu.AVX2 && m == 4:
		winogradFilter4AVX2(src, dst, &filterPoints[4][0], xi, n)
	case l == cpu.AVX2:
		winogradFilter2AVX2(src, dst, &filterPoints[2][0], xi, n)
	default:
		winogradFilterGeneric(m, src, dst, xi, n)
	}
}

func winogradInput(l cpu.Level, m int, src, dst *float32, row, xi, n int) {
	switch {
	case l == cpu.AVX512 && m == 4:
		winogradInput4AVX512(src, dst, row, xi, n)
	case l == cpu.AVX512:
		winogradInput2AVX512(src, dst, row, xi, n)
	case l == cpu.AVX2 && m == 4:
		winogradInput4AVX2(src, dst, row, xi, n)
	case l == cpu.AVX2:
		winogradInput2AVX2(src, dst, row, xi, n)
	default:
		winogradInputGeneric(m, src, dst, row, xi, n)
	}
}

func winogradOutput(l cpu.Level, m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	switch {
	case l == cpu.AVX512 && m == 4:
		winogradOutput4AVX512(src, dst, bias, add, row, addRow, xi, n, lo, hi)
	case l == cpu.AVX512:
		winogradOutput2AVX512(src, dst, bias, add, row, addRow, xi, n, lo, hi)
	case l == cpu.AVX2 && m == 4:
		winogradOutput4AVX2(src, dst, bias, add, row, addRow, xi, n, lo, hi)
	case l == cpu.AVX2:
		winogradOutput2AVX2(src, dst, bias, add, row, addRow, xi, n, lo, hi)
	default:
		winogradOutputGeneric(m, src, dst, bias, add, row, addRow, xi, n, lo, hi)
	}
}

func runAffine(l cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	const most = 1 << 10 // pixels per call
	if l != cpu.AVX512 && l != cpu.AVX2 {
		affineGeneric(dst, x, scale, shift, lo, hi)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst)/Lanes, most)
		if l == cpu.AVX512 {
			affineAVX512(&dst[0], &x[0], &scale[0], &shift[0], n, lo, hi)
		} else {
			affineAVX2(&dst[0], &x[0], &scale[0], &shift[0], n, lo, hi)
		}
		dst, x = dst[n*Lanes:], x[n*Lanes:]
	}
}

func runByteTile(l cpu.Level, pixels int, t *byteTile) {
	if cpu.VNNI(l) && !t.signed {
		byteTileAVX512(pixels, t)
		return
	}
	byteTileGeneric(pixels, t)
}

func runChannelTile(l cpu.Level, pixels int, t *channelTile) {
	if cpu.VNNI(l) {
		channelTileAVX512(pixels, t)
		return
	}
	channelTileGeneric(pixels, t)
}

// hasWindowTiles reports whether level l has tiles of depthwise 3×3 convolutions with the channels
// innermost.
func hasWindowTiles(l cpu.Level) bool { return cpu.VNNI(l) }

func runWindowTile(l cpu.Level, channels, stride int, t *windowTile) {
	if cpu.VNNI(l) {
		windowTileAVX512(channels, stride, t)
		return
	}
	windowTileGeneric(channels, stride, t)
}

func runPlaneTile(l cpu.Level, rows, stride int, t *planeTile) {
	switch {
	case cpu.VNNI(l) && stride == 1:
		planeTile1AVX512(rows, t)
	case cpu.VNNI(l) && stride == 2:
		planeTile2AVX512(rows, t)
	default:
		planeTileGeneric(rows, stride, t)
	}
}

func runPlanar(l cpu.Level, k int, t *planarTile) {
	half := t.outRow <= 32
	switch {
	case l == cpu.AVX512 && k == 3 && half:
		planar3HalfAVX512(t)
	case l == cpu.AVX512 && k == 5 && half:
		planar5HalfAVX512(t)
	case l == cpu.AVX512 && k == 3:
		planar3AVX512(t)
	case l == cpu.AVX512 && k == 5:
		planar5AVX512(t)
	default:
		planarGeneric(k, t)
	}
}

func runPairs(l cpu.Level, pixels, blocks int, t *tileArgs) {
	switch {
	case cpu.RunsBF16(l) != cpu.BF16Pairs:
		pairTilesGeneric(pixels, blocks, t)
	case blocks == 2:
		pairs2AVX512(pixels, t)
	default:
		pairs1AVX512(pixels, t)
	}
}

func roundOctets(l cpu.Level, dst []uint16, x []float32, n, step, next int, mask uint32) {
	if cpu.RunsBF16(l) == cpu.BF16Pairs {
		octetsBF16AVX512(&dst[0], &x[0], n, step*4, next*2, mask)
		return
	}
	roundOctetsGeneric(dst, x, n, step, next, mask)
}
