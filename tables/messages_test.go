package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	flatbuffers "github.com/google/flatbuffers/go"
)

// TestLengthsInMessages reads Arrow IPC streams and files whose messages state lengths that they do
// not have: an error, before memory is taken for them.
func TestLengthsInMessages(t *testing.T) {
	// The length of a vector, or its first element, which is 64 bits wide.
	set := func(t *testing.T, table flatbuffers.Table, field int, n uint64, first bool) {
		o := flatbuffers.UOffsetT(table.Offset(flatbuffers.VOffsetT(4 + 2*field)))
		if o == 0 {
			t.Fatalf("the message has no field %d", field)
		}
		if at := table.Vector(o); first {
			binary.LittleEndian.PutUint64(table.Bytes[at:], n)
		} else {
			binary.LittleEndian.PutUint32(table.Bytes[at-4:], uint32(n))
		}
	}
	views := fromJSON(t, arrow.BinaryTypes.StringView, `["a", "a text of more than 12 bytes", null]`)
	views = array.NewRecordBatchWithMetadata(views.Schema(), views.Columns(), 3,
		arrow.NewMetadata([]string{"k"}, []string{"v"}))
	codes := fromJSON(t, arrow.PrimitiveTypes.Int8, `[0, 1, 2]`)
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.StringView}
	dictionary := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{codes.Schema().Field(0), field("v", typ)}, nil),
		[]arrow.Array{codes.Column(0), array.NewDictionaryArray(typ, codes.Column(1), views.Column(1))}, 3)
	for _, c := range []struct {
		name   string
		rec    arrow.RecordBatch
		kind   byte
		damage func(t *testing.T, message, header flatbuffers.Table)
		want   string
	}{
		{"metadata", views, headerRecord, func(t *testing.T, m, _ flatbuffers.Table) {
			set(t, m, messageMetadata, 1<<24, false)
		}, "a list of 16777216 elements"},
		{"views", views, headerRecord, func(t *testing.T, _, h flatbuffers.Table) {
			set(t, h, recordVariadics, 1<<26, true)
		}, "has 67108864 buffers of values"},
		{"buffers", views, headerRecord, func(t *testing.T, _, h flatbuffers.Table) {
			set(t, h, recordVariadics, 1<<26, true)
			set(t, h, recordBuffers, 1<<26, false)
		}, "a list of 67108864 elements"},
		{"none", views, headerRecord, func(t *testing.T, _, h flatbuffers.Table) {
			set(t, h, recordVariadics, 0, false)
		}, "has 0 numbers of buffers of views, want 1"},
		{"negative", views, headerRecord, func(t *testing.T, _, h flatbuffers.Table) {
			set(t, h, recordVariadics, 1<<64-1, true)
		}, "buffers of values"},
		{"dictionary", dictionary, headerDictionary, func(t *testing.T, _, h flatbuffers.Table) {
			batch, _ := subtable(h, dictionaryData)
			set(t, batch, recordVariadics, 1<<26, true)
		}, "has 67108864 buffers of values"},
	} {
		for _, f := range []Format{ArrowStream, ArrowFile} {
			data := encode(t, f, c.rec)
			if _, err := mapRows(t, formats[f], data, Skip); err != nil {
				t.Errorf("%s: %s: the file without damage: %v", c.name, f, err)
			}
			eachMessage(t, data, func(kind byte, m, h flatbuffers.Table) {
				if kind == c.kind {
					c.damage(t, m, h)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := mapRows(t, formats[f], data, Skip)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: error %v, want %q", c.name, f, err, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("%s: %s: reading took %d MB", c.name, f, took>>20)
			}
		}
	}
}

// TestSharedTexts verifies schemas whose fields, metadata and time zones share one text, which is
// copied for each of them.
func TestSharedTexts(t *testing.T) {
	for _, place := range []string{"name", "key", "zone"} {
		b := flatbuffers.NewBuilder(0)
		table := func(fields map[int]flatbuffers.UOffsetT) flatbuffers.UOffsetT {
			b.StartObject(8)
			for i, at := range fields {
				b.PrependUOffsetTSlot(i, at, 0)
			}
			if fields[fieldType] != 0 {
				b.PrependByteSlot(fieldTypeType, typeTimestamp, 0)
			}
			return b.EndObject()
		}
		vector := func(n int, at flatbuffers.UOffsetT) flatbuffers.UOffsetT {
			b.StartVector(4, n, 4)
			for range n {
				b.PrependUOffsetT(at)
			}
			return b.EndVector(n)
		}
		text := b.CreateString(strings.Repeat("x", 1<<20))
		var f flatbuffers.UOffsetT
		switch place {
		case "name":
			f = table(map[int]flatbuffers.UOffsetT{fieldName: text})
		case "key":
			pairs := vector(1, table(map[int]flatbuffers.UOffsetT{0: text}))
			f = table(map[int]flatbuffers.UOffsetT{fieldMetadata: pairs})
		case "zone":
			f = table(map[int]flatbuffers.UOffsetT{fieldType: table(map[int]flatbuffers.UOffsetT{timestampZone: text})})
		}
		b.Finish(table(map[int]flatbuffers.UOffsetT{schemaFields: vector(65, f)}))
		err := new(messageVerifier).schema(root(b.FinishedBytes()))
		if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
			t.Errorf("%s: error %v, want that the texts have too many bytes", place, err)
		}
	}
}

// endless reads the beginning of a stream, and then one message again and again. It calls stop when
// the message begins for the hundredth time.
type endless struct {
	io.Reader
	message []byte
	times   int
	stop    func()
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	if e.times++; e.times == 100 {
		e.stop()
	}
	e.Reader = bytes.NewReader(e.message)
	return e.Reader.Read(p)
}

// TestStopWithoutRows stops reading streams without an end that have no rows, of record batches and
// of dictionaries, and a file without rows.
func TestStopWithoutRows(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	data := stream(t, fromJSON(t, typ, `["a", "b", "c"]`).NewSlice(0, 0))
	for _, kind := range []byte{headerRecord, headerDictionary} {
		var message []byte
		at := 0
		eachMessage(t, data, func(k byte, m, _ flatbuffers.Table) {
			n := 8 + len(m.Bytes) + int(m.GetInt64Slot(4+2*messageBodyLength, 0))
			if k == kind {
				message = data[at : at+n]
			}
			at += n
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := openStream(&endless{bytes.NewReader(data[:at]), message, 0, cancel}, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = s.read(ctx, span{}, []int{0}, func(chunk) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("messages of type %d: error %v, want that the read is canceled", kind, err)
		}
	}
	path := filepath.Join(t.TempDir(), "t.arrow")
	writeTable(t, path, fromJSON(t, arrow.PrimitiveTypes.Int8, `[1, 2, 3]`).NewSlice(0, 0))
	s, err := open(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.read(ctx, s.spans()[0], nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a file: error %v, want that the read is canceled", err)
	}
}
