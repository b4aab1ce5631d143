package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/regular"
)

// folder is a model folder. It reads no file outside it.
type folder struct {
	path string // as it was given
	root *os.Root
	fs   fs.FS
	opts Options
}

// openFolder opens a model folder. Close it when the pipeline is open.
func openFolder(dir string, opts *Options) (*folder, error) {
	f := &folder{path: dir}
	if opts != nil {
		f.opts = *opts
	}
	top, rel := dir, "."
	// In the cache of huggingface_hub the files of snapshots/REVISION are links to ../../blobs.
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(filepath.Dir(abs)) == "snapshots" {
		top, rel = filepath.Dir(filepath.Dir(abs)), path.Join("snapshots", filepath.Base(abs))
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("model folder: %w", err)
	}
	f.root = root
	if f.fs, err = fs.Sub(regular.FS(root), rel); err != nil {
		root.Close()
		return nil, fmt.Errorf("model folder %s: %w", dir, err)
	}
	return f, nil
}

// cleanPath returns a path of modules.json as package fs wants it.
func cleanPath(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// sub returns a folder within f, which need not be closed.
func (f *folder) sub(name string) (*folder, error) {
	name = cleanPath(name)
	sub, err := fs.Sub(f.fs, name)
	if err != nil {
		return nil, err
	}
	return &folder{path: filepath.Join(f.path, filepath.FromSlash(name)), root: f.root, fs: sub, opts: f.opts}, nil
}

func (f *folder) Close() error { return f.root.Close() }

// wrap adds the path of the folder to an error.
func (f *folder) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("model folder %s: %w", f.path, err)
}

// has reports whether the folder holds a regular file of this name.
func (f *folder) has(name string) bool {
	info, err := fs.Stat(f.fs, name)
	return err == nil && info.Mode().IsRegular()
}

// open opens a regular file of at most limit bytes.
func (f *folder) open(name string, limit int64) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q is not a path within the folder", name)
	}
	info, err := fs.Stat(f.fs, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, beyond the limit of %d", name, info.Size(), limit)
	}
	return f.fs.Open(name)
}

// read returns the contents of a file of at most limit bytes.
func (f *folder) read(name string, limit int64) ([]byte, error) {
	file, err := f.open(name, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s exceeds the limit of %d bytes", name, limit)
	}
	return data, err
}

// object is a JSON object of a folder. Its first error is kept in err.
type object struct {
	name   string // of the file, and of the field within it
	fields map[string]json.RawMessage
	err    error
}

