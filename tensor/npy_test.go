package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestReadNPYOfNumPy reads files of NumPy 2.4 with ml_dtypes 0.6.
func TestReadNPYOfNumPy(t *testing.T) {
	const grid = "[[0,1,2],[3,4,5]]"
	read := map[string]bool{}
	for _, c := range []struct {
		file  string
		dtype DType
		want  string // as JSON
	}{
		{"int8", TypeInt8, grid}, {"int16", TypeInt16, grid}, {"int32", TypeInt32, grid}, {"int64", TypeInt64, grid},
		{"uint8", TypeUint8, grid}, {"uint16", TypeUint16, grid}, {"uint32", TypeUint32, grid}, {"uint64", TypeUint64, grid},
		{"float16", TypeFloat16, grid}, {"float32", TypeFloat32, grid}, {"float64", TypeFloat64, grid},
		{"complex64", TypeComplex64, "[[[0,0],[1,0],[2,0]],[[3,0],[4,0],[5,0]]]"},
		{"complex128", TypeComplex128, "[[[0,0],[1,0],[2,0]],[[3,0],[4,0],[5,0]]]"},
		{"bool", TypeBool, "[[false,true,false],[true,false,true]]"},
		{"big_i2", TypeInt16, grid}, {"big_i4", TypeInt32, grid}, {"big_u8", TypeUint64, grid},
		{"big_f2", TypeFloat16, grid}, {"big_f4", TypeFloat32, grid}, {"big_f8", TypeFloat64, grid},
		{"big_c8", TypeComplex64, "[[[0,0],[1,0],[2,0]],[[3,0],[4,0],[5,0]]]"},
		{"big_c16", TypeComplex128, "[[[0,0],[1,0],[2,0]],[[3,0],[4,0],[5,0]]]"},
		{"big_U3", TypeString, `[["0","1","2"],["3","4","5"]]`},
		{"fortran", TypeFloat32, "[[[0,1,2,3],[4,5,6,7],[8,9,10,11]],[[12,13,14,15],[16,17,18,19],[20,21,22,23]]]"},
		{"fortran_big_text", TypeString, `[["a","bc"],["","日本"]]`},
		{"text", TypeString, `["héllo","","𝄞 x"]`}, {"bytes", TypeString, `["ab","c"]`},
		{"v2", TypeFloat32, grid}, {"v3", TypeFloat32, grid},
		{"scalar", TypeFloat64, "2.5"}, {"empty", TypeInt64, "[]"},
		{"special", TypeFloat64, `["NaN","Infinity","-Infinity",-0]`},
		{"void_bfloat16", TypeBFloat16, "[1,2.5]"}, {"float8_e5m2", TypeFloat8E5M2, "[1,2.5]"},
		{"void_float8_e4m3fn", TypeFloat8E4M3FN, "[1,2.5]"}, {"void_int4", TypeInt4, "[1,-2,7]"},
	} {
		data, err := os.ReadFile(filepath.Join("testdata/npy", c.file+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		read[c.file+".npy"] = true
		x, err := ReadNPY(bytes.NewReader(data), 0)
		if strings.HasPrefix(c.file, "void") && c.dtype != TypeBFloat16 {
			if err == nil {
				t.Errorf("%s: read without its type as %s", c.file, x)
			}
			x, err = ReadNPYAs(bytes.NewReader(data), c.dtype, 0)
		}
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if j, err := json.Marshal(x); err != nil || string(j) != c.want || x.DType() != c.dtype {
			t.Errorf("%s: %s %s (%v), want %s %s", c.file, x, j, err, c.dtype, c.want)
		}
	}
	for file, want := range map[string]string{"bad_object": "pickled", "bad_structured": "structured",
		"bad_time": "time", "bad_longdouble": "no ONNX counterpart"} {
		read[file+".npy"] = true
		if _, err := ReadNPYFile(filepath.Join("testdata/npy", file+".npy"), 0); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	files, err := os.ReadDir("testdata/npy")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !read[f.Name()] {
			t.Errorf("%s is not read by this test", f.Name())
		}
	}
}

// npyOf returns a file of version 1 with the given header.
func npyOf(header string, data ...byte) []byte {
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), data...)
}

func dict(descr, shape string) string {
	return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n"
}

func TestReadNPYRefuses(t *testing.T) {
	huge := append([]byte(npyMagic), 2, 0, 0xff, 0xff, 0xff, 0xff)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":             {nil, "first 10 bytes"},
		"magic":               {[]byte("PK\x03\x04......"), "signature is"},
		"version":             {append([]byte(npyMagic), 4, 0, 0, 0), "version 4.0"},
		"4 GB header":         {huge, "header of 4294967295 bytes"},
		"cut header":          {npyOf(dict("<f4", "(1,)"))[:30], "reading the header"},
		"cut data":            {npyOf(dict("<f4", "(2,)"), 0, 0, 0), "3 of 8 bytes"},
		"lying shape":         {npyOf(dict("<f4", "(1000000000000,)")), "exceeds what is left"},
		"overflow":            {npyOf(dict("<f8", "(4611686018427387904,4)")), "overflows"},
		"overflow of bytes":   {npyOf(dict("<f8", "(4611686018427387904,)")), "overflows"},
		"negative":            {npyOf(dict("<f4", "(-1,)")), "not a number from 0"},
		"dimension too large": {npyOf(dict("<f4", "(99999999999999999999,)")), "not a number from 0"},
		"rank":                {npyOf(dict("<f4", "("+strings.Repeat("1,", 1025)+")")), "rank above"},
		"no text, much room":  {npyOf(dict("<U0", "(1000000000000,)")), "exceeds what is left"},
		"object":              {npyOf(dict("|O", "(1,)")), "pickled"},
		"raw":                 {npyOf(dict("|V1", "(1,)"), 0), "have no type"},
		"bool 2":              {npyOf(dict("|b1", "(1,)"), 2), "is 2"},
		"surrogate":           {npyOf(dict("<U1", "(1,)"), 0, 0xd8, 0, 0), "want a Unicode character"},
		"latin bytes":         {npyOf(dict("|S1", "(1,)"), 0xff), "not UTF-8"},
		"int4 of 16":          {npyOf(dict("int4", "(1,)"), 16), "outside of int4"},
		"float6 of 64":        {npyOf(dict("float6_e2m3fn", "(1,)"), 64), "outside of float6e2m3"},
		"code":                {npyOf("__import__('os')"), "want a dictionary"},
		"key":                 {npyOf("{'descr': '<f4', 'x': 1}"), "want descr"},
		"twice":               {npyOf("{'descr': '<f4', 'descr': '<f4'}"), "duplicate key"},
		"missing":             {npyOf("{'descr': '<f4'}"), "has the keys"},
		"tail":                {npyOf(dict("<f4", "(0,)") + "x"), "after the dictionary"},
		"open":                {npyOf("{'descr': '<f4"), "not terminated"},
		"type":                {npyOf(dict("<q", "(0,)")), "unknown type"},
		"no type":             {npyOf(dict("<", "(0,)")), "empty type"},
		"float2":              {npyOf(dict("<f3", "(0,)")), "no ONNX counterpart"},
	} {
		x, err := ReadNPY(bytes.NewReader(c.data), 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v, want %q", name, x, err, c.want)
		}
	}
	var limit *LimitError
	if _, err := ReadNPY(bytes.NewReader(npyOf(dict("<f4", "(100,)"), make([]byte, 400)...)), 300); !errors.As(err,
		&limit) || limit.Limit != 300 {
		t.Errorf("400 bytes under a limit of 300: %v", err)
	}
	if _, err := ReadNPY(bytes.NewReader(npyOf(dict("<f4", "(2,)"))), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := ReadNPYAs(bytes.NewReader(npyOf(dict("<f4", "(1,)"), 0, 0, 0, 0)), TypeInt32, 0); err == nil {
		t.Error("floats as int32: no error")
	}
}

// TestReadNPYGrows checks that a short file whose header claims a gigabyte takes only memory
// for the data present.
func TestReadNPYGrows(t *testing.T) {
	data := npyOf(dict("<f4", "(268435456,)"), make([]byte, 1<<10)...)
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := ReadNPY(bytes.NewReader(data), 0); err == nil {
				b.Fatal("read")
			}
		}
	})
	if n := r.AllocedBytesPerOp(); n > 4<<20 {
		t.Errorf("allocates %d bytes", n)
	}
}

func TestWriteNPY(t *testing.T) {
	var b bytes.Buffer
	if err := WriteNPY(&b, Must(New([]float32{1}, 1))); err != nil {
		t.Fatal(err)
	}
	want := npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + strings.Repeat(" ", 60) + "\n")
	if got := b.Bytes(); !bytes.Equal(got[:128], want) || len(got) != 132 {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	for _, s := range []string{"a\x00", "\xff"} {
		if err := WriteNPY(io.Discard, Must(New([]string{s}))); err == nil {
			t.Errorf("writing %q: no error", s)
		}
	}
	if err := WriteNPY(failingWriter{}, Must(New([]float32{1}, 1))); err == nil {
		t.Error("full disk: no error")
	}
	long := make([]int, MaxRank)
	for i := range long {
		long[i] = 1
	}
	b.Reset()
	x := Must(Zeros(TypeInt8, long...))
	if err := WriteNPY(&b, x); err != nil {
		t.Fatal(err)
	}
	if y, err := ReadNPY(&b, 0); err != nil || Equal(y, x) != nil {
		t.Errorf("rank %d: %v", MaxRank, err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

// anyTensor draws a tensor of any type and of up to 60 elements.
func anyTensor(r *rapid.T) *Tensor {
	d := DType(rapid.IntRange(1, numDTypes-1).Draw(r, "type"))
	shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(r, "shape")
	n, _ := Elements(shape)
	var x *Tensor
	switch {
	case d == TypeString:
		s := rapid.SliceOfN(rapid.StringOfN(rapid.Rune().Filter(func(c rune) bool { return c != 0 }), 0, 5, -1), n, n).
			Draw(r, "strings")
		x = &Tensor{dtype: d, shape: []int{n}, strs: s}
	case isComplex(d):
		part := TypeFloat32
		if d == TypeComplex128 {
			part = TypeFloat64
		}
		x = Must(FromBytes(d, randomTensor(r, part, 2*n).data, n))
	default:
		x = randomTensor(r, d, n)
	}
	return Must(x.Reshape(shape...))
}

func TestNPYRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := anyTensor(r)
		var b bytes.Buffer
		if err := WriteNPY(&b, x); err != nil {
			r.Fatal(err)
		}
		y, err := ReadNPY(&b, 0)
		if err != nil {
			r.Fatal(err)
		}
		if x.dtype != y.dtype || !slices.Equal(x.shape, y.shape) || !bytes.Equal(x.data, y.data) ||
			!slices.Equal(x.strs, y.strs) {
			r.Fatalf("%s %x %q becomes %s %x %q", x, x.data, x.strs, y, y.data, y.strs)
		}
		if b.Len() != 0 {
			r.Fatalf("%d bytes left unread", b.Len())
		}
	})
}

// FuzzReadNPY checks that any bytes cause a tensor or an error within the limit, and that a
// tensor equals the result of writing and reading it.
func FuzzReadNPY(f *testing.F) {
	files, err := filepath.Glob("testdata/npy/*.npy")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(npyOf(dict("<U0", "(3, 2)")))
	f.Add(npyOf(dict("float6_e2m3fn", "(5,)"), 0, 63, 32, 1, 42))
	f.Add(npyOf("{'shape': (2L, 3L), \"descr\": 'u1', 'fortran_order': True}", 1, 2, 3, 4, 5, 6))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		x, err := ReadNPY(bytes.NewReader(data), limit)
		if err != nil {
			return
		}
		if n := SizeOf(x); n > limit+64 {
			t.Fatalf("%s takes %d bytes", x, n)
		}
		var b bytes.Buffer
		if err := WriteNPY(&b, x); err != nil {
			t.Fatal(err)
		}
		y, err := ReadNPY(&b, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		if x.dtype != y.dtype || !slices.Equal(x.shape, y.shape) || !bytes.Equal(x.data, y.data) ||
			!slices.Equal(x.strs, y.strs) {
			t.Fatalf("got %[2]s, want %[1]s", x, y)
		}
	})
}
