//go:build (!amd64 && !arm64) || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func tileAsm(cpu.Level, *tile[float32]) bool { return false }

func hasVector(cpu.Level) bool { return false }

func vectorAsm(cpu.Level, *Args[float32], Block) bool { return false }

// DotHeads is not called: [HasHeads] returns false.
func DotHeads(cpu.Level, int, []float32, int, []float32, int, HeadRows, int, int) {}

// AddHeads is not called: [HasHeads] returns false.
func AddHeads(cpu.Level, int, []float32, int, []float32, int, HeadRows, int, int) {}

func columnsAsm(cpu.Level, []float32, []float32, []float32, int) int { return 0 }

func fewRows(cpu.Level, *Args[float32], Block) bool { return false }
