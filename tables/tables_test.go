package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
)

// open opens a model for the provider cpu.
func openModel(t testing.TB, m *onnx.Model) *onward.Session {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sumModel returns y[N] as the sum of the rows of x[N,columns].
func sumModel(t testing.TB, columns int64) *onward.Session {
	b := onnx.NewModel("sum").Opset("", 17)
	b.Input("x", onnx.Float, "N", columns).Output("y", onnx.Float, "N")
	b.Initializer("axes", []int64{1}, 1)
	b.Node("ReduceSum", []string{"x", "axes"}, []string{"y"}).Attr("keepdims", 0)
	return openModel(t, b.Must())
}

// pickModel returns y[N] as the elements of a table of five at the positions k[N].
// It fails for others.
func pickModel(t *testing.T) *onward.Session {
	b := onnx.NewModel("pick").Opset("", 17)
	b.Input("k", onnx.Int64, "N").Output("y", onnx.Float, "N")
	b.Initializer("table", []float32{10, 11, 12, 13, 14}, 5)
	b.Node("Gather", []string{"table", "k"}, []string{"y"})
	return openModel(t, b.Must())
}

// record makes a record batch from JSON: an array of objects.
func record(t testing.TB, text string, list ...arrow.Field) arrow.RecordBatch {
	t.Helper()
	for i := range list {
		list[i].Nullable = true
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(list, nil), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func field(name string, t arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: t} }

func stream(t *testing.T, recs ...arrow.RecordBatch) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(recs[0].Schema()))
	for _, r := range recs {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// lines returns the rows of an Arrow stream as JSON lines, and the numbers of rows of its batches.
func lines(t *testing.T, data []byte) (text string, batches []int64) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	enc, err := streamEncoder(JSONLines, &b, r.Schema(), true)
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		batches = append(batches, r.RecordBatch().NumRows())
		if err := enc.write(t.Context(), r.RecordBatch()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Err() != nil || enc.close() != nil {
		t.Fatal(r.Err())
	}
	return b.String(), batches
}

// score runs a job from an Arrow stream to JSON lines.
func score(t *testing.T, sess *onward.Session, o Options, in ...arrow.RecordBatch) (string, Counts, error) {
	t.Helper()
	var out bytes.Buffer
	j := Job{Session: sess, Options: o, Stdin: bytes.NewReader(stream(t, in...)), Stdout: &out, To: JSONLines}
	c, err := j.Run(t.Context())
	return out.String(), c, err
}

func must(t *testing.T, got, want string, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s\nerror %v", got, want, err)
	}
}

var abc = []arrow.Field{field("a", arrow.PrimitiveTypes.Float64), field("b", arrow.PrimitiveTypes.Int32),
	field("c", arrow.PrimitiveTypes.Float32), field("id", arrow.BinaryTypes.String)}

func bindABC() []Binding { return []Binding{{"x", []string{"a", "b", "c"}}} }

func TestBatchesFill(t *testing.T) {
	small := record(t, `[{"a":1,"b":2,"c":3.5,"id":"p"}]`, abc...)
	large := record(t, `[{"a":1,"b":1,"c":1,"id":"q"},{"a":2,"b":2,"c":2,"id":"r"},{"a":3,"b":3,"c":3,"id":"s"},{"a":4,"b":4,"c":4,"id":"t"},{"a":5,"b":5,"c":5,"id":"u"}]`, abc...)
	empty := large.NewSlice(0, 0)
	var out bytes.Buffer
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 3, Keep: []string{"id"}},
		Stdin: bytes.NewReader(stream(t, small, empty, large, small)), Stdout: &out}
	c, err := j.Run(t.Context())
	got, batches := lines(t, out.Bytes())
	must(t, got, `{"id":"p","y":6.5}
{"id":"q","y":3}
{"id":"r","y":6}
{"id":"s","y":9}
{"id":"t","y":12}
{"id":"u","y":15}
{"id":"p","y":6.5}
`, err)
	if fmt.Sprint(batches) != "[3 3 1]" || c != (Counts{Rows: 7, Scored: 7}) {
		t.Errorf("batches %v, counts %+v", batches, c)
	}
	// No rows: the stream has the columns all the same.
	out.Reset()
	j.Stdin = bytes.NewReader(stream(t, empty))
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&out)
	if err != nil || fields(r.Schema()) != "id, y" || r.Next() {
		t.Errorf("without rows: %v, %v", r.Schema(), err)
	}
}

