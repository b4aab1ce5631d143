package calibration

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/onward-ml/onward/internal/atomicfile"
)

// Method computes the range of a tensor from its values.
type Method int

const (
	// MinMax takes the smallest and the largest value.
	MinMax Method = iota
	// Entropy takes the range whose quantized histogram has the smallest
	// Kullback-Leibler divergence from the histogram of all values (Migacz, 8-bit Inference with
	// TensorRT, 2017).
	Entropy
	// Percentile drops the same share of the values at both ends.
	Percentile
)

var methodNames = []string{"MinMax", "Entropy", "Percentile"}

// String returns ONNX Runtime's name of the method: MinMax, Entropy or Percentile.
func (m Method) String() string {
	if m < 0 || int(m) >= len(methodNames) {
		return fmt.Sprintf("Method(%d)", int(m))
	}
	return methodNames[m]
}

// Range is the range of a tensor's values.
type Range struct {
	Lowest, Highest float32
	// Hist holds the number of values in each bin, and Edges the edges of the bins, one
	// more than bins. Both are nil if there is no histogram.
	Hist  []int64
	Edges []float32
}

// Dynamic returns the largest absolute value of the range, TensorRT's dynamic range.
func (r Range) Dynamic() float32 {
	return float32(max(math.Abs(float64(r.Lowest)), math.Abs(float64(r.Highest))))
}

// Table holds the ranges of tensors by name.
type Table struct {
	Method Method
	Ranges map[string]Range
}

// NewTable returns an empty table.
func NewTable(method Method) *Table {
	return &Table{Method: method, Ranges: map[string]Range{}}
}

// Names returns the names of the tensors, sorted.
func (t *Table) Names() []string {
	return slices.Sorted(maps.Keys(t.Ranges))
}

// Lookup returns the range of a tensor and whether the table contains it.
func (t *Table) Lookup(name string) (Range, bool) {
	r, ok := t.Ranges[name]
	return r, ok
}

// The names of the files that ONNX Runtime's write_calibration_table writes.
const (
	FlatBuffersFile = "calibration.flatbuffers"
	JSONFile        = "calibration.json"
	CacheFile       = "calibration.cache"
)

// Format is a file format of tables.
type Format string

// The formats. Only JSON holds both ends of a range, the method and the histograms. The
// others hold [Range.Dynamic].
const (
	FlatBuffers Format = "flatbuffers"
	JSON        Format = "json"
	Cache       Format = "cache"
)

// Write writes the table in a format.
func (t *Table) Write(w io.Writer, f Format) error {
	switch f {
	case FlatBuffers:
		return t.WriteFlatBuffers(w)
	case JSON:
		return t.WriteJSON(w)
	case Cache:
		return t.WriteCache(w)
	}
	return fmt.Errorf("table format %q, want %s, %s or %s", f, FlatBuffers, JSON, Cache)
}

// WriteFile writes the table to a temporary file and renames it to path.
func (t *Table) WriteFile(path string, f Format) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return t.Write(w, f) })
}

// WriteDir writes the table into a folder in all three formats, with ONNX Runtime's file
// names.
func (t *Table) WriteDir(dir string) error {
	for _, f := range []struct {
		name   string
		format Format
	}{{FlatBuffersFile, FlatBuffers}, {JSONFile, JSON}, {CacheFile, Cache}} {
		if err := t.WriteFile(filepath.Join(dir, f.name), f.format); err != nil {
			return err
		}
	}
	return nil
}

// MaxTableSize is the largest table in bytes that is read.
const MaxTableSize = 256 << 20

// ReadFile reads a table in any of the formats, or TensorRT's own calibration cache.
func ReadFile(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Read reads a table in any of the formats, or TensorRT's own calibration cache. If there is
// one number d for a tensor, its range is −d to d.
func Read(r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxTableSize {
		return nil, fmt.Errorf("calibration table has more than %d bytes", MaxTableSize)
	}
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) > 0 && text[0] == '{' {
		if t, err := ParseJSON(data); err == nil || bytes.IndexByte(text, 0) < 0 {
			return t, err
		}
	}
	// FlatBuffers begin with offsets, which contain zero bytes. Text does not.
	if len(data) > 0 && bytes.IndexByte(data, 0) < 0 {
		return ParseCache(data)
	}
	return ParseFlatBuffers(data)
}

// symmetric returns the range from −dynamic to dynamic.
func symmetric(dynamic float64) (Range, error) {
	v := float32(dynamic)
	if math.IsNaN(dynamic) || math.IsInf(float64(v), 0) {
		return Range{}, fmt.Errorf("dynamic range %g is not finite", dynamic)
	}
	v = float32(math.Abs(float64(v)))
	return Range{Lowest: -v, Highest: v}, nil
}
