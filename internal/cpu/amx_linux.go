//go:build amd64 && !purego

package cpu

import (
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"
)

// hasAMX asks the kernel for permission to use the tile registers, which grow the state of each
// thread by 8 KiB (https://docs.kernel.org/arch/x86/xstate.html).
var hasAMX = sync.OnceValue(func() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	if !hasVNNI || !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		return false
	}
	_, _, e := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return e == 0
})

func hasAMXBF16() bool { return cpu.X86.HasAMXBF16 && hasAMX() }
