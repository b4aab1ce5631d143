package tables

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const openFlags = 0

// lock locks a byte far behind the end of a file until it is closed. It fails with errBusy if
// another handle has the lock. A file system without locks is no error.
func lock(f *os.File) error {
	const exclusive, failImmediately = 2, 1
	at := syscall.Overlapped{OffsetHigh: 1 << 30}
	ok, _, err := lockFileEx.Call(f.Fd(), exclusive|failImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	if ok == 0 && errors.Is(err, syscall.Errno(33)) { // ERROR_LOCK_VIOLATION
		return errBusy
	}
	return nil
}
