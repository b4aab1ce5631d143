package ortlib

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func jarOf(t *testing.T, names ...string) []byte {
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

func TestUnpackJar(t *testing.T) {
	var names []string
	for _, p := range gpuParts {
		names = append(names, inJar+p)
	}
	more := append(names, inJar+"libonnxruntime4j_jni.so", "ai/onnxruntime/native/win-x64/onnxruntime.dll", inJar+"../../evil.so", "META-INF/MANIFEST.MF")
	dir := t.TempDir()
	if err := unpackJar(jarOf(t, more...), dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != len(gpuParts) {
		t.Errorf("unpacked %v, %v, want %v", files, err, gpuParts)
	}
	b, err := os.ReadFile(filepath.Join(dir, gpuParts[2]))
	if err != nil || string(b) != inJar+gpuParts[2] {
		t.Errorf("%s holds %q, %v", gpuParts[2], b, err)
	}
	if err := unpackJar(jarOf(t, names[:3]...), t.TempDir()); err == nil || !strings.Contains(err.Error(), gpuParts[3]) {
		t.Errorf("a jar without %s: %v", gpuParts[3], err)
	}
}

func TestFetchGPURefusesAnotherJar(t *testing.T) {
	t.Setenv(Env, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	jar := filepath.Join(t.TempDir(), "other.jar")
	if err := os.WriteFile(jar, jarOf(t, "x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lib, _, err := FetchGPU(t.Context(), jar); err == nil || (!strings.Contains(err.Error(), "SHA-256") && !strings.Contains(err.Error(), "linux/amd64")) {
		t.Errorf("FetchGPU = %q, %v, want an error about the sum", lib, err)
	}
}
