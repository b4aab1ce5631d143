package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// externalModel writes a model of one uint8 initializer with the external_data pairs, and returns
// the model as read from dir/model.onnx.
func externalModel(t testing.TB, path string, n int64, pairs ...string) *Model {
	t.Helper()
	p := &Tensor{Name: "w", DataType: Uint8, Dims: []int64{n}, DataLocation: LocationExternal}
	for i := 0; i < len(pairs); i += 2 {
		p.ExternalData = append(p.ExternalData, StringStringEntry{pairs[i], pairs[i+1]})
	}
	b := NewModel("g")
	b.Input("x", Uint8, n).Output("y", Uint8, n).Initializer("w", p)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	data, err := b.Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readW(m *Model) (*tensor.Tensor, error) { return m.DecodeTensor(m.Graph.Initializers[0]) }

func wantExternalError(t *testing.T, name string, m *Model, want string) {
	t.Helper()
	if _, err := readW(m); !errors.Is(err, ErrExternalData) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: decode gives %v, want ErrExternalData with %q", name, err, want)
	}
	if err := Check(m, nil); !errors.Is(err, ErrExternalData) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: check gives %v, want ErrExternalData with %q", name, err, want)
	}
}

func wantW(t *testing.T, name string, m *Model, want string) {
	t.Helper()
	v, err := readW(m)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if string(v.Bytes()) != want {
		t.Errorf("%s: data is %q, want %q", name, v.Bytes(), want)
	}
	if err := Check(m, nil); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("this system has no symbolic links: %v", err)
	}
}

func TestExternalLocations(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "models")
	write(t, filepath.Join(top, "secret"), "abcd")
	write(t, filepath.Join(dir, "w.bin"), "abcd")
	write(t, filepath.Join(dir, "sub", "w.bin"), "efgh")
	path := filepath.Join(dir, "m.onnx")

	wantW(t, "plain", externalModel(t, path, 4, "location", "w.bin"), "abcd")
	wantW(t, "in a folder", externalModel(t, path, 4, "location", "sub/w.bin"), "efgh")
	wantW(t, "with a dot", externalModel(t, path, 4, "location", "./sub/w.bin"), "efgh")
	for location, want := range map[string]string{
		"":                            "is empty",
		"../secret":                   `".."`,
		"sub/../w.bin":                `".."`,
		"sub/../../secret":            `".."`,
		"..":                          `".."`,
		".":                           "does not name a file",
		"sub":                         "not a regular file",
		"sub/":                        "names a folder",
		filepath.Join(top, "secret"):  "",
		"/etc/passwd":                 "is absolute",
		"//host/share/w":              "is absolute",
		`C:\w.bin`:                    "backslash",
		"C:/w.bin":                    "names a drive",
		"c:w.bin":                     "names a drive",
		`\\host\share\w`:              "backslash",
		`\\?\C:\w`:                    "backslash",
		`..\secret`:                   "backslash",
		"w.bin\x00":                   "NUL",
		"missing.bin":                 "stat missing.bin: no such file",
		strings.Repeat("a/", 3000):    "longer than 4096",
		strings.Repeat("n", 300):      "open",
		"w.bin/w.bin":                 "open",
		"sub/../../models/../secret/": "",
	} {
		if strings.Contains(want, "no such file") && runtime.GOOS == "windows" {
			want = "open"
		}
		wantExternalError(t, fmt.Sprintf("%.40q", location), externalModel(t, path, 4, "location", location), want)
	}
	for _, device := range []string{"/dev/zero", "/dev/stdin"} {
		if _, err := os.Stat(device); err != nil {
			continue
		}
		link := filepath.Join(dir, filepath.Base(device))
		symlink(t, device, link)
		wantExternalError(t, device, externalModel(t, path, 4, "location", filepath.Base(device)), "open")
	}
}

