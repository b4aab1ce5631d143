package cpu

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Quota reports whether a control group limits the processor time of this process, as CPU limits of
// containers do (Linux). Threads that wait for work actively use up the limit.
var Quota = sync.OnceValue(func() bool { return quota(os.DirFS("/")) })

// quota reads the limits of the process's control groups and of those above them, of version 2
// (https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max) and 1
// (https://docs.kernel.org/scheduler/sched-bwc.html). In a container, the path of the group may be
// that on the host, and only the root is mounted.
func quota(root fs.FS) bool {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(groups)) { // hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		mounts, file := []string{"", "unified"}, "cpu.max"
		if controllers := parts[1]; controllers != "" {
			if !slices.Contains(strings.Split(controllers, ","), "cpu") {
				continue
			}
			mounts, file = []string{"cpu", controllers}, "cpu.cfs_quota_us"
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			for _, m := range mounts {
				b, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", m, group, file))
				if limit, _, _ := strings.Cut(strings.TrimSpace(string(b)), " "); err == nil {
					if n, err := strconv.ParseInt(limit, 10, 64); err == nil && n > 0 {
						return true
					}
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return false
}
