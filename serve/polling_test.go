package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPollingEqualSizesAndTimes replaces files by others of the same size and time of change, as
// copies that keep times and reproducible builds have them. The model is the one that is there.
func TestPollingEqualSizesAndTimes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the time of a change of the inode is not read")
	}
	made := time.Now().Add(-time.Hour)
	dir, repo := t.TempDir(), t.TempDir()
	files := [2]string{filepath.Join(dir, "1/1/model.onnx"), filepath.Join(dir, "2/1/model.onnx")}
	for i, file := range files {
		write(t, file, scaled(t, float32(i+1)))
	}
	for i := range files { // changed in the same tick
		folder := filepath.Join(dir, fmt.Sprint(i+1))
		for _, path := range []string{files[i], filepath.Dir(files[i]), folder} {
			if err := os.Chtimes(path, made, made); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(i int) {
		next := filepath.Join(repo, ".next")
		err := errors.Join(os.Symlink(filepath.Join(dir, fmt.Sprint(i+1)), next),
			os.Rename(next, filepath.Join(repo, "link")), os.CopyFS(next, os.DirFS(filepath.Dir(files[i]))),
			os.Chtimes(filepath.Join(next, "model.onnx"), made, made),
			os.Rename(filepath.Join(next, "model.onnx"), filepath.Join(repo, "file.onnx")), os.RemoveAll(next))
		if err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	s := newServer(t, repo, nil)
	for n := range 6 {
		time.Sleep(50 * time.Millisecond) // the clock of files ticks every 10 ms at least
		put(n % 2)
		if err := s.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{"file", "link"} {
			w := call(s, "POST", "/v2/models/"+model+"/infer", []byte(fp32("[1,2]", "[1,1]")))
			if want := fmt.Sprintf(`"data":[%d,%d]`, n%2+1, n%2+1); !strings.Contains(w.Body.String(), want) {
				t.Fatalf("change %d of %s: %s, want %s", n, model, w.Body, want)
			}
		}
	}
}
