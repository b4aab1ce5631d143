package tables

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

const (
	groupRows  = 128 << 10 // of a row group, at most
	groupBytes = 32 << 20
	magic      = "PAR1"
)

// parquetEncoder writes a Parquet file. Every piece is written as a separate file. Its row groups
// are kept, and its metadata is written at the end of the whole file, so that an interrupted file
// can be continued after any piece.
type parquetEncoder struct {
	out    *partial
	schema *arrow.Schema
	props  *parquet.WriterProperties

	pending []arrow.RecordBatch // of the next row group
	rows    int64
	bytes   int64

	w      *pqarrow.FileWriter // of the current piece, or nil
	region region
	base   int64                  // position of the current piece
	meta   *metadata.FileMetaData // of the pieces before
}

func newParquetEncoder(out *partial, schema *arrow.Schema, done []piece) (*parquetEncoder, error) {
	props := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST), parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithCreatedBy("onward map"), parquet.WithDictionaryDefault(false), // predictions rarely repeat
	}
	for _, f := range schema.Fields() {
		if isText(f.Type) {
			props = append(props, parquet.WithDictionaryFor(f.Name, true))
		}
	}
	e := &parquetEncoder{out: out, schema: schema, props: parquet.NewWriterProperties(props...)}
	// A file without rows gives the metadata that all pieces have in common.
	if err := e.begin(); err != nil {
		for _, f := range schema.Fields() {
			one := arrow.NewSchema([]arrow.Field{f}, nil)
			if _, e := pqarrow.ToParquet(one, nil, pqarrow.DefaultWriterProps()); e != nil {
				return nil, fmt.Errorf("column %s of type %s cannot be written as Parquet: %w; write Arrow", f.Name,
					f.Type, e)
			}
		}
		return nil, err
	}
	empty, err := e.end()
	if err != nil {
		return nil, err
	}
	if e.meta, err = parseFooter(empty); err != nil {
		return nil, err
	}
	base := int64(len(magic))
	for _, p := range done {
		if err := e.add(p.State, base); err != nil {
			return nil, err
		}
		base = p.End
	}
	if len(done) == 0 {
		_, err = out.Write([]byte(magic))
	}
	return e, err
}

// region receives the bytes of the file that a piece is: the row groups go to the file
// without the magic number before them, and what follows them is collected.
type region struct {
	out    *partial
	skip   int
	footer []byte
	ending bool
}

