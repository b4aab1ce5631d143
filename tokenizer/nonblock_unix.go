//go:build unix

package tokenizer

import "syscall"

const nonblock = syscall.O_NONBLOCK
