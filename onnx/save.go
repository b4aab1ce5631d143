package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
)

// WriteOptions are the options of WriteFile. With nil or the zero value, all data is in the model
// file.
type WriteOptions struct {
	// ExternalData is the name of a file, in the folder of the model, for initializers of at least
	// Threshold bytes. Protobuf limits the model file itself to 2 GiB.
	ExternalData string
	// Threshold is a size in bytes. Default: 1024.
	Threshold int64
}

const (
	externalAlign     = 64   // alignment of a tensor in an external file
	externalPage      = 4096 // alignment of a large tensor, so that it can be mapped
	externalPageStart = 64 << 10
)

// WriteFile writes a model. It writes a temporary file and renames it, so that the file has either
// its old or its new content; the model may alias the file that it replaces. It fails if path or
// the external file is a symbolic link, a folder or anything else but a regular file. Other hard
// links of the file keep the old content.
//
// External data of the model is written to opts.ExternalData. If that is not set, references to
// external data are kept, and WriteFile fails if path is in another folder than the data. It also
// fails if path is a file that has external data of the model.
func WriteFile(path string, m *Model, opts *WriteOptions) error {
	if opts == nil {
		opts = &WriteOptions{}
	}
	if m == nil {
		return fail.Errorf("write %q: the model is nil", path)
	}
	if err := writeFile(path, m, opts); err != nil {
		return fail.Errorf("write %q: %w", path, err)
	}
	return nil
}

func writeFile(path string, m *Model, opts *WriteOptions) (err error) {
	if file := m.DataFile(path); file != "" {
		return fail.Errorf("%w: the file has weights of the model; choose another name", ErrExternalData)
	}
	var external *newFile
	var replace map[*Tensor]*Tensor
	if opts.ExternalData == "" {
		if err := sameFolder(path, m); err != nil {
			return err
		}
	} else {
		name := opts.ExternalData
		if err := checkLocation(name); err != nil {
			return err
		}
		if strings.Contains(name, "/") || name == filepath.Base(path) {
			return fail.Errorf("%w: %q is not the plain name of another file", ErrExternalData, name)
		}
		if external, err = createBeside(filepath.Join(filepath.Dir(path), name)); err != nil {
			return err
		}
		defer external.discard()
		if replace, err = writeExternal(external.f, name, m, opts); err != nil {
			return err
		}
	}
	file, err := createBeside(path)
	if err != nil {
		return err
	}
	defer file.discard()
	if err := encode(file.f, replace, func(e *encoder) { e.model(m) }); err != nil {
		return err
	}
	if external == nil {
		return file.commit()
	}
	return commitBoth(external, file)
}

// commitBoth gives a model and its external data their names. If the model's old file stays, so do
// its data.
func commitBoth(external, file *newFile) error {
	for _, f := range []*newFile{external, file} { // all that takes time, before the first name changes
		if err := f.sync(); err != nil {
			return err
		}
	}
	old := temporary(external.path)
	linked := os.Link(external.path, old) == nil
	if linked {
		defer os.Remove(old)
	}
	if err := external.commit(); err != nil {
		return err
	}
	err := file.commit()
	if err != nil && linked {
		err = errors.Join(err, os.Rename(old, external.path))
	}
	return err
}

