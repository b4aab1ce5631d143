// Package native is what the drivers of native runtimes share: where their
// libraries may lie, options with types, and the checks and waits that are the same
// for each runtime.
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

// Opened are the libraries of one kind that the process has opened. They stay: a
// native runtime does not survive being unloaded.
type Opened[L any] struct {
	mu     sync.Mutex
	byPath map[string]*L
	files  map[string]bool
}

// Open returns the first library of places that accept takes; accept may be nil.
// Start makes the L of one that is opened for the first time, whose file is known
// by the address of symbol.
func (o *Opened[L]) Open(what string, places []dl.Place, symbol string, start func(h *dl.Library, file string) (*L, error), accept func(*L) error) (*L, error) {
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
			// The system's loader answers a bare name by the name inside of a library that
			// is open already, wherever that lies: then it has none of its own.
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

// Attempts returns the places that were looked at, from an error of [Opened.Open].
func Attempts(err error) []string {
	var nf *dl.NotFoundError
	if !errors.As(err, &nf) {
		return nil
	}
	r := make([]string, len(nf.Tried))
	for i, a := range nf.Tried {
		r[i] = fmt.Sprintf("%s (%s): %v", a.Path, a.Source, a.Err)
	}
	return r
}

// Watch calls stop in a goroutine of its own once the context ends. The caller
// calls release when what stop uses is about to go: it waits for a stop that has
// begun.
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

// Weights returns the bytes that the tensors take in the model, and
// where its external data lies; where is nil when it has none. Native runtimes open
// files wherever a model says, so the places are checked.
func Weights(m *onnx.Model) (size int64, where *onnx.External, err error) {
	if m.Graph == nil {
		return 0, nil, errors.New("the model has no graph")
	}
	var external bool
	m.EachTensor(func(t *onnx.Tensor) bool {
		external = external || t.DataLocation == onnx.LocationExternal
		size += int64(len(t.RawData)) + 4*int64(len(t.FloatData)) + 8*int64(len(t.DoubleData)+len(t.Int64Data)+len(t.Uint64Data)) + 4*int64(len(t.Int32Data))
		return true
	})
	if !external {
		return size, nil, nil
	}
	if where = m.External(); where == nil {
		return size, nil, fmt.Errorf("%w: the model was not read from a file; set the folder of its external data", onnx.ErrExternalData)
	}
	if err := onnx.Check(m, nil); errors.Is(err, onnx.ErrExternalData) {
		return size, nil, err
	}
	return size, where, nil
}

// Shape converts the dimensions that a runtime reports.
func Shape(dims []int64) ([]int, error) {
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("the runtime's tensor has dimension %d of size %d", i, n)
		}
		shape[i] = int(n)
	}
	return shape, nil
}