func (r *region) Write(p []byte) (int, error) {
	n := len(p)
	if k := min(r.skip, len(p)); k > 0 {
		r.skip, p = r.skip-k, p[k:]
	}
	if r.ending {
		r.footer = append(r.footer, p...)
	} else if len(p) > 0 {
		if _, err := r.out.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (e *parquetEncoder) begin() (err error) {
	e.region, e.base = region{out: e.out, skip: len(magic)}, e.out.size
	e.w, err = pqarrow.NewFileWriter(e.schema, &e.region, e.props,
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	return err
}

// end ends the file of a piece and returns its metadata.
func (e *parquetEncoder) end() ([]byte, error) {
	e.region.ending = true
	err := e.w.Close()
	e.w = nil
	const tail = 8 // length and magic number
	if err == nil && len(e.region.footer) < tail {
		err = errors.New("a piece has no metadata")
	}
	if err != nil {
		return nil, err
	}
	return e.region.footer[:len(e.region.footer)-tail], nil
}

func (e *parquetEncoder) write(_ context.Context, rec arrow.RecordBatch) error {
	e.pending = append(e.pending, rec)
	e.rows += rec.NumRows()
	e.bytes += recordBytes(rec)
	if e.rows >= groupRows || e.bytes >= groupBytes {
		return e.flush()
	}
	return nil
}

// flush writes the pending rows as a row group.
func (e *parquetEncoder) flush() error {
	if e.rows == 0 {
		return nil
	}
	columns := make([]arrow.Array, e.schema.NumFields())
	for i := range columns {
		parts := make([]arrow.Array, len(e.pending))
		for k, rec := range e.pending {
			parts[k] = rec.Column(i)
		}
		var err error
		if columns[i], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			return fmt.Errorf("column %s: %w", e.schema.Field(i).Name, err)
		}
	}
	rec := array.NewRecordBatch(e.schema, columns, e.rows)
	e.pending, e.rows, e.bytes = nil, 0, 0
	if e.w == nil {
		if err := e.begin(); err != nil {
			return err
		}
	}
	return e.w.Write(rec)
}

func (e *parquetEncoder) endPiece() ([]byte, error) {
	if err := e.flush(); err != nil || e.w == nil {
		return nil, err
	}
	base := e.base
	state, err := e.end()
	if err != nil {
		return nil, err
	}
	return state, e.add(state, base)
}

// add adds the row groups of a piece at base to the metadata of the whole file.
func (e *parquetEncoder) add(state []byte, base int64) error {
	if state == nil {
		return nil
	}
	m, err := parseFooter(state)
	if err != nil {
		return err
	}
	shift := base - int64(len(magic))
	for _, g := range m.RowGroups {
		if g.FileOffset != nil {
			*g.FileOffset += shift
		}
		ordinal := int16(min(len(e.meta.RowGroups), math.MaxInt16))
		g.Ordinal = &ordinal
		for _, c := range g.Columns {
			if c.FileOffset > 0 {
				c.FileOffset += shift
			}
			c.MetaData.DataPageOffset += shift
			stats := c.MetaData.EncodingStats // in the order of a map
			sort.Slice(stats, func(i, k int) bool {
				return cmp.Or(cmp.Compare(stats[i].PageType, stats[k].PageType),
					cmp.Compare(stats[i].Encoding, stats[k].Encoding)) < 0
			})
			for _, p := range []*int64{c.MetaData.DictionaryPageOffset, c.MetaData.IndexPageOffset} {
				if p != nil {
					*p += shift
				}
			}
		}
		e.meta.RowGroups = append(e.meta.RowGroups, g)
		e.meta.NumRows += g.NumRows
	}
	return nil
}

func parseFooter(b []byte) (m *metadata.FileMetaData, err error) {
	if m, err = metadata.NewFileMetaData(b, nil); err != nil {
		return nil, fmt.Errorf("metadata of a piece: %w", err)
	}
	return m, nil
}

func (e *parquetEncoder) close() error {
	b, err := e.meta.Serialize(context.Background())
	if err != nil {
		return err
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	_, err = e.out.Write(append(b, magic...))
	return err
}

// recordBytes estimates the size of the values of a record batch.
func recordBytes(rec arrow.RecordBatch) (n int64) {
	for _, c := range rec.Columns() {
		n += valueBytes(c)
	}
	return n
}

func valueBytes(a arrow.Array) (n int64) {
	if a.Len() == 0 {
		return 0
	}
	switch a := a.(type) {
	case array.ListLike:
		lo, _ := a.ValueOffsets(0)
		_, hi := a.ValueOffsets(a.Len() - 1)
		if hi > lo {
			n = valueBytes(array.NewSlice(a.ListValues(), lo, hi))
		}
	case *array.Struct:
		for i := range a.NumField() {
			n += valueBytes(a.Field(i))
		}
	case interface{ ValueBytes() []byte }:
		n = int64(len(a.ValueBytes()))
	case array.ViewLike:
		for i := range a.Len() {
			if a.IsValid(i) {
				n += int64(a.ValueHeader(i).Len())
			}
		}
	case *array.Dictionary:
		size := elementBytes(a.Dictionary())
		for i := range a.Len() {
			if a.IsValid(i) {
				n += size(a.GetValueIndex(i))
			}
		}
	case array.ExtensionArray:
		return valueBytes(a.Storage())
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return n + int64(a.Len())*int64(t.BitWidth())/8
	}
	return n + 8*int64(a.Len()) // offsets
}

// elementBytes returns a function that estimates the size of element i.
func elementBytes(a arrow.Array) func(i int) int64 {
	switch a := a.(type) {
	case *array.String:
		return func(i int) int64 { return int64(a.ValueLen(i)) }
	case array.BinaryLike:
		return func(i int) int64 { return int64(a.ValueLen(i)) }
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok && len(a.Data().Children()) == 0 {
		return func(int) int64 { return int64(t.BitWidth()) / 8 }
	}
	return func(i int) int64 { return valueBytes(array.NewSlice(a, int64(i), int64(i)+1)) }
}
