package onnx

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/regular"
	"github.com/onward-ml/onward/tensor"
)

// External gives access to the external data of tensors. A file must be
//
//   - in Dir, the folder of the model, or in a folder inside it;
//   - or behind a symbolic link there whose target is in Dir or in Real, the folder of the model
//     file after resolving links: the caches of model hubs are folders of links into one folder of
//     files.
//
// Locations that are absolute, that name a drive or a host, or that contain ".." or a backslash are
// refused. So is everything but regular files: folders, FIFOs, devices. A file with several hard
// links is refused, since one of them may be any file of the system; AllowHardLinks accepts it, for
// folders that are known to be deduplicated that way. Ranges of tensors may overlap, as those of
// tied weights do.
type External struct {
	Dir            string
	Real           string // "" unless the model file is a symbolic link
	Strict         bool   // refuse symbolic links and unknown keys
	AllowHardLinks bool
	MaxFileSize    int64 // limit for the size of a file; 0: none

	mapping     *Mapping // mapping of the model; nil if it is not mapped
	mapExternal bool
}

// External returns the locations of the model's external data: the folder of the file that ReadFile
// read, or ReadOptions.Dir. For any other model it returns nil, and external data is refused.
func (m *Model) External() *External {
	if m.file == nil || m.file.dir == "" {
		return nil
	}
	return &External{Dir: m.file.dir, Real: m.file.real, Strict: m.file.strict, MaxFileSize: m.file.maxSize,
		mapping: m.file.mapping, mapExternal: m.file.mapExternal}
}

// DecodeTensor decodes a tensor of the model, which may have external data.
func (m *Model) DecodeTensor(t *Tensor) (*tensor.Tensor, error) {
	return t.Decode(&DecodeOptions{External: m.External()})
}

// externalInfo is the parsed external_data of a tensor.
type externalInfo struct {
	location       string
	offset, length int64 // length -1: not set
}

// externalInfo parses external_data. The keys checksum and basepath are accepted and ignored.
func (t *Tensor) externalInfo(strict bool) (externalInfo, error) {
	info := externalInfo{length: -1}
	seen := make(map[string]bool, 4)
	for _, kv := range t.ExternalData {
		known := true
		var err error
		switch kv.Key {
		case "location":
			info.location = kv.Value
		case "offset":
			info.offset, err = parseOffset(kv.Value)
		case "length":
			info.length, err = parseOffset(kv.Value)
		case "checksum", "basepath":
		default:
			known = false
		}
		if err != nil {
			return info, fail.Errorf("%w: %s: %w", ErrExternalData, kv.Key, err)
		}
		if !known {
			if strict {
				return info, fail.Errorf("%w: unknown key %q", ErrExternalData, kv.Key)
			}
			continue
		}
		if seen[kv.Key] {
			return info, fail.Errorf("%w: key %q appears more than once", ErrExternalData, kv.Key)
		}
		seen[kv.Key] = true
	}
	if !seen["location"] {
		return info, fail.Errorf("%w: stored externally but doesn't have a location", ErrExternalData)
	}
	return info, checkLocation(info.location)
}

// parseOffset parses a non-negative decimal number without sign, space or underscore.
func parseOffset(s string) (int64, error) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, fail.Errorf("got %q, want a non-negative decimal number", s)
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fail.Errorf("got %q, want a non-negative decimal number below 2^63", s)
	}
	return v, nil
}

// checkLocation refuses locations that may leave the model's folder on any operating system.
func checkLocation(p string) error {
	why := ""
	switch {
	case p == "":
		why = "is empty"
	case len(p) > 4096:
		return fail.Errorf("%w: location of %d bytes is longer than 4096", ErrExternalData, len(p))
	case strings.ContainsRune(p, 0):
		why = "has a NUL"
	case strings.ContainsRune(p, '\\'):
		why = "has a backslash; folders are separated by a slash"
	case p[0] == '/':
		why = "is absolute"
	case len(p) > 1 && p[1] == ':':
		why = "names a drive"
	case p[len(p)-1] == '/':
		why = "names a folder"
	}
	if why == "" {
		for part := range strings.SplitSeq(p, "/") {
			if part == ".." {
				why = `has a ".."`
			}
		}
	}
	if why == "" && (!filepath.IsLocal(filepath.FromSlash(p)) || filepath.Clean(p) == ".") {
		why = "does not name a file in the model's folder"
	}
	if why != "" {
		return fail.Errorf("%w: location %q %s", ErrExternalData, p, why)
	}
	return nil
}

// data returns size bytes of a tensor's external file: in memory of their own, or in the mapping if
// own is false.
func (x *External) data(t *Tensor, size int64, opts *DecodeOptions) (data []byte, own bool, err error) {
	if x == nil || x.Dir == "" {
		return nil, false,
			fail.Errorf("%w: the model was not read from a file; set the folder of its external data", ErrExternalData)
	}
	info, err := t.externalInfo(x.Strict)
	if err != nil {
		return nil, false, err
	}
	if info.length >= 0 && info.length != size {
		return nil, false, fail.Errorf("%w: length is %d, %s with dims %v needs %d", ErrExternalData, info.length,
			t.DataType, t.Dims, size)
	}
	if x.mapExternal && x.mapping != nil && !opts.Copy && size >= mapAbove {
		data, err = x.mapping.bytes(x, info, size)
		if err != nil {
			return nil, false, err
		}
		if data != nil && aligned(data, tensor.DType(t.DataType)) {
			return data, false, nil
		}
	}
	f, err := x.openRange(info, size)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if opts.Reserve != nil {
		err = opts.Reserve(size)
	} else if most := memory.Default(); size > most {
		err = fail.Errorf("%w: it takes %d bytes, the limit is half of the machine's memory, %d",
			ErrTooLarge, size, most)
	}
	if err != nil {
		return nil, false, err
	}
	data = memory.Slice[byte](int(size))
	if err := readRange(opts, f, info.offset, data); err != nil {
		return nil, false, fail.Errorf("%w: read %q: %w", ErrExternalData, info.location, err)
	}
	return data, true, nil
}

