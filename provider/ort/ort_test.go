package ort_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// config names the library of the tests, or skips the test.
func config(t testing.TB, options ...string) onward.ProviderConfig {
	t.Helper()
	c := onward.ProviderConfig{Name: "ort", Options: map[string]string{"library": ortlib.Path(t)}}
	for i := 0; i+1 < len(options); i += 2 {
		c.Options[options[i]] = options[i+1]
	}
	return c
}

func openModel(t testing.TB, m *onnx.Model, opts ...string) *onward.Session {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t, opts...)}})
	if err != nil && strings.Contains(err.Error(), "Unsupported model IR version") {
		t.Skipf("this release is too old: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func identity(t tensor.Type) *onnx.Model {
	b := onnx.NewModel("identity").Opset("", 16).IRVersion(8)
	b.InputType("x", onnx.NewType(t)).OutputType("y", onnx.NewType(t))
	b.Node("Identity", []string{"x"}, []string{"y"})
	return b.Must()
}

func run(t testing.TB, s *onward.Session, x tensor.Value) tensor.Value {
	t.Helper()
	out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out["y"]
}

// TestValues passes every kind of value that ONNX Runtime's Identity supports through it.
func TestValues(t *testing.T) {
	f := tensor.Must(tensor.New([]float32{1, -2, 3, 4, 5, 6}, 2, 3))
	seq := func(elem tensor.Type, items ...tensor.Value) tensor.Value {
		s, err := tensor.NewSequence(elem, items...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cases := map[string]tensor.Value{
		"float32":       f,
		"float64":       tensor.Must(tensor.New([]float64{1, 2, 3})),
		"int8":          tensor.Must(tensor.New([]int8{-1, 2})),
		"int16":         tensor.Must(tensor.New([]int16{-1, 2})),
		"int32":         tensor.Must(tensor.New([]int32{-1, 2})),
		"int64":         tensor.Must(tensor.New([]int64{-1, 2})),
		"uint8":         tensor.Must(tensor.New([]uint8{1, 2})),
		"uint16":        tensor.Must(tensor.New([]uint16{1, 2})),
		"uint32":        tensor.Must(tensor.New([]uint32{1, 2})),
		"uint64":        tensor.Must(tensor.New([]uint64{1, 1 << 63})),
		"bool":          tensor.Must(tensor.New([]bool{true, false, true})),
		"float16":       tensor.Must(tensor.New([]tensor.Float16{0x3c00, 0xc000})),
		"bfloat16":      tensor.Must(tensor.New([]tensor.BFloat16{0x3f80, 0x4000})),
		"scalar":        tensor.Scalar[int64](7),
		"empty":         tensor.Must(tensor.New([]float32{}, 0, 3)),
		"strings":       tensor.Must(tensor.New([]string{"a", "", "größer", "nul\x00inside", strings.Repeat("long", 100)}, 5)),
		"no strings":    tensor.Must(tensor.New([]string{}, 0)),
		"sequence":      seq(f.Type(), f, tensor.Scalar[float32](1), tensor.Must(tensor.New([]float32{}, 0))),
		"string list":   seq(tensor.TensorType(tensor.TypeString), tensor.Must(tensor.New([]string{"x", "y"}, 2))),
		"empty list":    seq(tensor.TensorType(tensor.TypeInt64)),
		"optional":      &tensor.Optional{Elem: f.Type(), Value: f},
		"none":          &tensor.Optional{Elem: f.Type()},
		"optional list": &tensor.Optional{Elem: tensor.SequenceOf(f.Type()), Value: seq(f.Type(), f)},
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			y := run(t, openModel(t, identity(x.Type())), x)
			if err := tensor.AllClose(y, x, 0, 0); err != nil {
				t.Error(err)
			}
			if !y.Type().Equal(x.Type()) {
				t.Errorf("type %s, want %s", y.Type(), x.Type())
			}
		})
	}
}

// TestUndeclaredEmptyOptional returns an optional output without value whose type the model
// does not declare.
func TestUndeclaredEmptyOptional(t *testing.T) {
	b := onnx.NewModel("none").Opset("", 16).IRVersion(8)
	b.OutputType("y", nil)
	b.Node("Optional", nil, []string{"y"}, onnx.Attrs{"type": onnx.NewType(tensor.TensorType(tensor.TypeFloat32))})
	out, err := openModel(t, b.Must()).Run(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := out["y"].(*tensor.Optional); !ok || o.Value != nil {
		t.Errorf("got %v, want an optional without value", out["y"])
	}
}

// TestPackedTypes covers the types that Identity lacks: Cast makes and takes them.
func TestPackedTypes(t *testing.T) {
	for _, d := range []tensor.DType{tensor.TypeInt4, tensor.TypeUint4, tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E5M2,
		tensor.TypeFloat8E4M3FNUZ, tensor.TypeFloat8E5M2FNUZ} {
		t.Run(d.String(), func(t *testing.T) {
			x := tensor.Must(tensor.New([]float32{0, 1, 2, 3, 4, 5, 7}, 7))
			opset := int64(19)
			if d.Packed() {
				opset = 21
			}
			there := onnx.NewModel("there").Opset("", opset)
			there.Input("x", onnx.DataType(tensor.TypeFloat32), 7).Output("y", onnx.DataType(d), 7)
			there.Node("Cast", []string{"x"}, []string{"y"}, onnx.Attrs{"to": int64(d)})
			back := onnx.NewModel("back").Opset("", opset)
			back.Input("x", onnx.DataType(d), 7).Output("y", onnx.DataType(tensor.TypeFloat32), 7)
			back.Node("Cast", []string{"x"}, []string{"y"}, onnx.Attrs{"to": int64(tensor.TypeFloat32)})
			y := run(t, openModel(t, there.Must()), x)
			if !y.Type().Equal(tensor.TensorType(d)) {
				t.Fatalf("type %s, want tensor(%s)", y.Type(), d)
			}
			want, err := tensor.Convert(x, d, &tensor.ConvertOptions{Saturate: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := tensor.AllClose(y, want, 0, 0); err != nil {
				t.Error(err)
			}
			z := run(t, openModel(t, back.Must()), y)
			exact, err := tensor.Convert(want, tensor.TypeFloat32, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := tensor.AllClose(z, exact, 0, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMaps(t *testing.T) {
	b := onnx.NewModel("maps").Opset("", 13).Opset("ai.onnx.ml", 1).IRVersion(8)
	b.InputType("x", onnx.NewType(tensor.MapOf(tensor.TypeString, tensor.TensorType(tensor.TypeFloat32))))
	b.OutputType("y",
		onnx.NewType(tensor.SequenceOf(tensor.MapOf(tensor.TypeInt64, tensor.TensorType(tensor.TypeFloat32)))))
	b.Node("DictVectorizer", []string{"x"}, []string{"v"}, onnx.Attrs{"string_vocabulary": []string{"c", "a", "z"}}).
		Domain("ai.onnx.ml")
	b.Node("ZipMap", []string{"v"}, []string{"y"}, onnx.Attrs{"classlabels_int64s": []int64{10, 20, 30}}).
		Domain("ai.onnx.ml")
	x, err := tensor.NewMap(tensor.Must(tensor.New([]string{"a", "c"}, 2)),
		tensor.Must(tensor.New([]float32{1.5, 2.5}, 2)))
	if err != nil {
		t.Fatal(err)
	}
	y := run(t, openModel(t, b.Must()), x)
	m, err := tensor.NewMap(tensor.Must(tensor.New([]int64{10, 20, 30}, 3)),
		tensor.Must(tensor.New([]float32{2.5, 1.5, 0}, 3)))
	if err != nil {
		t.Fatal(err)
	}
	want, err := tensor.NewSequence(m.Type(), m)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.AllClose(y, want, 0, 0); err != nil {
		t.Error(err)
	}
}

func TestOutputInPlace(t *testing.T) { nativetest.OutputInPlace(t, "ort", config(t)) }

// ONNX Runtime returns a graph input that is an output as it is, and does not write to memory that
// was given for the output.
func TestOutputIsInput(t *testing.T) {
	b := onnx.NewModel("same").Opset("", 17).IRVersion(8)
	b.Initializer("c", []float32{5, 6}, 2)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2).Output("x", onnx.Float, 2).Output("c", onnx.Float, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	m := b.Must()
	pair := func(a, b float32) *tensor.Tensor { return tensor.Must(tensor.New([]float32{a, b}, 2)) }
	want := map[string]*tensor.Tensor{"y": pair(-1, 2), "x": pair(1, -2), "c": pair(5, 6)}
	check := func(how, name string, got tensor.Value) {
		t.Helper()
		if err := tensor.Equal(got, want[name]); err != nil {
			t.Errorf("%s: output %s: %v", how, name, err)
		}
	}
	s := openModel(t, m)
	in := onward.Values{"x": pair(1, -2)}
	for range 2 {
		into := map[string]*tensor.Tensor{"y": pair(9, 9), "x": pair(9, 9), "c": pair(9, 9)}
		for how, given := range map[string]map[string]*tensor.Tensor{"run": nil, "run into tensors": into} {
			out, err := s.Run(context.Background(), in, &onward.RunOptions{Into: given})
			must(t, err)
			for name := range want {
				check(how, name, out[name])
				if given != nil {
					check("given tensor", name, given[name])
				}
			}
		}
	}
	for _, bound := range []bool{false, true} {
		bd := newBinding(t, s)
		must(t, bd.BindCPUInput("x", in["x"]))
		given := map[string]*tensor.Tensor{}
		for name := range want {
			if given[name] = pair(9, 9); bound {
				must(t, bd.BindCPUOutput(name, given[name]))
			} else {
				must(t, bd.BindOutput(name, onward.Buffer{}))
			}
		}
		for range 2 {
			must(t, s.RunBinding(context.Background(), bd, nil))
			if bound {
				for name := range want {
					check("bound tensor", name, given[name])
				}
				continue
			}
			names := bd.OutputNames()
			out, err := bd.CopyOutputsToCPU()
			must(t, err)
			for i, name := range names {
				check("binding", name, out[i])
			}
		}
	}
}

// TestWronglyDeclaredShape runs a model whose output is larger than declared.
func TestWronglyDeclaredShape(t *testing.T) {
	b := onnx.NewModel("wrong").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), "n").Output("y", onnx.DataType(tensor.TypeFloat32), 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	s := openModel(t, b.Must())
	for n := 1; n < 6; n++ {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i + 1)
		}
		y := run(t, s, tensor.Must(tensor.New(x, n))).(*tensor.Tensor)
		if y.Len() != n || tensor.MustData[float32](y)[n-1] != -float32(n) {
			t.Errorf("%d elements give %v", n, tensor.MustData[float32](y))
		}
	}
}

// TestScalarDeclaredAsVector: a scalar that a model declares as a vector of one element stays one.
func TestScalarDeclaredAsVector(t *testing.T) {
	b := onnx.NewModel("scalar").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Int64, 1)
	b.Node("Size", []string{"x"}, []string{"y"})
	y := run(t, openModel(t, b.Must()), tensor.Must(tensor.New([]float32{1, 2, 3}, 3)))
	if err := tensor.AllClose(y, tensor.Scalar[int64](3), 0, 0); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	open := func(m *onnx.Model, c onward.ProviderConfig) error {
		s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{Providers: []onward.ProviderConfig{c}})
		if err == nil {
			s.Close()
		}
		return err
	}
	unknown := onnx.NewModel("unknown").Opset("", 13).IRVersion(8)
	unknown.Input("x", onnx.DataType(tensor.TypeFloat32)).Output("y", onnx.DataType(tensor.TypeFloat32))
	unknown.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	for _, c := range []struct {
		name   string
		model  *onnx.Model
		config onward.ProviderConfig
		want   []string
		is     error
	}{
		{"operator", unknown.Must(), config(t), []string{"NoSuchOperator"}, nil},
		{"option", nativetest.Scale(), config(t, "no_such_option", "1"), []string{"no_such_option", "graph_optimization_level"}, onward.ErrInvalidArgument},
		{"value", nativetest.Scale(), config(t, "graph_optimization_level", "much"), []string{"much", "disable, basic"}, onward.ErrInvalidArgument},
		{"number", nativetest.Scale(), config(t, "intra_op_num_threads", "-1"), []string{`"-1"`}, onward.ErrInvalidArgument},
		{"dim", nativetest.Scale(), config(t, "free_dimension:n", "x"), []string{"free_dimension:n"}, onward.ErrInvalidArgument},
		{"nul", nativetest.Scale(), config(t, "session.x", "a\x00b"), []string{"NUL"}, onward.ErrInvalidArgument},
		{"library", nativetest.Scale(), onward.ProviderConfig{Name: "ort:cpu", Options: map[string]string{"library": "/nowhere/libonnxruntime.so.1"}},
			[]string{"/nowhere/libonnxruntime.so.1 (the option library): file does not exist", "onnxruntime-node", ort.Env}, onward.ErrExecution},
		{"cuda option", nativetest.Scale(), onward.ProviderConfig{Name: "ort:cuda", Options: map[string]string{"device_id": "first"}}, []string{"device_id", "first"}, onward.ErrInvalidArgument},
	} {
		err := open(c.model, c.config)
		var st *onward.StatusError
		if !errors.As(err, &st) {
			t.Errorf("%s: %v, want a StatusError", c.name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(st.Message, w) {
				t.Errorf("%s: message has no %q: %s", c.name, w, st.Message)
			}
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.name, err, c.is)
		}
	}
}

// TestRunError checks the error of a node that fails in ONNX Runtime.
func TestRunError(t *testing.T) {
	b := onnx.NewModel("reshape").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), "n").Output("y", onnx.DataType(tensor.TypeFloat32), "m", 3)
	b.Initializer("shape", []int64{-1, 3})
	b.Node("Reshape", []string{"x", "shape"}, []string{"y"})
	s := openModel(t, b.Must())
	_, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4}))}, nil)
	var st *onward.StatusError
	if !errors.As(err, &st) || st.Code == onward.CodeOK || !strings.Contains(st.Message, "Reshape") {
		t.Errorf("Run = %v, want ONNX Runtime's error about Reshape", err)
	}
}

