package tables

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// listsOfNull returns one row with a list of n nulls, which take no memory.
func listsOfNull(n int) arrow.RecordBatch {
	of := arrow.ListOf(arrow.Null)
	nulls := array.NewData(arrow.Null, n, []*memory.Buffer{nil}, nil, n, 0)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, int32(n)}))
	list := array.NewData(of, 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{nulls}, 0, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: of}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{array.MakeFromData(list)}, 1)
}

func TestLongListsAsText(t *testing.T) {
	before := maxText
	maxText = 1000
	defer func() { maxText = before }()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range []Format{CSV, JSONLines} {
		for n, want := range map[int]string{100: "", 1 << 30: "more than 0 MiB as text"} {
			var b bytes.Buffer
			rec := listsOfNull(n)
			enc, err := streamEncoder(format, &b, rec.Schema(), true)
			if err != nil {
				t.Fatal(err)
			}
			if err := enc.write(stopped, rec); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a stopped job writes: %v", format, err)
			}
			err = enc.write(t.Context(), rec)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: a list of %d nulls: got %v, want %q", format, n, err, want)
			}
		}
	}
}
