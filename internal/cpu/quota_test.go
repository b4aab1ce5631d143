package cpu

import (
	"testing"
	"testing/fstest"
)

func TestQuota(t *testing.T) {
	const cgroup = "proc/self/cgroup"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no control groups":   {nil, false},
		"container":           {map[string]string{cgroup: "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, true},
		"container, no limit": {map[string]string{cgroup: "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, false},
		"limit of a parent": {map[string]string{cgroup: "0::/a.slice/b.scope\n",
			"sys/fs/cgroup/a.slice/b.scope/cpu.max": "max 100000\n", "sys/fs/cgroup/a.slice/cpu.max": "50000 100000\n"}, true},
		"limit of another group": {map[string]string{cgroup: "0::/a\n", "sys/fs/cgroup/b/cpu.max": "50000 100000\n"}, false},
		"version 1": {map[string]string{cgroup: "4:memory:/x\n3:cpu,cpuacct:/docker/1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n"}, true},
		"version 1, no limit": {map[string]string{cgroup: "3:cpu:/docker/1\n",
			"sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us": "-1\n"}, false},
		"unreadable": {map[string]string{cgroup: "0\n::\n0::../..\n", "sys/fs/cgroup/cpu.max": ""}, false},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := quota(root); got != c.want {
			t.Errorf("%s: quota is %t, want %t", name, got, c.want)
		}
	}
}
