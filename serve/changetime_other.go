//go:build !linux

package serve

import (
	"io/fs"
	"time"
)

// changeTime returns when a file's data was changed last.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
