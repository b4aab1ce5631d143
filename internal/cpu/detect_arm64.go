//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

// Every arm64 machine has Advanced SIMD.
func detect() Level { return NEON }

const hasVNNI, hasVBMI = false, false

func hasDotBF16() bool { return false }

// On Linux the flag comes from the auxiliary vector, on macOS from sysctl
// hw.optional.arm.FEAT_DotProd, on Windows from IsProcessorFeaturePresent.
var hasDotProduct = cpu.ARM64.HasASIMDDP

// golang.org/x/sys/cpu reports FEAT_I8MM on Linux and macOS, and FEAT_BF16 nowhere.
var hasInt8Matrix, hasMatrixBF16 = cpu.ARM64.HasI8MM || systemInt8Matrix(), systemBF16()