// readRange fills data with the bytes of a file from an offset. It asks the context before
// every 8 MiB.
func readRange(opts *DecodeOptions, f io.ReaderAt, offset int64, data []byte) error {
	const piece = 8 << 20
	for at := 0; at < len(data); {
		if opts.Context != nil {
			if err := opts.Context.Err(); err != nil {
				return err
			}
		}
		n, err := f.ReadAt(data[at:min(len(data), at+piece)], offset+int64(at))
		if at += n; err != nil && at < len(data) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// small reports whether a tensor of a mapped model is small enough to be copied.
func (x *External) small(size int) bool { return x != nil && x.mapping != nil && size < mapAbove }

// alias records that a returned tensor aliases the mapping, if data is within it.
func (x *External) alias(data []byte) []byte {
	if x != nil && x.mapping.Holds(data) {
		x.mapping.used.Store(true)
	}
	return data
}

// openRange opens the external file of a tensor and checks that it holds size bytes from the
// offset.
func (x *External) openRange(info externalInfo, size int64) (*os.File, error) {
	f, have, err := x.open(info.location)
	if err != nil {
		return nil, fail.Errorf("%w: open %q: %w", ErrExternalData, info.location, err)
	}
	if err := info.within(have, size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// within checks that a file of have bytes holds size bytes from the offset.
func (info *externalInfo) within(have, size int64) error {
	if info.offset > have || size > have-info.offset {
		return fail.Errorf("%w: %q has %d bytes, the tensor needs %d from offset %d", ErrExternalData, info.location,
			have, size, info.offset)
	}
	return nil
}

// open opens a regular file by the rules of External. checkLocation has accepted the location.
func (x *External) open(location string) (*os.File, int64, error) {
	name := filepath.FromSlash(location)
	f, size, err := x.openIn(x.Dir, name)
	if err == nil || x.Strict {
		return f, size, err
	}
	// os.Root refused a link that leaves Dir. Resolve it and open the target through an os.Root
	// too, so that a link that is swapped meanwhile cannot lead elsewhere.
	if real, rerr := filepath.EvalSymlinks(filepath.Join(x.Dir, name)); rerr == nil {
		for _, dir := range []string{x.Dir, x.Real} {
			if dir == "" {
				continue
			}
			if dir, rerr = filepath.EvalSymlinks(dir); rerr != nil {
				continue
			}
			if rel, rerr := relative(dir, real); rerr == nil && filepath.IsLocal(rel) {
				return x.openIn(dir, rel)
			}
		}
		return nil, 0, err
	}
	if x.Real != "" && errors.Is(err, fs.ErrNotExist) {
		return x.openIn(x.Real, name)
	}
	return nil, 0, err
}

// relative is filepath.Rel, except that one of the paths may be relative to the working directory.
func relative(dir, path string) (string, error) {
	var err error
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.Rel(dir, path)
}

func (x *External) openIn(dir, name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	stat := root.Stat
	if x.Strict {
		stat = func(name string) (fs.FileInfo, error) { return lstatAll(root, name) }
	}
	before, err := stat(name)
	if err != nil {
		return nil, 0, operation(err)
	}
	f, st, err := regular.OpenIn(root, name, os.O_RDONLY)
	if err != nil {
		return nil, 0, operation(err)
	}
	if !os.SameFile(before, st) {
		err = errors.New("file changed while it was opened")
	}
	if err == nil && x.MaxFileSize > 0 && st.Size() > x.MaxFileSize {
		err = fail.Errorf("file has %d bytes, the limit is %d", st.Size(), x.MaxFileSize)
	}
	if err == nil && !x.AllowHardLinks {
		var links uint64
		if links, err = linkCount(f, st); err == nil && links > 1 {
			err = fail.Errorf("file has %d hard links, want 1", links)
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// operation names the operation of an error of os.Root as package os does: stat, not statat.
func operation(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return &fs.PathError{Op: strings.TrimSuffix(p.Op, "at"), Path: p.Path, Err: p.Err}
	}
	return err
}

// lstatAll returns the info of the file. It fails if the file or a folder of its path is a symbolic
// link.
func lstatAll(root *os.Root, name string) (st fs.FileInfo, err error) {
	name = filepath.Clean(name)
	for i := 0; i <= len(name); i++ {
		if i < len(name) && !os.IsPathSeparator(name[i]) {
			continue
		}
		if st, err = root.Lstat(name[:i]); err != nil {
			return nil, err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return nil, fail.Errorf("%q is a symbolic link, refused in strict mode", name[:i])
		}
	}
	return st, nil
}
