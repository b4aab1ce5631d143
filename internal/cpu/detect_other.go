//go:build purego || !(amd64 || arm64)

package cpu

func detect() Level { return Generic }

func hasDotBF16() bool { return false }

const hasVNNI, hasVBMI, hasDotProduct, hasInt8Matrix, hasMatrixBF16 = false, false, false, false, false
