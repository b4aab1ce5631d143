//go:build !unix && !windows

package tables

import "os"

const openFlags = 0

// lock does nothing: the system has no locks.
func lock(*os.File) error { return nil }
