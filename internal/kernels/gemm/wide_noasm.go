//go:build !amd64 || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

var wideF, wideI, wideL = noWide[float64], noWide[int32], noWide[int64]

func noWide[T Number](cpu.Level, []T, []T, []T, int, int, int, int, int, int, int) (int, int) {
	return 0, 0
}