func TestExternalLinks(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "models")
	path := filepath.Join(dir, "m.onnx")
	write(t, filepath.Join(top, "outside", "w.bin"), "evil")
	write(t, filepath.Join(dir, "w.bin"), "abcd")
	symlink(t, "../outside/w.bin", filepath.Join(dir, "final"))
	symlink(t, "../outside", filepath.Join(dir, "parent"))
	symlink(t, filepath.Join(top, "outside", "w.bin"), filepath.Join(dir, "absolute"))
	symlink(t, "w.bin", filepath.Join(dir, "inside"))
	symlink(t, "loop", filepath.Join(dir, "loop"))
	symlink(t, "nowhere", filepath.Join(dir, "dangling"))
	for _, location := range []string{"final", "parent/w.bin", "absolute", "loop", "dangling"} {
		wantExternalError(t, location, externalModel(t, path, 4, "location", location), "open")
	}
	m := externalModel(t, path, 4, "location", "inside")
	wantW(t, "link inside", m, "abcd")
	strict := m.External()
	strict.Strict = true
	if _, err := m.Graph.Initializers[0].Decode(&DecodeOptions{External: strict}); !errors.Is(err, ErrExternalData) ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("strict: %v", err)
	}

	// A parent that is a link into the folder.
	write(t, filepath.Join(dir, "real", "w.bin"), "wxyz")
	symlink(t, "real", filepath.Join(dir, "alias"))
	m = externalModel(t, path, 4, "location", "alias/w.bin")
	wantW(t, "parent link inside", m, "wxyz")
	m.file.strict = true
	wantExternalError(t, "parent link inside, strict", m, "symbolic link")
	m.file.strict = true
	m.Graph.Initializers[0].ExternalData[0].Value = "real/w.bin"
	wantW(t, "no link, strict", m, "wxyz")

	// Hard links: the name is in the folder, the file may be any.
	if err := os.Link(filepath.Join(top, "outside", "w.bin"), filepath.Join(dir, "hard")); err == nil {
		m = externalModel(t, path, 4, "location", "hard")
		wantExternalError(t, "hard link", m, "hard links")
		x := m.External()
		x.AllowHardLinks = true
		if v, err := m.Graph.Initializers[0].Decode(&DecodeOptions{External: x}); err != nil ||
			string(v.Bytes()) != "evil" {
			t.Errorf("AllowHardLinks: %v", err)
		}
	}
}

// This test reads the cache of a model hub: links in one folder, files named by their hash in
// another.
func TestExternalDataInAHubCache(t *testing.T) {
	top := t.TempDir()
	blobs, snapshot := filepath.Join(top, "blobs"), filepath.Join(top, "snapshots", "1")
	write(t, filepath.Join(blobs, "h2"), "abcd")
	write(t, filepath.Join(top, "secret"), "evil")
	if err := os.MkdirAll(snapshot, 0o777); err != nil {
		t.Fatal(err)
	}
	symlink(t, "../../blobs/h1", filepath.Join(snapshot, "m.onnx"))
	symlink(t, "../../blobs/h2", filepath.Join(snapshot, "w.bin"))
	symlink(t, "../../secret", filepath.Join(snapshot, "out.bin"))
	externalModel(t, filepath.Join(blobs, "h1"), 4, "location", "w.bin")
	path := filepath.Join(snapshot, "m.onnx")
	m, err := ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantW(t, "hub cache", m, "abcd")
	if m, err = ReadFile(path, &ReadOptions{StrictExternalData: true}); err != nil {
		t.Fatal(err)
	}
	wantExternalError(t, "hub cache, strict", m, "symbolic link")

	externalModel(t, filepath.Join(blobs, "h1"), 4, "location", "out.bin")
	if m, err = ReadFile(path, nil); err != nil {
		t.Fatal(err)
	}
	wantExternalError(t, "out of the hub cache", m, "open")

	// Data beside the real file, with no link of its own.
	write(t, filepath.Join(blobs, "beside.bin"), "efgh")
	externalModel(t, filepath.Join(blobs, "h1"), 4, "location", "beside.bin")
	if m, err = ReadFile(path, nil); err != nil {
		t.Fatal(err)
	}
	wantW(t, "beside the real file", m, "efgh")
}

// This test checks that swapping a file for a link out of the folder while it is opened never
// reads that file.
func TestExternalFileSwappedForALink(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "models")
	write(t, filepath.Join(top, "secret"), "evil")
	write(t, filepath.Join(dir, "good"), "abcd")
	m := externalModel(t, filepath.Join(dir, "m.onnx"), 4, "location", "w.bin")
	symlink(t, "../secret", filepath.Join(dir, "bad"))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"good", "bad"} {
				tmp := filepath.Join(dir, "tmp")
				if name == "good" {
					os.WriteFile(tmp, []byte("abcd"), 0o666)
				} else {
					os.Symlink("../secret", tmp)
				}
				os.Rename(tmp, filepath.Join(dir, "w.bin"))
			}
		}
	}()
	good := 0
	for range 3000 {
		if v, err := readW(m); err == nil {
			good++
			if string(v.Bytes()) != "abcd" {
				t.Errorf("read %q from outside of the folder", v.Bytes())
				break
			}
		}
	}
	close(stop)
	<-done
	t.Logf("%d of 3000 reads saw the good file", good)
}

