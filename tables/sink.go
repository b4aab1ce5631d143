package tables

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// An encoder writes a table piece by piece. A table that is written without interruption and
// one that is continued after one have the same bytes.
type encoder interface {
	write(ctx context.Context, rec arrow.RecordBatch) error
	// endPiece writes the rows so far. It returns what is needed to continue, or nil.
	endPiece() ([]byte, error)
	// close writes what ends the table.
	close() error
}

// newEncoder returns an encoder that continues after the pieces that done lists.
func newEncoder(f Format, out *partial, schema *arrow.Schema, done []piece) (encoder, error) {
	switch f {
	case ArrowFile:
		return newArrowEncoder(out, schema, len(done) > 0)
	case Parquet:
		return newParquetEncoder(out, schema, done)
	}
	return streamEncoder(f, out, schema, len(done) == 0)
}

// streamEncoder returns an encoder for a format that is written in one pass,
// or continued by appending.
func streamEncoder(f Format, w io.Writer, schema *arrow.Schema, header bool) (encoder, error) {
	switch f {
	case ArrowStream, "":
		if !header {
			return nil, errors.New("an Arrow stream cannot be continued: write another format, such as an Arrow file")
		}
		return &arrowEncoder{w: ipc.NewWriter(w, ipc.WithSchema(schema))}, nil
	case CSV:
		e := &csvEncoder{w: csv.NewWriter(w), out: w, row: make([]string, schema.NumFields())}
		if header {
			for i, f := range schema.Fields() {
				e.row[i] = f.Name
			}
			if err := e.record(); err != nil {
				return nil, err
			}
		}
		return e, nil
	case JSONLines:
		e := &jsonEncoder{w: bufio.NewWriterSize(w, 1<<16), schema: schema}
		for _, f := range schema.Fields() {
			key, err := json.Marshal(f.Name)
			if err != nil {
				return nil, err
			}
			e.keys = append(e.keys, append(key, ':'))
		}
		return e, nil
	}
	return nil, fmt.Errorf("format %s cannot be written to standard output, want arrow-stream, csv or jsonl", f)
}

// arrowEncoder writes an Arrow IPC stream or file.
type arrowEncoder struct {
	w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
}

func (e *arrowEncoder) write(_ context.Context, rec arrow.RecordBatch) (err error) {
	for i, c := range rec.Columns() {
		// The writer of arrow-go reads the offsets of a part of list views from the whole.
		if d := c.Data(); d.Offset() > 0 && hasListView(d) && err == nil {
			rec, err = rec.SetColumn(i, take(memory.DefaultAllocator, c, selection{{0, c.Len()}}))
		}
	}
	if err != nil {
		return err
	}
	return e.w.Write(rec)
}

func hasListView(d arrow.ArrayData) bool {
	id := d.DataType().ID()
	return id == arrow.LIST_VIEW || id == arrow.LARGE_LIST_VIEW || slices.ContainsFunc(d.Children(), hasListView)
}

func (e *arrowEncoder) endPiece() ([]byte, error) { return nil, nil }
func (e *arrowEncoder) close() error              { return e.w.Close() }

