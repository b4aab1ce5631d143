//go:build (!amd64 && !arm64) || purego

package conv

import "github.com/onward-ml/onward/internal/cpu"

func runTile(_ cpu.Level, pixels, blocks int, t *tileArgs)     { tileGeneric(pixels, blocks, Lanes, t) }
func runNCHW(_ cpu.Level, pixels, blocks int, t *tileArgs)     { tileGeneric(pixels, blocks, 1, t) }
func runPermuted(_ cpu.Level, pixels, blocks int, t *tileArgs) { tileGeneric(pixels, blocks, 0, t) }

func runByteTile(_ cpu.Level, pixels int, t *byteTile) { byteTileGeneric(pixels, t) }

func runChannelTile(_ cpu.Level, pixels int, t *channelTile) { channelTileGeneric(pixels, t) }

func runDepthwise(_ cpu.Level, pixels int, t *tileArgs) {
	for i := range t.times {
		u := t.nth(i)
		depthwiseGeneric(pixels, &u)
	}
}

func runMaximum(_ cpu.Level, pixels int, t *tileArgs) { maximumGeneric(pixels, t) }
func runSum(_ cpu.Level, pixels int, t *tileArgs)     { sumGeneric(pixels, t) }

func runAffine(_ cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	affineGeneric(dst, x, scale, shift, lo, hi)
}

func hasWindowTiles(cpu.Level) bool { return false }

func runWindowTile(_ cpu.Level, channels, stride int, t *windowTile) {
	windowTileGeneric(channels, stride, t)
}

func winogradInput(_ cpu.Level, m int, src, dst *float32, row, xi, n int) {
	winogradInputGeneric(m, src, dst, row, xi, n)
}

func winogradOutput(_ cpu.Level, m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	winogradOutputGeneric(m, src, dst, bias, add, row, addRow, xi, n, lo, hi)
}
