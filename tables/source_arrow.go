package tables

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

var ipcOptions = []ipc.Option{ipc.WithAllocator(allocator), ipc.WithMetadataSizeLimit(maxMetadata),
	ipc.WithBodySizeLimit(maxBody)}

// arrowStream reads an Arrow IPC stream.
type arrowStream struct {
	r      *ipc.Reader
	prefix string
	file   io.Closer // or nil
	size   int64
}

func newArrowStream(r io.Reader, prefix string, file *os.File) (s source, err error) {
	if r, err = verifyStream(r); err != nil {
		return nil, err
	}
	rd, err := ipc.NewReaderFromMessageReader(ipc.NewMessageReader(r, ipcOptions...), ipcOptions...)
	if err != nil {
		return nil, err
	}
	a := &arrowStream{r: rd, prefix: prefix}
	if file != nil {
		a.file = file
		if info, err := file.Stat(); err == nil {
			a.size = info.Size()
		}
	}
	return a, nil
}

func openArrowStreamFile(path string) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s, err := newArrowStream(f, filepath.Base(path)+" row ", f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (a *arrowStream) schema() *arrow.Schema { return a.r.Schema() }

func (a *arrowStream) spans() []span { return []span{{bytes: a.size, rows: -1}} }

func (a *arrowStream) read(_ context.Context, _ span, columns []int, yield func(chunk) error) error {
	row := int64(1)
	for a.r.Next() {
		rec := a.r.RecordBatch()
		if err := verifyRecord(rec); err != nil {
			return err
		}
		rec.Retain()
		if err := yield(chunk{rec: project(rec, columns), place: place{prefix: a.prefix, first: row}}); err != nil {
			return err
		}
		row += rec.NumRows()
	}
	if err := a.r.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (a *arrowStream) Close() error {
	if a.file != nil {
		return a.file.Close()
	}
	return nil
}

// arrowFile reads an Arrow IPC file. A span is a range of record batches.
type arrowFile struct {
	f    *os.File
	r    *ipc.FileReader
	name string
	size int64
}

func openArrowFile(path string) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = verifyFooter(f, info.Size())
	}
	if err == nil {
		var r *ipc.FileReader
		if r, err = ipc.NewFileReader(f, ipcOptions...); err == nil {
			return &arrowFile{f, r, filepath.Base(path), info.Size()}, nil
		}
	}
	f.Close()
	return nil, err
}

func (a *arrowFile) schema() *arrow.Schema { return a.r.Schema() }

// spans assumes that all record batches have the same size.
func (a *arrowFile) spans() []span {
	n := int64(a.r.NumRecords())
	if n == 0 {
		return nil
	}
	step := max(1, min(n, n*pieceBytes/max(1, a.size)))
	var list []span
	for k := int64(0); k < n; k += step {
		to := min(k+step, n)
		list = append(list, span{from: k, to: to, bytes: a.size * (to - k) / n, rows: -1})
	}
	return list
}

func (a *arrowFile) read(_ context.Context, s span, columns []int, yield func(chunk) error) error {
	for k := s.from; k < s.to; k++ {
		rec, err := a.r.RecordBatchAt(int(k))
		if err != nil {
			return fmt.Errorf("record batch %d: %w", k+1, err)
		}
		if err := verifyRecord(rec); err != nil {
			return fmt.Errorf("record batch %d: %w", k+1, err)
		}
		if err := yield(chunk{rec: project(rec, columns),
			place: place{prefix: fmt.Sprintf("%s record batch %d, row ", a.name, k+1), first: 1}}); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrowFile) Close() error { return errors.Join(a.r.Close(), a.f.Close()) }

// parquetFile reads a Parquet file. A span is a range of row groups.
type parquetFile struct {
	f    *os.File
	r    *pqarrow.FileReader
	arr  *arrow.Schema
	name string
}

func openParquet(path string) (s source, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	defer damaged(&err)
	// Read pages as they are needed, not whole columns of a row group, so that memory does
	// not grow with the row groups.
	props := parquet.NewReaderProperties(allocator)
	props.BufferedStreamEnabled, props.BufferSize = true, 256<<10
	r, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return nil, err
	}
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
	ar, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, allocator)
	if err != nil {
		return nil, err
	}
	schema, err := ar.Schema()
	if err != nil {
		return nil, err
	}
	return &parquetFile{f, ar, schema, filepath.Base(path)}, nil
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
	row := int64(1)
	meta := p.r.ParquetReader().MetaData()
	for k := range s.from {
		row += meta.RowGroup(int(k)).NumRows()
	}
	for k := s.from; k < s.to; k++ {
		rows := meta.RowGroup(int(k)).NumRows()
		// Rows may be large, such as images.
		p.r.Props.BatchSize = max(1, min(readRows, readBytes*rows/max(1, meta.RowGroup(int(k)).TotalByteSize())))
		r, err := p.r.GetRecordReader(ctx, leaves, []int{int(k)})
		if err != nil {
			return fmt.Errorf("row group %d: %w", k+1, err)
		}
		got := int64(0)
		for r.Next() {
			rec := r.RecordBatch()
			rec.Retain()
			if err := yield(chunk{rec: rec, place: place{prefix: p.name + " row ", first: row + got}}); err != nil {
				return err
			}
			got += rec.NumRows()
		}
		if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("row group %d: %w", k+1, err)
		}
		if got != rows {
			return fmt.Errorf("row group %d has %d rows, and its metadata says %d", k+1, got, rows)
		}
		r.Release()
		row += rows
	}
	return nil
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

func (p *parquetFile) Close() error { return p.f.Close() }
