package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGroupLimit(t *testing.T) {
	for _, c := range []struct {
		name, groups string
		files        map[string]string
		want         int64
	}{
		{"version 2", "0::/a/b\n", map[string]string{"a/memory.max": "1000\n", "a/b/memory.max": "max\n"}, 1000},
		{"the least of nested groups", "0::/a/b\n", map[string]string{"a/memory.max": "9\n", "a/b/memory.max": "7\n"}, 7},
		{"mounted as the root", "0::/gone\n", map[string]string{"memory.max": "5\n"}, 5},
		{"version 1", "3:cpu:/x\n2:memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "12\n"}, 12},
		{"no limit", "0::/\n", map[string]string{"memory.max": "max\n"}, 0},
		{"no groups", "", map[string]string{}, 0},
		{"not a group file", "a\n:\n0::/../..\n", map[string]string{"memory.max": "-3\n"}, 0},
	} {
		root := t.TempDir()
		groups := filepath.Join(root, "cgroup")
		c.files["cgroup"] = c.groups
		for name, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := groupLimit(groups, root); got != c.want {
			t.Errorf("%s: limit %d, want %d", c.name, got, c.want)
		}
	}
}
