package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// TestQuoteNotClosed reads CSV files with a quote that is not closed, whose rest is one record, and
// JSON lines with a long line.
func TestQuoteNotClosed(t *testing.T) {
	smallPieces(t, 4000)
	before := maxLine
	maxLine = 10_000
	defer func() { maxLine = before }()
	dir := t.TempDir()
	good := strings.Repeat("1,2,3\n", 2000)
	for name, c := range map[string]struct{ text, want string }{
		"field.csv": {"a,b,c\n" + good + "1,2,\"3\n" + strings.Repeat("1,2,3\n", 20000),
			"field.csv: line 2002: a record"},
		"first.csv": {"a,b,c\n\"1,2,3\n" + strings.Repeat("1,2,3\n", 20000), "first.csv: line 2: a record"},
		"line.csv":  {"a,b,c\n" + good + "1,2," + strings.Repeat("3", 50000), "line.csv: line 2002: a record"},
		"l.jsonl": {`{"a":1,"b":2,"c":3}` + "\n" + `{"a":1,"b":2,"c":3` + strings.Repeat(" ", 50000) + "}\n",
			"l.jsonl: line 2: a line"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()}, In: []string{path},
			Out: filepath.Join(dir, "out.jsonl")}
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "longer than 10000 bytes") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		j.In, j.From, j.Stdin = nil, Format(strings.TrimPrefix(filepath.Ext(name), ".")), strings.NewReader(c.text)
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 10000 bytes") {
			t.Errorf("%s as a stream: %v", name, err)
		}
		// A share that begins within the record.
		j.In, j.From, j.Stdin, j.Shard, j.Shards = []string{path}, "", nil, 3, 5
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "within a record longer than") {
			t.Errorf("share of %s: %v", name, err)
		}
	}
}

// TestManyFieldsInARecord reads CSV records with more fields than a table has columns, and one with
// as many commas between quotes.
func TestManyFieldsInARecord(t *testing.T) {
	const commas = 4 << 20
	many := strings.Repeat(",", commas)
	for name, c := range map[string]struct{ text, want string }{
		"fields":  {"1\n" + many + "\n", "line 3: a record begins that has more than 65536 fields"},
		"quoted":  {"1\n\"" + many + "\"\n2\n", ""},
		"records": {strings.Repeat("1,2,3\n", 100_000), ""},
	} {
		d := newCSV()
		if _, _, err := d.open([]byte("a\n")); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := d.decode(strings.NewReader(c.text), 1, []int{0},
			func(arrow.RecordBatch, []string, []int64) error { return nil })
		runtime.ReadMemStats(&after)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16*commas {
			t.Errorf("%s: %d bytes of text allocate %d", name, len(c.text), n)
		}
	}
}

// TestLongHeader reads a header of more than textHead bytes: its end is not cut.
func TestLongHeader(t *testing.T) {
	_, err := newText("line ", strings.NewReader("a,b,"+strings.Repeat("c", textHead)+"\n1,2,3\n"), newCSV)
	if want := fmt.Sprintf("header is longer than %d bytes", textHead); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestSearchOfRecordStops cancels the search of the record at which a share begins.
func TestSearchOfRecordStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte("a\n"+strings.Repeat("1\n", 2<<20)), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := open(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.ErrUnsupported)
	err = s.read(ctx, span{from: 3 << 20, to: 4 << 20}, []int{0}, func(chunk) error { return nil })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want the cause of the context", err)
	}
}

// TestMillionsOfValuesInALine checks the memory that one line takes whose values are short.
func TestMillionsOfValuesInALine(t *testing.T) {
	const size = 4 << 20
	for name, c := range map[string]struct{ first, part string }{
		"integers": {`[1]`, `1,`}, "numbers": {`[1.5]`, `1,`}, "strings": {`["a"]`, `"",`}, "lists": {`[[1]]`, `[],`},
		"deep lists": {`[[[[[[[[1]]]]]]]]`, `[[[[[[[]]]]]]],`}, "texts": {`[{}]`, `{},`},
	} {
		first := `{"x":` + c.first + "}\n"
		line := `{"x":[` + strings.TrimSuffix(strings.Repeat(c.part, size/len(c.part)), ",") + "]}\n"
		d := newJSON(nil)()
		if _, _, err := d.open([]byte(first)); err != nil {
			t.Fatal(name, err)
		}
		rows, rejected := 0, ""
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := d.decode(strings.NewReader(first+line), 0, []int{0},
			func(rec arrow.RecordBatch, reasons []string, _ []int64) error {
				rows += int(rec.NumRows())
				rejected += strings.Join(reasons, "")
				return nil
			})
		runtime.ReadMemStats(&after)
		if err != nil || rows != 2 || rejected != "" {
			t.Errorf("%s: %d rows, %.100s; %v", name, rows, rejected, err)
		}
		// A line that grows takes five times its size in all, and a column eight times.
		if n := after.TotalAlloc - before.TotalAlloc; n > 24*size {
			t.Errorf("%s: a line of %d bytes allocates %d", name, len(line), n)
		}
	}
}

// TestSplitOfALine compares the texts of the columns with those that encoding/json finds.
func TestSplitOfALine(t *testing.T) {
	d := newJSON(nil)().(*jsonDecoder)
	if _, _, err := d.open([]byte(`{"a":1,"b":[1],"é\"":1,"":1,"` + "\uFFFD" + `":1}`)); err != nil {
		t.Fatal(err)
	}
	row := make([][]byte, d.types.NumFields())
	for _, line := range []string{`{}`, `{ }`, `null`, `{"a":1}`, `{"b":[],"a":"]},:\\\"["}`,
		"{\t\"a\" : [ 1 , { \"b\":2 } ] , \"b\":{} }",
		`{"\u0061":1,"é\"":2,"":3}`, `{"a":1,"a":2}`,
		`{"a":"\\","b":"\\\\\""}`, `{"c":1}`, `{"a":[[["}"]]]}`,
		`[1]`, `1`, `"a"`, `{"a":1`, `{"a":1}}`, `{"a" 1}`} {
		why := d.split([]byte(line), row)
		want := map[string]json.RawMessage{}
		err := json.Unmarshal([]byte(line), &want)
		unknown := slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(k string) bool {
			_, ok := d.index[k]
			return !ok
		})
		if (why != "") != (err != nil || unknown) {
			t.Errorf("%s: %q; encoding/json: %v", line, why, err)
		}
		for name, i := range d.index {
			if err == nil && string(row[i]) != string(want[name]) {
				t.Errorf("%s: %q is %s, want %s", line, name, row[i], want[name])
			}
		}
	}
}
