package onnx

import (
	"io"
	"os"
	"path/filepath"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/regular"
)

// modelFile is the origin of a model: the folder of its external data, and its mapping.
type modelFile struct {
	dir     string // folder of the path as given
	real    string // folder of the file after resolving links, if different
	strict  bool
	maxSize int64 // limit for the size of a file of external data; 0: none

	mapping     *Mapping // nil unless the model is mapped and not closed
	mapExternal bool     // map external data too
}

// ReadFile reads a model file. The model's external data is looked up in the file's folder.
//
// By default the file is not used after reading. A small file is read into memory as a whole; of a
// larger one each tensor has memory of its own, so that weights can be freed one by one.
//
// If opts.Map is set, the file is mapped instead. Pages are read when they are first accessed, raw
// data (but no strings) aliases the mapping, and [Model.Close] ends the mapping. If another process
// truncates a mapped file, later reads of raw data fault. [Tensor.Decode] with Copy set and
// functions run by [Mapping.Guard] return an error instead, and so does ReadFile. See [Mapping].
//
// Only regular files are read. Errors are those of package os or of type *[ParseError].
func ReadFile(path string, opts *ReadOptions) (*Model, error) {
	o := ReadOptions{}
	if opts != nil {
		o = *opts
	}
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	size := info.Size()
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	if o.MaxFileSize > 0 && size > o.MaxFileSize {
		return nil, fail.Errorf("read %q: file has %d bytes, the limit is %d", path, size, o.MaxFileSize)
	}
	file := &modelFile{dir: filepath.Dir(path), strict: o.StrictExternalData, maxSize: o.MaxFileSize}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != filepath.Clean(file.dir) {
		file.real = filepath.Dir(real)
	}
	o.Dir = ""
	var m *Model
	if canMap && (o.Map && size > 0 || size >= detachAbove) {
		var data []byte
		var unmap func() error
		if data, unmap, err = mapFile(f, size); err != nil {
			return nil, fail.Errorf("map %q: %w", path, err)
		}
		err = guardMapped(func() (err error) {
			d := newDecoder(data, &o)
			d.copies = true
			m = new(Model)
			if err := d.finish("ModelProto", d.model(data, m)); err != nil || o.Map {
				return err
			}
			return m.detach(&o)
		})
		if err != nil || !o.Map {
			unmap()
		} else {
			file.mapping, file.mapExternal = newMapping(&mappedFile{name: path, f: f, fd: f.Fd(), data: data,
				unmap: unmap}), o.MapExternal
			f = nil
		}
	} else {
		var data []byte
		if data, err = readAll(f, size, &o); err == nil {
			o.Copy = false // the model owns the memory
			m, err = Unmarshal(data, &o)
		}
	}
	if err != nil {
		return nil, fail.Errorf("read %q: %w", path, err)
	}
	m.file = file
	return m, nil
}

// detachAbove is the file size in bytes from which tensors are copied one by one.
const detachAbove = 1 << 20

// detach copies the raw data of all tensors out of a mapping. It drops the pages of the mapping as
// it goes, so that the file is never in memory as a whole.
func (m *Model) detach(o *ReadOptions) (err error) {
	const step = 8 << 20
	m.EachTensor(func(t *Tensor) bool {
		if len(t.RawData) == 0 {
			return true
		}
		if err = o.reserve(int64(len(t.RawData))); err != nil {
			return false
		}
		own := memory.Lasting(memory.Uninitialized(len(t.RawData)))
		for at := 0; at < len(own); at += step {
			if err = o.done(); err != nil {
				return false
			}
			part := t.RawData[at:min(len(own), at+step)]
			copy(own[at:], part)
			dropPages(part)
		}
		t.RawData = own
		return true
	})
	return err
}

// reserve reserves memory before it is allocated.
func (o *ReadOptions) reserve(bytes int64) error {
	if o.Reserve == nil {
		return nil
	}
	return o.Reserve(bytes)
}

// done returns the error of the context, if it is done.
func (o *ReadOptions) done() error {
	if o.Context == nil {
		return nil
	}
	return o.Context.Err()
}

// Close releases the mapping of a model that ReadFile mapped; it ends unless [Mapping.Retain] holds
// it. Afterwards neither the model nor tensors that alias it may be used. For other models Close
// does nothing.
func (m *Model) Close() error {
	mapping := m.Mapping()
	if mapping == nil {
		return nil
	}
	m.file.mapping = nil
	return mapping.Close()
}

// readAll reads a file of the given size, which may have changed since.
func readAll(f *os.File, size int64, o *ReadOptions) ([]byte, error) {
	if size < 0 || int64(int(size)) != size {
		return nil, fail.Errorf("file of %d bytes exceeds the address space", size)
	}
	if err := o.reserve(size); err != nil {
		return nil, err
	}
	if err := o.done(); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return data[:n:n], nil
	}
	return data, err
}
