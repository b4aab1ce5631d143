package calibration

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/onward-ml/onward"
)

// Data yields batches, each the inputs of a run by name. It ends after an error.
// [Calibrate] may iterate over it more than once.
type Data = iter.Seq2[onward.Values, error]

// Batches returns Data of batches in memory.
func Batches(batches ...onward.Values) Data {
	return func(yield func(onward.Values, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Reader returns one batch after the other, and io.EOF after the last.
type Reader interface {
	Next(ctx context.Context) (onward.Values, error)
}

// FromReader returns Data that calls open for each iteration and yields the batches of the
// reader. A reader that is an io.Closer is closed at the end of the iteration.
func FromReader(ctx context.Context, open func() (Reader, error)) Data {
	return func(yield func(onward.Values, error) bool) {
		r, err := open()
		if err != nil {
			yield(nil, err)
			return
		}
		if c, ok := r.(io.Closer); ok {
			defer c.Close()
		}
		for {
			b, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
