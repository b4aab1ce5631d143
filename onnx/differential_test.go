package onnx

import (
	_ "embed"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

//go:embed testdata/onnx.desc
var onnxDescriptors []byte

var schema = sync.OnceValue(func() *protoregistry.Files {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(onnxDescriptors, &set); err != nil {
		panic(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		panic(err)
	}
	return files
})

func descriptor(name string) protoreflect.MessageDescriptor {
	d, err := schema().FindDescriptorByName(protoreflect.FullName("onnx." + name))
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// codecs maps messages to functions that read a message with this package and write it again.
var codecs = map[string]func(data []byte, opts *ReadOptions) ([]byte, error){
	"ModelProto":        rewrite(Unmarshal),
	"GraphProto":        rewrite(UnmarshalGraph),
	"NodeProto":         rewrite(UnmarshalNode),
	"FunctionProto":     rewrite(UnmarshalFunction),
	"TensorProto":       rewrite(UnmarshalTensor),
	"SparseTensorProto": rewrite(UnmarshalSparseTensor),
	"TypeProto":         rewrite(UnmarshalType),
	"SequenceProto":     rewrite(unmarshalSequence),
	"MapProto":          rewrite(unmarshalMap),
	"OptionalProto":     rewrite(unmarshalOptional),
}

func rewrite[T interface{ Marshal() ([]byte, error) }](read func([]byte, *ReadOptions) (T, error)) func([]byte,
	*ReadOptions) ([]byte, error) {
	return func(data []byte, opts *ReadOptions) ([]byte, error) {
		m, err := read(data, opts)
		if err != nil {
			return nil, err
		}
		return m.Marshal()
	}
}

// keepsUnknown lists the messages whose unknown fields are kept. Small messages drop them.
var keepsUnknown = map[protoreflect.Name]bool{
	"ModelProto": true, "GraphProto": true, "NodeProto": true, "AttributeProto": true, "ValueInfoProto": true,
	"TensorProto": true, "SparseTensorProto": true, "TypeProto": true, "FunctionProto": true, "TrainingInfoProto": true,
}

// normalizeProto clears what the Go types do not distinguish: scalars that are present with
// their default value, the type of an attribute that the reader infers, and unknown fields of
// small messages.
func normalizeProto(m protoreflect.Message) {
	name := m.Descriptor().Name()
	if !keepsUnknown[name] {
		m.SetUnknown(nil)
	}
	if name == "AttributeProto" {
		fields := m.Descriptor().Fields()
		if m.Get(fields.ByName("type")).Enum() == 0 {
			inferred := protoreflect.EnumNumber(math.MaxInt32)
			for field, t := range attributeFields {
				if m.Has(fields.ByName(field)) && t < inferred {
					inferred = t
				}
			}
			if inferred != math.MaxInt32 {
				m.Set(fields.ByName("type"), protoreflect.ValueOfEnum(inferred))
			}
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				normalizeProto(v.List().Get(i).Message())
			}
		case fd.IsList():
		case fd.Message() != nil:
			normalizeProto(v.Message())
		case fd.ContainingOneof() != nil || fd.FullName() == "onnx.TensorProto.raw_data" ||
			fd.FullName() == "onnx.NodeDeviceConfigurationProto.pipeline_stage":
		case v.Equal(fd.Default()):
			m.Clear(fd)
		}
		return true
	})
}

var attributeFields = map[protoreflect.Name]protoreflect.EnumNumber{
	"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8, "tensors": 9, "graphs": 10,
	"sparse_tensor": 11, "sparse_tensors": 12, "tp": 13, "type_protos": 14,
}

// compareWithRuntime fails unless this package and the protobuf runtime agree on whether data
// is a message, and on the message.
func compareWithRuntime(t interface{ Fatalf(string, ...any) }, message string, data []byte) {
	d := descriptor(message)
	want := dynamicpb.NewMessage(d)
	wantErr := proto.UnmarshalOptions{RecursionLimit: 200}.Unmarshal(data, want)
	out, err := codecs[message](data, &ReadOptions{MaxDepth: 200, MaxMemory: 1 << 30})
	if (wantErr == nil) != (err == nil) {
		t.Fatalf("%s %x: error %v, the protobuf runtime's is %v", message, data, err, wantErr)
	}
	if err != nil {
		return
	}
	got := dynamicpb.NewMessage(d)
	if err := (proto.UnmarshalOptions{RecursionLimit: 200}).Unmarshal(out, got); err != nil {
		t.Fatalf("%s: the protobuf runtime does not read what was written: %v", message, err)
	}
	normalizeProto(want)
	normalizeProto(got)
	if !proto.Equal(want, got) {
		t.Fatalf("%s differs:\ngot  %v\nwant %v", message, got, want)
	}
}

func TestSuiteAgainstProtobufRuntime(t *testing.T) {
	for _, path := range suiteFiles(t, ".onnx") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		compareWithRuntime(t, "ModelProto", data)
	}
	for i, path := range suiteFiles(t, ".pb") {
		if i%5 != 0 && !strings.Contains(path, "sequence") && !strings.Contains(path, "optional") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		compareWithRuntime(t, "TensorProto", data)
		compareWithRuntime(t, "SequenceProto", data)
		compareWithRuntime(t, "OptionalProto", data)
	}
}

// randomMessage draws a message of every field of the schema, with unknown fields.
func randomMessage(t *rapid.T, d protoreflect.MessageDescriptor, depth int) protoreflect.Message {
	m := dynamicpb.NewMessage(d)
	fields := d.Fields()
	p := max(2, fields.Len()/4) // of so many fields one is present on average
	for i := range fields.Len() {
		fd := fields.Get(i)
		if rapid.IntRange(0, p).Draw(t, "present") > 0 || fd.Message() != nil && depth == 0 {
			continue
		}
		if fd.IsList() {
			l := m.Mutable(fd).List()
			for range rapid.IntRange(1, 3).Draw(t, "n") {
				l.Append(randomValue(t, fd, depth))
			}
			continue
		}
		m.Set(fd, randomValue(t, fd, depth))
	}
	if rapid.IntRange(0, 7).Draw(t, "unknown") == 0 {
		m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType),
			rapid.Uint64().Draw(t, "u")))
	}
	return m
}

func randomValue(t *rapid.T, fd protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(randomMessage(t, fd.Message(), depth-1))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32().Draw(t, "enum")))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "v"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "v"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "v"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(math.Float32frombits(rapid.Uint32().Draw(t, "v")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "v"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringN(0, 8, 16).Draw(t, "v"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "v"))
	}
	panic(fd.Kind())
}

func TestRandomMessagesAgainstProtobufRuntime(t *testing.T) {
	for message := range codecs {
		t.Run(message, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, descriptor(message), 4)
				data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
				if err != nil {
					t.Fatal(err)
				}
				compareWithRuntime(t, message, data)
				// Two messages in a row are one merged message.
				compareWithRuntime(t, message, append(data, data...))
				// A changed byte makes both fail, or both read the same.
				if len(data) > 0 {
					data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
					compareWithRuntime(t, message, data)
				}
			})
		})
	}
}
