package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// nestedParquet is a Parquet file without rows, whose column is in n groups, one in another.
func nestedParquet(n int) []byte {
	meta := []byte{0x15, 2, 0x19, 0xfc} // version 1, and a list of structs
	meta = binary.AppendUvarint(meta, uint64(n+2))
	meta = append(meta, 0x48, 1, 'a', 0x15, 2, 0) // the root: its name, and one child
	for range n {
		meta = append(meta, 0x35, 2, 0x18, 1, 'a', 0x15, 2, 0)
	}
	meta = append(meta, 0x15, 2, 0x25, 2, 0x18, 1, 'a', 0) // an int32
	meta = append(meta, 0x16, 0, 0x19, 0x0c, 0)            // no rows, no row groups
	file := append([]byte("PAR1"), meta...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(meta))), "PAR1"...)
}

// TestLongIntegersOfThrift checks that numbers of children of 33 bits, of which Parquet's reader
// takes the low 32, count as levels.
func TestLongIntegersOfThrift(t *testing.T) {
	one := []byte{'a', 0x15, 2}                           // one child, after the name
	long := []byte{'a', 0x15, 0x82, 0x80, 0x80, 0x80, 16} // the same with bit 32
	for _, levels := range []int{maxFieldDepth - 2, maxFieldDepth} {
		data := nestedParquet(levels)
		n := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
		meta := bytes.ReplaceAll(data[len(data)-8-n:len(data)-8], one, long)
		file := append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), meta...), uint32(len(meta))), "PAR1"...)
		if err := verifyParquet(bytes.NewReader(file), int64(len(file))); (err != nil) != (levels == maxFieldDepth) {
			t.Errorf("%d levels: error %v", levels, err)
		}
	}
}

// TestNestedParquet checks that schemas of many levels are refused: Parquet's reader calls itself
// for each level, and eight million of them exceed Go's limit of a stack, which ends the process.
func TestNestedParquet(t *testing.T) {
	for _, c := range []struct {
		levels int
		want   string
	}{{maxFieldDepth - 2, ""}, {maxFieldDepth, "nested more than"}, {maxFields, "elements"}} {
		data := nestedParquet(c.levels)
		err := verifyParquet(bytes.NewReader(data), int64(len(data)))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d levels: error %v, want %q", c.levels, err, c.want)
		}
		file := fmt.Sprintf("%s/%d.parquet", t.TempDir(), c.levels)
		if err := os.WriteFile(file, data, 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := open(file, Parquet, nil)
		if err == nil {
			s.Close()
			err = errors.New("none")
		}
		if c.want != "" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("a file of %d levels: error %v, want %q", c.levels, err, c.want)
		}
	}
}

// TestManyColumns checks that texts with too many columns are refused: a column takes up to 20 kB.
func TestManyColumns(t *testing.T) {
	var object strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&object, `,"%x":1`, i)
	}
	for name, err := range map[string]error{
		"CSV":  second(newCSV().open([]byte(strings.Repeat(",", maxFields) + "\n"))),
		"JSON": second(newJSON(nil)().open([]byte("{" + object.String()[1:] + "}\n"))),
	} {
		if err == nil || !strings.Contains(err.Error(), "columns") {
			t.Errorf("%s: error %v, want that the columns are refused", name, err)
		}
	}
}

func second[A, B any](_ A, _ B, err error) error { return err }
