//go:build !purego

package cpu

import "golang.org/x/sys/unix"

func systemInt8Matrix() bool { return false }

// systemBF16 asks for a feature by name
// (https://developer.apple.com/documentation/kernel/1387446-sysctlbyname/determining_instruction_set_characteristics).
func systemBF16() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v != 0
}
