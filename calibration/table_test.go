package calibration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func recordedTable(t testing.TB, folder, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "table", folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// This test checks that a table of ONNX Runtime's write_calibration_table is read, and written
// again byte by byte.
func TestTableEqualsONNXRuntime(t *testing.T) {
	for _, folder := range []string{"minmax", "minmax_symmetric", "entropy_default"} {
		t.Run(folder, func(t *testing.T) {
			table, err := Read(bytes.NewReader(recordedTable(t, folder, JSONFile)))
			if err != nil {
				t.Fatal(err)
			}
			if len(table.Ranges) != 9 {
				t.Fatalf("%d tensors, want 9: %v", len(table.Ranges), table.Names())
			}
			dir := t.TempDir()
			if err := table.WriteDir(dir); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{JSONFile, CacheFile, FlatBuffersFile} {
				want := recordedTable(t, folder, file)
				got, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				back, err := ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if file == JSONFile {
					if d := cmp.Diff(table, back); d != "" {
						t.Errorf("%s read back: %s", file, d)
					}
				} else {
					for _, name := range table.Names() {
						if back.Ranges[name].Highest != table.Ranges[name].Dynamic() {
							t.Errorf("%s: %s has %g, want %g", file, name, back.Ranges[name].Highest,
								table.Ranges[name].Dynamic())
						}
					}
				}
				if file == JSONFile { // ONNX Runtime's order is that of a hash table
					want, got = sortedJSON(t, want), sortedJSON(t, got)
				}
				if folder != "entropy_default" && !bytes.Equal(got, want) {
					t.Errorf("%s differs:\n%q\nwant\n%q", file, got, want)
				}
			}
		})
	}
}

func sortedJSON(t *testing.T, data []byte) []byte {
	t.Helper()
	var v any
	err := json.Unmarshal(data, &v)
	if err == nil {
		data, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ONNX Runtime's writer takes the larger end of a range. TensorRT takes the number as a
// magnitude, so that a range that is wider below zero needs its lower end.
func TestTableTakesTheMagnitude(t *testing.T) {
	table := NewTable(MinMax)
	table.Ranges["x"] = Range{Lowest: -3, Highest: 1}
	var b bytes.Buffer
	if err := table.WriteCache(&b); err != nil || b.String() != "x 3.0\n" {
		t.Errorf("%q, %v, want \"x 3.0\"", b.String(), err)
	}
}

func TestTableRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable(Method(rapid.IntRange(0, 2).Draw(t, "method")))
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-zA-Z0-9_/:. é😀"<>&-]{1,12}`), rapid.ID[string]).Draw(t, "names")
		for _, name := range names {
			a, b := rapid.Float32Range(-1e30, 1e30).Draw(t, "a"), rapid.Float32Range(-1e30, 1e30).Draw(t, "b")
			r := Range{Lowest: min(a, b), Highest: max(a, b)}
			if rapid.Bool().Draw(t, "histogram") {
				r.Hist, r.Edges = []int64{1, 0, 1 << 40}, []float32{-1, 0, 0.1, 1e-20}
			}
			table.Ranges[name] = r
		}
		for _, f := range []Format{FlatBuffers, JSON, Cache} {
			var b bytes.Buffer
			if err := table.Write(&b, f); err != nil {
				t.Fatal(err)
			}
			if len(names) == 0 && f == Cache {
				continue // an empty file is not a table
			}
			back, err := Read(&b)
			if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if f == JSON {
				if d := cmp.Diff(table, back); d != "" {
					t.Fatal(d)
				}
				continue
			}
			if len(back.Ranges) != len(names) {
				t.Fatalf("%s: %d tensors, want %d", f, len(back.Ranges), len(names))
			}
			for name, r := range back.Ranges {
				if d := table.Ranges[name].Dynamic(); r.Highest != d || r.Lowest != -d {
					t.Fatalf("%s: %q is %v, want ±%g", f, name, r, d)
				}
			}
		}
	})
}