func TestExternalOffsetAndLength(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	write(t, filepath.Join(dir, "w.bin"), "0123456789")
	wantW(t, "offset", externalModel(t, path, 4, "location", "w.bin", "offset", "6", "length", "4"), "6789")
	wantW(t, "no length", externalModel(t, path, 4, "location", "w.bin", "offset", "2"), "2345")
	for _, c := range []struct{ key, value, want string }{
		{"offset", "-1", "non-negative"},
		{"offset", "7", "has 10 bytes"},
		{"offset", "11", "has 10 bytes"},
		{"offset", "9223372036854775807", "has 10 bytes"},
		{"offset", "9223372036854775808", "below 2^63"},
		{"offset", "99999999999999999999999", "below 2^63"},
		{"offset", "0x1", "non-negative"},
		{"offset", "1_0", "non-negative"},
		{"offset", "+1", "non-negative"},
		{"offset", " 1", "non-negative"},
		{"offset", "1e3", "non-negative"},
		{"offset", "", "below 2^63"},
		{"offset", "NaN", "non-negative"},
		{"length", "-4", "non-negative"},
		{"length", "3", "needs 4"},
		{"length", "5", "needs 4"},
		{"length", "0", "needs 4"},
		{"length", "9223372036854775807", "needs 4"},
	} {
		wantExternalError(t, c.key+"="+c.value, externalModel(t, path, 4, "location", "w.bin", c.key, c.value), c.want)
	}
	// A terabyte is rejected before memory is allocated.
	wantExternalError(t, "large", externalModel(t, path, 1<<40, "location", "w.bin"), "has 10 bytes")
	if runtime.GOOS == "linux" { // a sparse file may have this size
		f, err := os.Create(filepath.Join(dir, "sparse.bin"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Truncate(1<<40) == nil {
			m := externalModel(t, path, 1<<40, "location", "sparse.bin")
			_, err := m.Graph.Initializers[0].Decode(&DecodeOptions{External: m.External(), MaxBytes: 1 << 20})
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("sparse file: %v, want ErrTooLarge", err)
			}
		}
	}
}

func TestExternalKeys(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	write(t, filepath.Join(dir, "w.bin"), "abcd")
	wantExternalError(t, "no location", externalModel(t, path, 4, "offset", "0"), "doesn't have a location")
	wantExternalError(t, "no keys", externalModel(t, path, 4), "doesn't have a location")
	for _, key := range []string{"location", "offset", "length"} {
		value := map[string]string{"location": "w.bin", "offset": "0", "length": "4"}[key]
		wantExternalError(t, "two of "+key, externalModel(t, path, 4, "location", "w.bin", key, value, key, value),
			"more than once")
	}
	m := externalModel(t, path, 4, "location", "w.bin", "checksum", "x", "__class__", "y")
	wantW(t, "unknown", m, "abcd")
	m.file.strict = true
	wantExternalError(t, "unknown, strict", m, `unknown key "__class__"`)
}

func TestExternalOverlaps(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "w.bin"), "012345")
	b := NewModel("g")
	b.Input("x", Uint8, 4).Output("y", Uint8, 4)
	for i := range 3 {
		b.Initializer(fmt.Sprint("w", i), &Tensor{DataType: Uint8, Dims: []int64{4}, DataLocation: LocationExternal,
			ExternalData: []StringStringEntry{{"location", "w.bin"}, {"offset", fmt.Sprint(i)}}})
	}
	b.Node("Sum", []string{"x", "w0", "w1", "w2"}, []string{"y"})
	m := b.Must()
	// A model from memory gets no external data unless a folder is given.
	if _, err := m.DecodeTensor(m.Graph.Initializers[0]); !errors.Is(err, ErrExternalData) {
		t.Errorf("from memory: %v", err)
	}
	data, _ := m.Marshal()
	m, err := Unmarshal(data, &ReadOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var all []*tensor.Tensor
	for i, p := range m.Graph.Initializers {
		v, err := m.DecodeTensor(p)
		if err != nil {
			t.Fatal(err)
		}
		if want := "012345"[i : i+4]; string(v.Bytes()) != want {
			t.Errorf("w%d is %q, want %q", i, v.Bytes(), want)
		}
		all = append(all, v)
	}
	all[0].Bytes()[1] = 'x'
	if all[1].Bytes()[0] != '1' {
		t.Error("overlapping tensors share memory, want copies")
	}
}

