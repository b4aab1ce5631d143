package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
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

// TestPollingWithoutMemory changes a model while the memory of all requests is in use. It is loaded
// by a later poll, without another change.
func TestPollingWithoutMemory(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo, &Options{TotalMemory: 32 << 20})
	n := s.memory.Limit() - s.memory.Used()
	if err := s.memory.Reserve(n); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(repo, "m/1/model.onnx"), scaled(t, 7))
	if err := s.Poll(t.Context()); !errors.Is(err, onward.ErrMemoryBudget) {
		t.Errorf("a poll without memory: error %v, want ErrMemoryBudget", err)
	}
	s.memory.Release(n)
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,1]")))
	if !strings.Contains(w.Body.String(), `"data":[7,7]`) {
		t.Errorf("with memory again: %s, want [7,7]", w.Body)
	}
}

// compiling is the provider cpu, and calls a function before it compiles a model.
type compiling struct {
	driver.Provider
	call func()
}

func (compiling) Name() string { return "test:compiling" }

func (p *compiling) Compile(ctx context.Context, m *driver.Model, o *driver.Options,
	c driver.Config) (driver.Engine, error) {
	p.call()
	c.Name = "cpu"
	return p.Provider.Compile(ctx, m, o, c)
}

// TestFilesThatChangeDuringALoad replaces the folder of a model while the model is compiled, after
// its configuration has been read and before its labels. No answer is of both folders.
func TestFilesThatChangeDuringALoad(t *testing.T) {
	dir, repo := t.TempDir(), t.TempDir()
	for i := range 16 {
		folder := filepath.Join(dir, fmt.Sprint(i))
		write(t, filepath.Join(folder, "1/model.onnx"), scaled(t, float32(i+1)))
		write(t, filepath.Join(folder, "labels.txt"), fmt.Appendf(nil, "label %d\nlabel %d\n", i+1, i+1))
		write(t, filepath.Join(folder, "config.pbtxt"), []byte(`output { name: "y" label_filename: "labels.txt" }`))
	}
	n, changes := 0, 0
	put := func() {
		next := filepath.Join(repo, ".next")
		if err := errors.Join(os.Symlink(filepath.Join(dir, fmt.Sprint(n)), next),
			os.Rename(next, filepath.Join(repo, "m"))); err != nil {
			t.Error(err)
		}
		n++
	}
	p, ok := driver.Lookup("test:compiling").(*compiling)
	if !ok {
		p = &compiling{Provider: driver.Lookup("cpu")}
		driver.Register(p)
	}
	p.call = func() {
		if changes--; changes >= 0 {
			put()
		}
	}
	put()
	s := newServer(t, repo, &Options{Session: onward.SessionOptions{
		Providers: []onward.ProviderConfig{{Name: "test:compiling"}}}})
	answer := func(want int) {
		t.Helper()
		w := call(s, "POST", "/v2/models/m/infer", []byte(`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32",`+
			`"data":[1,1]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`))
		if y := fmt.Sprintf("%d.000000:0:label %d", want, want); !strings.Contains(w.Body.String(), y) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, y)
		}
	}
	answer(1)
	put()
	changes = 1
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	answer(n)
	served := n
	put()
	changes = maxTries + 1
	if err := s.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "changed 5 times") {
		t.Errorf("files that change in each load: %v", err)
	}
	answer(served)
	changes = 0
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	answer(n)
}
