//go:build !amd64 || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func f32(_ cpu.Level, a *Args[float32], blk Block, scratch []float32) { Generic(a, blk, scratch) }
