package tables

import (
	"bytes"
	"errors"
	"fmt"
	_ "image/gif" // image formats
	_ "image/jpeg"
	_ "image/png"
	"runtime"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/onward-ml/onward/internal/imageinput"
)

// readImages decodes the images of a column, on all cores.
func (s *Scorer) readImages(v *values, a arrow.Array, name string, bad reject) {
	n := a.Len()
	decoded, reasons := make([][]float32, n), make([]error, n)
	v.shapes, v.starts = make([][]int, n), make([]int, n)
	var wg sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				decoded[i], v.shapes[i], reasons[i] = s.decode(v.in.layout, a, i)
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
	data := make([]float32, 0, total)
	for _, d := range decoded {
		data = append(data, d...)
	}
	v.data = data
}

// decode decodes the image of a row: its bytes, or the file that it names.
func (s *Scorer) decode(l imageinput.Layout, a arrow.Array, i int) (data []float32, shape []int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("image cannot be decoded: %v", p)
		}
	}()
	if a.IsNull(i) {
		return nil, nil, errors.New("image is null")
	}
	switch t := a.(type) {
	case interface{ Value(int) []byte }:
		return l.Decode(bytes.NewReader(t.Value(i)))
	case interface{ Value(int) string }:
		f, err := s.folder.Open(t.Value(i))
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		return l.Decode(f)
	}
	return nil, nil, fmt.Errorf("column has type %s, want bytes or the name of a file", a.DataType())
}
