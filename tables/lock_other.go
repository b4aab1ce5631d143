//go:build !unix && !windows

package tables

import "os"

// lock does nothing: the system has no locks.
func lock(*os.File) error { return nil }
