package tensor

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestReadNPZOfNumPy(t *testing.T) {
	for file, want := range map[string][][2]string{
		"stored":   {{"x", "[[0,1,2],[3,4,5]]"}, {"/layer/y", `["a","b"]`}},
		"deflated": {{"z", "[" + strings.TrimSuffix(strings.Repeat("0,", 100), ",") + "]"}, {"b", "[[false,false,false],[true,true,true]]"}},
	} {
		z, err := ReadNPZFile("testdata/"+file+".npz", 0)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for i, w := range want {
			if len(z.Names) != len(want) || z.Names[i] != w[0] {
				t.Fatalf("%s: names %q", file, z.Names)
			}
			if j, err := json.Marshal(z.Arrays[w[0]]); err != nil || string(j) != w[1] {
				t.Errorf("%s: %s is %s (%v), want %s", file, w[0], j, err, w[1])
			}
		}
	}
}

type zipEntry struct {
	name string
	data []byte
}

func zipOf(t testing.TB, entries ...zipEntry) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		f, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readNPZBytes(data []byte, limit int64) (*NPZ, error) {
	return ReadNPZ(bytes.NewReader(data), int64(len(data)), limit)
}

func TestReadNPZRefuses(t *testing.T) {
	one := npyOf(dict("|u1", "(1,)"), 7)
	bomb := npyOf(dict("|u1", "(16777216,)"), make([]byte, 1<<24)...)
	lying := zipOf(t, zipEntry{"x.npy", one})
	// The size is in bytes 24 to 27 of the central directory.
	at := bytes.Index(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[at+24:], 1<<30)
	short := slices.Clone(lying)
	binary.LittleEndian.PutUint32(short[at+24:], 3)
	crc := zipOf(t, zipEntry{"x.npy", one})
	crc[bytes.Index(crc, []byte("PK\x01\x02"))+16] ^= 1
	locked := zipOf(t, zipEntry{"x.npy", one})
	locked[bytes.Index(locked, []byte("PK\x01\x02"))+8] |= 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no zip":        {[]byte("hello"), "not a valid zip"},
		"slip":          {zipOf(t, zipEntry{"../../x.npy", one}), "leads out"},
		"windows slip":  {zipOf(t, zipEntry{`a\..\..\x.npy`, one}), "leads out"},
		"control":       {zipOf(t, zipEntry{"a\x1b.npy", one}), "control character"},
		"no name":       {zipOf(t, zipEntry{".npy", one}), "empty"},
		"other file":    {zipOf(t, zipEntry{"x.txt", one}), "does not end in .npy"},
		"same name":     {zipOf(t, zipEntry{"x.npy", one}, zipEntry{"x.npy", one}), "two arrays"},
		"bomb":          {zipOf(t, zipEntry{"x.npy", bomb}), "exceeds what is left of the limit"},
		"bomb in parts": {zipOf(t, zipEntry{"a.npy", bomb[:0:0]}, zipEntry{"b.npy", one}), "first 10 bytes"},
		"trailing":      {zipOf(t, zipEntry{"x.npy", append(slices.Clone(one), 1)}), "bytes follow"},
		"long tail":     {zipOf(t, zipEntry{"x.npy", append(slices.Clone(one), make([]byte, 1<<24)...)}), "bytes follow"},
		"size too long": {lying, "unexpected EOF"},
		"size short":    {short, ""},
		"checksum":      {crc, "checksum"},
		"encrypted":     {locked, "encrypted"},
		"object":        {zipOf(t, zipEntry{"x.npy", npyOf(dict("|O", "(1,)"))}), "pickled"},
	} {
		if z, err := readNPZBytes(c.data, 1<<20); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v, want %q", name, z, err, c.want)
		}
	}
	part := npyOf(dict("|u1", "(400000,)"), make([]byte, 400000)...)
	many := zipOf(t, zipEntry{"a.npy", part}, zipEntry{"b.npy", part}, zipEntry{"c.npy", part})
	var limit *LimitError
	if _, err := readNPZBytes(many, 1<<20); !errors.As(err, &limit) {
		t.Errorf("three arrays of 400 kB under a limit of 1 MiB: %v", err)
	}
	if _, err := readNPZBytes(many, 1<<21); err != nil {
		t.Error(err)
	}
	if _, err := readNPZBytes(make([]byte, 100), 99); !errors.As(err, &limit) {
		t.Errorf("an archive above the limit: %v", err)
	}
}

func TestNPZRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		z := &NPZ{}
		for i := range rapid.IntRange(0, 4).Draw(r, "n") {
			if err := z.Add(strings.Repeat("/n", i)+"x", anyTensor(r)); err != nil {
				r.Fatal(err)
			}
		}
		compress := rapid.Bool().Draw(r, "compress")
		var a, b bytes.Buffer
		if err := errors.Join(WriteNPZ(&a, z, compress), WriteNPZ(&b, z, compress)); err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			r.Fatal("two archives of the same arrays have different bytes")
		}
		y, err := readNPZBytes(a.Bytes(), 0)
		if err != nil {
			r.Fatal(err)
		}
		if !slices.Equal(y.Names, z.Names) {
			r.Fatalf("names are %[2]q, want %[1]q", z.Names, y.Names)
		}
		for _, n := range z.Names {
			if err := Equal(y.Arrays[n], z.Arrays[n]); err != nil {
				r.Fatal(err)
			}
		}
	})
}