func TestOnError(t *testing.T) {
	in := record(t, `[{"k":1},{"k":7},{"k":null},{"k":2.5},{"k":4},{"k":-99}]`, field("k", arrow.PrimitiveTypes.Float64))
	sess := pickModel(t)
	for _, batch := range []int{1, 2, 100} {
		_, _, err := score(t, sess, Options{Batch: batch}, in)
		var row *RowError
		if !errors.As(err, &row) || !strings.HasPrefix(err.Error(), "row ") {
			t.Errorf("fail: %v", err)
		}
		got, c, err := score(t, sess, Options{Batch: batch, OnError: Skip}, in)
		must(t, got, "{\"k\":1,\"y\":11}\n{\"k\":4,\"y\":14}\n", err)
		if c != (Counts{Rows: 6, Scored: 2, Skipped: 4}) {
			t.Errorf("skip: counts %+v", c)
		}
		got, c, err = score(t, sess, Options{Batch: batch, OnError: Null, ErrorColumn: "why"}, in)
		if c != (Counts{Rows: 6, Scored: 2, Nulled: 4}) || err != nil {
			t.Errorf("null: counts %+v, %v", c, err)
		}
		l := strings.Split(got, "\n")
		for i, want := range []string{`{"k":1,"y":11,"why":null}`, `{"k":7,"y":null,"why":"`, `{"k":null,"y":null,"why":"column k is null"}`,
			`{"k":2.5,"y":null,"why":"column k is 2.5, which is not of type int64"}`, `{"k":4,"y":14,"why":null}`, `{"k":-99,"y":null,"why":"`} {
			if !strings.HasPrefix(l[i], want) {
				t.Errorf("null, batch %d, row %d: %s, want %s", batch, i, l[i], want)
			}
		}
	}
	// The row is named also if only the model rejects it.
	_, _, err := score(t, sess, Options{}, record(t, `[{"k":1},{"k":2},{"k":7},{"k":8}]`, field("k", arrow.PrimitiveTypes.Int64)))
	if err == nil || !strings.HasPrefix(err.Error(), "row 3: ") || !strings.Contains(err.Error(), "7") {
		t.Errorf("model error: %v", err)
	}
}

func TestListsAndStrings(t *testing.T) {
	sess := sumModel(t, -1)
	list := arrow.ListOf(arrow.PrimitiveTypes.Float64)
	got, _, err := score(t, sess, Options{OnError: Null}, record(t, `[{"x":[1,2]},{"x":[3,4]},{"x":[5]},{"x":null},{"x":[1,null]},{"x":[1,2,3]},{"x":[]}]`, field("x", list)))
	must(t, got, `{"x":[1,2],"y":3,"error":null}
{"x":[3,4],"y":7,"error":null}
{"x":[5],"y":5,"error":null}
{"x":null,"y":null,"error":"column x is null or holds a null"}
{"x":[1,null],"y":null,"error":"column x: element 1 is null"}
{"x":[1,2,3],"y":6,"error":null}
{"x":[],"y":0,"error":null}
`, err)
	got, _, err = score(t, sumModel(t, 2), Options{OnError: Null},
		record(t, `[{"x":[1,2]},{"x":[3,4]}]`, field("x", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8))).NewSlice(1, 2))
	must(t, got, `{"x":[3,4],"y":7,"error":null}`+"\n", err)
	got, _, err = score(t, sumModel(t, 2), Options{OnError: Null}, record(t, `[{"x":[1,2,3]}]`, field("x", list)))
	must(t, got, `{"x":[1,2,3],"y":null,"error":"column x: shape is [3], want [2]"}`+"\n", err)

	// Outputs of higher rank become nested lists, and nested lists inputs.
	b := onnx.NewModel("cube").Opset("", 17)
	b.Input("x", onnx.Float, "N", 2, 2).Output("y", onnx.Float, "N", 2, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	sess = openModel(t, b.Must())
	got, _, err = score(t, sess, Options{}, record(t, `[{"x":[[1,2],[3,4]]},{"x":[[5,6],[7,8]]}]`, field("x", arrow.ListOf(list))))
	must(t, got, "{\"x\":[[1,2],[3,4]],\"y\":[[-1,-2],[-3,-4]]}\n{\"x\":[[5,6],[7,8]],\"y\":[[-5,-6],[-7,-8]]}\n", err)
	got, _, err = score(t, sess, Options{Keep: []string{}}, record(t, `[{"x":[1,2,3,4]}]`, field("x", list)))
	must(t, got, "{\"y\":[[-1,-2],[-3,-4]]}\n", err)
	got, _, err = score(t, sess, Options{OnError: Null, Keep: []string{}}, record(t, `[{"x":[[1,2],[3]]}]`, field("x", arrow.ListOf(list))))
	must(t, got, "{\"y\":null,\"error\":\"column x holds lists of 2 and of 1 values, want equal lengths\"}\n", err)

	b = onnx.NewModel("words").Opset("", 17)
	b.Input("w", onnx.String, "N").Output("v", onnx.String, "N")
	b.Node("Identity", []string{"w"}, []string{"v"})
	got, _, err = score(t, openModel(t, b.Must()), Options{OnError: Skip, Prefix: "out_"},
		record(t, `[{"w":"héllo"},{"w":null},{"w":""}]`, field("w", arrow.BinaryTypes.String)))
	must(t, got, "{\"w\":\"héllo\",\"out_v\":\"héllo\"}\n{\"w\":\"\",\"out_v\":\"\"}\n", err)
}

// TestMaps scores with a classifier whose probabilities are a sequence of maps.
func TestMaps(t *testing.T) {
	data, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		t.Fatal(err)
	}
	sess, err := onward.OpenBytes(t.Context(), data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var recs []arrow.RecordBatch
	for range 2 {
		recs = append(recs, record(t, `[{"a":5.1,"b":3.5},{"a":6.2,"b":2.9},{"a":5.9,"b":3.0}]`,
			field("a", arrow.PrimitiveTypes.Float32), field("b", arrow.PrimitiveTypes.Float32)))
	}
	// Four rows for a model that takes three at a time: the last batch is padded.
	recs[1] = recs[1].NewSlice(0, 1)
	got, c, err := score(t, sess, Options{Bind: []Binding{{"float_input", []string{"a", "b"}}}, Keep: []string{}},
		recs...)
	l := strings.Split(got, "\n")
	if err != nil || c.Scored != 4 || len(l) != 5 || l[0] != l[3] ||
		!strings.HasPrefix(l[0], `{"output_label":0,"output_probability":{"0":0.`) || !strings.Contains(l[0], `"2":`) {
		t.Errorf("%s, %+v, %v", got, c, err)
	}
}

