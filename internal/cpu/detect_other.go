//go:build purego || !(amd64 || arm64)

package cpu

func detect() Level { return Generic }

const hasVNNI, hasDotProduct = false, false
