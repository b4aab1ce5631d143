package serve

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a file's data or inode was changed last. Programs that copy files can set
// the time of the data, but not this one.
func changeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}