// TestExternalData reads weights from the model's folder, and checks that those elsewhere
// are rejected.
func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	w := make([]float32, 3000)
	for i := range w {
		w[i] = float32(i)
	}
	b := onnx.NewModel("external").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), len(w))
	b.Initializer("w", w)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	path := filepath.Join(dir, "model.onnx")
	if err := onnx.WriteFile(path, b.Must(), &onnx.WriteOptions{ExternalData: "weights.bin"}); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.onnx")
	if err := os.Symlink(path, link); err != nil {
		t.Log(err)
		link = path
	}
	for _, p := range []string{path, link} {
		s, err := onward.Open(t.Context(), p,
			&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
		if p == link && link != path && err != nil {
			// The folder of the link has no weights. Caches of model hubs link the weights too.
			if err := os.Symlink(filepath.Join(dir, "weights.bin"),
				filepath.Join(filepath.Dir(link), "weights.bin")); err != nil {
				t.Fatal(err)
			}
			s, err = onward.Open(t.Context(), p,
				&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.MustData[float32](run(t, s, tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
		for i, v := range y {
			if v != w[i]+1 {
				t.Fatalf("element %d is %v, want %v", i, v, w[i]+1)
			}
		}
		s.Close()
	}
	m, err := onnx.ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The weights of a model in memory are found too; its file is not read.
	m.Graph.Nodes[0].OpType = "Sub"
	y := tensor.MustData[float32](run(t, openModel(t, m), tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
	if y[2999] != 1-2999 {
		t.Errorf("element 2999 of the changed model is %v, want %v", y[2999], 1-2999)
	}
	for i := range m.Graph.Initializers[0].ExternalData {
		if kv := &m.Graph.Initializers[0].ExternalData[i]; kv.Key == "location" {
			kv.Value = "../weights.bin"
		}
	}
	if _, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{config(t)}}); !errors.Is(err, onnx.ErrExternalData) {
		t.Errorf("weights outside of the model's folder: %v, want ErrExternalData", err)
	}
}

func TestLibrary(t *testing.T) {
	t.Setenv(ort.Env, ortlib.Path(t))
	info, err := driver.Lookup("ort").(driver.LibraryUser).Library(driver.Config{Name: "ort"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.Version, "1.") || info.Path == "" || info.APIVersion < 17 || len(info.Providers) == 0 {
		t.Errorf("Library = %+v", info)
	}
	if err := driver.Lookup("ort").Available(driver.Config{Name: "ort"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"ort:cuda", "ort:tensorrt", "ort:openvino"} {
		if err := driver.Lookup(name).Available(driver.Config{Name: name}); err != nil &&
			(len(native.Attempts(err)) == 0 || !strings.Contains(err.Error(), "Get it with")) &&
			!strings.Contains(err.Error(), "finds no device") {
			t.Errorf(
				"%s: %v, want the paths that were tried and how to install the library, or that there is no device",
				name, err)
		}
	}
}

func BenchmarkTiny(b *testing.B) {
	s := openModel(b, nativetest.Scale(4))
	x := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4}))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), x, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAgreesWithCPU compares this module's engine with ONNX Runtime on the example
// models, over inputs of several batch sizes.
func TestAgreesWithCPU(t *testing.T) {
	for _, name := range datasets.Names() {
		t.Run(name, func(t *testing.T) {
			data, err := datasets.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := onnx.Unmarshal(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			theirs := openModel(t, m)
			ours, err := onward.OpenModel(t.Context(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			for batch := 1; batch < 40; batch += 13 {
				feed := onward.Values{}
				for _, a := range ours.Inputs() {
					shape := make([]int, len(a.Shape))
					for i, d := range a.Shape {
						if shape[i] = int(d.Value); d.Value < 0 {
							shape[i] = batch
						}
					}
					x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
					for i := range tensor.MustData[float32](x) {
						tensor.MustData[float32](x)[i] = float32((i*7919+batch)%97)/13 - 2
					}
					if feed[a.Name], err = tensor.Convert(x, a.ElementType().Elem,
						nil); err != nil {
						t.Fatal(err)
					}
				}
				want, err := theirs.Run(context.Background(), feed, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.Run(context.Background(), feed, nil)
				if err != nil {
					t.Fatal(err)
				}
				for n := range want {
					if err := tensor.AllClose(got[n], want[n], 1e-4, 1e-5); err != nil {
						t.Errorf("batch %d, output %s: %v", batch, n, err)
					}
				}
			}
		})
	}
}
