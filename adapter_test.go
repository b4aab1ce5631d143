package onward_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// loraModel computes x·W + x·A·B. A and B are inputs of rank 0 by default.
func loraModel() *onnx.Model {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(9)
	b.Input("x", onnx.Float, nil, 2).Input("lora_A", onnx.Float, 2, nil).Input("lora_B", onnx.Float, nil, 2).
		Output("y", onnx.Float, nil, 2)
	b.Initializer("W", tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2)))
	b.Initializer("lora_A", tensor.Must(tensor.New([]float32{}, 2, 0))).
		Initializer("lora_B", tensor.Must(tensor.New([]float32{}, 0, 2)))
	b.Node("MatMul", []string{"x", "W"}, []string{"b"})
	b.Node("MatMul", []string{"x", "lora_A"}, []string{"r"})
	b.Node("MatMul", []string{"r", "lora_B"}, []string{"d"})
	b.Node("Add", []string{"b", "d"}, []string{"y"})
	return b.Must()
}

// The file was written by onnxruntime.AdapterFormat of ONNX Runtime 1.32, and the results are
// those of its sessions.
func TestAdapters(t *testing.T) {
	a, err := onward.LoadAdapter(filepath.Join("testdata", "lora.onnx_adapter"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Version != 3 || a.ModelVersion != 7 || len(a.Parameters) != 2 {
		t.Errorf("got version %d, model version %d and %d parameters, want 3, 7 and 2", a.Version, a.ModelVersion,
			len(a.Parameters))
	}
	other := &onward.Adapter{Parameters: onward.Values{
		"lora_A": tensor.Must(tensor.New([]float32{1, 0, 0, 1}, 2, 2)), "lora_B": tensor.Must(tensor.New([]float32{1, 0, 0, -1}, 2, 2)),
	}}
	x := tensor.Must(tensor.New([]float32{1, 2, 5, 1}, 2, 2))
	plain, adapted, second := []float32{7, 10, 8, 14}, []float32{-3, -10, 48, 94}, []float32{8, 8, 13, 13}
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		s := enginetest.Open(t, loraModel(), o)
		for range 4 { // later runs are replayed
			for _, c := range []struct {
				name     string
				adapters []*onward.Adapter
				feed     onward.Values
				want     []float32
			}{
				{"no adapter", nil, onward.Values{"x": x}, plain},
				{"one adapter", []*onward.Adapter{a}, onward.Values{"x": x}, adapted},
				{"the first of two adapters", []*onward.Adapter{a, other}, onward.Values{"x": x}, adapted},
				{"other order", []*onward.Adapter{other, a}, onward.Values{"x": x}, second},
				{"before the feed", []*onward.Adapter{a}, onward.Values{"x": x, "lora_B": tensor.Must(tensor.New([]float32{0, 0}, 1, 2))}, adapted},
			} {
				out, err := s.Run(context.Background(), c.feed, &onward.RunOptions{Adapters: c.adapters})
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if y := enginetest.Floats(t, out["y"]); !slices.Equal(y, c.want) {
					t.Errorf("%s: got %v, want %v", c.name, y, c.want)
				}
			}
		}
		v, err := onward.NewOrtValue(x)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.RunWithOrtValues(context.Background(), map[string]*onward.OrtValue{"x": v},
			&onward.RunOptions{Adapters: []*onward.Adapter{a}})
		if err != nil {
			t.Fatal(err)
		}
		y, err := out["y"].Tensor()
		if err != nil || !slices.Equal(enginetest.Floats(t, y), adapted) {
			t.Errorf("OrtValues: got %v, %v, want %v", y, err, adapted)
		}
		b, err := s.NewBinding()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		unknown := &onward.Adapter{Parameters: onward.Values{"lora_C": x}}
		for _, c := range []struct {
			want string
			err  error
		}{
			{"Invalid input name: lora_C", second1(s.Run(context.Background(), onward.Values{"x": x}, &onward.RunOptions{Adapters: []*onward.Adapter{unknown}}))},
			{"RunOptions.Adapters[1] is nil", second1(s.Run(context.Background(), onward.Values{"x": x}, &onward.RunOptions{Adapters: []*onward.Adapter{a, nil}}))},
			{"RunOptions.Adapters must be nil", s.RunBinding(context.Background(), b, &onward.RunOptions{Adapters: []*onward.Adapter{a}})},
		} {
			if !errors.Is(c.err, onward.ErrInvalidArgument) || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("got the error %v, want INVALID_ARGUMENT with %q", c.err, c.want)
			}
		}
	})
}

func second1[T any](_ T, err error) error { return err }

// parameter is a parameter of an adapter file; fields that are nil or 0 are left out.
type parameter struct {
	name string
	dims []int64
	kind int32
	data []byte
}

func adapterFile(version int32, parameters ...parameter) []byte {
	b := flatbuffers.NewBuilder(256)
	tables := make([]flatbuffers.UOffsetT, len(parameters))
	for i, p := range parameters {
		var name flatbuffers.UOffsetT
		if p.name != "" {
			name = b.CreateString(p.name)
		}
		b.StartVector(8, len(p.dims), 8)
		for _, d := range slices.Backward(p.dims) {
			b.PrependInt64(d)
		}
		dims := b.EndVector(len(p.dims))
		data := b.CreateByteVector(p.data)
		b.StartObject(4)
		b.PrependUOffsetTSlot(0, name, 0)
		b.PrependUOffsetTSlot(1, dims, 0)
		b.PrependInt32Slot(2, p.kind, 0)
		b.PrependUOffsetTSlot(3, data, 0)
		tables[i] = b.EndObject()
	}
	b.StartVector(4, len(tables), 4)
	for _, p := range slices.Backward(tables) {
		b.PrependUOffsetT(p)
	}
	v := b.EndVector(len(tables))
	b.StartObject(4)
	b.PrependInt32Slot(0, version, 0)
	b.PrependUOffsetTSlot(3, v, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte("TORT"))
	return b.FinishedBytes()
}