func TestSavingThroughALink(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "models")
	write(t, filepath.Join(top, "victim"), "precious")
	write(t, filepath.Join(dir, "other"), "precious")
	m := sample(t)
	symlink(t, "../victim", filepath.Join(dir, "link.onnx"))
	symlink(t, "../nothing", filepath.Join(dir, "dangling.onnx"))
	symlink(t, "../victim", filepath.Join(dir, "link.bin"))
	for _, c := range []struct{ path, external string }{
		{"link.onnx", ""}, {"dangling.onnx", ""}, {"m.onnx", "link.bin"}, {"m.onnx", "../victim"},
		{"m.onnx", "sub/w.bin"}, {"m.onnx", "/tmp/w.bin"}, {"m.onnx", "m.onnx"}, {".", ""},
	} {
		if err := WriteFile(filepath.Join(dir, c.path), m, &WriteOptions{ExternalData: c.external}); err == nil {
			t.Errorf("saved as %q with external data %q", c.path, c.external)
		}
	}
	if err := os.Link(filepath.Join(dir, "other"), filepath.Join(dir, "hard.onnx")); err == nil {
		if err := WriteFile(filepath.Join(dir, "hard.onnx"), m, nil); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{filepath.Join(top, "victim"), filepath.Join(dir, "other")} {
		if got, _ := os.ReadFile(path); string(got) != "precious" {
			t.Errorf("%s was overwritten", path)
		}
	}
	if _, err := os.Lstat(filepath.Join(top, "nothing")); err == nil {
		t.Error("a file was written through a dangling link")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestWriteFileExternalData(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	big := bytes.Repeat([]byte{1, 2, 3}, 40_000)
	body := NewGraph("body").OutputType("i", nil).Initializer("inner", bytes.Repeat([]byte{9}, 2000))
	body.Node("Identity", []string{"inner"}, []string{"i"})
	b := NewModel("g")
	b.Input("c", Bool).Output("y", Uint8, nil)
	b.Initializer("big", big).Initializer("small", []byte{1}).Initializer("names", make([]string, 5000))
	b.Initializer("typed", &Tensor{DataType: Float, Dims: []int64{300}, FloatData: make([]float32, 300)})
	b.Node("If", []string{"c"}, []string{"y"}, Attrs{"then_branch": body, "else_branch": body})
	model := b.Must()
	if err := WriteFile(path, model, &WriteOptions{ExternalData: "m.data"}); err != nil {
		t.Fatal(err)
	}
	if model.Graph.Initializers[0].DataLocation != LocationDefault {
		t.Error("saving changed the model")
	}
	if st, _ := os.Stat(path); st.Size() > 20_000 {
		t.Errorf("the model file has %d bytes", st.Size())
	}
	check := func(path string) *Model {
		t.Helper()
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(m, nil); err != nil {
			t.Fatal(err)
		}
		n := 0
		m.eachInitializer(func(p *Tensor) bool {
			v, err := m.DecodeTensor(p)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name == "big" && !bytes.Equal(v.Bytes(), big) || p.Name == "inner" && v.Bytes()[1999] != 9 {
				t.Errorf("%s differs", p.Name)
			}
			if external := p.DataLocation == LocationExternal; external != (p.Name == "big" || p.Name == "inner" ||
				p.Name == "typed") {
				t.Errorf("%s is external: %v", p.Name, external)
			}
			n++
			return true
		})
		if n != 6 {
			t.Errorf("%d initializers, want 6", n)
		}
		return m
	}
	m := check(path)
	// Over itself, and into another folder.
	if err := WriteFile(path, m, &WriteOptions{ExternalData: "m.data"}); err != nil {
		t.Fatal(err)
	}
	m = check(path)
	other := filepath.Join(t.TempDir(), "n.onnx")
	if err := WriteFile(other, m, nil); !errors.Is(err, ErrExternalData) {
		t.Errorf("references to another folder: %v", err)
	}
	if err := WriteFile(other, m, &WriteOptions{ExternalData: "n.data"}); err != nil {
		t.Fatal(err)
	}
	check(other)
	// Raw data that aliases a mapped file outlives the replacement of that file.
	if err := WriteFile(path, sample(t), nil); err != nil {
		t.Fatal(err)
	}
	if m, err := ReadFile(path, nil); err != nil || m.Graph.Name != "sample" {
		t.Errorf("overwritten model: %v", err)
	}
}

func TestReadFileRejectsIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadFile(dir, nil); err == nil {
		t.Error("reading a folder: no error")
	}
	if _, err := ReadFile(filepath.Join(dir, "missing"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	path := filepath.Join(dir, "m.onnx")
	write(t, path, strings.Repeat("x", 100))
	if _, err := ReadFile(path, &ReadOptions{MaxFileSize: 99}); err == nil || !strings.Contains(err.Error(), "100") {
		t.Errorf("MaxFileSize: %v", err)
	}
}

// sparseFile makes a file of zeros that takes no space on disk.
func sparseFile(t testing.TB, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skipf("the file system has no sparse files: %v", err)
	}
}

// Limits apply before memory for external data is allocated: 1 TiB would end the process.
func TestSparseExternalDataOverTheLimits(t *testing.T) {
	const size = 1 << 40
	dir := t.TempDir()
	sparseFile(t, filepath.Join(dir, "w.bin"), size)
	m := externalModel(t, filepath.Join(dir, "m.onnx"), size, "location", "w.bin")
	w := m.Graph.Initializers[0]
	over := errors.New("over the limit")
	for name, c := range map[string]struct {
		opts DecodeOptions
		want error
	}{
		"no limit": {DecodeOptions{}, ErrTooLarge},
		"MaxBytes": {DecodeOptions{MaxBytes: 1 << 30}, ErrTooLarge},
		"Reserve":  {DecodeOptions{Reserve: func(int64) error { return over }}, over},
	} {
		c.opts.External = m.External()
		if _, err := w.Decode(&c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	m, err := ReadFile(filepath.Join(dir, "m.onnx"), &ReadOptions{MaxFileSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = readW(m); err == nil || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Errorf("MaxFileSize: %v", err)
	}
}

// countdown is a context that is done after its Err was called some times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestReadingExternalDataAsksTheContext(t *testing.T) {
	dir := t.TempDir()
	sparseFile(t, filepath.Join(dir, "w.bin"), 64<<20)
	m := externalModel(t, filepath.Join(dir, "m.onnx"), 64<<20, "location", "w.bin")
	ctx := &countdown{context.Background(), 3}
	opts := &DecodeOptions{External: m.External(), Context: ctx}
	if _, err := m.Graph.Initializers[0].Decode(opts); err == nil || ctx.left != -1 {
		t.Errorf("reading 64 MiB with a context that is done after 24 MiB: %v, %d calls of Err left", err, ctx.left)
	}
}

// The bytes of a model file are reserved before they are read, also those of tensors that are
// copied one by one.
func TestReadFileReserves(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{1 << 10, 4 << 20} {
		path := filepath.Join(dir, "m.onnx")
		m := &Model{IRVersion: 10,
			Graph: &Graph{Name: "g", Initializers: []*Tensor{{Name: "w", DataType: Uint8, Dims: []int64{int64(size)}, RawData: make([]byte, size)}}}}
		if err := WriteFile(path, m, nil); err != nil {
			t.Fatal(err)
		}
		var total int64
		count := func(n int64) error { total += n; return nil }
		if _, err := ReadFile(path, &ReadOptions{Reserve: count}); err != nil || total < int64(size) ||
			total > int64(size)+64<<10 {
			t.Errorf("%d bytes: %d are reserved, %v", size, total, err)
		}
		over := errors.New("over the limit")
		if _, err := ReadFile(path, &ReadOptions{Reserve: func(n int64) error {
			if n >= int64(size) {
				return over
			}
			return nil
		}}); !errors.Is(err, over) {
			t.Errorf("%d bytes over the limit: %v", size, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ReadFile(filepath.Join(dir, "m.onnx"), &ReadOptions{Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: %v", err)
	}
}
