package calibration

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/onward-ml/onward"
)

// Data is a sequence of batches: the inputs of a run by name. An error ends it.
// What reads it may ask for it more than once.
type Data = iter.Seq2[onward.Values, error]

// Batches is Data in memory.
func Batches(batches ...onward.Values) Data {
	return func(yield func(onward.Values, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Reader hands out batches one after the other, and io.EOF after the last.
type Reader interface {
	Next(ctx context.Context) (onward.Values, error)
}

// FromReader makes Data of readers that open makes, one each time the data is asked
// for. A reader that is an io.Closer is closed when its batches are not wanted any
// more.
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
