package tables

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// firstRows is the number of rows of the first record batch of a row group.
const firstRows = 64

// parquetFile reads a Parquet file. A span is a range of row groups.
type parquetFile struct {
	f    *os.File
	r    *pqarrow.FileReader
	mem  *budget
	arr  *arrow.Schema
	name string
	rows []int64 // before each row group
}

func openParquet(f *os.File, info fs.FileInfo) (source, error) {
	if err := verifyParquet(f, info.Size()); err != nil {
		return nil, err
	}
	// Read pages as they are needed, not whole columns of a row group, so that memory does
	// not grow with the row groups.
	mem := new(budget)
	props := parquet.NewReaderProperties(mem)
	props.BufferedStreamEnabled = true
	r, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return nil, err
	}
	props.BufferSize = int64(max(4<<10, min(256<<10, readBytes/max(1, r.MetaData().Schema.NumColumns()))))
	if text := r.MetaData().KeyValueMetadata().FindValue("ARROW:schema"); text != nil {
		// The schema of the writer, as the beginning of an IPC stream, in base64
		// with or without padding.
		data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(*text, "="))
		if err == nil {
			_, err = verifyStream(bytes.NewReader(data))
		}
		if err != nil {
			return nil, fmt.Errorf("metadata ARROW:schema: %w", err)
		}
	}
	ar, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, mem)
	if err != nil {
		return nil, err
	}
	schema, err := ar.Schema()
	if err != nil {
		return nil, err
	}
	rows, n := make([]int64, r.NumRowGroups()), int64(0)
	for k := range rows {
		rows[k] = n
		n += r.MetaData().RowGroup(k).NumRows()
	}
	return &parquetFile{f, ar, mem, schema, filepath.Base(f.Name()), rows}, nil
}

func (p *parquetFile) schema() *arrow.Schema { return p.arr }

func (p *parquetFile) spans() []span {
	meta := p.r.ParquetReader().MetaData()
	var list []span
	for k := range meta.NumRowGroups() {
		g := meta.RowGroup(k)
		bytes := g.TotalCompressedSize()
		if bytes <= 0 {
			bytes = g.TotalByteSize()
		}
		list = append(list, span{from: int64(k), to: int64(k) + 1, bytes: max(0, bytes), rows: g.NumRows()})
	}
	return list
}

func (p *parquetFile) read(ctx context.Context, s span, columns []int, yield func(chunk) error) error {
	var leaves []int
	for _, c := range columns {
		leaves = appendLeaves(leaves, p.r.Manifest.Fields[c])
	}
	meta := p.r.ParquetReader().MetaData()
	for k := s.from; k < s.to; k++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rows := meta.RowGroup(int(k)).NumRows()
		got := int64(0)
		err := p.readGroup(ctx, int(k), leaves, func(rec arrow.RecordBatch) error {
			at := 1 + p.rows[k] + got
			got += rec.NumRows()
			return yield(chunk{rec: rec, place: place{prefix: p.name + " row ", first: at}})
		})
		if err == nil && got != rows {
			err = fmt.Errorf("row group %d has %d rows, and its metadata says %d", k+1, got, rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readGroup reads a row group.
func (p *parquetFile) readGroup(ctx context.Context, k int, leaves []int, yield func(arrow.RecordBatch) error) error {
	p.mem.next()
	group := p.r.ParquetReader().RowGroup(k)
	for _, i := range leaves {
		if err := p.verifyColumn(ctx, group, i); err != nil {
			name := p.r.ParquetReader().MetaData().Schema.Column(i).Path()
			return fmt.Errorf("row group %d, column %s: %w", k+1, name, err)
		}
	}
	p.mem.next()
	readers, schema, err := p.r.GetFieldReaders(ctx, leaves, []int{k})
	if err != nil {
		return fmt.Errorf("row group %d: %w", k+1, err)
	}
	defer func() {
		for _, r := range readers {
			r.Release()
		}
	}()
	// Rows may be large, such as images. The metadata give the number of rows to read at a time at
	// most. They count a value of a dictionary once, so that the rows before limit the number too.
	most := max(1, min(readRows, readBytes/(8*max(1, int64(len(leaves)))),
		readBytes*group.NumRows()/max(1, group.ByteSize())))
	n := min(most, firstRows)
	for got := int64(0); ; p.mem.next() {
		rec, err := p.next(readers, schema, n)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("row group %d: %w", k+1, err)
		}
		if rec == nil {
			return nil
		}
		if err := verifyRecord(ctx, rec); err != nil {
			return fmt.Errorf("row group %d: %w", k+1, err)
		}
		got += rec.NumRows()
		n = max(1, min(most, 3*got, readBytes*rec.NumRows()/max(1, sizeOf(rec))))
		if err := yield(rec); err != nil {
			return err
		}
	}
}

// next reads n rows, or those that are left. It returns nil at the end.
func (p *parquetFile) next(readers []*pqarrow.ColumnReader, schema *arrow.Schema, n int64) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(readers))
	for i, r := range readers {
		data, err := r.NextBatch(n)
		if err != nil || data.Len() == 0 {
			return nil, err
		}
		if columns[i] = data.Chunk(0); len(data.Chunks()) > 1 {
			if columns[i], err = array.Concatenate(data.Chunks(), p.mem); err != nil {
				return nil, err
			}
		}
	}
	return array.NewRecordBatch(schema, columns, -1), nil
}

func appendLeaves(list []int, f pqarrow.SchemaField) []int {
	if f.IsLeaf() {
		return append(list, f.ColIndex)
	}
	for _, c := range f.Children {
		list = appendLeaves(list, c)
	}
	return list
}

func (p *parquetFile) stat() (fs.FileInfo, error) { return p.f.Stat() }

func (p *parquetFile) Close() error { return p.f.Close() }
