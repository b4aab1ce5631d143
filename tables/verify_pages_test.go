package tables

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
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
		file := columnFile(3, float, c.codec, int64(len(page)), page)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readColumnFile(t, file)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > blocks*block/4 {
			t.Errorf("%s: a page of %d bytes that stands for %d allocates %d", name, len(page), blocks*block, n)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
