package tables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIrregularFiles reads and writes devices and folders. None is replaced, and none is an empty
// table.
func TestIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	device := filepath.Join(dir, "device.csv")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{device, dir} {
		if _, err := open(path, CSV, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("read %s: error %v, want that it is not a regular file", path, err)
		}
		p, _, _, err := startFile(path, "job", false)
		if want := map[string]string{device: "not a regular file", dir: "is a folder"}[path]; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("write %s: error %v, want %q", path, err, want)
		}
		if p != nil {
			p.f.Close()
		}
	}
}
