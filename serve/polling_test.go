package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
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
	for n := range 20 { // often twice within a tick of the clock of files
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

// TestSignaturesAreOlderThanATick checks that no change after a signature can have the time of one
// before it.
func TestSignaturesAreOlderThanATick(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 10 {
		write(t, path, []byte("content"))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		signature(path)
		if age := time.Since(changeTime(info)); age < clockTick {
			t.Errorf("the signature is made %s after the change, want %s or more", age, clockTick)
		}
	}
}

// TestSignaturesOfLinks checks that a link which is made again, with the target that it had,
// changes the signature: a load that began and ended at that target may have read files of another.
func TestSignaturesOfLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/1/model.onnx"), scaled(t, 1))
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other") // a link to a file behind the link, as in volumes of Kubernetes
	if err := os.Symlink("link/1/../1/model.onnx", other); err != nil {
		t.Fatal(err)
	}
	paths := []string{link, filepath.Join(link, "1"), filepath.Join(link, "1/model.onnx"), other}
	before := make([]string, len(paths))
	for i, p := range paths {
		before[i] = signature(p)
		if signature(p) != before[i] {
			t.Errorf("%s: the signature changes without a change", p)
		}
	}
	if err := errors.Join(os.Remove(link), os.Symlink("a", link)); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		if signature(p) == before[i] {
			t.Errorf("%s: the signature with a link that is made again is that of the old one", p)
		}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	signature(filepath.Join(dir, "loop"))
}

// TestPollingOtherFiles changes files of models that are not in the folder of a version.
func TestPollingOtherFiles(t *testing.T) {
	external := func(file string) []byte {
		b := onnx.NewModel("external").Opset("", 17).IRVersion(8)
		b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
		b.Initializer("w", &onnx.Tensor{DataType: onnx.Float, Dims: []int64{1}, DataLocation: onnx.LocationExternal,
			ExternalData: []onnx.StringStringEntry{{Key: "location", Value: file}}})
		b.Node("Mul", []string{"x", "w"}, []string{"y"})
		return modelBytes(t, b)
	}
	number := func(x float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)) }
	const config = `max_batch_size: 4 sequence_batching { state { input_name: "TOTAL" output_name: "NEXT"
		initial_state { data_file: "total" } } }`
	repo := writeRepo(t, map[string][]byte{"folder/model.onnx": external("w"), "file.onnx": external("file.onnx.data"),
		"labels/model.onnx": scaled(t, 1), "labels/config.pbtxt": []byte(`output { name: "y" label_filename: "l" }`),
		"states/1/model.onnx": accumulator(t), "states/config.pbtxt": []byte(config)})
	other := t.TempDir()
	write(t, filepath.Join(other, "1/model.onnx"), scaled(t, 3))
	put := func(n float32) {
		write(t, filepath.Join(repo, "folder/w"), number(n))
		write(t, filepath.Join(repo, "file.onnx.data"), number(n))
		write(t, filepath.Join(repo, "labels/l"), fmt.Appendf(nil, "%v\n%v\n", n, n))
		write(t, filepath.Join(repo, "states/initial_state/total"), binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	put(5)
	link := filepath.Join(repo, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, repo, nil)
	answer := func(model, body, want string) {
		t.Helper()
		w := call(s, "POST", "/v2/models/"+model+"/infer", []byte(body))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", model, w.Code, w.Body, want)
		}
	}
	answers := func(n int) {
		t.Helper()
		answer("folder", fp32("[1,2]", "[1,1]"), fmt.Sprintf(`"data":[%d,%d]`, n, n))
		answer("file", fp32("[1,2]", "[1,1]"), fmt.Sprintf(`"data":[%d,%d]`, n, n))
		answer("labels", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,1]}],`+
			`"outputs":[{"name":"y","parameters":{"classification":1}}]}`, fmt.Sprintf(`:%d"`, n))
		answer("states", `{"parameters":{"sequence_id":1,"sequence_start":true,"sequence_end":true},`+
			`"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[1]}]}`, fmt.Sprintf(`"data":[%d]`, n+1))
	}
	poll := func() {
		t.Helper()
		if err := s.Poll(t.Context()); err != nil {
			t.Error(err)
		}
	}
	answers(5)
	put(7)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	poll()
	answers(7)
	answer("link", fp32("[1,2]", "[1,1]"), "is not found")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	poll()
	answer("link", fp32("[1,2]", "[1,1]"), `"data":[3,3]`)
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

// compilingSession returns the options of sessions that call a function before they compile.
func compilingSession(call func()) onward.SessionOptions {
	p, ok := driver.Lookup("test:compiling").(*compiling)
	if !ok {
		p = &compiling{Provider: driver.Lookup("cpu")}
		driver.Register(p)
	}
	p.call = call
	return onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "test:compiling"}}}
}

// TestLoadsThatPanic loads a model whose compilation panics, at the start, by polling and by a
// request. Each fails, and the models that are served go on.
func TestLoadsThatPanic(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"bad/1/model.onnx": scaled(t, 1), "good/1/model.onnx": scaled(t, 2)})
	compiled := 0
	session := compilingSession(func() {
		if compiled++; compiled != 2 { // "bad" comes first
			panic("broken compiler")
		}
	})
	const want = "failed to load 'bad': version 1: internal error"
	s := newServer(t, repo, &Options{Session: session, KeepGoing: true, AllowModelControl: true})
	write(t, filepath.Join(repo, "bad/1/model.onnx"), scaled(t, 3))
	if err := s.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("poll: error %v, want %s", err, want)
	}
	w := call(s, "POST", "/v2/repository/models/bad/load", nil)
	if w.Code != 500 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("load: %d %s, want 500 and %s", w.Code, w.Body, want)
	}
	if w := call(s, "POST", "/v2/repository/index", nil); !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("index %s lacks the error", w.Body)
	}
	if w := call(s, "POST", "/v2/models/good/infer", []byte(fp32("[1,2]", "[1,1]"))); w.Code != 200 || compiled != 4 {
		t.Errorf("the other model: %d %s after %d compilations, want 200 after 4", w.Code, w.Body, compiled)
	}
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
	session := compilingSession(func() {
		if changes--; changes >= 0 {
			put()
		}
	})
	put()
	s := newServer(t, repo, &Options{Session: session})
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
