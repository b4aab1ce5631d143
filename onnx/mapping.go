package onnx

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
)

// Mapping is the set of mapped files of a model that ReadFile read with [ReadOptions.Map]: the
// model file and, with [ReadOptions.MapExternal], its external data. It is reference counted: the
// model holds it once, and so does each call of Retain. It is safe for concurrent use.
//
// The memory is read-only. Reading it faults if another process has truncated the file; read it
// inside [Mapping.Guard].
type Mapping struct {
	mu       sync.Mutex // guards the fields below and changes to files
	refs     int
	external map[string]*mappedFile // by location
	files    atomic.Pointer[[]*mappedFile]
	used     atomic.Bool // whether a decoded tensor aliases the mapping
}

// mappedFile is a mapped file. It stays open, so that its size can be checked.
type mappedFile struct {
	name  string
	f     *os.File
	fd    uintptr
	data  []byte
	unmap func() error
}

const (
	// mapAbove is the size in bytes from which tensors of a mapped model alias the mapping. Smaller
	// ones take little memory in total, and each would keep a whole page in use.
	mapAbove = 16 << 10
	// maxMappedFiles limits the number of open files per model. Data of further files is copied.
	maxMappedFiles = 256
)

func newMapping(f *mappedFile) *Mapping {
	m := &Mapping{refs: 1, external: map[string]*mappedFile{}}
	m.files.Store(&[]*mappedFile{f})
	return m
}

// Mapping returns the mapped files of the model, or nil if the model is not mapped or is closed.
func (m *Model) Mapping() *Mapping {
	if m.file == nil {
		return nil
	}
	return m.file.mapping
}

// Retain adds a reference to the mapping. It lasts until a matching call of Close.
func (m *Mapping) Retain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refs++
}

// Close releases one reference to the mapping. The last one unmaps the memory, which must not be
// accessed afterwards.
func (m *Mapping) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refs--; m.refs != 0 {
		return nil
	}
	var errs []error
	for _, f := range *m.files.Load() {
		errs = append(errs, f.unmap(), f.f.Close())
	}
	m.files.Store(new([]*mappedFile))
	return errors.Join(errs...)
}

// Used reports whether a tensor returned by [Model.DecodeTensor] aliases the mapping.
func (m *Mapping) Used() bool { return m.used.Load() }

// Holds reports whether b is within the mapping. It returns false for a nil mapping.
func (m *Mapping) Holds(b []byte) bool {
	return m != nil && len(b) > 0 && m.at(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) != nil
}

// at returns the file mapped at an address, or nil.
func (m *Mapping) at(addr uintptr) *mappedFile {
	for _, f := range *m.files.Load() {
		if addr-f.start() < uintptr(len(f.data)) {
			return f
		}
	}
	return nil
}

func (f *mappedFile) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(f.data))) }

// Drop removes the mapped pages from the process's memory. Accessing them reads them from the files
// again.
func (m *Mapping) Drop() {
	for _, f := range *m.files.Load() {
		dropPages(f.data)
	}
}

// Guard is guardMapped with errors that name the file. Faults at addresses outside of the mapping
// panic.
func (m *Mapping) Guard(fn func() error) error { return guard(fn, m.Fault) }

// Fault converts a recovered panic: to an [ErrMappedFile] with the file's name if reading the
// mapping faulted, and to nil for every other panic.
func (m *Mapping) Fault(recovered any) error {
	addr, ok := faultAddress(recovered)
	if !ok {
		return nil
	}
	f := m.at(addr)
	if f == nil {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	return fail.Errorf("%w: %q: byte %d of %d cannot be read, or was written to", ErrMappedFile, f.name,
		addr-f.start(), len(f.data))
}

// Check returns err, the result of reading the mapping, joined with an [ErrMappedFile] if a file
// has been truncated since it was mapped. Truncation alone does not always fault: the rest of the
// last page reads as zeros.
func (m *Mapping) Check(err error) error {
	if err != nil && errors.Is(err, ErrMappedFile) {
		return err
	}
	for _, f := range *m.files.Load() {
		switch lost := f.check(); {
		case lost == nil:
		case err == nil:
			return lost
		default:
			return fail.Errorf("%w; %w", err, lost)
		}
	}
	return err
}

func (f *mappedFile) check() error {
	size, err := fileSize(f.f, f.fd)
	if err != nil {
		return fail.Errorf("%w: %q: %w", ErrMappedFile, f.name, err)
	}
	if size < int64(len(f.data)) {
		return fail.Errorf("%w: %q has %d bytes, had %d when it was mapped", ErrMappedFile, f.name, size, len(f.data))
	}
	return nil
}

// bytes maps an external file and returns the tensor's range of it, or nil if the file cannot be
// mapped.
func (m *Mapping) bytes(x *External, info externalInfo, size int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.external[info.location]
	if f == nil {
		files := *m.files.Load()
		if len(files) >= maxMappedFiles || m.refs <= 0 {
			return nil, nil
		}
		file, have, err := x.open(info.location)
		if err != nil {
			return nil, fail.Errorf("%w: open %q: %w", ErrExternalData, info.location, err)
		}
		f = &mappedFile{name: file.Name(), f: file, fd: file.Fd()}
		if f.data, f.unmap, err = mapFile(file, have); err != nil {
			file.Close()
			return nil, nil // reading returns the error, or succeeds
		}
		m.external[info.location] = f
		files = append(files[:len(files):len(files)], f)
		m.files.Store(&files)
	}
	if err := info.within(int64(len(f.data)), size); err != nil {
		return nil, err
	}
	end := info.offset + size
	return f.data[info.offset:end:end], nil
}
