//go:build !amd64 || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func wideF(cpu.Level, []float64, []float64, []float64, int, int, int, int, int, int, int) (int, int) {
	return 0, 0
}

func wideI(cpu.Level, []int32, []int32, []int32, int, int, int, int, int, int, int) (int, int) {
	return 0, 0
}
