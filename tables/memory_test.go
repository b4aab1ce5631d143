package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// repeated makes a record batch with a column of one text in all rows, and columns of nulls.
func repeated(rows, size, nulls int) arrow.RecordBatch {
	fields := []arrow.Field{field("text", arrow.BinaryTypes.String)}
	for i := range nulls {
		fields = append(fields, arrow.Field{Name: fmt.Sprint(i), Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	text := strings.Repeat("x", size)
	for range rows {
		b.Field(0).(*array.StringBuilder).Append(text)
		for i := range nulls {
			b.Field(i + 1).AppendNull()
		}
	}
	return b.NewRecordBatch()
}

// writeParquet writes record batches to one row group, texts with a dictionary.
func writeParquet(t *testing.T, path string, recs ...arrow.RecordBatch) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(recs[0].Schema(), f, parquet.NewWriterProperties(),
		pqarrow.DefaultWriterProps())
	for _, rec := range recs {
		if err == nil {
			err = w.WriteBuffered(rec)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBatchesOfBytes reads Parquet files whose rows take much more memory than the file: texts that
// repeat, and columns of nulls. The memory of a record batch stays bounded.
func TestBatchesOfBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	for name, rec := range map[string]arrow.RecordBatch{
		"texts": repeated(6000, 40_000, 0), "nulls": repeated(6000, 1, 2000),
	} {
		writeParquet(t, path, rec, rec, rec)
		s, err := open(path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		columns := make([]int, rec.NumCols())
		for i := range columns {
			columns[i] = i
		}
		rows := int64(0)
		b := batcher{rows: 4096, emit: func(w work) error {
			rows += w.rec.NumRows()
			if n := sizeOf(w.rec); n > 2*batchBytes {
				t.Errorf("%s: a batch of %d rows has %d bytes", name, w.rec.NumRows(), n)
			}
			return nil
		}}
		for _, sp := range s.spans() {
			err = s.read(t.Context(), sp, columns, func(c chunk) error {
				if n := sizeOf(c.rec); n > 2*readBytes {
					t.Errorf("%s: %d rows of %d bytes are read at a time", name, c.rec.NumRows(), n)
				}
				return b.add(c)
			})
		}
		if err == nil {
			err = b.flush()
		}
		if err != nil || rows != 18000 {
			t.Errorf("%s: %d rows are read, %v", name, rows, err)
		}
		s.Close()
	}
}

// TestBudget reads record batches whose compressed buffers and dictionaries take more memory than
// the limit.
func TestBudget(t *testing.T) {
	before := maxBatch
	maxBatch = 1 << 20
	defer func() { maxBatch = before }()
	dir := t.TempDir()
	var z bytes.Buffer
	rec := repeated(1000, 3000, 0)
	w := ipc.NewWriter(&z, ipc.WithSchema(rec.Schema()), ipc.WithZstd())
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	w.Close()
	zstd := filepath.Join(dir, "zstd.arrows")
	if err := os.WriteFile(zstd, z.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	pq := filepath.Join(dir, "t.parquet")
	writeParquet(t, pq, repeated(1000, 300_000, 0))
	for _, path := range []string{zstd, pq} {
		s, err := open(path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = func() (err error) {
			defer damaged(&err)
			return s.read(t.Context(), s.spans()[0], []int{0}, func(chunk) error { return nil })
		}()
		if err == nil || !strings.Contains(err.Error(), "takes more than 1048576 bytes") {
			t.Errorf("%s: error %v", path, err)
		}
		s.Close()
	}
}

// TestShortRecords reads CSV records with fewer fields than the header, whose nulls take memory.
func TestShortRecords(t *testing.T) {
	text := strings.Repeat("column,", maxFields-1) + "last\n" + strings.Repeat("1\n", 4000)
	s, err := newText("line ", strings.NewReader(text), newCSV)
	if err != nil {
		t.Fatal(err)
	}
	columns := make([]int, s.schema().NumFields())
	for i := range columns {
		columns[i] = i
	}
	rows := int64(0)
	err = s.read(t.Context(), span{}, columns, func(c chunk) error {
		if n := sizeOf(c.rec); n > 16<<20 {
			t.Errorf("%d rows of %d bytes are read at a time", c.rec.NumRows(), n)
		}
		if rows += c.rec.NumRows(); rows > 100 {
			return os.ErrProcessDone // enough
		}
		return nil
	})
	if rows <= 100 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestRowsOfOneText reads record batches whose rows share one text: the values of a dictionary, and
// views, also those in lists and structs. The parts that are read at a time, and the batches, are
// as small as if each row had its own.
func TestRowsOfOneText(t *testing.T) {
	const rows, size = 300, 500_000
	mem := memory.DefaultAllocator
	index := array.NewInt8Builder(mem)
	index.AppendValues(make([]int8, rows), nil)
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	dict := array.NewDictionaryArray(typ, index.NewArray(), repeated(1, size, 0).Column(0))
	view := array.NewStringViewBuilder(mem)
	view.Append(strings.Repeat("x", size))
	views := take(mem, view.NewArray(), positions(make([]int, rows)))
	lists := array.NewData(arrow.FixedSizeListOf(1, arrow.BinaryTypes.StringView), rows, []*memory.Buffer{nil},
		[]arrow.ArrayData{views.Data()}, 0, 0)
	nested, err := array.NewStructArray([]arrow.Array{array.MakeFromData(lists)}, []string{"list"})
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []arrow.Array{dict, views, nested} {
		schema := arrow.NewSchema([]arrow.Field{field("text", column.DataType())}, nil)
		rec := array.NewRecordBatch(schema, []arrow.Array{column}, rows)
		s, err := openStream(bytes.NewReader(stream(t, rec)), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		read, scored := int64(0), int64(0)
		b := batcher{rows: 4096, emit: func(w work) error {
			if w.rec.NumRows()*size > 3*batchBytes {
				t.Errorf("%s: a batch has %d rows", column.DataType(), w.rec.NumRows())
			}
			scored += w.rec.NumRows()
			return nil
		}}
		err = s.read(t.Context(), span{}, []int{0}, func(c chunk) error {
			if c.rec.NumRows()*size > batchBytes {
				t.Errorf("%s: %d rows are read at a time", column.DataType(), c.rec.NumRows())
			}
			if c.place.first != read+1 {
				t.Errorf("%s: rows %d are called %d", column.DataType(), read+1, c.place.first)
			}
			read += c.rec.NumRows()
			return b.add(c)
		})
		if err == nil {
			err = b.flush()
		}
		if err != nil || read != rows || scored != rows {
			t.Errorf("%s: %d and %d rows, %v", column.DataType(), read, scored, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrProcessDone)
	if err := verifyArray(ctx, views); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("views are verified although the job ends: %v", err)
	}
}

// TestParquetBytesRepeat writes columns of texts that have too many values for a dictionary twice:
// the files have the same bytes.
func TestParquetBytesRepeat(t *testing.T) {
	var fields []arrow.Field
	for i := range 12 {
		fields = append(fields, field(fmt.Sprint(i), arrow.BinaryTypes.String))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for row := range 8192 {
		for _, f := range b.Fields() {
			f.(*array.StringBuilder).Append(fmt.Sprintf("%0300d", row))
		}
	}
	dir, rec := t.TempDir(), b.NewRecordBatch()
	var files [2][]byte
	for i := range files {
		path := filepath.Join(dir, "t.parquet")
		writeTable(t, path, rec)
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the files differ")
	}
}
