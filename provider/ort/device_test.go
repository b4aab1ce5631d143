package ort

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Device memory is tested with the CPU as the device: allocating it, copying to and from
// it, and freeing it after the session.
func TestDeviceTensor(t *testing.T) {
	p := provider{"ort", cpu}
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	e, err := p.Compile(context.Background(), &driver.Model{Model: b.Must()}, &driver.Options{Threads: 1},
		onward.ProviderConfig{Name: "ort", Options: map[string]string{"library": ortlib.Path(t)}})
	if err != nil {
		t.Fatal(err)
	}
	s := e.(*session)
	types := []tensor.DType{tensor.TypeFloat32, tensor.TypeInt64, tensor.TypeBool, tensor.TypeFloat16,
		tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E5M2, tensor.TypeUint4, tensor.TypeInt4}
	for _, d := range types {
		x, err := tensor.Zeros(d, 3, 5)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(i) & 1
		}
		m, err := s.Allocate(onward.Device{}, d, []int{5, 3})
		if err != nil {
			t.Fatal(err)
		}
		if m.DType() != d || len(m.Shape()) != 2 || m.Shape()[0] != 5 || m.Pointer() == nil {
			t.Errorf("got %s%v at %v", m.DType(), m.Shape(), m.Pointer())
		}
		if err := m.CopyFrom(x); err != nil {
			t.Fatalf("to %s: %v", d, err)
		}
		y, err := tensor.Zeros(d, 15)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.CopyTo(y); err != nil {
			t.Fatalf("from %s: %v", d, err)
		}
		if string(y.Bytes()) != string(x.Bytes()) {
			t.Errorf("%s: got %v, want %v", d, y.Bytes(), x.Bytes())
		}
		w, err := s.Wrap(onward.Device{}, d, []int{15}, m.Pointer())
		if err != nil {
			t.Fatal(err)
		}
		clear(x.Bytes())
		if err := errors.Join(w.CopyFrom(x), m.CopyTo(y)); err != nil || string(y.Bytes()) != string(x.Bytes()) ||
			w.Pointer() != m.Pointer() {
			t.Errorf("%s by its address: got %v, %v, want zeros", d, y.Bytes(), err)
		}
		if err := m.CopyTo(tensor.Must(tensor.New([]float32{1}))); err == nil {
			t.Error("a tensor of another size was accepted")
		}
	}
	// ONNX Runtime does not support these
	for _, d := range []tensor.DType{tensor.TypeFloat6E2M3, tensor.TypeFloat6E3M2} {
		x := tensor.Must(tensor.Zeros(d, 4))
		_, err1 := s.Allocate(onward.Device{}, d, []int{4})
		_, err2 := s.lib.value(new(state), x, x.Type())
		sparse, err := tensor.FromDense(x)
		if err != nil {
			t.Fatal(err)
		}
		_, err3 := s.lib.value(new(state), sparse, sparse.Type())
		for _, err := range []error{err1, err2, err3} {
			if want := "does not support element type " + d.String(); !errors.Is(err, onward.ErrNotImplemented) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q", err, want)
			}
		}
	}
	if n, want := s.users.Load(), int64(1+2*len(types)); n != want {
		t.Errorf("%d users of the session, want %d", n, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if runtime.GC(); s.users.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d users of the session are left", s.users.Load())
}

// TestCopiesWriteNoFiles checks that the session which copies to a device does not write the
// profile and the optimized model of the session whose tensors it copies.
func TestCopiesWriteNoFiles(t *testing.T) {
	dir := t.TempDir()
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	config := onward.ProviderConfig{Name: "ort", Options: map[string]string{"library": ortlib.Path(t),
		"profile_file_prefix": filepath.Join(dir, "profile"), "optimized_model_filepath": filepath.Join(dir, "model.onnx")}}
	e, err := provider{"ort", cpu}.Compile(context.Background(), &driver.Model{Model: b.Must()},
		&driver.Options{Threads: 1}, config)
	if err != nil {
		t.Fatal(err)
	}
	s := e.(*session)
	defer s.Close()
	model, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Allocate(onward.Device{}, tensor.TypeFloat32, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CopyFrom(tensor.Must(tensor.New([]float32{1, 2}))); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("the folder has %v, %v, want one profile and one model", files, err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "model.onnx")); err != nil || !bytes.Equal(again, model) {
		t.Errorf("the optimized model was written again: %v", err)
	}
}