// newArrowEncoder returns an encoder for Arrow IPC files. To continue, it writes the record
// batches of the file again without changing it: the writer collects their positions for
// the end of the file.
func newArrowEncoder(out *partial, schema *arrow.Schema, resume bool) (encoder, error) {
	skip := &skipWriter{w: out}
	w, err := ipc.NewFileWriter(skip, ipc.WithSchema(schema))
	if err != nil || !resume {
		return &arrowEncoder{w}, err
	}
	skip.n = out.size
	magic := int64(len(ipc.Magic)+7) / 8 * 8
	r, err := ipc.NewReader(io.NewSectionReader(out.f, magic, out.size-magic))
	if err != nil {
		return nil, err
	}
	for skip.n > 0 && r.Next() {
		if err := w.Write(r.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if skip.n != 0 {
		return nil, fmt.Errorf("the interrupted file has %d bytes that are not record batches of it", skip.n)
	}
	return &arrowEncoder{w}, nil
}

// skipWriter drops the first n bytes.
type skipWriter struct {
	w io.Writer
	n int64
}

func (s *skipWriter) Write(p []byte) (int, error) {
	k := min(s.n, int64(len(p)))
	if s.n -= k; k == int64(len(p)) {
		return len(p), nil
	}
	n, err := s.w.Write(p[k:])
	return int(k) + n, err
}

// csvEncoder writes CSV. Lists and structs are JSON texts, and null is an empty field.
type csvEncoder struct {
	w   *csv.Writer
	out io.Writer
	row []string
}

// record writes the row. Readers skip an empty line, which csv.Writer writes for one empty field.
func (e *csvEncoder) record() error {
	if len(e.row) != 1 || e.row[0] != "" {
		return e.w.Write(e.row)
	}
	e.w.Flush()
	if err := e.w.Error(); err != nil {
		return err
	}
	_, err := io.WriteString(e.out, "\"\"\n")
	return err
}

func (e *csvEncoder) write(ctx context.Context, rec arrow.RecordBatch) error {
	for i := range int(rec.NumRows()) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for k, c := range rec.Columns() {
			switch c := c.(type) {
			case *array.String:
				e.row[k] = ""
				if c.IsValid(i) {
					e.row[k] = c.Value(i)
				}
			default:
				b, err := appendValue(nil, c, i)
				if err != nil {
					return err
				}
				switch s := string(b); {
				case s == "null":
					e.row[k] = ""
				case s[0] == '"':
					if err := json.Unmarshal(b, &e.row[k]); err != nil {
						return err
					}
				default:
					e.row[k] = s
				}
			}
		}
		if err := e.record(); err != nil {
			return err
		}
	}
	return nil
}

func (e *csvEncoder) endPiece() ([]byte, error) {
	e.w.Flush()
	return nil, e.w.Error()
}

func (e *csvEncoder) close() error {
	_, err := e.endPiece()
	return err
}

// jsonEncoder writes one JSON object per row.
type jsonEncoder struct {
	w      *bufio.Writer
	schema *arrow.Schema
	keys   [][]byte // with a colon
	buf    []byte
}

func (e *jsonEncoder) write(ctx context.Context, rec arrow.RecordBatch) error {
	for i := range int(rec.NumRows()) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b := append(e.buf[:0], '{')
		for k, c := range rec.Columns() {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(b, e.keys[k]...)
			if s, ok := c.(*array.String); ok && s.IsValid(i) && isRaw(e.schema.Field(k)) {
				b = append(b, s.Value(i)...)
				continue
			}
			var err error
			if b, err = appendValue(b, c, i); err != nil {
				return err
			}
		}
		e.buf = append(b, '}', '\n')
		if _, err := e.w.Write(e.buf); err != nil {
			return err
		}
	}
	return nil
}

func (e *jsonEncoder) endPiece() ([]byte, error) { return nil, e.w.Flush() }
func (e *jsonEncoder) close() error              { return e.w.Flush() }

// maxText is the number of bytes of a row as text after which no element of a list may follow:
// lists of null take no bytes in a table, and lists may share their elements.
var maxText = 256 << 20

// appendValue appends element i of a column as JSON. NaN and infinities, which JSON has not,
// are the strings "NaN", "Infinity" and "-Infinity".
func appendValue(b []byte, a arrow.Array, i int) ([]byte, error) {
	if a.IsNull(i) {
		return append(b, "null"...), nil
	}
	switch a := a.(type) {
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32), nil
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64), nil
	case *array.Float16:
		return appendFloat(b, float64(a.Value(i).Float32()), 32), nil
	case *array.Int64:
		return strconv.AppendInt(b, a.Value(i), 10), nil
	case *array.Int32:
		return strconv.AppendInt(b, int64(a.Value(i)), 10), nil
	case *array.Uint64:
		return strconv.AppendUint(b, a.Value(i), 10), nil
	case *array.Boolean:
		return strconv.AppendBool(b, a.Value(i)), nil
	case *array.Map: // an array of keys and values
	case array.ListLike:
		lo, hi := a.ValueOffsets(i)
		values, err := a.ListValues(), error(nil)
		b = append(b, '[')
		for k := lo; k < hi; k++ {
			if len(b) > maxText {
				return b, fmt.Errorf("a row takes more than %d MiB as text; write Parquet or Arrow", maxText>>20)
			}
			if k > lo {
				b = append(b, ',')
			}
			if b, err = appendValue(b, values, int(k)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	case *array.Struct:
		b = append(b, '{')
		for k, f := range a.DataType().(*arrow.StructType).Fields() {
			if k > 0 {
				b = append(b, ',')
			}
			key, err := json.Marshal(f.Name)
			if err != nil {
				return b, err
			}
			b = append(append(b, key...), ':')
			if b, err = appendValue(b, a.Field(k), i); err != nil {
				return b, err
			}
		}
		return append(b, '}'), nil
	}
	v, err := json.Marshal(a.GetOneForMarshal(i))
	return append(b, v...), err
}

func appendFloat(b []byte, x float64, bits int) []byte {
	switch {
	case math.IsNaN(x):
		return append(b, `"NaN"`...)
	case math.IsInf(x, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(x, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, bits)
}

// partial is the file that is written beside the result. It computes the checksum of a piece.
type partial struct {
	f    *os.File
	size int64
	crc  uint32 // of the bytes since the last piece
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (p *partial) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.size += int64(n)
	p.crc = crc32.Update(p.crc, castagnoli, b[:n])
	return n, err
}
