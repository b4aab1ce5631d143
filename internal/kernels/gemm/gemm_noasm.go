//go:build (!amd64 && !arm64) || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func tileAsm(cpu.Level, *tile[float32]) bool { return false }

func hasVector(cpu.Level) bool { return false }

func vectorAsm(cpu.Level, *Args[float32], Block) bool { return false }

// AddsRow returns false: see [AddRow].
func AddsRow(cpu.Level, int) bool { return false }

// AddRow returns false: there is no kernel for it.
func AddRow(cpu.Level, []float32, []float32, []float32, int) bool { return false }

func columnsAsm(cpu.Level, []float32, []float32, []float32, int) int { return 0 }

func fewRows(cpu.Level, *Args[float32], Block) bool { return false }
