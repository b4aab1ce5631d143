package tables

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// thriftField is a field of a struct of Thrift's compact protocol.
func thriftField(id, kind int, value []byte) []byte {
	return append(binary.AppendVarint([]byte{byte(kind)}, int64(id)), value...)
}

// thriftInts is a struct with integers as the fields 1, 2 and so on, and others.
func thriftInts(values []int64, others ...[]byte) (b []byte) {
	for i, v := range values {
		b = append(b, thriftField(i+1, thriftI32, binary.AppendVarint(nil, v))...)
	}
	return append(append(b, slices.Concat(others...)...), 0)
}

func thriftText(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }

func thriftStructs(list ...[]byte) []byte {
	return append([]byte{byte(len(list)<<4 | thriftStruct)}, slices.Concat(list...)...)
}

// dataPage is a page of values, whose header says that they take size bytes decompressed.
func dataPage(values, encoding, size int, data []byte) []byte {
	return append(thriftInts([]int64{0, int64(size), int64(len(data))}, thriftField(5, thriftStruct,
		thriftInts([]int64{int64(values), int64(encoding), 3, 3}))), data...)
}

// columnFile is a Parquet file of a row group whose column c of a physical type, within a struct s,
// has a page. size is the number of its bytes in the metadata.
func columnFile(rows, physical, codec int, size int64, page []byte) []byte {
	number := func(id int, v int64) []byte { return thriftField(id, thriftI64, binary.AppendVarint(nil, v)) }
	code := func(id, v int) []byte { return thriftField(id, thriftI32, binary.AppendVarint(nil, int64(v))) }
	element := func(fields ...[]byte) []byte { return append(slices.Concat(fields...), 0) }
	schema := thriftStructs(
		element(thriftField(4, thriftBinary, thriftText("schema")), code(5, 1)),
		element(code(3, 0), thriftField(4, thriftBinary, thriftText("s")), code(5, 1)),
		element(code(1, physical), code(3, 0), thriftField(4, thriftBinary, thriftText("c"))))
	path := slices.Concat([]byte{2<<4 | thriftBinary}, thriftText("s"), thriftText("c"))
	column := element(code(1, physical), thriftField(2, thriftList, []byte{1<<4 | thriftI32, 0}),
		thriftField(3, thriftList, path), code(4, codec), number(5, int64(rows)), number(6, size), number(7, size),
		number(9, 4))
	group := element(
		thriftField(1, thriftList, thriftStructs(element(number(2, 4), thriftField(3, thriftStruct, column)))),
		number(2, int64(len(page))), number(3, int64(rows)))
	meta := element(code(1, 1), thriftField(2, thriftList, schema), number(3, int64(rows)),
		thriftField(4, thriftList, thriftStructs(group)))
	file := slices.Concat([]byte("PAR1"), page, meta)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(meta))), "PAR1"...)
}

