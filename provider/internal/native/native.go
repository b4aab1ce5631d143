// Package native holds what the providers with native libraries share: the search for the
// library, typed options, checks of models and cancellation.
package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
)

// Opened holds the libraries of one kind that the process has opened. They are never
// unloaded, because native runtimes do not support it.
type Opened[L any] struct {
	mu     sync.Mutex
	byPath map[string]*L
	files  map[string]bool
}

// Open returns the first library of places for which accept, which may be nil, returns no
// error. start initializes a library that is opened for the first time. Its file is
// determined from the address of symbol.
func (o *Opened[L]) Open(what string, places []dl.Place, symbol string,
	start func(h *dl.Library, file string) (*L, error), accept func(*L) error) (*L, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byPath == nil {
		o.byPath, o.files = map[string]*L{}, map[string]bool{}
	}
	var found *L
	_, err := dl.Open(what, places, func(h *dl.Library) error {
		l := o.byPath[h.Path]
		if l == nil {
			sym, err := h.Symbol(symbol)
			if err != nil {
				return err
			}
			file := FileOf(sym, h.Path)
			// The system's loader resolves a bare name to any loaded library with that soname. If
			// that library was opened by its path, the system has none of its own.
			if filepath.Base(h.Path) == h.Path && o.files[file] {
				return dl.ErrAbsent
			}
			if l, err = start(h, file); err != nil {
				return err
			}
			o.byPath[h.Path] = l
			o.files[file] = file != ""
		}
		if accept != nil {
			if err := accept(l); err != nil {
				return err
			}
		}
		found = l
		return nil
	})
	return found, err
}

// Attempts returns the paths that were tried, from an error of [Opened.Open].
func Attempts(err error) []string {
	var nf *dl.NotFoundError
	if !errors.As(err, &nf) {
		return nil
	}
	r := make([]string, len(nf.Tried))
	for i, a := range nf.Tried {
		r[i] = a.String()
	}
	return r
}

// Watch calls stop in a goroutine of its own if the context ends. The caller must call
// release before it frees what stop uses: release waits for a stop that has begun.
func Watch(ctx context.Context, stop func()) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	off := context.AfterFunc(ctx, func() {
		stop()
		close(done)
	})
	return func() {
		if !off() {
			<-done
		}
	}
}

// Weights returns the size in bytes of the tensors inside the model, and the location of
// its external data, nil if it has none. Native runtimes open any path that a model names,
// so the locations are checked.
func Weights(m *onnx.Model) (size int64, where *onnx.External, err error) {
	if m.Graph == nil {
		return 0, nil, errors.New("the model has no graph")
	}
	var external bool
	m.EachTensor(func(t *onnx.Tensor) bool {
		external = external || t.DataLocation == onnx.LocationExternal
		size += int64(len(t.RawData)) + 4*int64(len(t.FloatData)) +
			8*int64(len(t.DoubleData)+len(t.Int64Data)+len(t.Uint64Data)) + 4*int64(len(t.Int32Data))
		return true
	})
	if !external {
		return size, nil, nil
	}
	if where = m.External(); where == nil {
		return size, nil, fmt.Errorf("%w: the model was not read from a file; set the folder of its external data",
			onnx.ErrExternalData)
	}
	if err := onnx.Check(m, nil); errors.Is(err, onnx.ErrExternalData) {
		return size, nil, err
	}
	return size, where, nil
}

// Shape converts the dimensions that a runtime reports. Dimensions must be non-negative.
func Shape(dims []int64) ([]int, error) {
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("dimension %d of the runtime's tensor must be non-negative and fit an int, got %d",
				i, n)
		}
		shape[i] = int(n)
	}
	return shape, nil
}
