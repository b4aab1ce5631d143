//go:build unix

package preset_test

import "syscall"

func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }
