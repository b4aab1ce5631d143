package tables

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestTake selects elements of arrays of every type, of slices of them too.
func TestTake(t *testing.T) {
	mem := memory.DefaultAllocator
	text := arrow.BinaryTypes.String
	union := []arrow.Field{field("a", arrow.PrimitiveTypes.Int8), {Name: "b", Type: text, Nullable: true}}
	strings5 := `["a", null, "a text of more than 12 bytes", "", "e"]`
	lists5 := `[["a", "b"], null, [], ["c"], ["d", null]]`
	for _, c := range []struct {
		typ    arrow.DataType
		values string
	}{
		{arrow.Null, `[null, null, null, null, null]`},
		{arrow.FixedWidthTypes.Boolean, `[true, null, false, true, false]`},
		{arrow.PrimitiveTypes.Int8, `[1, null, 3, 4, 5]`},
		{arrow.PrimitiveTypes.Float64, `[1, 2, 3, 4, 5]`},
		{&arrow.Decimal32Type{Precision: 5, Scale: 2}, `["1.5", null, "3", "4", "5"]`},
		{&arrow.Decimal256Type{Precision: 50, Scale: 2}, `["1.5", null, "3", "4", "5"]`},
		{arrow.FixedWidthTypes.MonthDayNanoInterval, `[{"months": 1, "days": 2, "nanoseconds": 3}, null, null, null, null]`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", null, "ZGVm", "YWJj", "YWJj"]`},
		{text, strings5},
		{arrow.BinaryTypes.LargeString, strings5},
		{arrow.BinaryTypes.StringView, strings5},
		{arrow.BinaryTypes.Binary, `["YWJj", null, "ZGVm", "", "YQ=="]`},
		{arrow.ListOf(text), lists5},
		{arrow.LargeListOf(text), lists5},
		{arrow.ListViewOf(text), lists5},
		{arrow.LargeListViewOf(arrow.ListOf(text)), `[[["a"], null], null, [], [["c", "d"]], [[]]]`},
		{arrow.FixedSizeListOf(2, text), `[["a", "b"], null, ["c", null], ["d", "e"], ["f", "g"]]`},
		{arrow.MapOf(text, arrow.PrimitiveTypes.Int8), `[[{"key": "a", "value": 1}], null, [], [{"key": "b", "value": null}], []]`},
		{arrow.StructOf(field("a", text), field("b", arrow.ListOf(arrow.FixedWidthTypes.Boolean))),
			`[{"a": "x", "b": [true, false]}, null, {"a": null, "b": null}, {"a": "y", "b": []}, {"a": "z", "b": [true]}]`},
		{arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}), lists5},
		{arrow.SparseUnionOf(union, []int8{3, 5}), `[[3, 1], [5, null], [3, 2], [5, "y"], [5, "z"]]`},
		{arrow.DenseUnionOf(union, []int8{3, 5}), `[[3, 1], [5, null], [3, 2], [5, "y"], [5, "z"]]`},
	} {
		whole, _, err := array.FromJSON(mem, c.typ, strings.NewReader(c.values))
		if err != nil {
			t.Fatal(c.typ, err)
		}
		for _, a := range []arrow.Array{whole, array.NewSlice(whole, 1, 5), array.NewSlice(whole, 2, 4)} {
			for _, at := range [][]int{{}, {0}, {0, 1}, {1, 0}, {1, 1, 0}, {-1}, {-1, 1, -1, -1, 0}} {
				if _, ok := c.typ.(arrow.UnionType); ok && len(at) > 0 && at[0] < 0 {
					continue
				}
				got := take(mem, a, positions(at))
				var want []string
				for _, i := range at {
					if i < 0 {
						want = append(want, array.NullValueStr)
					} else {
						want = append(want, a.ValueStr(i))
					}
				}
				var have []string
				for i := range got.Len() {
					have = append(have, got.ValueStr(i))
				}
				if fmt.Sprint(have) != fmt.Sprint(want) {
					t.Errorf("%v: elements %v of %v are %v, want %v", c.typ, at, a, have, want)
				}
				if err := array.ValidateFull(got); err != nil {
					t.Errorf("%v: elements %v of %v: %v", c.typ, at, a, err)
				}
			}
		}
	}
}

// TestNullsOfDictionary reads columns of nulls whose dictionary has no values, and whose type needs
// much memory for each null.
func TestNullsOfDictionary(t *testing.T) {
	before := maxBatch
	maxBatch = 1 << 20
	defer func() { maxBatch = before }()
	for _, typ := range []arrow.DataType{
		&arrow.FixedSizeBinaryType{ByteWidth: 1 << 20},
		arrow.FixedSizeListOf(1<<20, arrow.PrimitiveTypes.Int64),
		arrow.FixedSizeListOf(1<<30, arrow.FixedSizeListOf(1<<30, arrow.FixedSizeListOf(1<<30, arrow.PrimitiveTypes.Int64))),
	} {
		typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: typ}
		dict := array.MakeArrayOfNull(memory.DefaultAllocator, typ.ValueType, 0)
		nulls := array.MakeArrayOfNull(memory.DefaultAllocator, typ.IndexType, 1000)
		rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ, Nullable: true}}, nil),
			[]arrow.Array{array.NewDictionaryArray(typ, nulls, dict)}, 1000)
		s, err := openStream(bytes.NewReader(stream(t, rec)), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = func() (err error) {
			defer damaged(&err)
			return s.read(t.Context(), span{}, []int{0}, func(chunk) error { return nil })
		}()
		if err == nil || !strings.Contains(err.Error(), "takes more than") &&
			!strings.Contains(err.Error(), "too many") {
			t.Errorf("%s: error %v, want that nulls take too much memory", typ, err)
		}
	}
}
