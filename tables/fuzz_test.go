package tables

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzReaders reads any bytes as each format. A reader returns rows or an error.
func FuzzReaders(f *testing.F) {
	list := []Format{ArrowStream, ArrowFile, Parquet, CSV, JSONLines}
	dir, sess := f.TempDir(), sumModel(f, 3)
	for i, format := range list {
		path := filepath.Join(dir, formats[format])
		writeTable(f, path, numbers(f, 2, 10)...)
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(130+i), data) // as a file
	}
	f.Fuzz(func(t *testing.T, format uint8, data []byte) {
		from := list[int(format)%len(list)]
		var out bytes.Buffer
		j := Job{Session: sess, Options: Options{Bind: bindABC()}, Stdin: bytes.NewReader(data), From: from,
			Stdout: &out, To: JSONLines}
		// A new file for each run would cost more than the run. Each process of the fuzzer
		// has its own folder.
		if whole := from == Parquet || from == ArrowFile; whole || format >= 128 {
			j.In = []string{filepath.Join(dir, formats[from])}
			if err := os.WriteFile(j.In[0], data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		n, err := j.Run(t.Context())
		if lines := bytes.Count(out.Bytes(), []byte("\n")); err == nil && int64(lines) != n.Rows {
			t.Errorf("%s: %d lines are written for %d rows", from, lines, n.Rows)
		}
	})
}
