package ortlib

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zipOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for _, name := range names {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpackBuild(t *testing.T) {
	main := GPU.from + GPU.main
	part := GPU.from + "libonnxruntime_providers_cuda.so"
	dir := t.TempDir()
	wheel := zipOf(t, main, part, GPU.from+"onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so",
		GPU.from+"__init__.py", GPU.from+"../../evil.so", "onnxruntime/other.so")
	if err := GPU.unpack(wheel, dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("unpacked %v, %v, want 2 libraries", files, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, GPU.main)); err != nil || string(b) != main {
		t.Errorf("%s holds %q, %v", GPU.main, b, err)
	}
	if err := GPU.unpack(zipOf(t, part), t.TempDir()); err == nil || !strings.Contains(err.Error(), GPU.main) {
		t.Errorf("a wheel without %s: %v", GPU.main, err)
	}
}