// readColumnFile reads a Parquet file, and returns its number of rows.
func readColumnFile(t *testing.T, data []byte) (rows int64, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	defer damaged(&err)
	s, err := open(path, "", nil)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, part := range s.spans() {
		err = s.read(t.Context(), part, []int{0}, func(c chunk) error {
			rows += c.rec.NumRows()
			return nil
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// allocated reads a Parquet file, and returns the number of bytes that are allocated too.
func allocated(t *testing.T, data []byte) (rows int64, n uint64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, err = readColumnFile(t, data)
	runtime.ReadMemStats(&after)
	return rows, after.TotalAlloc - before.TotalAlloc, err
}

// TestSizesOfColumns reads Parquet files whose metadata have a wrong size of a column in a struct.
func TestSizesOfColumns(t *testing.T) {
	const float, plain, uncompressed = 4, 0, 0
	page := dataPage(3, plain, 12, make([]byte, 12))
	for _, c := range []struct {
		size int64
		want string
	}{{int64(len(page)), ""}, {-128, "column s.c: the column has -128 bytes"}, {1 << 40, "the file"}} {
		rows, err := readColumnFile(t, columnFile(3, float, uncompressed, c.size, page))
		if c.want == "" && (err != nil || rows != 3) ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes: %d rows, %v; want 3 or %q", c.size, rows, err, c.want)
		}
	}
}

// TestPagesLargerThanTheirHeaders reads Parquet files whose pages stand for more bytes than their
// headers say.
func TestPagesLargerThanTheirHeaders(t *testing.T) {
	const float, plain, snappy, zstd = 4, 0, 1, 6
	const block, blocks = 128 << 10, 512
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3} // with a window of 1 MiB
	for i := range blocks {
		last := i / (blocks - 1)
		frame = append(binary.LittleEndian.AppendUint32(frame, uint32(last|1<<1|block<<3))[:len(frame)+3], 0)
	}
	for name, c := range map[string]struct {
		codec int
		data  []byte
		want  string
	}{
		"zstd":   {zstd, frame, "decompressed size exceeds"},
		"snappy": {snappy, binary.AppendUvarint(nil, blocks*block), "want at most"},
	} {
		page := dataPage(3, plain, 12, c.data)
		_, n, err := allocated(t, columnFile(3, float, c.codec, int64(len(page)), page))
		if n > blocks*block/4 {
			t.Errorf("%s: a page of %d bytes that stands for %d allocates %d", name, len(page), blocks*block, n)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestPagesOfDifferences reads Parquet files whose pages of differences, or of nothing, stand for
// far more bytes than they have.
func TestPagesOfDifferences(t *testing.T) {
	const int64s, texts, packed, lengths, common, plain = 2, 6, 5, 6, 7, 0
	const uncompressed, gzipped = 0, 2
	const values = 64
	// header begins differences of n values, of which the first is given.
	header := func(block, n uint64, first int64) []byte {
		b := binary.AppendUvarint(nil, block)
		b = binary.AppendUvarint(binary.AppendUvarint(b, 1), n)
		return binary.AppendVarint(b, first)
	}
	// step is a first length, and another for all others: one difference, and zeros.
	step := func(first, others int64) []byte {
		b := binary.AppendVarint(header(128, values, first), min(0, others-first))
		b = append(b, 32)
		for i := range 128 {
			d := -min(0, others-first)
			if i == 0 {
				d += others - first
			}
			b = binary.LittleEndian.AppendUint32(b, uint32(d))
		}
		return b
	}
	zeros := append(header(128, values, 0), 0, 0)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	huge := header(0xFFFFFF80, values, 0)
	for name, c := range map[string]struct {
		physical, encoding, codec int
		data                      []byte
		want                      string
	}{
		"block of integers":       {int64s, packed, uncompressed, append(huge, 0, 0), "blocks have 4294967168"},
		"block of lengths":        {texts, lengths, uncompressed, append(huge, 0, 0), "blocks have 4294967168"},
		"block of common lengths": {texts, common, uncompressed, append(huge, 0, 0), "blocks have 4294967168"},
		"block of own lengths": {texts, common, uncompressed, slices.Concat(zeros, huge, []byte{0, 0}),
			"blocks have 4294967168"},
		"number of lengths":        {texts, lengths, uncompressed, header(1<<16, 1<<30, 0), "1073741824 texts"},
		"number of common lengths": {texts, common, uncompressed, header(1<<16, 1<<30, 0), "1073741824 texts"},
		"sum of lengths": {texts, common, uncompressed, slices.Concat(step(0, 32<<20), step(32<<20, 1)),
			"the texts have 2147483711 bytes, want at most 1073741824"},
		"negative lengths": {texts, common, uncompressed, slices.Concat(step(0, -1), step(1, 1)),
			"text 2 has -1 bytes in common"},
		"nothing": {texts, plain, gzipped, bomb.Bytes(), "and 0 decompressed"},
	} {
		size := len(c.data)
		if c.codec != uncompressed {
			size = 0
		}
		page := dataPage(values, c.encoding, size, c.data)
		_, n, err := allocated(t, columnFile(values, c.physical, c.codec, int64(len(page)), page))
		if n > 4<<20 || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v and %d bytes allocated, want %q", name, err, n, c.want)
		}
	}
}

// TestColumnsOfDifferences reads columns in the encodings of differences, nullable and in lists,
// that Parquet's writer has written.
func TestColumnsOfDifferences(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	nullable := func(name string, typ arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true}
	}
	schema := arrow.NewSchema([]arrow.Field{nullable("i", arrow.PrimitiveTypes.Int32), nullable("l",
		arrow.ListOf(arrow.PrimitiveTypes.Int64)), nullable("s", arrow.BinaryTypes.String), nullable("t",
		arrow.ListOf(arrow.BinaryTypes.String))}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	text := ""
	for range 3000 {
		if random.IntN(9) == 0 {
			for _, f := range b.Fields() {
				f.AppendNull()
			}
			continue
		}
		b.Field(0).(*array.Int32Builder).Append(int32(random.Uint32()))
		l, list := b.Field(1).(*array.ListBuilder), b.Field(3).(*array.ListBuilder)
		l.Append(true)
		list.Append(true)
		for range random.IntN(4) {
			l.ValueBuilder().(*array.Int64Builder).Append(int64(random.Uint64()))
			text = text[:random.IntN(len(text)+1)] + strings.Repeat("x", random.IntN(40)) + fmt.Sprint(random.IntN(9))
			list.ValueBuilder().(*array.StringBuilder).Append(text)
		}
		b.Field(2).(*array.StringBuilder).Append(text)
	}
	rec := b.NewRecordBatch()
	for _, encoding := range []parquet.Encoding{parquet.Encodings.DeltaLengthByteArray,
		parquet.Encodings.DeltaByteArray} {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			var file bytes.Buffer
			packed, none := parquet.Encodings.DeltaBinaryPacked, parquet.WithDictionaryDefault(false)
			w, err := pqarrow.NewFileWriter(schema, &file, parquet.NewWriterProperties(none,
				parquet.WithDataPageVersion(version), parquet.WithDataPageSize(4<<10),
				parquet.WithCompression(compress.Codecs.Zstd), parquet.WithEncodingFor("i", packed),
				parquet.WithEncodingFor("l.list.element", packed), parquet.WithEncodingFor("s", encoding),
				parquet.WithEncodingFor("t.list.element", encoding)), pqarrow.DefaultWriterProps())
			if err == nil {
				err = errors.Join(w.Write(rec), w.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "t.parquet")
			if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			s, err := open(path, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			at := int64(0)
			err = s.read(t.Context(), s.spans()[0], []int{0, 1, 2, 3}, func(c chunk) error {
				n := c.rec.NumRows()
				for i, a := range c.rec.Columns() {
					if want := array.NewSlice(rec.Column(i), at, at+n); !array.Equal(a, want) {
						t.Errorf("%s, version %d: column %d of the rows from %d differs", encoding, version, i, at)
					}
				}
				at += n
				return nil
			})
			if err != nil || at != rec.NumRows() {
				t.Errorf("%s, version %d: %d rows, %v", encoding, version, at, err)
			}
			s.Close()
		}
	}
}

// TestReadingRowGroupsStops reads a row group of Parquet without rows after the context has ended.
func TestReadingRowGroupsStops(t *testing.T) {
	const float, plain, uncompressed = 4, 0, 0
	page := dataPage(0, plain, 0, nil)
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, columnFile(0, float, uncompressed, int64(len(page)), page), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := open(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.ErrUnsupported)
	err = s.read(ctx, s.spans()[0], []int{0}, func(chunk) error { return nil })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want the cause of the context", err)
	}
}
