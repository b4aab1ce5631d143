//go:build !purego

package cpu

import "golang.org/x/sys/windows"

// Windows 11, version 24H2, and later report these features
// (https://learn.microsoft.com/en-us/windows/win32/api/processthreadsapi/nf-processthreadsapi-isprocessorfeaturepresent).

func systemInt8Matrix() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
}

func systemBF16() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE)
}
