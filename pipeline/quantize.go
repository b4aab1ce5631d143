package pipeline

import (
	"errors"
	"fmt"
	"math"
)

// PackSigns returns a bit per number of a vector, 1 for positive ones, the first in the
// highest bit. It is the precision "ubinary" of sentence-transformers; the precision "binary"
// has these bytes minus 128, as int8.
func PackSigns(v []float32) []uint8 {
	bits := make([]uint8, (len(v)+7)/8)
	for i, x := range v {
		if x > 0 {
			bits[i/8] |= 0x80 >> (i % 8)
		}
	}
	return bits
}

// Ranges holds the least and the largest number of each dimension, for vectors of 8-bit
// integers: the ranges of quantize_embeddings of sentence-transformers.
type Ranges struct{ Min, Max []float32 }

// NewRanges returns the ranges of vectors, which should be many and typical.
func NewRanges(vectors [][]float32) (*Ranges, error) {
	if len(vectors) < 2 {
		return nil, fmt.Errorf("ranges: want at least 2 vectors, got %d", len(vectors))
	}
	r := &Ranges{append([]float32(nil), vectors[0]...), append([]float32(nil), vectors[0]...)}
	for i, v := range vectors {
		if len(v) != len(r.Min) {
			return nil, fmt.Errorf("ranges: vector %d has %d numbers, want %d", i, len(v), len(r.Min))
		}
		for k, x := range v {
			r.Min[k], r.Max[k] = min(r.Min[k], x), max(r.Max[k], x)
		}
	}
	return r, nil
}

// Uint8 returns a vector as integers from 0, for the least number of its dimension, to 255. It is
// the precision "uint8"; the precision "int8" has these numbers minus 128.
func (r *Ranges) Uint8(v []float32) ([]uint8, error) {
	if len(v) != len(r.Min) || len(v) != len(r.Max) {
		return nil, errors.New("ranges and vector have different dimensions")
	}
	q := make([]uint8, len(v))
	for k, x := range v {
		step := (r.Max[k] - r.Min[k]) / 255
		if step == 0 {
			step = 1
		}
		q[k] = uint8(min(max(math.Floor(float64((x-r.Min[k])/step)), 0), 255))
	}
	return q, nil
}

// Int8 returns integers of 0 to 255 as those of −128 to 127, for the precisions "int8" and
// "binary" of sentence-transformers.
func Int8(v []uint8) []int8 {
	q := make([]int8, len(v))
	for i, x := range v {
		q[i] = int8(int(x) - 128)
	}
	return q
}
