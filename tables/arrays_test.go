package tables

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
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
	flatbuffers "github.com/google/flatbuffers/go"
)

// fromJSON makes a record batch of the columns x, three strings of which the second is not a
// number, and v of a type.
func fromJSON(t *testing.T, typ arrow.DataType, values string) arrow.RecordBatch {
	t.Helper()
	x, _, err := array.FromJSON(memory.DefaultAllocator, arrow.BinaryTypes.String, strings.NewReader(`["1", "z", "3"]`))
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{field("x", arrow.BinaryTypes.String), field("v", typ)}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{x, v}, 3)
}

// encode returns a record batch as an Arrow IPC stream or file.
func encode(t *testing.T, f Format, rec arrow.RecordBatch) []byte {
	t.Helper()
	if f == ArrowStream {
		return stream(t, rec)
	}
	path := filepath.Join(t.TempDir(), formats[f])
	writeTable(t, path, rec)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// eachMessage calls fn for the messages of an Arrow IPC stream or file: their types and headers,
// whose bytes are those of data.
func eachMessage(t *testing.T, data []byte, fn func(kind byte, message, header flatbuffers.Table)) {
	t.Helper()
	if bytes.HasPrefix(data, ipc.Magic) {
		data = data[8:]
	}
	for len(data) >= 8 && binary.LittleEndian.Uint32(data[4:]) != 0 {
		n := 8 + int(binary.LittleEndian.Uint32(data[4:]))
		m := root(data[8:n])
		h, ok := subtable(m, messageHeader)
		if !ok {
			t.Fatal("a message has no header")
		}
		fn(m.GetByteSlot(4+2*messageHeaderType, 0), m, h)
		data = data[n+int(m.GetInt64Slot(4+2*messageBodyLength, 0)):]
	}
}

// mapRows scores the rows of a file by their column x.
func mapRows(t *testing.T, name string, data []byte, onError OnError) (out []byte, err error) {
	t.Helper()
	dir := t.TempDir()
	j := Job{Session: sumModel(t, 1), In: []string{filepath.Join(dir, name)}, Out: filepath.Join(dir, "out.arrow")}
	j.Options = Options{OnError: onError}
	if err := os.WriteFile(j.In[0], data, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Run(t.Context()); err != nil {
		return nil, err
	}
	return os.ReadFile(j.Out)
}

// TestDamagedArrays scores tables whose buffers are smaller than the lengths, offsets and widths
// beside them say: an error, never a panic.
func TestDamagedArrays(t *testing.T) {
	dictionary := func(v arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: v}
	}
	offsets := func(list ...int32) []byte { return arrow.Int32Traits.CastToBytes(list) }
	replace := func(from, to []byte) func(*testing.T, []byte) {
		return func(t *testing.T, data []byte) {
			i := bytes.LastIndex(data, from)
			if i < 0 {
				t.Fatalf("the file has no bytes %x", from)
			}
			copy(data[i:], to)
		}
	}
	// The number of values of the dictionary, and of its only column.
	length := func(t *testing.T, data []byte) {
		eachMessage(t, data, func(kind byte, _, h flatbuffers.Table) {
			if kind == headerDictionary {
				batch, _ := subtable(h, dictionaryData)
				at := batch.Pos + flatbuffers.UOffsetT(batch.Offset(4))
				binary.LittleEndian.PutUint64(batch.Bytes[at:], 1<<20)
				at = batch.Vector(flatbuffers.UOffsetT(batch.Offset(6)))
				binary.LittleEndian.PutUint64(batch.Bytes[at:], 1<<20)
			}
		})
	}
	width := func(t *testing.T, data []byte) {
		eachMessage(t, data, func(kind byte, _, h flatbuffers.Table) {
			if kind == headerSchema {
				at := h.Vector(flatbuffers.UOffsetT(h.Offset(4 + 2*schemaFields)))
				f := flatbuffers.Table{Bytes: h.Bytes, Pos: h.Indirect(at + 4)}
				typ, _ := subtable(f, fieldType)
				binary.LittleEndian.PutUint32(h.Bytes[typ.Pos+flatbuffers.UOffsetT(typ.Offset(4)):], 1<<32-4)
			}
		})
	}
	text, fixed := arrow.BinaryTypes.String, &arrow.FixedSizeBinaryType{ByteWidth: 4}
	words, codes := `["abcd", "efgh", "ijkl"]`, `["YWJjZA==", "ZWZnaA==", "aWprbA=="]`
	for _, c := range []struct {
		name   string
		typ    arrow.DataType
		values string
		damage func(*testing.T, []byte)
		want   string
	}{
		{"offset", dictionary(text), words, replace(offsets(0, 4, 8, 12), offsets(0, 1<<28, 8, 12)), "is damaged"},
		{"order", dictionary(text), words, replace(offsets(0, 4, 8, 12), offsets(0, 8, 4, 12)), "offset"},
		{"index", dictionary(text), words, replace(offsets(0, 1, 2), offsets(0, 3, 2)), "indices of a dictionary"},
		{"nested", arrow.StructOf(field("a", dictionary(text))), `[{"a": "abcd"}, {"a": "efgh"}, {"a": "ijkl"}]`,
			replace(offsets(0, 4, 8, 12), offsets(0, 8, 4, 12)), "offset"},
		{"length", dictionary(fixed), codes, length, "a buffer has"},
		{"width", fixed, codes, width, "-32 bits"},
		{"width of values", dictionary(fixed), codes, width, "-32 bits"},
	} {
		for _, format := range []Format{ArrowStream, ArrowFile} {
			rec := fromJSON(t, c.typ, c.values)
			data := encode(t, format, rec)
			if _, err := mapRows(t, formats[format], data, Skip); err != nil {
				t.Errorf("%s: %s: the file without damage: %v", c.name, format, err)
			}
			c.damage(t, data)
			// The schema of a file is at its end, and its beginning is not read.
			if format == ArrowFile && strings.HasPrefix(c.name, "width") {
				continue
			}
			if _, err := mapRows(t, formats[format], data, Skip); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: error %v, want %q", c.name, format, err, c.want)
			}
		}
	}
}

