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
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/onward-ml/onward/onnx"
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

// TestPartsOfListViews writes parts of record batches with list views at each level.
func TestPartsOfListViews(t *testing.T) {
	views := arrow.ListViewOf(arrow.PrimitiveTypes.Int8)
	for _, c := range []struct {
		typ    arrow.DataType
		values string
	}{
		{views, `[[1], [2, 3], [4]]`},
		{arrow.LargeListViewOf(arrow.BinaryTypes.String), `[["a"], null, ["b", "c"]]`},
		{arrow.ListOf(views), `[[[1]], [[2], [3]], null]`},
		{arrow.ListViewOf(views), `[[[1]], [[2], [3]], [[4, 5]]]`},
		{arrow.StructOf(field("v", views)), `[{"v": [1]}, {"v": [2, 3]}, {"v": null}]`},
	} {
		rec := fromJSON(t, c.typ, c.values)
		column := rec.Column(1)
		for _, format := range []Format{ArrowStream, ArrowFile} {
			path := filepath.Join(t.TempDir(), formats[format])
			writeTable(t, path, rec.NewSlice(0, 1), rec.NewSlice(1, 3))
			s, err := open(path, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for _, part := range s.spans() {
				err := s.read(t.Context(), part, []int{0, 1}, func(c chunk) error {
					n := int(c.rec.NumRows())
					if want := array.NewSlice(column, int64(at), int64(at+n)); !array.Equal(c.rec.Column(1), want) {
						t.Errorf("%s of %s: %v, want %v", format, rec.Schema(), c.rec.Column(1), want)
					}
					at += n
					return nil
				})
				if err != nil {
					t.Errorf("%s of %s: %v", format, c.typ, err)
				}
			}
			if s.Close(); at != 3 {
				t.Errorf("%s of %s has %d rows, want 3", format, c.typ, at)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "out.parquet")
	p, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = newEncoder(Parquet, &partial{f: p}, fromJSON(t, views, `[[1], [2], [3]]`).Schema(), nil)
	if err == nil || !strings.Contains(err.Error(), "column v of type list_view") {
		t.Errorf("a list view in Parquet: %v", err)
	}
}

// TestTextsOfCSV: texts pass unchanged, or the row is rejected.
func TestTextsOfCSV(t *testing.T) {
	b := onnx.NewModel("same").Opset("", 21)
	b.Input("x", onnx.String, "N").Output("y", onnx.String, "N").Node("Identity", []string{"x"}, []string{"y"})
	session := openModel(t, b.Must())
	for _, c := range []struct{ format, text, want string }{
		{"csv", "x\n\"\"\n\"a\r\nb\"\n", "y\n\"\"\n\"a\r\nb\"\n"},
		{"csv", "x\r\n\"\r\n\r\n\"\r\nb\r\n", "y\n\"\r\n\r\n\"\nb\n"},
		{"csv", "x\n\"" + strings.Repeat("a", 4<<10-4) + "\r\n\"\n", "y\n\"" + strings.Repeat("a", 4<<10-4) + "\r\n\"\n"},
		{"csv", "x\na\n\xff\n", `in.csv line 3: column x is not valid UTF-8: "\xff"`},
		{"jsonl", "{\"x\":\"a\"}\n{\"x\":\"\xff\"}\n", "in.jsonl line 2: the line"},
	} {
		dir := t.TempDir()
		in, out := filepath.Join(dir, "in."+c.format), filepath.Join(dir, "out.csv")
		if err := os.WriteFile(in, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		j := Job{Session: session, Options: Options{Keep: []string{}}, In: []string{in}, Out: out}
		_, err := j.Run(t.Context())
		got, _ := os.ReadFile(out)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != c.want && (err == nil || !strings.Contains(string(got), c.want)) {
			t.Errorf("%.50q: got %.99q, want %.99q", c.text, got, c.want)
		}
	}
}

// TestNamesAndOutputsNotUTF8: names of columns and outputs of a model that no reader of the result
// would take are refused.
func TestNamesAndOutputsNotUTF8(t *testing.T) {
	session := sumModel(t, 1)
	float := arrow.PrimitiveTypes.Float32
	x := field("x", float)
	for _, c := range []struct {
		other arrow.Field
		opts  Options
		want  string
	}{
		{field("\xff", float), Options{}, `the name of column "\xff" is not valid UTF-8`},
		{field("s", arrow.ListOf(arrow.StructOf(field("a\xff", float)))), Options{},
			`the name of field "a\xff" of column s is not valid UTF-8`},
		{field("s", float), Options{Prefix: "\xff"}, `the name of column "\xffy" is not valid UTF-8`},
		{field("\xff", float), Options{Keep: []string{"x"}}, ""},
	} {
		s, err := NewScorer(t.Context(), session, arrow.NewSchema([]arrow.Field{x, c.other}, nil), &c.opts)
		if err == nil {
			s.Close()
		}
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%q: error %v, want %q", c.other, err, c.want)
		}
	}
	b := onnx.NewModel("text").Opset("", 21)
	b.Input("x", onnx.String, "N").Output("y", onnx.String, "N")
	b.Initializer("end", []string{"\xff"}, 1)
	b.Node("StringConcat", []string{"x", "end"}, []string{"y"})
	schema := arrow.NewSchema([]arrow.Field{field("x", arrow.BinaryTypes.String)}, nil)
	s, err := NewScorer(t.Context(), openModel(t, b.Must()), schema, &Options{OnError: Null})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	res, rejected, err := s.Score(t.Context(), array.NewRecordBatch(schema, repeated(2, 1, 0).Columns(), 2))
	if err != nil || len(rejected) != 2 || !strings.Contains(rejected[1].Reason, `output y is not valid UTF-8: "x\xff"`) {
		t.Errorf("outputs that are not UTF-8: %v, %v, %v", res, rejected, err)
	}
}
