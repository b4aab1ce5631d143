//go:build !purego

package cpu

import "golang.org/x/sys/unix"

func systemInt8Matrix() bool { return false }

// systemBF16 reads the auxiliary vector (https://docs.kernel.org/arch/arm64/elf_hwcaps.html).
func systemBF16() bool {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	entries, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e[0] == hwcap2 {
			return e[1]&bf16 != 0
		}
	}
	return false
}
