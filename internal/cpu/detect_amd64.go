//go:build !purego

package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
)

var hasVNNI, hasVBMI = cpu.X86.HasAVX512VNNI, cpu.X86.HasAVX512VBMI

const hasDotProduct, hasInt8Matrix, hasMatrixBF16 = false, false, false

// vendor returns the first four of the twelve letters of the processor's vendor (CPUID, leaf 0).
func vendor() uint32

var hasDotBF16 = sync.OnceValue(func() bool {
	const amd = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24 // AuthenticAMD
	return detect() == AVX512 && cpu.X86.HasAVX512BF16 && vendor() == amd
})

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