func TestImages(t *testing.T) {
	data, err := datasets.Get("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	sess, err := onward.OpenBytes(t.Context(), data, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{field("image", arrow.BinaryTypes.Binary)}, nil))
	b.Field(0).(*array.BinaryBuilder).
		AppendValues([][]byte{datasets.SampleImage(), []byte("no image"), datasets.SampleImage()}, nil)
	o := Options{Outputs: []string{"digit"}, Keep: []string{}, OnError: Null}
	got, _, err := score(t, sess, o, b.NewRecordBatch())
	good := fmt.Sprintf(`{"digit":%d,"error":null}`+"\n", datasets.SampleDigit)
	must(t, got, good+`{"digit":null,"error":"column image: image: unknown format"}`+"\n"+good, err)

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "7.png"), datasets.SampleImage(), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..", "outside.png"), datasets.SampleImage(), 0o666); err != nil {
		t.Fatal(err)
	}
	names := record(t, `[{"image":"7.png"},{"image":"../outside.png"},{"image":"nosuch.png"}]`, field("image", arrow.BinaryTypes.String))
	o.Images = dir
	got, c, err := score(t, sess, o, names)
	if err != nil || !strings.HasPrefix(got, good) || c.Nulled != 2 || !strings.Contains(got, "escapes") {
		t.Errorf("%s, %+v, %v", got, c, err)
	}
	o.Images = ""
	if _, _, err := score(t, sess, o, names); err == nil ||
		!strings.Contains(err.Error(), "name the folder of the images") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestWrongBindings(t *testing.T) {
	rec := record(t, `[{"a":1,"b":1,"c":1,"id":"x"}]`, abc...)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, `no column "x"; it has a, b, c, id`},
		{Options{Bind: []Binding{{"z", []string{"a"}}}}, `no input "z"; it has x`},
		{Options{Bind: []Binding{{"x", []string{"a", "nosuch"}}}}, `no column "nosuch"`},
		{Options{Bind: []Binding{{"x", []string{"a", "b"}}}}, "2 columns are bound, want 3"},
		{Options{Bind: append(bindABC(), bindABC()...)}, "bound twice"},
		{Options{Bind: bindABC(), Outputs: []string{"z"}}, `no output "z"; it has y`},
		{Options{Bind: bindABC(), Keep: []string{"z"}}, `0 columns "z" to keep`},
		{Options{Bind: bindABC(), OnError: Null, ErrorColumn: "id"}, `a column "id" already`},
		{Options{Bind: bindABC(), OnError: "stop"}, `want fail, null or skip`},
		{Options{Bind: bindABC(), Batch: -1}, "batch is -1"},
	} {
		if _, _, err := score(t, sumModel(t, 3), c.o, rec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
	_, _, err := score(t, sumModel(t, 3), Options{Bind: bindABC()},
		record(t, `[{"a":"eA==","b":1,"c":true}]`, field("a", arrow.BinaryTypes.Binary),
			field("b", arrow.PrimitiveTypes.Int32), field("c", arrow.FixedWidthTypes.Boolean)))
	if err == nil || !strings.Contains(err.Error(), "column a: type is binary, which cannot become float") {
		t.Errorf("binary: %v", err)
	}
}

// TestIntegersAreExact converts numbers of all kinds to integer inputs.
func TestIntegersAreExact(t *testing.T) {
	for _, c := range []struct {
		typ  onnx.DataType
		in   arrow.DataType
		json string
		good bool
	}{
		{onnx.Int8, arrow.PrimitiveTypes.Int64, "127", true}, {onnx.Int8, arrow.PrimitiveTypes.Int64, "128", false}, {onnx.Int8, arrow.PrimitiveTypes.Int64, "-128", true}, {onnx.Int8, arrow.PrimitiveTypes.Int64, "-129", false},
		{onnx.Uint8, arrow.PrimitiveTypes.Int16, "-1", false}, {onnx.Uint8, arrow.PrimitiveTypes.Int16, "255", true},
		{onnx.Int64, arrow.PrimitiveTypes.Int64, "9007199254740993", true}, {onnx.Int64, arrow.PrimitiveTypes.Int64, "9223372036854775807", true}, {onnx.Int64, arrow.PrimitiveTypes.Int64, "-9223372036854775808", true},
		{onnx.Int64, arrow.PrimitiveTypes.Uint64, "18446744073709551615", false}, {onnx.Uint64, arrow.PrimitiveTypes.Uint64, "18446744073709551615", true},
		{onnx.Int64, arrow.PrimitiveTypes.Float64, "1e19", false}, {onnx.Int64, arrow.PrimitiveTypes.Float64, "0.5", false},
		{onnx.Int32, arrow.BinaryTypes.String, `" 12 "`, true}, {onnx.Int32, arrow.BinaryTypes.String, `"12x"`, false}, {onnx.Int32, arrow.BinaryTypes.String, `""`, false},
		{onnx.Bool, arrow.PrimitiveTypes.Int8, "1", true}, {onnx.Bool, arrow.PrimitiveTypes.Int8, "2", false},
		{onnx.Float16, arrow.PrimitiveTypes.Float64, "0.5", true},
	} {
		b := onnx.NewModel("same").Opset("", 17)
		b.Input("x", c.typ, "N").Output("y", c.typ, "N")
		b.Node("Identity", []string{"x"}, []string{"y"})
		got, counts, err := score(t, openModel(t, b.Must()), Options{OnError: Skip, Keep: []string{}},
			record(t, `[{"x":`+c.json+`}]`, field("x", c.in)))
		want := strings.Trim(c.json, `" `)
		if c.typ == onnx.Bool {
			want = "true"
		}
		if err != nil || (counts.Scored == 1) != c.good || c.good && got != `{"y":`+want+"}\n" {
			t.Errorf("%v from %s %s: %q, %+v, %v", c.typ, c.in, c.json, got, counts, err)
		}
	}
}

// TestDamagedStreams cuts and changes a stream: the result is an error or rows, never a panic.
func TestDamagedStreams(t *testing.T) {
	whole := stream(t, record(t, `[{"x":[1,2],"s":"one"},{"x":[3,4],"s":"two"}]`,
		field("x", arrow.ListOf(arrow.PrimitiveTypes.Float32)), field("s", arrow.BinaryTypes.String)))
	sess := sumModel(t, 2)
	run := func(data []byte) error {
		var out bytes.Buffer
		j := Job{Session: sess, Stdin: bytes.NewReader(data), Stdout: &out, To: JSONLines}
		_, err := j.Run(t.Context())
		return err
	}
	for n := range len(whole) - 16 { // the end marker may be missing
		run(whole[:n])
	}
	if err := run(whole[:len(whole)/2]); err == nil {
		t.Error("half a stream gives no error")
	}
	for at := 0; at+4 <= len(whole); at += 4 {
		for _, v := range []uint32{0, 1, 0x7fffffff, 0xffffffff, 0x40000000} {
			bad := bytes.Clone(whole)
			binary.LittleEndian.PutUint32(bad[at:], v)
			// Whichever word is a length, at most the body of a message is taken for it.
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run(bad)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > maxBody+64<<20 {
				t.Errorf("%#x at byte %d: reading took %d MB", v, at, took>>20)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()},
		Stdin: bytes.NewReader(stream(t, record(t, `[{"a":1,"b":1,"c":1,"id":"x"}]`, abc...))), Stdout: &bytes.Buffer{}}
	if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// ahead counts the record batches that a job reads and has not yet written.
type ahead struct {
	body    []byte // a record batch
	left    int
	rest    []byte
	read    atomic.Int64
	written int64
	most    int64
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		if a.left == 0 {
			return 0, io.EOF
		}
		a.left--
		a.read.Add(1)
		a.rest = a.body
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

func (a *ahead) Write(p []byte) (int, error) {
	a.written += int64(bytes.Count(p, []byte("\n")))
	a.most = max(a.most, a.read.Load()-a.written)
	runtime.Gosched() // a slow reader of the result
	return len(p), nil
}

// TestBackPressure scores a long stream: a job never reads more than a few batches ahead.
func TestBackPressure(t *testing.T) {
	rec := record(t, `[{"x":[1,2]}]`, field("x", arrow.ListOf(arrow.PrimitiveTypes.Float32)))
	one, two := stream(t, rec), stream(t, rec, rec)
	body := two[len(one)-8 : len(two)-8] // without the end marker
	const batches = 3000
	a := &ahead{rest: one[:len(one)-8], body: body, left: batches - 1}
	a.read.Store(1)
	j := Job{Session: sumModel(t, 2), Options: Options{Batch: 1, Keep: []string{}}, Stdin: a, Stdout: a, To: JSONLines}
	c, err := j.Run(t.Context())
	// Two channels of four batches, one batch in each of three goroutines, and read-ahead.
	if err != nil || c.Scored != batches || a.written != batches || a.most > 16 {
		t.Errorf("%+v, %d batches written, at most %d ahead, %v", c, a.written, a.most, err)
	}
}
