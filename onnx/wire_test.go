package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// sample returns a model that uses most features.
func sample(t testing.TB) *Model {
	t.Helper()
	then := NewGraph("then").OutputType("a", nil)
	then.Node("Twice", []string{"x"}, []string{"a"}).Domain("my")
	otherwise := NewGraph("else").OutputType("b", nil)
	otherwise.Initializer("c", []int64{1, 2, 3}).Node("Neg", []string{"x"}, []string{"b"})
	b := NewModel("sample").Opset("", 21).Opset("my", 1).Metadata("k", "v").Doc("docs")
	b.Input("cond", Bool).Input("x", Float, "N", 3, nil).Output("y", Float, "N", 3, nil)
	b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 2, 3).Initializer("s", []string{"a", "bc"})
	b.Node("If", []string{"cond"}, []string{"y"}, Attrs{"then_branch": then, "else_branch": otherwise}).Name("choose")
	b.Node("Custom", []string{"y", "", "w"}, []string{"z"}, Attrs{
		"f": 1.5, "i": 0, "s": "text", "fs": []float32{1, 2}, "is": []int{-1, 0, 1}, "ss": []string{"", "x"},
		"t":  &Tensor{DataType: Int32, Dims: []int64{2}, Int32Data: []int32{-1, 7}},
		"tp": &Type{Sequence: &SequenceType{Elem: &Type{Map: &MapType{Key: String, Value: &Type{Tensor: &TensorType{ElemType: Float}}}}}},
		"sp": &SparseTensor{Dims: []int64{9}, Values: &Tensor{DataType: Float, Dims: []int64{1}, FloatData: []float32{5}},
			Indices: &Tensor{DataType: Int64, Dims: []int64{1}, Int64Data: []int64{8}}},
	}).Domain("my")
	b.Function("my", "Twice").Inputs("v").Outputs("w").Default("alpha", 2.0).
		Node("Add", []string{"v", "v"}, []string{"w"}).Attr("beta", Ref{Name: "alpha", Type: AttrFloat})
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(m, nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func sampleBytes(t testing.TB) []byte {
	t.Helper()
	data, err := sample(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEmptyAndTruncatedBytes(t *testing.T) {
	m, err := Unmarshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(m, nil); err == nil {
		t.Error("empty model: no error of Check")
	}
	data := sampleBytes(t)
	bad := 0
	for n := range data {
		m, err := Unmarshal(data[:n:n], nil)
		if err != nil {
			var p *ParseError
			if !errors.As(err, &p) {
				t.Fatalf("cut at %d: error %v, want a *ParseError", n, err)
			}
			if p.Offset < 0 || p.Offset > int64(n) {
				t.Errorf("cut at %d: offset %d", n, p.Offset)
			}
			bad++
			continue
		}
		Check(m, nil)
	}
	// Only a cut between the fields of the model itself leaves a valid message.
	if bad < len(data)*9/10 {
		t.Errorf("%d of %d cuts fail, want all but those between fields", bad, len(data))
	}
}

func TestMalformedFields(t *testing.T) {
	for _, c := range []struct{ name, data string }{
		{"overlong varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"varint over 64 bits", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"},
		{"varint cut", "\x08\x80"},
		{"length past the end", "\x12\x05abcd"},
		{"length of 2^63", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"field 0", "\x00\x01"},
		{"field 2^29", "\x80\x80\x80\x80\x10\x01"},
		{"end of group without start", "\x0c"},
		{"group without end", "\x0b\x08\x01"},
		{"group closed by another number", "\x0b\x14"},
		{"reserved wire type 6", "\x0e"},
		{"reserved wire type 7", "\x0f"},
		{"fixed64 cut", "\x09\x01\x02"},
		{"packed floats of 3 bytes", "\x3a\x0a\x2a\x08\x22\x03abc\x12\x01x"},
		{"packed varint cut", "\x3a\x05\x2a\x03\x2a\x01\x80"},
	} {
		_, err := Unmarshal([]byte(c.data), nil)
		var p *ParseError
		if !errors.As(err, &p) {
			t.Errorf("%s: error is %v, want a *ParseError", c.name, err)
		}
	}
	for _, c := range []struct{ name, data string }{
		{"wrong wire type is an unknown field", "\x0a\x01x"},
		{"a whole group is an unknown field", "\x0b\x08\x01\x0c"},
		{"overlong form of 1", "\x08\x81\x80\x00"},
	} {
		m, err := Unmarshal([]byte(c.data), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		compareWithRuntime(t, "ModelProto", []byte(c.data))
		if c.name == "overlong form of 1" && m.IRVersion != 1 {
			t.Errorf("%s: IR version is %d", c.name, m.IRVersion)
		}
	}
}

func TestMalformedFieldIsLocated(t *testing.T) {
	data := sampleBytes(t)
	at := bytes.Index(data, []byte("choose"))
	data[at-1] = 0xff // makes the length exceed the data
	_, err := Unmarshal(data, nil)
	var p *ParseError
	if !errors.As(err, &p) || p.Path != "graph.node[0]" || p.Offset != int64(at-1) {
		t.Errorf("error is %v, want graph.node[0] at byte %d", err, at-1)
	}
}

func TestDuplicateSingularFields(t *testing.T) {
	one, _ := (&Model{IRVersion: 7, Graph: &Graph{Name: "a", Nodes: []*Node{{OpType: "A"}}}}).Marshal()
	two, _ := (&Model{IRVersion: 8, Graph: &Graph{Name: "b", Nodes: []*Node{{OpType: "B"}}}}).Marshal()
	m, err := Unmarshal(append(one, two...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.IRVersion != 8 || m.Graph.Name != "b" || len(m.Graph.Nodes) != 2 || m.Graph.Nodes[0].OpType != "A" {
		t.Errorf("merged model is %+v, graph %+v", m, m.Graph)
	}
	// The last of a oneof wins.
	typ, err := UnmarshalType([]byte("\x0a\x02\x08\x01\x22\x00"), nil)
	if err != nil || typ.Tensor != nil || typ.Sequence == nil {
		t.Errorf("type is %+v, %v", typ, err)
	}
}

// nest wraps a message n times in the fields.
func nest(n int, fields ...protowire.Number) []byte {
	var tail [][]byte
	size := 0
	for i := n * len(fields); i > 0; i-- {
		h := protowire.AppendTag(nil, fields[(i-1)%len(fields)], protowire.BytesType)
		h = protowire.AppendVarint(h, uint64(size))
		tail = append(tail, h)
		size += len(h)
	}
	var out []byte
	for i := len(tail) - 1; i >= 0; i-- {
		out = append(out, tail[i]...)
	}
	return out
}

func TestNestingBomb(t *testing.T) {
	bombs := map[string][]byte{
		// node, attribute, g
		"subgraphs": append(protowire.AppendTag(nil, 7, protowire.BytesType), protowire.AppendBytes(nil, nest(200_000, 1, 5, 6))...),
		"groups":    bytes.Repeat([]byte{0x0b}, 1_000_000),
	}
	for name, data := range bombs {
		_, err := Unmarshal(data, nil)
		var p *ParseError
		if !errors.As(err, &p) {
			t.Errorf("%s: error is %v", name, err)
		} else if len(err.Error()) > 4000 {
			t.Errorf("%s: error has %d bytes", name, len(err.Error()))
		}
		if name == "subgraphs" && !errors.Is(err, ErrTooDeep) {
			t.Errorf("%s: error is %v, want ErrTooDeep", name, err)
		}
	}
	if _, err := UnmarshalType(nest(200_000, 4, 1), nil); !errors.Is(err, ErrTooDeep) {
		t.Errorf("types: error is %v", err)
	}
	if _, err := unmarshalSequence(nest(400_000, 5), nil); !errors.Is(err, ErrTooDeep) {
		t.Errorf("sequences: error is %v", err)
	}
	if _, err := unmarshalSequence(nest(100, 5), nil); err != nil {
		t.Errorf("100 sequences deep: %v", err)
	}
	// Writing a graph that contains itself ends too.
	g := &Graph{Name: "g"}
	g.Nodes = []*Node{{OpType: "If", Attributes: []*Attribute{{Name: "then_branch", Type: AttrGraph, G: g}}}}
	if _, err := (&Model{Graph: g}).Marshal(); !errors.Is(err, ErrTooDeep) {
		t.Errorf("writing a graph that contains itself: %v", err)
	}
}

func TestFloodOfEmptySubmessages(t *testing.T) {
	const n = 8 << 20 // 16 MiB of empty messages
	wrap := func(field protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
	}
	floods := map[string][]byte{
		"nodes":        wrap(7, bytes.Repeat([]byte{1<<3 | 2, 0}, n)),
		"initializers": wrap(7, bytes.Repeat([]byte{5<<3 | 2, 0}, n)),
		"attributes":   wrap(7, wrap(1, bytes.Repeat([]byte{5<<3 | 2, 0}, n))),
		"names":        wrap(7, wrap(1, bytes.Repeat([]byte{1<<3 | 2, 0}, n))),
		"opsets":       bytes.Repeat([]byte{8<<3 | 2, 0}, n),
		"doubles":      wrap(7, wrap(5, wrap(7, make([]byte, 2*n)))), // int64_data, a byte each
	}
	for name, data := range floods {
		limit := int64(64 << 20)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := Unmarshal(data, &ReadOptions{MaxMemory: limit})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: error is %v, want ErrTooLarge", name, err)
		}
		if used := int64(after.TotalAlloc - before.TotalAlloc); used > limit+limit/8 {
			t.Errorf("%s: allocated %d bytes with a limit of %d", name, used, limit)
		}
		// By default nodes take at most 256 MiB plus 8 bytes per byte of the file.
		runtime.GC()
		runtime.ReadMemStats(&before)
		Unmarshal(data, nil)
		runtime.ReadMemStats(&after)
		if used := int64(after.TotalAlloc - before.TotalAlloc); used > 450<<20 {
			t.Errorf("%s: allocated %d MiB by default", name, used>>20)
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, name := range []string{"a\x00b", "\x1b[2J", "\xff\xfe", "\u202etxt", strings.Repeat("n", 1<<16), "a\nb"} {
		b := NewModel("g")
		b.Input("x", Float, 1).Output(name, Float, 1)
		b.Node("Neg", []string{"missing" + name}, []string{name}).Name(name)
		m := b.Must()
		data, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if m, err = Unmarshal(data, nil); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := m.Graph.Nodes[0].Outputs[0]; got != name {
			t.Errorf("name is %q, want %q", got, name)
		}
		err = Check(m, nil)
		if err == nil {
			t.Errorf("%q: no error", name)
			continue
		}
		if i := strings.IndexFunc(err.Error(), func(r rune) bool {
			return r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' || r == '\ufffd'
		}); i >= 0 {
			t.Errorf("%q: the error has an escape at %d: %q", name, i, err.Error())
		}
		if name == "\xff\xfe" && !strings.Contains(err.Error(), "not valid UTF-8") {
			t.Errorf("%q: error is %v", name, err)
		}
	}
}

func TestTruncatedWhileMapped(t *testing.T) {
	if !canMap {
		t.Skip("this system reads files whole")
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	b := NewModel("g")
	b.Input("x", Uint8, 1<<20).Output("y", Uint8, 1<<20)
	b.Initializer("w", bytes.Repeat([]byte{7}, 1<<20))
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	if err := WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	m, err := ReadFile(path, &ReadOptions{Map: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	v, err := m.Graph.Initializers[0].Decode(&DecodeOptions{Copy: true})
	if err != nil || v.Bytes()[1<<20-1] != 7 {
		t.Fatalf("decode: %v", err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Graph.Initializers[0].Decode(&DecodeOptions{Copy: true}); !errors.Is(err, ErrMappedFile) {
		t.Errorf("decode after truncation: %v, want ErrMappedFile", err)
	}
	if m.Graph.Nodes[0].OpType != "Add" || m.Graph.Initializers[0].Name != "w" {
		t.Error("names of a read model changed with the file")
	}
	if _, err := ReadFile(path, &ReadOptions{Map: true}); err == nil {
		t.Error("reading a truncated mapped file: no error")
	}
	// By default the file is read, so that the model does not depend on it later.
	if err := os.WriteFile(path, sampleBytes(t), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err = ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := m.DecodeTensor(m.Graph.Initializers[0]); err != nil {
		t.Error(err)
	}
}

func TestReadCopyIsIndependent(t *testing.T) {
	data := sampleBytes(t)
	m, err := Unmarshal(data, &ReadOptions{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := m.Marshal()
	for i := range data {
		data[i] = 0xaa
	}
	got, _ := m.Marshal()
	if !bytes.Equal(got, want) {
		t.Error("the model aliases the bytes from which it was read")
	}
}

func TestUnknownFieldsSurvive(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 9)
	more := protowire.AppendBytes(protowire.AppendTag(nil, 501, protowire.BytesType), []byte("x"))
	node := append(append([]byte("\x22\x01A"), unknown...), more...)
	for _, copied := range []bool{false, true} {
		n, err := UnmarshalNode(node, &ReadOptions{Copy: copied})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := n.Marshal(); !bytes.Equal(got, node) {
			t.Errorf("written as %x, want %x", got, node)
		}
	}
}
