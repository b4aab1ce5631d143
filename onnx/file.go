package onnx

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/onward-ml/onward/tensor"
)

// modelFile is where a model came from: the folder of its external data, and its mapping.
type modelFile struct {
	dir    string // folder of the path as given
	real   string // folder of the file behind links, where that is another one
	strict bool

	mapping     *Mapping // nil unless the model is mapped, and when it is closed
	mapExternal bool     // external data too
}

// ReadFile reads the model in a file and remembers the file's folder for external data.
//
// Nothing that happens to the file afterwards can hurt: small files are read into memory as a whole, of larger
// ones every tensor gets memory of its own, so that weights which are no longer needed can go one by one. With opts.Map it is mapped instead: pages come when touched, raw data
// (never strings) aliases the mapping, Close ends it. Another process that truncates a mapped file
// makes later reads of raw data fault; reading through [Tensor.Decode] with Copy set, or inside
// [GuardMapped], turns that into an error, and ReadFile guards itself. [Model.Mapping] says more.
//
// Only regular files are read. Errors are those of package os or of type *[ParseError].
func ReadFile(path string, opts *ReadOptions) (*Model, error) {
	o := ReadOptions{}
	if opts != nil {
		o = *opts
	}
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	if o.MaxFileSize > 0 && size > o.MaxFileSize {
		return nil, fmt.Errorf("read %q: file has %d bytes, the limit is %d", path, size, o.MaxFileSize)
	}
	file := &modelFile{dir: filepath.Dir(path), strict: o.StrictExternalData}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != filepath.Clean(file.dir) {
		file.real = filepath.Dir(real)
	}
	o.Dir = ""
	var m *Model
	if canMap && (o.Map && size > 0 || size >= detachAbove) {
		var data []byte
		var unmap func() error
		if data, unmap, err = mapFile(f, size); err != nil {
			return nil, fmt.Errorf("map %q: %w", path, err)
		}
		err = GuardMapped(func() (err error) {
			d := newDecoder(data, &o)
			d.copies = true
			m = new(Model)
			if err := d.finish("ModelProto", d.model(data, m)); err != nil || o.Map {
				return err
			}
			m.detach()
			return nil
		})
		if err != nil || !o.Map {
			unmap()
		} else {
			file.mapping, file.mapExternal = newMapping(&mappedFile{name: path, f: f, fd: f.Fd(), data: data, unmap: unmap}), o.MapExternal
			f = nil
		}
	} else {
		var data []byte
		if data, err = readAll(f, size); err == nil {
			o.Copy = false // the memory is the model's own
			m, err = Unmarshal(data, &o)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	m.file = file
	return m, nil
}

// detachAbove is the size in bytes from which on the tensors of a file are copied one by one.
const detachAbove = 1 << 20

// detach copies the raw data of all tensors out of a mapping and lets go of the mapping's pages on the way:
// the file is never in memory as a whole.
func (m *Model) detach() {
	const step = 8 << 20
	m.EachTensor(func(t *Tensor) bool {
		if len(t.RawData) == 0 {
			return true
		}
		own := tensor.UninitializedBytes(len(t.RawData))
		for at := 0; at < len(own); at += step {
			part := t.RawData[at:min(len(own), at+step)]
			copy(own[at:], part)
			dropPages(part)
		}
		t.RawData = own
		return true
	})
}

// Close lets go of the mapping of a model that ReadFile mapped, and ends it unless [Mapping.Retain] holds it. Neither the
// model nor tensors that alias it may be used afterwards. For every other model Close does nothing.
func (m *Model) Close() error {
	mapping := m.Mapping()
	if mapping == nil {
		return nil
	}
	m.file.mapping = nil
	return mapping.Close()
}

// openRegular opens a regular file and returns its size. It does not block on a FIFO.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("read %q: not a regular file (%s)", path, st.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// readAll reads a file of the given size, which may have grown or shrunk since.
func readAll(f *os.File, size int64) ([]byte, error) {
	if size < 0 || int64(int(size)) != size {
		return nil, fmt.Errorf("file of %d bytes does not fit the address space", size)
	}
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return data[:n:n], nil
	}
	return data, err
}
