//go:build !purego

package cpu

// Every arm64 machine has Advanced SIMD.
func detect() Level { return NEON }

const hasVNNI = false
