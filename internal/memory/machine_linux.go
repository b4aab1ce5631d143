package memory

import (
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// machine returns the memory that the process may use: that of the machine, or the limit of its
// control group if that is less.
func machine() int64 {
	var si syscall.Sysinfo_t
	if syscall.Sysinfo(&si) != nil {
		return 0
	}
	n := int64(si.Totalram) * int64(si.Unit)
	if limit := groupLimit("/proc/self/cgroup", "/sys/fs/cgroup"); limit > 0 {
		n = min(n, limit)
	}
	return n
}

// groupLimit returns the least memory limit of the control groups of the process, of version 2 or
// 1, 0 if there is none. In a container, the group is often the root of what is mounted.
func groupLimit(groups, root string) int64 {
	data, _ := os.ReadFile(groups)
	least := int64(0)
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		dir, file := root, "memory.max" // version 2 has no controllers in the line
		if parts[1] != "" {
			if dir, file = path.Join(root, "memory"), "memory.limit_in_bytes"; parts[1] != "memory" {
				continue
			}
		}
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			text, _ := os.ReadFile(path.Join(dir, group, file))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no limit
			if err == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
