//go:build unix

package backend_test

import "syscall"

func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }
