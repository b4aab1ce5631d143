package onnx

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// fuzzKinds lists the messages that FuzzUnmarshal reads, by its first argument.
var fuzzKinds = slices.Sorted(maps.Keys(codecs))

// FuzzUnmarshal checks that the reader never panics and accepts exactly the bytes that the
// protobuf runtime accepts.
func FuzzUnmarshal(f *testing.F) {
	for i := range fuzzKinds {
		f.Add(byte(i), sampleBytes(f))
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		message := fuzzKinds[int(kind)%len(fuzzKinds)]
		_, err := codecs[message](data, &ReadOptions{MaxDepth: 200, MaxMemory: 1 << 30})
		if errors.Is(err, ErrTooDeep) || errors.Is(err, ErrTooLarge) {
			return
		}
		d := dynamicpb.NewMessage(descriptor(message))
		if err := (proto.UnmarshalOptions{RecursionLimit: 200}).Unmarshal(data, d); err != nil &&
			strings.Contains(err.Error(), "recursion") {
			return
		}
		compareWithRuntime(t, message, data)
	})
}

// FuzzCheck checks that every model that is read can be checked, decoded and written, and that
// Check returns the same for the written model.
func FuzzCheck(f *testing.F) {
	f.Add(sampleBytes(f))
	for _, m := range fuzzModels() {
		data, err := m.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Unmarshal(data, &ReadOptions{MaxMemory: 256 << 20})
		if err != nil {
			var p *ParseError
			if !errors.As(err, &p) {
				t.Fatalf("error %v, want a *ParseError", err)
			}
			return
		}
		first := Check(m, &CheckOptions{MaxInlinedNodes: 1000})
		var list *CheckErrors
		if first != nil && !errors.As(first, &list) {
			t.Fatalf("error %v, want *CheckErrors", first)
		}
		InlinedNodes(m)
		m.eachInitializer(func(p *Tensor) bool {
			v, err := p.Decode(&DecodeOptions{MaxBytes: 1 << 20})
			if err == nil && first == nil && len(v.Shape()) != len(p.Dims) {
				t.Errorf("rank is %d with dims %v", v.Rank(), p.Dims)
			}
			return true
		})
		out, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(out, &ReadOptions{MaxMemory: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Marshal(); err != nil || !bytes.Equal(out, twice) {
			t.Fatalf("written bytes differ the second time: %v", err)
		}
		// Writing sets the types of attributes, so that it can only remove errors.
		if second := Check(again, &CheckOptions{MaxInlinedNodes: 1000}); first == nil && second != nil {
			t.Fatalf("the written model has new errors: %v", second)
		}
	})
}

// FuzzDecode checks that data decodes exactly if it has the length of its type and dims. The
// result has no stray bits and equals that of the written tensor, and decoding does not write
// to the file.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, dtype int32, dim int64, typed bool, data []byte) {
		p := &Tensor{DataType: DataType(dtype), Dims: []int64{dim}}
		if typed {
			for _, b := range data {
				p.Int32Data = append(p.Int32Data, int32(int8(b)))
			}
		} else {
			p.RawData = slices.Clone(data)
		}
		v, err := p.Decode(&DecodeOptions{MaxBytes: 1 << 20})
		_, typeErr := p.DataType.dtype()
		want, lenErr := p.DataType.byteLen(max(dim, 0))
		field, entries := p.DataType.storage(max(dim, 0))
		fits := typeErr == nil && dim >= 0
		switch six := p.DataType == Float6E2M3 || p.DataType == Float6E3M2; {
		case dim == 0:
			fits = fits && len(data) == 0
		case typed:
			fits = fits && field == "int32_data" && int64(len(data)) == entries &&
				!(six && slices.ContainsFunc(data, func(b byte) bool { return b > 63 }))
		default:
			fits = fits && lenErr == nil && int64(len(data)) == want
		}
		if (err == nil) != fits {
			t.Fatalf("%s[%d] of %d bytes or entries: error %v, fits %v", p.DataType, dim, len(data), err, fits)
		}
		if err != nil || p.DataType == String {
			return
		}
		if int64(v.Len()) != dim || int64(len(v.Bytes())) != want {
			t.Fatalf("%s[%d] becomes %s of %d bytes, want %d", p.DataType, dim, v, len(v.Bytes()), want)
		}
		if used := v.Len() * v.DType().Bits() % 8; used > 0 && v.Bytes()[len(v.Bytes())-1]>>used != 0 {
			t.Fatalf("%s: bits after the last element are set in % x", v, v.Bytes())
		}
		again, err := FromTensor(v).Decode(nil)
		if err != nil || !sameValue(v, again) {
			t.Fatalf("%s: reading what was written: %v", v, err)
		}
		if !typed && !bytes.Equal(p.RawData, data) {
			t.Fatalf("%s: decoding changed the raw data", v)
		}
	})
}

// fuzzModels returns models with the features that the checker distinguishes.
func fuzzModels() []*Model {
	cyclic := chain(3).Must()
	cyclic.Graph.Nodes[0].Inputs[0] = "v3"
	old := chain(1).Must()
	old.IRVersion, old.OpsetImports = 2, nil
	b := chain(1)
	b.SparseInitializer("S", sparse([]int64{0, 5}, []int64{2}, 2, 3))
	b.Initializer("e", &Tensor{DataType: Float, Dims: []int64{2}, DataLocation: LocationExternal,
		ExternalData: []StringStringEntry{{"location", "w.bin"}, {"offset", "4"}}})
	b.Initializer("i4", &Tensor{DataType: Int4, Dims: []int64{3}, Int32Data: []int32{1, 2}})
	b.Initializer("f6", &Tensor{DataType: Float6E3M2, Dims: []int64{5}, RawData: []byte{1, 2, 3, 4}})
	b.InputType("q",
		&Type{Optional: &OptionalType{
			Elem: &Type{Sequence: &SequenceType{Elem: &Type{Tensor: &TensorType{ElemType: Float}}}}}})
	return []*Model{cyclic, old, b.Must(), functions(4, 2), functions(101, 1)}
}

var writeCorpus = flag.Bool("write-corpus", false, "write the seed corpora under testdata/fuzz")

// The seed corpora in the repository are written by this test with -write-corpus.
func TestSeedCorpora(t *testing.T) {
	put := func(target, name, content string) {
		content = "go test fuzz v1\n" + content
		path := filepath.Join("testdata", "fuzz", target, name)
		if *writeCorpus {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s is out of date (%v); run go test -run SeedCorpora -write-corpus", path, err)
		}
	}
	kind := func(message string) int { return slices.Index(fuzzKinds, message) }
	for i, m := range append(fuzzModels(), sample(t)) {
		data, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		put("FuzzCheck", fmt.Sprint("model", i), fmt.Sprintf("[]byte(%q)\n", data))
		put("FuzzUnmarshal", fmt.Sprint("model", i),
			fmt.Sprintf("byte('\\x%02x')\n[]byte(%q)\n", kind("ModelProto"), data))
	}
	for name, c := range map[string]struct {
		dtype DataType
		dim   int
		typed bool
		data  string
	}{
		"float6-stray-bits":     {Float6E2M3, 3, false, "\xff\xff\xff"},
		"float6-truncated":      {Float6E3M2, 5, false, "\x01\x02\x03"},
		"float6-too-long":       {Float6E3M2, 4, false, "\x01\x02\x03\x04"},
		"float6-an-entry-each":  {Float6E2M3, 5, true, "\x00\x01\x20\x3f\x2a"},
		"float6-entry-above-63": {Float6E2M3, 2, true, "\x3f\x40"},
		"float6-packed-entries": {Float6E3M2, 4, true, "\x01\x02\x03"},
		"int2-stray-bits":       {Int2, 5, false, "\xe4\xff"},
		"uint4-entries":         {Uint4, 3, true, "\x21\xf3"},
		"bool-not-one":          {Bool, 3, false, "\x00\x02\x01"},
		"type-29":               {29, 1, false, "\x00"},
		"dim-overflows":         {Float6E2M3, math.MaxInt64, false, "\x00"},
		"no-elements-with-data": {Float6E2M3, 0, false, "\x00"},
	} {
		put("FuzzDecode", name,
			fmt.Sprintf("int32(%d)\nint64(%d)\nbool(%v)\n[]byte(%q)\n", c.dtype, c.dim, c.typed, c.data))
	}
	for name, c := range map[string]struct{ message, data string }{
		"overlong-varint":   {"ModelProto", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"field-zero":        {"ModelProto", "\x00\x01"},
		"group":             {"GraphProto", "\x0b\x08\x01\x0c"},
		"wrong-wire-type":   {"NodeProto", "\x08\x01\x0d\x01\x02\x03\x04"},
		"merged-oneof":      {"TypeProto", "\x0a\x02\x08\x01\x22\x00\x0a\x02\x08\x02"},
		"unpacked-data":     {"TensorProto", "\x08\x02\x25\x00\x00\x80\x3f\x25\x00\x00\x00\x40\x10\x01"},
		"packed-dims":       {"TensorProto", "\x0a\x02\x01\x02\x10\x06\x2a\x02\x07\x08"},
		"empty-packed-ints": {"NodeProto", "\x2a\x05\x0a\x01a\x42\x00"},
		"map":               {"MapProto", "\x10\x07\x18\x01\x2a\x06\x10\x01\x1a\x02\x10\x01"},
		"nested-sequence":   {"SequenceProto", string(nest(20, 5))},
		"nested-optional":   {"OptionalProto", string(nest(20, 7))},
	} {
		put("FuzzUnmarshal", name, fmt.Sprintf("byte('\\x%02x')\n[]byte(%q)\n", kind(c.message), c.data))
	}
}
