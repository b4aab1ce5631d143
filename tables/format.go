package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/onward-ml/onward/internal/regular"
)

// A Format is a file format of tables.
type Format string

const (
	ArrowStream Format = "arrow-stream" // Arrow IPC stream
	ArrowFile   Format = "arrow"        // Arrow IPC file
	Parquet     Format = "parquet"      // Apache Parquet
	CSV         Format = "csv"          // with a header; all columns are strings
	JSONLines   Format = "jsonl"        // one object per line
)

var extensions = map[string]Format{
	".arrows": ArrowStream, ".arrow": ArrowFile, ".feather": ArrowFile, ".ipc": ArrowFile,
	".parquet": Parquet, ".pq": Parquet, ".csv": CSV, ".jsonl": JSONLines, ".ndjson": JSONLines,
}

// FormatOf returns the format of a file by the extension of its name.
func FormatOf(path string) (Format, error) {
	f, ok := extensions[strings.ToLower(filepath.Ext(path))]
	if !ok {
		return "", fmt.Errorf("%s: the format is not known by the extension; want .parquet, .arrow, .arrows, .csv or "+
			".jsonl, or the name of a format", path)
	}
	return f, nil
}

// ParseFormat returns the format of a name. The empty name is valid and stands for the
// extension of a file.
func ParseFormat(name string) (Format, error) {
	f := Format(name)
	if f == "" || slices.Contains([]Format{ArrowStream, ArrowFile, Parquet, CSV, JSONLines}, f) {
		return f, nil
	}
	return "", fmt.Errorf("format is %q, want arrow-stream, arrow, parquet, csv or jsonl", name)
}

const (
	maxMetadata = 64 << 20 // of a message of Arrow
	maxBody     = 1 << 30  // of a record batch, or a column of one
	readRows    = 16384    // rows read at a time, at most
	readBytes   = 8 << 20  // read at a time, about
)

// pieceBytes is the size of the input after which a piece ends.
var pieceBytes int64 = 8 << 20

// A source reads a table.
type source interface {
	schema() *arrow.Schema
	// spans lists the parts of the table that can be read on their own, in their order.
	spans() []span
	// read reads a span. columns are those of the schema to read, in ascending order.
	read(ctx context.Context, s span, columns []int, yield func(chunk) error) error
	// stat describes the file that is read.
	stat() (fs.FileInfo, error)
	io.Closer
}

// A span is a part of a table. The meaning of from and to depends on the format.
type span struct {
	source   int // index of the table
	from, to int64
	bytes    int64 // read from the file
	rows     int64 // or −1
}

// A chunk is a record batch with rows that could be read in part only.
type chunk struct {
	rec     arrow.RecordBatch
	reasons []string // per row, "" if it is good; nil if all are
	place   place    // of the first row
}

// A place names rows: prefix and the number of the row.
type place struct {
	prefix string
	first  int64
	lines  []int64 // number of each row, or nil if they follow first
}

func (p place) of(row int) string {
	if p.lines != nil {
		return p.prefix + fmt.Sprint(p.lines[row])
	}
	return p.prefix + fmt.Sprint(p.first+int64(row))
}

