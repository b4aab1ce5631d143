package onnx

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Mapping is the mapped files of a model that ReadFile has read with [ReadOptions.Map]: the model's own and,
// with [ReadOptions.MapExternal], those of its external data. It lasts until it has been closed as often
// as it is held: once by the model, and once for each call of Retain. It is safe for concurrent use.
//
// Its memory is read-only, and reading it faults when another process has truncated the file: read it
// inside [Mapping.Guard].
type Mapping struct {
	mu       sync.Mutex // of what follows and of changes to files
	refs     int
	external map[string]*mappedFile // by location
	files    atomic.Pointer[[]*mappedFile]
	used     atomic.Bool // a decoded tensor aliases it
}

// mappedFile is a file and all of its bytes in memory. It stays open, so that its size can be asked for.
type mappedFile struct {
	name  string
	f     *os.File
	fd    uintptr
	data  []byte
	unmap func() error
}

const (
	// mapAbove is the size in bytes from which on the tensors of a mapped model alias the mapping. Smaller
	// ones together take little, and each would keep a page busy.
	mapAbove = 16 << 10
	// maxMappedFiles bounds the files that are open for one model: data of further ones is copied.
	maxMappedFiles = 256
)

func newMapping(f *mappedFile) *Mapping {
	m := &Mapping{refs: 1, external: map[string]*mappedFile{}}
	m.files.Store(&[]*mappedFile{f})
	return m
}

// Mapping returns the mapped files of the model, nil for a model without and for one that is closed.
func (m *Model) Mapping() *Mapping {
	if m.file == nil {
		return nil
	}
	return m.file.mapping
}

// Retain holds the mapping once more, so that it lasts until one more Close.
func (m *Mapping) Retain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refs++
}

// Close lets go of the mapping. The last call ends it: its memory must not be touched afterwards.
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

// Used reports whether a tensor that [Model.DecodeTensor] has returned aliases the mapping.
func (m *Mapping) Used() bool { return m.used.Load() }

// Holds reports whether b lies in the mapping; a nil mapping holds nothing.
func (m *Mapping) Holds(b []byte) bool {
	return m != nil && len(b) > 0 && m.at(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) != nil
}

// at returns the file that is mapped at an address, or nil.
func (m *Mapping) at(addr uintptr) *mappedFile {
	for _, f := range *m.files.Load() {
		if addr-f.start() < uintptr(len(f.data)) {
			return f
		}
	}
	return nil
}

func (f *mappedFile) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(f.data))) }

// Drop takes the pages that have been touched out of the process's memory. Touched again, they come from
// the files again.
func (m *Mapping) Drop() {
	for _, f := range *m.files.Load() {
		dropPages(f.data)
	}
}

// Guard is [GuardMapped] with errors that name the file. Faults at other addresses panic.
func (m *Mapping) Guard(fn func() error) error { return guard(fn, m.Fault) }

// Fault returns what a recovered panic says of the mapping: an [ErrMappedFile] with the file's name
// where reading the mapping has faulted, nil for every other panic.
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
	return fmt.Errorf("%w: %q: byte %d of %d cannot be read, or was to be written", ErrMappedFile, f.name, addr-f.start(), len(f.data))
}

// Check returns err, what reading the mapping has ended with, or an [ErrMappedFile] where a file has lost
// bytes since it was mapped: reading the rest of its last page gives zeros then and no fault.
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
			return fmt.Errorf("%w; %w", err, lost)
		}
	}
	return err
}

func (f *mappedFile) check() error {
	size, err := fileSize(f.f, f.fd)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrMappedFile, f.name, err)
	}
	if size < int64(len(f.data)) {
		return fmt.Errorf("%w: %q has %d bytes, had %d when it was mapped", ErrMappedFile, f.name, size, len(f.data))
	}
	return nil
}

// bytes returns the range of a file of external data, which it maps; nil where that cannot be.
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
			return nil, fmt.Errorf("%w: open %q: %w", ErrExternalData, info.location, err)
		}
		f = &mappedFile{name: file.Name(), f: file, fd: file.Fd()}
		if f.data, f.unmap, err = mapFile(file, have); err != nil {
			file.Close()
			return nil, nil // reading says why, or works
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
