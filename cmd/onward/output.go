package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
)

// standardOutput is the standard output of the verbs, which need not check their writes: run fails
// if one has failed.
type standardOutput struct {
	w      io.Writer
	failed atomic.Pointer[error] // of the first write that failed
}

// Write implements io.Writer.
func (o *standardOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = fmt.Errorf("standard output: %w", err)
		if !closedPipe(err) {
			o.failed.CompareAndSwap(nil, &err)
		}
	}
	return n, err
}

// Stat implements the interface by which package progress finds terminals.
func (o *standardOutput) Stat() (os.FileInfo, error) {
	if f, ok := o.w.(*os.File); ok {
		return f.Stat()
	}
	return nil, errors.ErrUnsupported
}

// closedPipe reports whether a write failed because the reader of a pipe has ended, as head does:
// it has read what it wants. On Unix, SIGPIPE ends the process first; on Windows, the write fails
// with ERROR_BROKEN_PIPE or ERROR_NO_DATA.
func closedPipe(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n) && (n == syscall.EPIPE || runtime.GOOS == "windows" && (n == 109 || n == 232))
}