// open opens a table in a file. floats names columns that are numbers with a fraction.
func open(path string, f Format, floats []string) (_ source, err error) {
	if f == "" {
		if f, err = FormatOf(path); err != nil {
			return nil, err
		}
	}
	file, info, err := regular.Open(path)
	if errors.Is(err, regular.Err) {
		err = fmt.Errorf("%w: use standard input for it", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	defer damaged(&err)
	var s source
	switch f {
	case ArrowStream:
		s, err = newArrowStream(file, filepath.Base(path)+" row ", file)
	case ArrowFile:
		s, err = openArrowFile(file, info)
	case Parquet:
		s, err = openParquet(file, info)
	case CSV:
		s, err = openText(file, info, newCSV)
	case JSONLines:
		s, err = openText(file, info, newJSON(floats))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return plain(s), nil
}

// openStream opens a table that is read once, such as standard input.
func openStream(r io.Reader, f Format, floats []string) (_ source, err error) {
	defer damaged(&err)
	var s source
	switch f {
	case ArrowStream, "":
		s, err = newArrowStream(r, "row ", nil)
	case CSV:
		s, err = newText("line ", r, newCSV)
	case JSONLines:
		s, err = newText("line ", r, newJSON(floats))
	default:
		return nil, fmt.Errorf("format %s cannot be read from standard input, want arrow-stream, csv or jsonl", f)
	}
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return plain(s), nil
}

// project returns the columns of a record batch.
func project(rec arrow.RecordBatch, columns []int) arrow.RecordBatch {
	if len(columns) == int(rec.NumCols()) {
		return rec
	}
	list := make([]arrow.Array, len(columns))
	for i, c := range columns {
		list[i] = rec.Column(c)
	}
	return array.NewRecordBatch(projectSchema(rec.Schema(), columns), list, rec.NumRows())
}

func projectSchema(s *arrow.Schema, columns []int) *arrow.Schema {
	list := make([]arrow.Field, len(columns))
	for i, c := range columns {
		list[i] = s.Field(c)
	}
	meta := s.Metadata()
	return arrow.NewSchema(list, &meta)
}

// plainSource replaces dictionary-encoded columns by their values, so that the columns of
// all record batches can be concatenated and written to any format. It cuts record batches whose
// rows share values, as dictionaries and views do, so that those of a part take batchBytes.
type plainSource struct {
	source
	types *arrow.Schema
}

func plain(s source) source {
	list := slices.Clone(s.schema().Fields())
	found := false
	for i, f := range list {
		if d, ok := f.Type.(*arrow.DictionaryType); ok {
			list[i].Type, found = d.ValueType, true
		}
		found = found || hasView(f.Type)
	}
	if !found {
		return s
	}
	meta := s.schema().Metadata()
	return &plainSource{s, arrow.NewSchema(list, &meta)}
}

func hasView(t arrow.DataType) bool {
	if n, ok := t.(arrow.NestedType); ok {
		return slices.ContainsFunc(n.Fields(), func(f arrow.Field) bool { return hasView(f.Type) })
	}
	_, ok := t.(arrow.BinaryViewDataType)
	return ok
}

func (p *plainSource) schema() *arrow.Schema { return p.types }

func (p *plainSource) read(ctx context.Context, s span, columns []int, yield func(chunk) error) error {
	schema := projectSchema(p.types, columns)
	return p.source.read(ctx, s, columns, func(c chunk) error {
		size := func(lo, hi int64) int64 { return recordBytes(c.rec.NewSlice(lo, hi)) }
		return byBytes(size, 0, c.rec.NumRows(), func(lo, hi int64) error {
			list, mem := slices.Clone(c.rec.NewSlice(lo, hi).Columns()), new(budget)
			for i, a := range list {
				if d, ok := a.(*array.Dictionary); ok {
					list[i] = valuesOf(mem, d)
				}
			}
			place := c.place
			place.first += lo
			return yield(chunk{array.NewRecordBatch(schema, list, hi-lo), nil, place})
		})
	})
}

// byBytes yields the parts of a range in their order. A part has one element, or size returns at
// most batchBytes for it.
func byBytes(size func(lo, hi int64) int64, lo, hi int64, yield func(lo, hi int64) error) error {
	if hi-lo <= 1 || size(lo, hi) <= batchBytes {
		return yield(lo, hi)
	}
	middle := lo + (hi-lo)/2
	if err := byBytes(size, lo, middle, yield); err != nil {
		return err
	}
	return byBytes(size, middle, hi, yield)
}

// valuesOf returns the values of a dictionary-encoded column. Their number of bytes is counted: a
// null of a type of fixed size takes memory that the file does not have.
func valuesOf(mem *budget, d *array.Dictionary) arrow.Array {
	var s selection
	for i := range d.Len() {
		at := -1
		if d.IsValid(i) {
			at = d.GetValueIndex(i)
		}
		s.add(at, 1)
	}
	return take(mem, d.Dictionary(), s)
}

// damaged makes a panic an error: offsets and lengths in a table are not trusted, and Arrow
// checks them when a value is read.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the table is damaged or of a type that cannot be scored: %v", p)
	}
}
