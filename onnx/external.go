package onnx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// ErrExternalData is the cause of every error about external data: a place that is refused, a file that
// is missing or no regular one, an offset or a length that is wrong.
var ErrExternalData = errors.New("external data")

// External finds the external data of tensors. Where a file may lie:
//
//   - in Dir, the folder of the model, or in a folder inside it;
//   - behind a symbolic link there, when the file that it leads to lies in Dir or in Real, the folder of
//     the model file behind links: caches of model hubs are folders of links into one folder of files.
//
// Paths that are absolute, name a drive or a host, or have a ".." or a backslash are refused, and so is
// whatever is no regular file: folders, FIFOs, devices. A file with several hard links is refused
// too, since one of them may be any file of the system; AllowHardLinks takes it, for folders that are
// known to be deduplicated that way. Ranges of several tensors may overlap: tied weights do.
type External struct {
	Dir            string
	Real           string // "" where the model file is no link
	Strict         bool   // refuse symbolic links altogether, and unknown keys
	AllowHardLinks bool

	mapping     *Mapping // of the model, nil where it is not mapped
	mapExternal bool
}

// External returns where the external data of the model may lie: the folder of the file that ReadFile
// read, or ReadOptions.Dir. It is nil for any other model, which then gets no external data.
func (m *Model) External() *External {
	if m.file == nil || m.file.dir == "" {
		return nil
	}
	return &External{Dir: m.file.dir, Real: m.file.real, Strict: m.file.strict, mapping: m.file.mapping, mapExternal: m.file.mapExternal}
}

// DecodeTensor decodes a tensor of the model, with the model's external data.
func (m *Model) DecodeTensor(t *Tensor) (*tensor.Tensor, error) {
	return t.Decode(&DecodeOptions{External: m.External()})
}

// externalInfo is the parsed external_data of a tensor.
type externalInfo struct {
	location       string
	offset, length int64 // length -1: not given
}

// externalInfo reads the keys of external_data. checksum and basepath are known, and not used.
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
			return info, fmt.Errorf("%w: %s: %w", ErrExternalData, kv.Key, err)
		}
		if !known {
			if strict {
				return info, fmt.Errorf("%w: unknown key %q", ErrExternalData, kv.Key)
			}
			continue
		}
		if seen[kv.Key] {
			return info, fmt.Errorf("%w: key %q appears more than once", ErrExternalData, kv.Key)
		}
		seen[kv.Key] = true
	}
	if !seen["location"] {
		return info, fmt.Errorf("%w: stored externally but doesn't have a location", ErrExternalData)
	}
	return info, checkLocation(info.location)
}

// parseOffset reads a non-negative decimal number without sign, space or underscore.
func parseOffset(s string) (int64, error) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is no non-negative decimal number", s)
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no non-negative decimal number below 2^63", s)
	}
	return v, nil
}

// checkLocation refuses by its text a path that may leave the model's folder on any system.
func checkLocation(p string) error {
	why := ""
	switch {
	case p == "":
		why = "is empty"
	case len(p) > 4096:
		return fmt.Errorf("%w: location of %d bytes is longer than 4096", ErrExternalData, len(p))
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
		return fmt.Errorf("%w: location %q %s", ErrExternalData, p, why)
	}
	return nil
}

// data returns size bytes of a tensor's external file: in memory of their own, or where own is false in the mapping.
func (x *External) data(t *Tensor, size int64, opts *DecodeOptions) (data []byte, own bool, err error) {
	if x == nil || x.Dir == "" {
		return nil, false, fmt.Errorf("%w: the model does not come from a file; name the folder of its external data", ErrExternalData)
	}
	info, err := t.externalInfo(x.Strict)
	if err != nil {
		return nil, false, err
	}
	if info.length >= 0 && info.length != size {
		return nil, false, fmt.Errorf("%w: length is %d, %s with dims %v wants %d", ErrExternalData, info.length, t.DataType, t.Dims, size)
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
	data = tensor.AlignedBytes(int(size))
	if _, err := io.ReadFull(io.NewSectionReader(f, info.offset, size), data); err != nil {
		return nil, false, fmt.Errorf("%w: read %q: %w", ErrExternalData, info.location, err)
	}
	return data, true, nil
}

// small reports whether a tensor of the model is too small to stay in a mapping.
func (x *External) small(size int) bool { return x != nil && x.mapping != nil && size < mapAbove }

// alias notes that a tensor is returned that lies in the mapping, if it does.
func (x *External) alias(data []byte) []byte {
	if x != nil && x.mapping.Holds(data) {
		x.mapping.used.Store(true)
	}
	return data
}

// openRange opens the file of a tensor, which must hold size bytes from the offset.
func (x *External) openRange(info externalInfo, size int64) (*os.File, error) {
	f, have, err := x.open(info.location)
	if err != nil {
		return nil, fmt.Errorf("%w: open %q: %w", ErrExternalData, info.location, err)
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
		return fmt.Errorf("%w: %q has %d bytes, the tensor wants %d from offset %d", ErrExternalData, info.location, have, size, info.offset)
	}
	return nil
}

// open opens a regular file by the rules of External. The location has passed checkLocation.
func (x *External) open(location string) (*os.File, int64, error) {
	name := filepath.FromSlash(location)
	f, size, err := x.openIn(x.Dir, name)
	if err == nil || x.Strict {
		return f, size, err
	}
	// A link out of Dir: os.Root refused it. Where it leads decides, and os.Root opens that too, so that
	// swapping links meanwhile leads nowhere else.
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

// relative is filepath.Rel for paths of which one may be relative to the working directory.
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
	// Looking first keeps a FIFO or a device from being opened at all.
	stat := root.Stat
	if x.Strict {
		stat = func(name string) (fs.FileInfo, error) { return lstatAll(root, name) }
	}
	before, err := stat(name)
	if err == nil {
		err = regular(before)
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil {
		err = regular(st)
	}
	if err == nil && !os.SameFile(before, st) {
		err = errors.New("file changed while it was opened")
	}
	if err == nil && !x.AllowHardLinks {
		var links uint64
		if links, err = linkCount(f, st); err == nil && links > 1 {
			err = fmt.Errorf("file has %d hard links, want 1", links)
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

func regular(st fs.FileInfo) error {
	if !st.Mode().IsRegular() {
		return fmt.Errorf("not a regular file (%s)", st.Mode())
	}
	return nil
}

// lstatAll returns the info of the file, and fails where it or a folder on the way is a link.
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
			return nil, fmt.Errorf("%q is a symbolic link, refused in strict mode", name[:i])
		}
	}
	return st, nil
}