func TestParseAdapter(t *testing.T) {
	good := adapterFile(1, parameter{"a", []int64{2}, 10, make([]byte, 4)}, parameter{"b", nil, 1, make([]byte, 4)},
		parameter{"none", []int64{0, 5}, 11, nil})
	a, err := onward.ParseAdapter(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "float16[2]", "b": "float[]", "none": "double[0 5]"} {
		if v, ok := a.Parameters[name].(*tensor.Tensor); !ok || v.String() != want {
			t.Errorf("%s is %v, want %s", name, v, want)
		}
	}
	p := func(p parameter) []byte { return adapterFile(1, parameter{"x", nil, 1, make([]byte, 4)}, p) }
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, `its identifier is "", want "TORT"`},
		{[]byte("12345678"), `its identifier is "5678"`},
		{adapterFile(2), "format version 2 is not supported, want 1"},
		{adapterFile(0), "format version 0"},
		{good[:40], "exceeds the data"},
		{good[:16], "outside"},
		{p(parameter{"x", nil, 1, make([]byte, 4)}), `parameter 1: there is another one of the name "x"`},
		{p(parameter{"", nil, 1, make([]byte, 4)}), "parameter 1: name: the field is missing"},
		{p(parameter{"y", nil, 8, make([]byte, 4)}), "data_type 8 is not supported"},
		{p(parameter{"y", nil, 0, make([]byte, 4)}), "data_type 0"},
		{p(parameter{"y", nil, 21, make([]byte, 4)}), "data_type 21"},
		{p(parameter{"y", nil, -1, make([]byte, 4)}), "data_type -1"},
		{p(parameter{"y", []int64{2}, 1, make([]byte, 4)}), "4 bytes for float[2], which takes 8"},
		{p(parameter{"y", []int64{-1}, 1, make([]byte, 4)}), "-1"},
		{p(parameter{"y", []int64{math.MaxInt64, math.MaxInt64}, 1, make([]byte, 4)}), "parameter 1"},
		{p(parameter{"y", make([]int64, 65), 1, nil}), "rank 65, want at most 64"},
	} {
		_, err := onward.ParseAdapter(c.data)
		if !errors.Is(err, onward.ErrInvalidArgument) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got the error %v, want INVALID_ARGUMENT with %q", err, c.want)
		}
	}
	if _, err := onward.LoadAdapter(filepath.Join(t.TempDir(), "none")); !errors.Is(err, onward.ErrNoSuchFile) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// A small file whose vector of parameters refers to one table many times must not
// become a large adapter.
func TestOverlappingAdapter(t *testing.T) {
	data := adapterFile(1, parameter{"x", []int64{1 << 16}, 2, make([]byte, 1<<16)},
		parameter{"y", []int64{1 << 16}, 2, make([]byte, 1<<16)})
	if _, err := onward.ParseAdapter(data); err != nil {
		t.Fatal(err)
	}
	// 40 tables of other names, whose data is one vector: each name is written into a
	// copy of the table.
	b := flatbuffers.NewBuilder(1 << 17)
	shared := b.CreateByteVector(make([]byte, 1<<16))
	b.StartVector(8, 1, 8)
	b.PrependInt64(1 << 16)
	dims := b.EndVector(1)
	var tables []flatbuffers.UOffsetT
	for i := range 40 {
		name := b.CreateString(strings.Repeat("n", i+1))
		b.StartObject(4)
		b.PrependUOffsetTSlot(0, name, 0)
		b.PrependUOffsetTSlot(1, dims, 0)
		b.PrependInt32Slot(2, 2, 0)
		b.PrependUOffsetTSlot(3, shared, 0)
		tables = append(tables, b.EndObject())
	}
	b.StartVector(4, len(tables), 4)
	for _, p := range tables {
		b.PrependUOffsetT(p)
	}
	v := b.EndVector(len(tables))
	b.StartObject(4)
	b.PrependInt32Slot(0, 1, 0)
	b.PrependUOffsetTSlot(3, v, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte("TORT"))
	if _, err := onward.ParseAdapter(b.FinishedBytes()); err == nil ||
		!strings.Contains(err.Error(), "vectors overlap") {
		t.Errorf("got the error %v, want one about vectors that overlap", err)
	}
}

func FuzzParseAdapter(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "lora.onnx_adapter"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(adapterFile(1, parameter{"a", []int64{2}, 10, make([]byte, 4)}, parameter{"b", nil, 9, []byte{1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := onward.ParseAdapter(data)
		if err != nil {
			return
		}
		size := 0
		for name, v := range a.Parameters {
			size += len(name) + len(v.(*tensor.Tensor).Bytes())
		}
		if size > 4*len(data)+1024 {
			t.Errorf("%d bytes of parameters from %d bytes", size, len(data))
		}
	})
}
