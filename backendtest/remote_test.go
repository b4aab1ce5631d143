package backendtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

type tarFile struct {
	name string
	kind byte
	data []byte
}

func tarGz(t *testing.T, files ...tarFile) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Size: int64(len(f.data)), Mode: 0o644}
		if f.kind == tar.TypeSymlink {
			h.Linkname = "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// remoteSuite is a data folder with one case whose model must be downloaded.
func remoteSuite(t *testing.T, url string) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real", "test_far", "data.json"), []byte(`{"url":"`+url+`","model_name":"far"}`), nil)
	return dir
}

func absArchive(t *testing.T) []byte {
	model, err := unary(t, "Abs").Marshal()
	if err != nil {
		t.Fatal(err)
	}
	in, err := onnx.MarshalValue(vector(-1, 2))
	if err != nil {
		t.Fatal(err)
	}
	out, err := onnx.MarshalValue(vector(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	return tarGz(t, tarFile{"far/", tar.TypeDir, nil}, tarFile{"far/model.onnx", tar.TypeReg, model},
		tarFile{"far/test_data_set_0/input_0.pb", tar.TypeReg, in},
		tarFile{"far/test_data_set_0/output_0.pb", tar.TypeReg, out})
}

func quick(t *testing.T) {
	old := retryAfter
	retryAfter = func(int) time.Duration { return 0 }
	t.Cleanup(func() { retryAfter = old })
}

func TestRemoteModel(t *testing.T) {
	quick(t)
	archive := absArchive(t)
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < 3 {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		w.Write(archive)
	}))
	defer srv.Close()
	dir, cache := remoteSuite(t, srv.URL+"/far.tar.gz"), t.TempDir()
	t.Setenv("ONNX_MODELS", cache)
	// Without Fetch nothing is downloaded.
	res := run(t, newRunner(t, backend.CPU, Options{Dir: dir, Devices: []string{"CPU"}}))["test_far_cpu"]
	if res.Status != Skipped || !strings.Contains(res.Reason, "without Options.Fetch it is not downloaded") ||
		requests.Load() != 0 {
		t.Errorf("offline: %s, %d requests", res.text(), requests.Load())
	}
	// A folder without a model is renamed. The third attempt succeeds.
	write(t, filepath.Join(cache, "far", "half.onnx"), nil, nil)
	o := Options{Dir: dir, Devices: []string{"CPU"}, Fetch: fetch}
	res = run(t, newRunner(t, backend.CPU, o))["test_far_cpu"]
	if res.Status != Passed || requests.Load() != 3 {
		t.Fatalf("download: %s, %d requests", res.text(), requests.Load())
	}
	if _, err := os.Stat(filepath.Join(cache, "far.old.0", "half.onnx")); err != nil {
		t.Error(err)
	}
	// The second run finds the model in the cache.
	res = run(t, newRunner(t, backend.CPU, o))["test_far_cpu"]
	if res.Status != Passed || requests.Load() != 3 {
		t.Errorf("cache: %s, %d requests", res.text(), requests.Load())
	}
}

func fetch(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return resp.Body, nil
}

func TestRemoteGivesUpAfterThreeTries(t *testing.T) {
	quick(t)
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.NotFound(w, nil)
	}))
	defer srv.Close()
	o := Options{Dir: remoteSuite(t, srv.URL), Devices: []string{"CPU"}, Fetch: fetch, CacheDir: t.TempDir()}
	res := run(t, newRunner(t, backend.CPU, o))["test_far_cpu"]
	if res.Status != Failed || requests.Load() != 3 || !strings.Contains(res.text(), "404") {
		t.Errorf("%s after %d requests", res.text(), requests.Load())
	}
}

func TestHostileArchives(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"parent":   {tarGz(t, tarFile{"../evil", tar.TypeReg, []byte("x")}), "points outside"},
		"absolute": {tarGz(t, tarFile{"/evil", tar.TypeReg, []byte("x")}), "points outside"},
		"symlink":  {tarGz(t, tarFile{"evil", tar.TypeSymlink, nil}), "neither a file nor a folder"},
		"device":   {tarGz(t, tarFile{"evil", tar.TypeChar, nil}), "neither a file nor a folder"},
		"garbage":  {[]byte("no archive at all, but long enough to be one"), "archive"},
		"cut":      {absArchive(t)[:40], "archive"},
	} {
		dir := t.TempDir()
		if err := unpack(bytes.NewReader(c.data), filepath.Join(dir)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want …%s…", name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "evil")); err == nil {
			t.Errorf("%s: wrote outside of the folder", name)
		}
	}
}

func TestModelsDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, c := range []struct{ models, onnxHome, option, want string }{
		{"", "", "", filepath.Join(home, ".onnx", "models")},
		{"", "/h", "", filepath.Join("/h", "models")},
		{"", "~/o", "", filepath.Join(home, "o", "models")},
		{"/m", "/h", "", "/m"},
		{"/m", "/h", "/c", "/c"},
	} {
		t.Setenv("ONNX_MODELS", c.models)
		t.Setenv("ONNX_HOME", c.onnxHome)
		r := &Runner{opts: Options{CacheDir: c.option}}
		if got, err := r.modelsDir(); err != nil || got != c.want {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}