func TestReadTRTCache(t *testing.T) {
	table, err := Read(strings.NewReader("TRT-7103-EntropyCalibration2\ndata_0: 4000889d\nconv:1: 3c010a14\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, bits := range map[string]uint32{"data_0": 0x4000889d, "conv:1": 0x3c010a14} {
		if got, want := table.Ranges[name].Highest, math.Float32frombits(bits)*127; got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

func TestReadOldJSON(t *testing.T) {
	table, err := ParseJSON([]byte(`{"a": [-1, 2.5], "b": 3, "c": {"lowest": 0, "highest": {"data": 4, "dtype": "float32", "CLS": "numpy.array"}, "hist": 5, "CLS": "TensorData"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Range{"a": {Lowest: -1, Highest: 2.5}, "b": {Lowest: -3, Highest: 3}, "c": {Highest: 4}}
	if d := cmp.Diff(want, table.Ranges); d != "" {
		t.Error(d)
	}
}

// hostileTables returns FlatBuffers with wrong offsets, lengths and strings.
func hostileTables(t testing.TB) map[string][]byte {
	good := recordedTable(t, "minmax_symmetric", FlatBuffersFile)
	r := map[string][]byte{"empty": {}, "zeros": make([]byte, 64)}
	for i := 0; i+4 <= min(len(good), 256); i += 4 {
		for _, v := range []uint32{0, 0x7fffffff, 0x80000000, 0xffffffff, uint32(len(good)), uint32(len(good) - 1)} {
			bad := bytes.Clone(good)
			binary.LittleEndian.PutUint32(bad[i:], v)
			r[fmt.Sprintf("%#x at %d", v, i)] = bad
		}
	}
	for i := range len(good) - 3 { // the last bytes are padding
		r[fmt.Sprintf("cut %d", i)] = good[:i]
	}
	// Ten thousand entries that share one long string.
	b := flatbuffers.NewBuilder(1 << 20)
	long := b.CreateString(strings.Repeat("n", 1<<20))
	one := b.CreateString("1")
	b.StartObject(2)
	b.PrependUOffsetTSlot(0, long, 0)
	b.PrependUOffsetTSlot(1, one, 0)
	entry := b.EndObject()
	b.StartVector(4, 10000, 4)
	for range 10000 {
		b.PrependUOffsetT(entry)
	}
	dict := b.EndVector(10000)
	b.StartObject(1)
	b.PrependUOffsetTSlot(0, dict, 0)
	b.Finish(b.EndObject())
	r["shared strings"] = b.FinishedBytes()
	return r
}

func TestReadHostileTables(t *testing.T) {
	failed := 0
	for name, data := range hostileTables(t) {
		if _, err := Read(bytes.NewReader(data)); err != nil {
			failed++
			if name == "shared strings" && !strings.Contains(err.Error(), "duplicate") &&
				!strings.Contains(err.Error(), "overlap") {
				t.Errorf("%s: %v", name, err)
			}
		} else if name == "shared strings" || strings.HasPrefix(name, "cut ") {
			t.Errorf("%s: no error", name)
		}
	}
	if failed < 100 {
		t.Errorf("%d of the tables failed", failed)
	}
	for _, text := range []string{"name", "name value", "a 1\na 2", "a inf", "a nan", "{", `{"a": []}`, `{"a": [2, 1]}`, `{"a": {"lowest": 1}}`,
		`{"CLS": "TensorsData", "data": 3}`, `{"CLS": "TensorsData", "calibration_method": {"value": "No"}, "data": {}}`, "TRT-1\na: x", "TRT-1\na"} {
		if table, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %v", text, table.Ranges)
		}
	}
}

// FuzzRead checks that no bytes panic, and that what is read can be written and
// read again.
func FuzzRead(f *testing.F) {
	for _, folder := range []string{"minmax_symmetric", "entropy_default"} {
		for _, file := range []string{FlatBuffersFile, JSONFile, CacheFile} {
			f.Add(recordedTable(f, folder, file))
		}
	}
	f.Add([]byte("TRT-7103-EntropyCalibration2\ndata_0: 4000889d\n"))
	f.Add([]byte(`{"a": [-1, 2.5], "b": 3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := table.WriteFlatBuffers(&b); err != nil {
			t.Fatal(err)
		}
		back, err := ParseFlatBuffers(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range table.Ranges {
			if back.Ranges[name].Highest != r.Dynamic() {
				t.Fatalf("%q is %g after a round trip, was %g", name, back.Ranges[name].Highest, r.Dynamic())
			}
		}
	})
}
