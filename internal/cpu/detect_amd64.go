//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

var hasVNNI = cpu.X86.HasAVX512VNNI

const hasDotProduct, hasInt8Matrix = false, false

func detect() Level {
	x := &cpu.X86
	switch {
	// golang.org/x/sys/cpu clears these flags if the operating system does not save the registers.
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2:
		return Generic
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512CD:
		return AVX512
	}
	return AVX2
}
