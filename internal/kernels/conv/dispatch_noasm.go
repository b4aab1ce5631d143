//go:build !amd64 || purego

package conv

import "github.com/onward-ml/onward/internal/cpu"

func runTile(_ cpu.Level, pixels, blocks int, t *tileArgs)   { tileGeneric(pixels, blocks, Lanes, t) }
func runStem(_ cpu.Level, pixels, blocks int, t *tileArgs)   { tileGeneric(pixels, blocks, 1, t) }
func runGather(_ cpu.Level, pixels, blocks int, t *tileArgs) { tileGeneric(pixels, blocks, 0, t) }
func runDepthwise(_ cpu.Level, pixels int, t *tileArgs)      { depthwiseGeneric(pixels, t) }
func runMaximum(_ cpu.Level, pixels int, t *tileArgs)        { maximumGeneric(pixels, t) }
func runSum(_ cpu.Level, pixels int, t *tileArgs)            { sumGeneric(pixels, t) }

func winogradFilter(_ cpu.Level, m int, src, dst *float32, xi, n int) {
	winogradFilterGeneric(m, src, dst, xi, n)
}

func winogradInput(_ cpu.Level, m int, src, dst *float32, row, xi, n int) {
	winogradInputGeneric(m, src, dst, row, xi, n)
}

func winogradOutput(_ cpu.Level, m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	winogradOutputGeneric(m, src, dst, bias, add, row, addRow, xi, n, lo, hi)
}

func runAffine(_ cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	affineGeneric(dst, x, scale, shift, lo, hi)
}
func runByteTile(_ cpu.Level, pixels int, t *byteTile) { byteTileGeneric(pixels, t) }

func runPlaneTile(_ cpu.Level, rows, stride int, t *planeTile) { planeTileGeneric(rows, stride, t) }

func runPlanar(_ cpu.Level, k int, t *planarTile) { planarGeneric(k, t) }