// DataFiles returns the names of the files that exist and hold external data of the model.
func (m *Model) DataFiles() (names []string) {
	x := m.External()
	if x == nil {
		return nil
	}
	checked := map[string]bool{}
	m.eachInitializer(func(t *Tensor) bool {
		for _, e := range t.ExternalData {
			if t.DataLocation != LocationExternal || e.Key != "location" || checked[e.Value] {
				continue
			}
			checked[e.Value] = true
			for _, dir := range []string{x.Dir, x.Real} {
				if file := filepath.Join(dir, filepath.FromSlash(e.Value)); dir != "" && exists(file) {
					names = append(names, file)
				}
			}
		}
		return true
	})
	return names
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// DataFile returns the name of the one of DataFiles that is the file at path, by whatever name, or
// "".
func (m *Model) DataFile(path string) string {
	to, err := os.Stat(path)
	if err != nil {
		return ""
	}
	for _, name := range m.DataFiles() {
		if from, err := os.Stat(name); err == nil && os.SameFile(from, to) {
			return name
		}
	}
	return ""
}

// sameFolder fails if the model's references to external data are not valid in the folder of path.
func sameFolder(path string, m *Model) error {
	x := m.External()
	if x == nil {
		return nil
	}
	var name string
	m.eachInitializer(func(t *Tensor) bool {
		if t.DataLocation == LocationExternal {
			name = t.Name
			return false
		}
		return true
	})
	if name == "" {
		return nil
	}
	from, err := os.Stat(x.Dir)
	if err != nil {
		return err
	}
	to, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if !os.SameFile(from, to) {
		return fail.Errorf("%w: tensor %q is in a file of %q; set WriteOptions.ExternalData",
			ErrExternalData, name, x.Dir)
	}
	return nil
}

// writeExternal writes the large initializers one after the other and returns their replacements.
func writeExternal(f io.Writer, name string, m *Model, opts *WriteOptions) (map[*Tensor]*Tensor, error) {
	threshold := opts.Threshold
	if threshold <= 0 {
		threshold = 1024
	}
	w := bufio.NewWriterSize(f, 1<<20)
	replace := make(map[*Tensor]*Tensor)
	decode := &DecodeOptions{External: m.External()}
	var offset int64
	var failed error
	m.eachInitializer(func(t *Tensor) bool {
		if t.DataType == String || replace[t] != nil {
			return true
		}
		if t.DataLocation != LocationExternal {
			n, err := elements(t.Dims)
			if err != nil {
				return true // stays inline
			}
			if size, err := t.DataType.byteLen(n); err != nil || size < threshold {
				return true
			}
		}
		v, err := t.Decode(decode)
		if err != nil {
			failed = err
			return false
		}
		data := v.Bytes()
		align := int64(externalAlign)
		if len(data) >= externalPageStart {
			align = externalPage
		}
		for ; offset%align != 0; offset++ {
			w.WriteByte(0) // bufio keeps the first error until Flush
		}
		if _, failed = w.Write(data); failed != nil {
			return false
		}
		c := *t
		c.RawData, c.FloatData, c.Int32Data, c.Int64Data, c.DoubleData, c.Uint64Data = nil, nil, nil, nil, nil, nil
		c.DataLocation = LocationExternal
		c.ExternalData = []StringStringEntry{
			{"location", name},
			{"offset", strconv.FormatInt(offset, 10)},
			{"length", strconv.Itoa(len(data))},
		}
		replace[t] = &c
		offset += int64(len(data))
		return true
	})
	if failed == nil {
		failed = w.Flush()
	}
	return replace, failed
}

// eachInitializer calls fn for the dense initializers of all graphs until fn returns false.
func (m *Model) eachInitializer(fn func(*Tensor) bool) {
	m.eachGraph(func(g *Graph) bool {
		for _, t := range g.Initializers {
			if t != nil && !fn(t) {
				return false
			}
		}
		return true
	})
}

// eachGraph calls fn for every graph of the model, outer before inner, until fn returns false.
func (m *Model) eachGraph(fn func(*Graph) bool) {
	var graph func(g *Graph) bool
	nodes := func(list []*Node) bool {
		for _, n := range list {
			if n == nil {
				continue
			}
			for _, a := range n.Attributes {
				if a == nil {
					continue
				}
				if !graph(a.G) {
					return false
				}
				for _, g := range a.Graphs {
					if !graph(g) {
						return false
					}
				}
			}
		}
		return true
	}
	graph = func(g *Graph) bool { return g == nil || fn(g) && nodes(g.Nodes) }
	if !graph(m.Graph) {
		return
	}
	for _, f := range m.Functions {
		if f != nil && !nodes(f.Nodes) {
			return
		}
	}
	for _, t := range m.TrainingInfo {
		if t != nil && (!graph(t.Initialization) || !graph(t.Algorithm)) {
			return
		}
	}
}

// newFile is a temporary file in the folder of the file that it will replace.
type newFile struct {
	f    *os.File
	path string
	mode fs.FileMode // mode of the file to replace; 0 if it does not exist
}

func createBeside(path string) (*newFile, error) {
	n := &newFile{path: path}
	switch st, err := os.Lstat(path); {
	case err == nil && st.Mode()&fs.ModeSymlink != 0:
		return nil, fail.Errorf("%q is a symbolic link; remove it, or use the path of its target", path)
	case err == nil && !st.Mode().IsRegular():
		return nil, fail.Errorf("%q is not a regular file (%s)", path, st.Mode())
	case err == nil:
		n.mode = st.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	removeAbandoned(path)
	for range 100 {
		tmp := temporary(path)
		var err error
		if n.f, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err == nil {
			lockFile(n.f, true)
			if _, err := os.Lstat(tmp); err == nil {
				return n, nil
			}
			n.f.Close() // another process has removed it before it was locked
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fail.Errorf("no free name for a temporary file beside %q", path)
}

// temporary returns a name beside path, which removeAbandoned knows.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%08x.tmp", filepath.Base(path), rand.Uint32()))
}

// removeAbandoned removes the temporary files of processes that have ended while they wrote path.
// The others are locked.
func removeAbandoned(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		hex, own := strings.CutPrefix(e.Name(), "."+filepath.Base(path)+".")
		hex, ok := strings.CutSuffix(hex, ".tmp")
		if !own || !ok || len(hex) != 8 || !e.Type().IsRegular() {
			continue
		}
		if _, err := strconv.ParseUint(hex, 16, 32); err != nil {
			continue
		}
		f, err := os.Open(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			continue
		}
		if lockFile(f, false) {
			os.Remove(f.Name())
		}
		f.Close()
	}
}

// sync gives the file its mode and has the system store it.
func (n *newFile) sync() error {
	if n.mode != 0 {
		if err := n.f.Chmod(n.mode); err != nil {
			return err
		}
	}
	return n.f.Sync()
}

func (n *newFile) commit() error {
	f := n.f
	err := n.sync()
	rename := func() error { return os.Rename(f.Name(), n.path) }
	last := []func() error{rename, f.Close} // the lock is held until the file has its name
	if runtime.GOOS == "windows" {          // it renames no open files
		slices.Reverse(last)
	}
	for _, step := range last {
		if err == nil {
			err = step()
		}
	}
	f.Close()
	if err != nil {
		os.Remove(f.Name())
	}
	n.f = nil
	return err
}

// discard removes the temporary file unless commit has been called.
func (n *newFile) discard() {
	if n.f != nil {
		n.f.Close()
		os.Remove(n.f.Name())
	}
}
