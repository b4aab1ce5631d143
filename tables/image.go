package tables

import (
	"bytes"
	"errors"
	"fmt"
	_ "image/gif" // image formats
	_ "image/jpeg"
	_ "image/png"
	"io"
	"runtime"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
)

// limitImages limits the images of an input whose size is free. A run takes all of its rows.
func (in *input) limitImages(rows int) {
	if in.freeImages() {
		in.layout.MaxValues = max(1, maxBody/4/rows)
	}
}

// freeImages reports whether the sizes of images come from the table.
func (in *input) freeImages() bool {
	return in.kind == images && (in.layout.Height.Value < 0 || in.layout.Width.Value < 0)
}

// imageRows returns the number of rows whose images are decoded at a time. Their values take at
// most 32 MiB, or 1 GiB if the number of rows of a run is given.
func (r *scoring) imageRows(rec arrow.RecordBatch) int64 {
	limit := int64(batchBytes)
	if r.fixed || r.opts.Batch > 0 {
		limit = maxBody
	}
	n := rec.NumRows()
	for _, in := range r.inputs {
		if !in.freeImages() {
			continue
		}
		total := int64(0)
		for i := int64(0); i < n && r.ctx.Err() == nil; i++ {
			// An image that cannot be opened is rejected when it is decoded.
			r.openImage(rec.Column(in.columns[0]), int(i), func(f io.ReadSeeker) error {
				values, err := in.layout.Values(f)
				total += 4 * values
				return err
			})
			if total > limit && i > 0 {
				n = i
			}
		}
	}
	return n
}

// readImages decodes the images of a column, on all cores.
func (r *scoring) readImages(v *values, a arrow.Array, name string, bad reject) {
	n := a.Len()
	decoded, reasons := make([][]float32, n), make([]error, n)
	v.shapes, v.starts = make([][]int, n), make([]int, n)
	var wg sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && r.ctx.Err() == nil; i += workers {
				reasons[i] = r.openImage(a, i, func(f io.ReadSeeker) (err error) {
					decoded[i], v.shapes[i], err = v.in.layout.Decode(r.ctx, f)
					return err
				})
			}
		})
	}
	wg.Wait()
	total := 0
	for i := range n {
		v.starts[i] = total
		total += len(decoded[i])
		if reasons[i] != nil {
			bad(i, "column "+name+": "+reasons[i].Error())
		}
	}
	if n == 1 {
		v.data = decoded[0]
		return
	}
	data := make([]float32, 0, total)
	for _, d := range decoded {
		data = append(data, d...)
	}
	v.data = data
}

// openImage calls f for the image of a row: its bytes, or the file that it names.
func (s *Scorer) openImage(a arrow.Array, i int, f func(io.ReadSeeker) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("image cannot be decoded: %v", p)
		}
	}()
	if a.IsNull(i) {
		return errors.New("image is null")
	}
	switch t := a.(type) {
	case interface{ Value(int) []byte }:
		return f(bytes.NewReader(t.Value(i)))
	case interface{ Value(int) string }:
		file, err := s.folder.Open(t.Value(i))
		if err != nil {
			return err
		}
		defer file.Close()
		return f(file)
	}
	return fmt.Errorf("column has type %s, want bytes or the name of a file", a.DataType())
}