// json reads a JSON object. One that does not exist has no fields.
func (f *folder) json(name string) (*object, error) {
	data, err := f.read(name, f.opts.maxFile())
	if errors.Is(err, fs.ErrNotExist) {
		return &object{name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	o := &object{name: name}
	if err := json.Unmarshal(data, &o.fields); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object: %w", name, err)
	}
	return o, nil
}

// has reports whether o has a field that is not null.
func (o *object) has(field string) bool {
	raw, ok := o.fields[field]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// get stores a field to a pointer, which keeps its value if the field is missing or null.
func (o *object) get(field string, to any) bool {
	if !o.has(field) || o.err != nil {
		return false
	}
	if err := json.Unmarshal(o.fields[field], to); err != nil {
		o.err = fmt.Errorf("%s: field %q: %w", o.name, field, err)
		return false
	}
	return true
}

// object returns a field that is an object. It has no fields if the field is missing.
func (o *object) object(field string) *object {
	sub := &object{name: o.name + ": " + field}
	o.get(field, &sub.fields)
	return sub
}

// fail keeps an error that concerns a field.
func (o *object) fail(field, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: field %q: %w", o.name, field, fmt.Errorf(format, args...))
	}
}

// list returns what a folder within f holds.
func (f *folder) list(dir string) ([]fs.DirEntry, error) {
	if info, err := fs.Stat(f.fs, dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	return fs.ReadDir(f.fs, dir)
}

// models returns the paths of the ONNX files whose name is stem or begins with stem and "_", by
// variant. Files in onnx/ precede those in the folder itself.
func (f *folder) models(stem string) (map[string]string, error) {
	found := map[string]string{}
	for _, dir := range []string{".", "onnx"} {
		list, err := f.list(dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		for _, e := range list {
			name, ok := strings.CutSuffix(e.Name(), ".onnx")
			if !ok || !f.has(path.Join(dir, e.Name())) {
				continue
			}
			if variant, ok := strings.CutPrefix(name, stem); ok && (variant == "" || variant[0] == '_') {
				found[strings.TrimPrefix(variant, "_")] = path.Join(dir, e.Name())
			}
		}
	}
	return found, nil
}

// model returns the path within the folder of the ONNX file that a variant selects; see
// Options.Variant. stem is the name without variant, such as "model".
func (f *folder) model(stem, variant string) (string, error) {
	if strings.HasSuffix(variant, ".onnx") {
		if !f.has(variant) {
			return "", fmt.Errorf("variant: there is no file %s", variant)
		}
		return variant, nil
	}
	found, err := f.models(stem)
	if err != nil {
		return "", err
	}
	if name, ok := found[variant]; ok {
		return name, nil
	}
	names := make([]string, 0, len(found))
	for _, n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	switch {
	case len(names) == 1 && variant == "":
		return names[0], nil
	case len(names) == 0:
		return "", fmt.Errorf("there is no %s.onnx, in the folder or in onnx/; export the model to ONNX first", stem)
	}
	return "", fmt.Errorf("variant %q: there is no such model; the folder has %s", variant, strings.Join(names, ", "))
}

// session opens the model that Options.Variant selects. measure runs a session once with an
// example, to find the fastest for the variant "auto".
func (f *folder) session(ctx context.Context, stem string,
	measure func(*onward.Session) error) (*onward.Session, error) {
	if f.opts.Variant != "auto" {
		name, err := f.model(stem, f.opts.Variant)
		if err != nil {
			return nil, err
		}
		return f.openSession(ctx, name)
	}
	found, err := f.models(stem)
	if err != nil {
		return nil, err
	}
	var best *onward.Session
	var least time.Duration
	var failed error
	for _, variant := range sortedKeys(found) {
		s, err := f.openSession(ctx, found[variant])
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		d, err := duration(s, measure)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", found[variant], err))
		}
		if err == nil && (best == nil || d < least) {
			best, s, least = s, best, d
		}
		if s != nil {
			s.Close()
		}
	}
	if best == nil {
		if failed == nil {
			_, failed = f.model(stem, "")
		}
		return nil, failed
	}
	return best, nil
}

// duration returns the time of the fastest of three runs, after one that is not counted.
func duration(s *onward.Session, measure func(*onward.Session) error) (least time.Duration, err error) {
	for i := range 4 {
		start := time.Now()
		if err := measure(s); err != nil {
			return 0, err
		}
		if d := time.Since(start); i == 1 || i > 1 && d < least {
			least = d
		}
	}
	return least, nil
}

// openSession opens an ONNX file of the folder. A model without inputs or without outputs is an
// error.
func (f *folder) openSession(ctx context.Context, name string) (*onward.Session, error) {
	if info, err := fs.Stat(f.fs, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	s, err := onward.Open(ctx, filepath.Join(f.path, filepath.FromSlash(name)), f.opts.Session)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(s.Inputs()) == 0 || len(s.Outputs()) == 0 {
		err := fmt.Errorf("%s has %d inputs and %d outputs, want at least one of both", name, len(s.Inputs()),
			len(s.Outputs()))
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// labels returns the names of the classes of config.json, by their number: id2label.
func (o *object) labels() []string {
	var names map[string]string
	o.get("id2label", &names)
	list := make([]string, len(names))
	for key, name := range names {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(names) {
			o.fail("id2label", "%q is not the number of one of %d labels", key, len(names))
			return nil
		}
		list[i] = name
	}
	return list
}
