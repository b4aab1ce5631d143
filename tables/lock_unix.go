//go:build unix

package tables

import (
	"errors"
	"os"
	"syscall"
)

// openFlags are those for a file that must be neither a link nor a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// lock locks a file until it is closed. It fails with errBusy if another open file has the lock. A
// file system without locks is no error.
func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errBusy
	}
	return nil
}