// TestViewsAndUnions reads arrays whose offsets have no end beside them, of which some are empty.
func TestViewsAndUnions(t *testing.T) {
	for _, c := range []struct {
		typ    arrow.DataType
		values string
	}{
		{arrow.ListViewOf(arrow.PrimitiveTypes.Int8), `[[1], [], [2, 3]]`},
		{arrow.LargeListViewOf(arrow.PrimitiveTypes.Int8), `[[1], null, [2, 3]]`},
		{arrow.BinaryTypes.StringView, `["a", "a text of more than 12 bytes", null]`},
		{arrow.DenseUnionOf([]arrow.Field{field("a", arrow.PrimitiveTypes.Int8), field("b", arrow.BinaryTypes.String)},
			[]int8{3, 5}), `[[3, 1], [5, "x"], [3, 2]]`},
		{arrow.SparseUnionOf([]arrow.Field{field("a", arrow.PrimitiveTypes.Int8), field("b", arrow.BinaryTypes.String)},
			[]int8{3, 5}), `[[3, 1], [5, "x"], [3, 2]]`},
	} {
		rec := fromJSON(t, c.typ, c.values)
		for _, rec := range []arrow.RecordBatch{rec, rec.NewSlice(0, 0)} {
			for _, f := range []Format{ArrowStream, ArrowFile} {
				path := filepath.Join(t.TempDir(), formats[f])
				if err := os.WriteFile(path, encode(t, f, rec), 0o666); err != nil {
					t.Fatal(err)
				}
				s, err := open(path, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				err = s.read(t.Context(), s.spans()[0], []int{0, 1}, func(c chunk) error {
					if got, want := c.rec.Column(1), rec.Column(1); !array.Equal(got, want) {
						t.Errorf("%s of %s: %v, want %v", f, rec.Schema(), got, want)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s of %s and %d rows: %v", f, c.typ, rec.NumRows(), err)
				}
			}
		}
	}
}

// parquetOf returns a Parquet file of plain values with a schema of Arrow in its metadata.
func parquetOf(t *testing.T, rec arrow.RecordBatch, schema *arrow.Schema) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &b, parquet.NewWriterProperties(parquet.WithStats(false),
		parquet.WithDictionaryDefault(false)), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	empty := array.NewRecordBuilder(memory.DefaultAllocator, schema).NewRecordBatch()
	text := base64.StdEncoding.EncodeToString(stream(t, empty))
	for _, err := range []error{w.Write(rec), w.AppendKeyValueMetadata("ARROW:schema", text), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestDamagedParquetArrays scores Parquet files from which arrays with too few elements, or without
// a dictionary, are read: an error, neither a panic nor a damaged result.
func TestDamagedParquetArrays(t *testing.T) {
	int64s := arrow.PrimitiveTypes.Int64
	short := fromJSON(t, arrow.StructOf(field("a", int64s), field("b", int64s)),
		`[{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]`)
	data := parquetOf(t, short, short.Schema())
	// The header of the last page: a struct whose first field, an int32, is the number of values.
	if i := bytes.LastIndex(data, []byte{0x2c, 0x15, 2 * 3, 0x15}); i < 0 {
		t.Fatal("the file has no page of 3 values")
	} else {
		data[i+2] = 2 * 1
	}
	lists := fromJSON(t, arrow.ListOf(arrow.BinaryTypes.String), `[[], null, []]`)
	codes := arrow.NewSchema([]arrow.Field{lists.Schema().Field(0), field("v",
		arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}))}, nil)
	for name, data := range map[string][]byte{"struct": data, "dictionary": parquetOf(t, lists, codes)} {
		for _, onError := range []OnError{Skip, Null} {
			if _, err := mapRows(t, name+".parquet", data, onError); err == nil {
				t.Errorf("%s: %s: the file is scored", name, onError)
			}
		}
	}
}
