package tables

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

var formats = map[Format]string{ArrowStream: "t.arrows", ArrowFile: "t.arrow", Parquet: "t.parquet", CSV: "t.csv",
	JSONLines: "t.jsonl"}

func smallPieces(t testing.TB, n int64) {
	before := pieceBytes
	pieceBytes = n
	t.Cleanup(func() { pieceBytes = before })
}

// convert writes rows to a file by scoring them with a model whose output is dropped.
func writeTable(t testing.TB, path string, recs ...arrow.RecordBatch) {
	t.Helper()
	f, err := FormatOf(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := &partial{f: file}
	enc, err := newEncoder(f, p, recs[0].Schema(), nil)
	for _, r := range recs {
		if err == nil {
			err = enc.write(t.Context(), r)
		}
		if err == nil {
			_, err = enc.endPiece()
		}
	}
	if err == nil {
		err = enc.close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// numbers makes record batches with the columns a, b, c and id.
func numbers(t testing.TB, batches, rows int) (recs []arrow.RecordBatch) {
	k := 0
	for range batches {
		var b strings.Builder
		for range rows {
			fmt.Fprintf(&b, `,{"a":%d.25,"b":%d,"c":%d.5,"id":"row \"%d\",\nü"}`, k%100, k%7, k%5, k)
			k++
		}
		recs = append(recs, record(t, "["+b.String()[1:]+"]", abc...))
	}
	return recs
}

// runFile scores a file to another and returns the written bytes.
func runFile(t *testing.T, j Job) []byte {
	t.Helper()
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{partialPath(j.Out), journalPath(j.Out)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays", path)
		}
	}
	data, err := os.ReadFile(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rowsOf reads a table as JSON lines without the types that CSV has not.
func rowsOf(t *testing.T, path string) string {
	t.Helper()
	s, err := open(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b bytes.Buffer
	enc, err := streamEncoder(CSV, &b, s.schema(), true)
	if err != nil {
		t.Fatal(err)
	}
	columns := make([]int, s.schema().NumFields())
	for i := range columns {
		columns[i] = i
	}
	for _, sp := range s.spans() {
		if err := s.read(t.Context(), sp, columns, func(c chunk) error {
			if c.reasons != nil {
				t.Errorf("%s: %v", path, c.reasons)
			}
			return enc.write(t.Context(), c.rec)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFormats scores the same rows from every format to every format, in pieces.
func TestFormats(t *testing.T) {
	smallPieces(t, 100)
	recs := numbers(t, 5, 20)
	dir := t.TempDir()
	sess := sumModel(t, 3)
	want := ""
	for _, from := range []Format{Parquet, ArrowFile, ArrowStream, CSV, JSONLines} {
		in := filepath.Join(dir, formats[from])
		writeTable(t, in, recs...)
		for to, name := range formats {
			out := filepath.Join(t.TempDir(), name)
			runFile(t, Job{Session: sess, Options: Options{Bind: bindABC(), Batch: 7}, In: []string{in}, Out: out})
			got := rowsOf(t, out)
			if want == "" {
				if want = got; strings.Count(got, "\n") != 201 ||
					!strings.Contains(got, "\n0.25,0,0.5,\"row \"\"0\"\",\nü\",0.75\n") ||
					!strings.Contains(got, "\n99.25,1,4.5,\"row \"\"99\"\",\nü\",104.75\n") {
					t.Fatalf("rows\n%s", got)
				}
			}
			if got != want {
				t.Errorf("%s to %s:\n%s\nwant\n%s", from, to, got, want)
			}
		}
	}
}

// TestShards scores every share of a table on its own: together they are the whole.
func TestShards(t *testing.T) {
	smallPieces(t, 64)
	dir := t.TempDir()
	var in []string
	for i, name := range []string{"a.parquet", "b.arrow", "c.csv", "d.jsonl"} {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		writeTable(t, filepath.Join(d, name), numbers(t, 4, 9)...)
		writeTable(t, filepath.Join(d, "_"+name), numbers(t, 1, 1)...) // hidden
		in = append(in, d)
	}
	sess := sumModel(t, 3)
	for _, path := range in {
		j := Job{Session: sess, Options: Options{Bind: bindABC(), Batch: 5}, In: []string{path},
			Out: filepath.Join(dir, "out.csv")}
		whole := string(runFile(t, j))
		for _, n := range []int{1, 2, 3, 7, 100} {
			var all strings.Builder
			for i := range n {
				j.Shard, j.Shards = i, n
				part := string(runFile(t, j))
				if i > 0 {
					_, part, _ = strings.Cut(part, "\n")
				}
				all.WriteString(part)
			}
			if all.String() != whole {
				t.Errorf("%s: %d shards give\n%s\nwant\n%s", path, n, all.String(), whole)
			}
		}
	}
}

// TestTextPieces splits random CSV texts, with line breaks in quoted fields, at every position.
func TestTextPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tokens := []string{"1", "2", "\"x\ny\"", "\"\"", "\"a\"\"b\"", "\"\n\n\"", "é"}
	for range 20 {
		var b strings.Builder
		b.WriteString("\ufeff\"k\n1\",v\r\n")
		for range rng.IntN(12) {
			fmt.Fprintf(&b, "%s,%s", tokens[rng.IntN(len(tokens))], tokens[rng.IntN(len(tokens))])
			b.WriteString([]string{"\n", "\r\n", "\n\n"}[rng.IntN(3)])
		}
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, size := range []int64{1 << 20, 1, 2, 3, 5, 8, 13} {
			smallPieces(t, size)
			if got := rowsOf(t, path); want == "" {
				want = got
			} else if got != want {
				t.Fatalf("pieces of %d bytes of %q: %q, want %q", size, b.String(), got, want)
			}
		}
	}
}

// interrupted runs a job and cancels it after some batches.
func interrupted(t *testing.T, j Job, batches int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	j.Progress = func(Progress) {
		if n++; n == batches {
			cancel()
		}
	}
	if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want a cancelled job", err)
	}
	if _, err := os.Stat(j.Out); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s exists after an interruption", j.Out)
	}
}

func TestResume(t *testing.T) {
	smallPieces(t, 100)
	dir := t.TempDir()
	sess := sumModel(t, 3)
	recs := numbers(t, 12, 10)
	for from, in := range map[Format]string{Parquet: "in.parquet", CSV: "in.csv", JSONLines: "in.jsonl",
		ArrowFile: "in.arrow"} {
		in = filepath.Join(dir, in)
		writeTable(t, in, recs...)
		for _, to := range []Format{Parquet, ArrowFile, CSV, JSONLines} {
			j := Job{Session: sess, Options: Options{Bind: bindABC(), Batch: 6, OnError: Null}, In: []string{in},
				Out: filepath.Join(t.TempDir(), formats[to]), Resume: true}
			want := runFile(t, j)
			for _, batches := range []int{1, 7, 20} {
				if err := os.Remove(j.Out); err != nil {
					t.Fatal(err)
				}
				interrupted(t, j, batches)
				interrupted(t, j, 2)
				// The end of a partial file may be lost or be of a piece that is not whole.
				// It is removed if no piece was complete.
				p, err := os.OpenFile(partialPath(j.Out), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if err == nil {
					p.WriteString("garbage")
					p.Close()
				}
				if got := runFile(t, j); !bytes.Equal(got, want) {
					t.Errorf("%s to %s after %d batches: %d bytes differ from %d", from, to, batches,
						len(got), len(want))
				}
			}
		}
	}
}

// TestResumeVerifies changes the files of an interrupted job.
func TestResumeVerifies(t *testing.T) {
	smallPieces(t, 100)
	in, out := filepath.Join(t.TempDir(), "in.csv"), filepath.Join(t.TempDir(), "out.csv")
	writeTable(t, in, numbers(t, 12, 10)...)
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in},
		Out: out, Resume: true}
	want := runFile(t, j)
	change := func(path string, fn func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, fn(data), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, fn := range map[string]func(){
		"lost bytes":    func() { change(partialPath(out), func(b []byte) []byte { return b[:len(b)/2] }) },
		"changed byte":  func() { change(partialPath(out), func(b []byte) []byte { b[len(b)/2]++; return b }) },
		"cut journal":   func() { change(journalPath(out), func(b []byte) []byte { return b[:len(b)-3] }) },
		"empty journal": func() { change(journalPath(out), func(b []byte) []byte { return nil }) },
		"no journal":    func() { os.Remove(journalPath(out)) },
		"garbage":       func() { change(journalPath(out), func(b []byte) []byte { return append(b, "{\"end\":-5}\n\xff"...) }) },
		"beyond the end": func() {
			change(journalPath(out), func(b []byte) []byte { return append(b, `{"end":99999999}`+"\n"...) })
		},
	} {
		os.Remove(out)
		interrupted(t, j, 30)
		fn()
		if got := runFile(t, j); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
	os.Remove(out)
	interrupted(t, j, 30)
	j.Options.Batch = 5
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another job") {
		t.Errorf("other options: %v", err)
	}
	j.Resume = false
	if got := runFile(t, j); !bytes.Equal(got, want) {
		t.Error("a new start gives another result")
	}
}

const childVariable = "ONWARD_TABLES_CHILD"

// TestResumeAfterKill kills the process that writes, as kill -9 does.
func TestResumeAfterKill(t *testing.T) {
	smallPieces(t, 100)
	if out := os.Getenv(childVariable); out != "" {
		j := killJob(t, out)
		n := 0
		j.Progress = func(Progress) {
			if n++; n == 15 {
				fmt.Println("ready")
				select {} // until killed
			}
		}
		j.Run(t.Context())
		return
	}
	for _, name := range []string{"out.parquet", "out.arrow", "out.csv"} {
		dir := t.TempDir()
		out := filepath.Join(dir, name)
		writeTable(t, filepath.Join(dir, "in.parquet"), numbers(t, 12, 10)...)
		j := killJob(t, out)
		want := runFile(t, j)
		os.Remove(out)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, "-test.run=^TestResumeAfterKill$")
		cmd.Env = append(os.Environ(), childVariable+"="+out)
		pipe, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 5)
		_, err = pipe.Read(line)
		cmd.Process.Kill()
		cmd.Wait()
		if err != nil || string(line) != "ready" {
			t.Fatalf("the process prints %q, %v", line, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s exists after the kill", out)
		}
		journal, err := os.ReadFile(journalPath(out))
		if err != nil || bytes.Count(journal, []byte("\n")) < 3 {
			t.Fatalf("journal %s, %v, want pieces", journal, err)
		}
		started := false
		j.Progress = func(p Progress) {
			if !started && p.Rows < 20 {
				t.Errorf("%s: starts over with %d rows", name, p.Rows)
			}
			started = true
		}
		if got := runFile(t, j); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
}

func killJob(t *testing.T, out string) Job {
	return Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6},
		In: []string{filepath.Join(filepath.Dir(out), "in.parquet")}, Out: out, Resume: true, Model: "sum"}
}

// TestRowsAreNamed checks the places in errors.
func TestRowsAreNamed(t *testing.T) {
	dir := t.TempDir()
	sess := pickModel(t)
	for name, c := range map[string]struct{ text, want string }{
		"a.csv":   {"k,\"note\nof two lines\"\n1,x\n2,\"y\nz\"\nthree,w\n", "a.csv line 6: column k is \"three\", which is not of type int64"},
		"b.csv":   {"k,note\n1\n", "b.csv line 2: the record has 1 fields, want 2"},
		"c.csv":   {"k,note\n1,2,3,4\n", "c.csv line 2: the record has 4 fields, want 2; left over: \"3,4\""},
		"d.jsonl": {"{\"k\":1}\n\n{\"k\":2.5}\n", "d.jsonl line 3: column k is 2.5"},
		"e.jsonl": {"{\"k\":1}\n{\"k\":1,}\n", "e.jsonl line 2: the line \"{\\\"k\\\":1,}\" is not a JSON object"},
		"f.jsonl": {"{\"k\":1}\n{\"k\":77}\n", "f.jsonl line 2: "},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		j := Job{Session: sess, In: []string{path}, Out: filepath.Join(dir, "out.csv")}
		if _, err := j.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		j.Options.OnError = Skip
		var first []RowError
		j.Rejected = func(e RowError) { first = append(first, e) }
		counts, err := j.Run(t.Context())
		if err != nil || counts.Skipped != 1 || len(first) != 1 || !strings.HasPrefix(first[0].Error(), c.want) {
			t.Errorf("%s: %+v, %v, %v", name, counts, first, err)
		}
	}
}

// TestParquetSchemaOfHugeLength reads a Parquet file whose Arrow schema, in its metadata, states
// that a field has 2³¹ children: an error, before memory is taken for them.
func TestParquetSchemaOfHugeLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	writeTable(t, path, numbers(t, 2, 10)...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Index(whole, []byte("ARROW:schema"))
	if key < 0 {
		t.Fatal("the file has no schema in its metadata")
	}
	start := key + len("ARROW:schema")
	for whole[start] != '/' { // "/////", the marker of a message
		start++
	}
	end := start
	for end < len(whole) && (whole[end] == '+' || whole[end] == '/' || whole[end] >= '0' && whole[end] <= '9' ||
		whole[end]|0x20 >= 'a' && whole[end]|0x20 <= 'z') {
		end++
	}
	end -= (end - start) % 4
	data, err := base64.StdEncoding.DecodeString(string(whole[start:end]))
	if err != nil {
		t.Fatal(err)
	}
	sess := sumModel(t, 3)
	refused := 0
	for i := 8; i+4 <= len(data); i += 4 { // whichever of the words is a length
		bad := bytes.Clone(data)
		binary.LittleEndian.PutUint32(bad[i:], 1<<31-1)
		file := bytes.Clone(whole)
		base64.StdEncoding.Encode(file[start:end], bad)
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		j := Job{Session: sess, Options: Options{Bind: bindABC()}, In: []string{path},
			Stdout: io.Discard, To: JSONLines}
		if _, err := j.Run(t.Context()); err != nil {
			refused++
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("word %d of the schema: reading took %d MB", i/4, took>>20)
		}
	}
	if refused == 0 {
		t.Error("no file was refused")
	}
}

// TestDamagedFiles cuts and changes files of every format: never a panic.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	sess := sumModel(t, 3)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, f := range []Format{ArrowStream, ArrowFile, Parquet, CSV, JSONLines} {
		name := formats[f]
		path := filepath.Join(dir, name)
		writeTable(t, path, numbers(t, 2, 10)...)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		run := func(data []byte) error {
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			j := Job{Session: sess, Options: Options{Bind: bindABC()}, In: []string{path}, Stdout: &out, To: JSONLines}
			_, err := j.Run(t.Context())
			return err
		}
		if err := run(whole); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for n := 0; n < len(whole); n += 1 + len(whole)/200 {
			if err := run(whole[:n]); err == nil && (f == Parquet || f == ArrowFile) {
				t.Errorf("%s cut to %d bytes gives no error", f, n)
			}
		}
		for range 150 {
			bad := bytes.Clone(whole)
			for range 1 + rng.IntN(3) {
				bad[rng.IntN(len(bad))] = byte(rng.Uint32())
			}
			run(bad)
		}
	}
}

func TestWrongJobs(t *testing.T) {
	sess := sumModel(t, 3)
	dir := t.TempDir()
	in := filepath.Join(dir, "in.csv")
	writeTable(t, in, numbers(t, 1, 2)...)
	other := filepath.Join(dir, "other.csv")
	if err := os.WriteFile(other, []byte("a,b\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	o := Options{Bind: bindABC()}
	for _, c := range []struct {
		j    Job
		want string
	}{
		{Job{In: []string{filepath.Join(dir, "nosuch.csv")}}, "nosuch.csv"},
		{Job{In: []string{in, other}}, "tables of one job have equal columns"},
		{Job{In: []string{in}, Out: filepath.Join(dir, "out.txt")}, "format is not known"},
		{Job{In: []string{in}, Out: dir, To: CSV}, "is a folder"},
		{Job{In: []string{in}, Out: filepath.Join(dir, "nosuch", "out.csv")}, "nosuch"},
		{Job{In: []string{in}, Shard: 3, Shards: 3}, "shard is 3 of 3"},
		{Job{Stdin: strings.NewReader(""), Shards: 2}, "name files"},
		{Job{Stdin: strings.NewReader(""), Resume: true}, "name files"},
		{Job{In: []string{in}, Resume: true}, "name a file to resume"},
		{Job{Stdin: strings.NewReader("")}, "standard input"},
		{Job{Stdin: strings.NewReader(""), From: Parquet}, "cannot be read from standard input"},
		{Job{In: []string{in}, To: Parquet, Stdout: &bytes.Buffer{}}, "cannot be written to standard output"},
	} {
		c.j.Session, c.j.Options = sess, o
		if _, err := c.j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.j.In, err, c.want)
		}
	}
}

// TestTwoWriters runs a second job with the same result while the first is running, and one whose
// file is replaced meanwhile.
func TestTwoWriters(t *testing.T) {
	smallPieces(t, 100)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	writeTable(t, in, numbers(t, 12, 10)...)
	for _, resume := range []bool{false, true} {
		j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in},
			Out: filepath.Join(dir, "want.csv"), Resume: resume}
		want := runFile(t, j)
		j.Out = out
		second, tried := j, false
		j.Progress = func(Progress) {
			if tried {
				return
			}
			tried = true
			if _, err := second.Run(t.Context()); !errors.Is(err, errBusy) {
				t.Errorf("a second job: %v, want errBusy", err)
			}
		}
		if got := runFile(t, j); !bytes.Equal(got, want) {
			t.Errorf("resume %v: the first job writes %d bytes, want %d", resume, len(got), len(want))
		}
		if got := runFile(t, second); !bytes.Equal(got, want) {
			t.Errorf("resume %v: a job after it writes %d bytes, want %d", resume, len(got), len(want))
		}
		os.Remove(out)
	}
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in}, Out: out}
	j.Progress = func(Progress) {
		os.Remove(partialPath(out))
		if err := os.WriteFile(partialPath(out), []byte("of another program"), 0o666); err != nil {
			t.Error(err)
		}
	}
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("a replaced file: %v, want an error", err)
	}
	if data, _ := os.ReadFile(partialPath(out)); string(data) != "of another program" {
		t.Errorf("the other program's file has become %q", data)
	}
}