func TestNPZFile(t *testing.T) {
	z := &NPZ{}
	if err := errors.Join(z.Add("a", Scalar(int64(3))), z.Add("b", Must(New([]string{"x", "yz"})))); err != nil {
		t.Fatal(err)
	}
	if z.Add("a", Scalar(int64(3))) == nil || z.Add("../a", Scalar(int64(3))) == nil ||
		z.Add("", Scalar(int64(3))) == nil {
		t.Error("invalid entry name: no error")
	}
	path := filepath.Join(t.TempDir(), "z.npz")
	if err := WriteNPZFile(path, z, true); err != nil {
		t.Fatal(err)
	}
	y, err := ReadNPZFile(path, 0)
	if err != nil || Equal(y.Arrays["b"], z.Arrays["b"]) != nil {
		t.Error(y, err)
	}
	single := filepath.Join(t.TempDir(), "x.npy")
	if err := WriteNPYFile(single, z.Arrays["b"]); err != nil {
		t.Fatal(err)
	}
	if x, err := ReadNPYFile(single, 0); err != nil || Equal(x, z.Arrays["b"]) != nil {
		t.Error(x, err)
	}
	if _, err := ReadNPZFile(filepath.Join(t.TempDir(), "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := WriteNPZFile(filepath.Join(t.TempDir(), "no", "where"), z, true); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := WriteNPZ(failingWriter{}, z, false); err == nil {
		t.Error("full disk: no error")
	}
}

// TestWriteFileKeepsTheOldOne writes arrays that cannot be stored over files with content.
func TestWriteFileKeepsTheOldOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	bad := &NPZ{Names: []string{"a", ".."}, Arrays: map[string]*Tensor{"a": Scalar(int64(3)), "..": Scalar(int64(3))}}
	for name, write := range map[string]func() error{
		"npz": func() error { return WriteNPZFile(path, bad, false) },
		"npy": func() error { return WriteNPYFile(path, nil) },
	} {
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := write(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Errorf("%s: the file has %q, want its old content (%v)", name, got, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder has %v, want 1 file (%v)", name, entries, err)
		}
	}
}

// TestReadNPZRefusesOverlaps: entries that share their data expand a small archive many times.
func TestReadNPZRefusesOverlaps(t *testing.T) {
	data := zipOf(t, zipEntry{"a.npy", npyOf(dict("|u1", "(1,)"), 7)}, zipEntry{"b.npy", npyOf(dict("|u1", "(1,)"), 8)})
	directory := []byte("PK\x01\x02")
	first := bytes.Index(data, directory)
	second := first + 4 + bytes.Index(data[first+4:], directory)
	const offset = 42 // of the local header, in an entry of the central directory
	copy(data[second+offset:][:4], data[first+offset:][:4])
	if _, err := readNPZBytes(data, 1<<20); err == nil || !strings.Contains(err.Error(), `entries "a.npy" and "b.npy" overlap`) {
		t.Errorf("error is %v, want one about the overlap", err)
	}
}

// FuzzReadNPZ checks that any bytes cause arrays or an error within the limit.
func FuzzReadNPZ(f *testing.F) {
	for _, name := range []string{"stored", "deflated"} {
		data, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(zipOf(f, zipEntry{"../x.npy", npyOf(dict("|u1", "(1,)"), 7)}))
	f.Add(zipOf(f, zipEntry{"a.npy", npyOf(dict("<U2", "(1, 1)"), 65, 0, 0, 0, 0, 0, 0, 0)}, zipEntry{"a.npy", nil}))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 18
		z, err := readNPZBytes(data, limit)
		if err != nil {
			return
		}
		var n int64
		for _, x := range z.Arrays {
			n += SizeOf(x)
		}
		if n > limit {
			t.Fatalf("arrays take %d bytes", n)
		}
		if err := WriteNPZ(io.Discard, z, false); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNPZDirectoriesKeepTheLimit checks that directories of many entries do not take more memory
// than the limit.
func TestNPZDirectoriesKeepTheLimit(t *testing.T) {
	const entries, limit = 100_000, 8 << 20
	header := append([]byte("PK\x01\x02"), make([]byte, 42)...)
	header[28] = 1 // bytes of the name
	data := bytes.Repeat(append(header, 'a'), entries)
	le := binary.LittleEndian
	size := uint32(len(data))
	data = append(data, "PK\x05\x06\x00\x00\x00\x00"...)
	data = le.AppendUint16(le.AppendUint16(data, entries&0xffff), entries&0xffff)
	data = append(le.AppendUint32(le.AppendUint32(data, size), 0), 0, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readNPZBytes(data, limit)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.As(err, new(*LimitError)) || n > limit {
		t.Errorf("%v and %d bytes are allocated, want a LimitError and at most %d", err, n, limit)
	}
	if _, err := readNPZBytes(data, 0); err == nil || errors.As(err, new(*LimitError)) {
		t.Errorf("without a limit: %v, want an error of the first entry", err)
	}
}
