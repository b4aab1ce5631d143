package onward_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestOrtValueProperties(t *testing.T) {
	f := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	sp, err := tensor.NewSparse(tensor.Must(tensor.New([]float32{7}, 1)), tensor.Must(tensor.New([]int64{4}, 1)), 3, 2)
	enginetest.Must(t, err)
	seq, err := tensor.NewSequence(f.Type(), f)
	enginetest.Must(t, err)
	m, err := tensor.NewMap(tensor.Must(tensor.New([]int64{1}, 1)), tensor.Must(tensor.New([]float32{1}, 1)))
	enginetest.Must(t, err)
	str := tensor.Must(tensor.New([]string{"a"}, 1))
	cases := []struct {
		v                       tensor.Value
		typ, text               string
		elem                    tensor.DType
		bytes                   int
		has, dense, sparse, seq bool
	}{
		{f, "tensor(float)", "tensor(float)[3 2] on cpu", tensor.TypeFloat32, 24, true, true, false, false},
		{tensor.Scalar(int64(1)), "tensor(int64)", "tensor(int64)[] on cpu", tensor.TypeInt64, 8, true, true, false, false},
		{str, "tensor(string)", "tensor(string)[1] on cpu", tensor.TypeString, 0, true, true, false, false},
		{sp, "sparse_tensor(float)", "sparse_tensor(float)[3 2] on cpu", tensor.TypeFloat32, 0, true, false, true, false},
		{seq, "seq(tensor(float))", "seq(tensor(float)) on cpu", 0, 0, true, false, false, true},
		{m, "map(int64,tensor(float))", "map(int64,tensor(float)) on cpu", 0, 0, true, false, false, false},
		{&tensor.Optional{Elem: f.Type()}, "optional(tensor(float))", "optional(tensor(float)) on cpu", 0, 0, false, false, false, false},
		{&tensor.Optional{Elem: f.Type(), Value: f}, "optional(tensor(float))", "optional(tensor(float))[3 2] on cpu", tensor.TypeFloat32, 24, true, true, false, false},
	}
	for _, c := range cases {
		v, err := onward.NewOrtValue(c.v)
		enginetest.Must(t, err)
		if v.DataType() != c.typ || v.String() != c.text || v.ElementType() != c.elem || v.SizeInBytes() != c.bytes ||
			v.DeviceName() != "cpu" ||
			v.HasValue() != c.has || v.IsTensor() != c.dense || v.IsSparseTensor() != c.sparse ||
			v.IsTensorSequence() != c.seq {
			t.Errorf("%s: %s, %s, %d bytes, %v %v %v %v", v, v.DataType(), v.ElementType(), v.SizeInBytes(),
				v.HasValue(), v.IsTensor(), v.IsSparseTensor(), v.IsTensorSequence())
		}
		if got, err := v.Value(); err != nil || got != c.v {
			t.Errorf("%s: its value is %v, %v", v, got, err)
		}
		if (v.Pointer() != nil) != (c.bytes > 0) {
			t.Errorf("%s is at %v", v, v.Pointer())
		}
		if _, err := v.Tensor(); (err == nil) != c.dense {
			t.Errorf("%s as a tensor: %v", v, err)
		}
	}
}

func TestOrtValueUpdateInPlace(t *testing.T) {
	v, err := onward.NewOrtValueOf(tensor.TypeFloat32, 3, 2)
	enginetest.Must(t, err)
	at := v.Pointer()
	enginetest.Must(t, v.UpdateInPlace(tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 6))))
	x, err := v.Tensor()
	enginetest.Must(t, err)
	if x.Rank() != 2 || v.Pointer() != at || tensor.MustData[float32](x)[5] != 6 {
		t.Errorf("got %v at %v, was at %v", x, v.Pointer(), at)
	}
	words, err := onward.NewOrtValue(tensor.Must(tensor.New([]string{"a"}, 1)))
	enginetest.Must(t, err)
	cuda, err := onward.OrtValueOfBuffer(onward.Buffer{Device: onward.Device{Type: "cuda", ID: 1},
		Type: tensor.TypeFloat32, Shape: []int{2, 3}, Pointer: onward.Address(0x1000)})
	enginetest.Must(t, err)
	if cuda.DeviceName() != "cuda" || cuda.String() != "tensor(float)[2 3] on cuda:1" ||
		uintptr(cuda.Pointer()) != 0x1000 || cuda.SizeInBytes() != 24 || !cuda.IsTensor() {
		t.Errorf("got %s at %v", cuda, cuda.Pointer())
	}
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"size":          {func() error { return v.UpdateInPlace(tensor.Must(tensor.New([]float32{1}, 1))) }, "does not match the size of the OrtValue"},
		"type":          {func() error { return v.UpdateInPlace(tensor.Must(tensor.New(make([]int32, 6), 6))) }, "Unexpected input data type"},
		"nothing":       {func() error { return v.UpdateInPlace(nil) }, "the tensor is nil"},
		"strings":       {func() error { return words.UpdateInPlace(tensor.Must(tensor.New([]string{"b"}, 1))) }, "only tensors of numbers"},
		"address":       {func() error { return cuda.UpdateInPlace(tensor.Must(tensor.New(make([]float32, 6), 6))) }, "was given by its address"},
		"read":          {func() error { _, err := cuda.Tensor(); return err }, "was given by its address"},
		"no value":      {func() error { _, err := onward.NewOrtValue(nil); return err }, "the value is nil"},
		"nil tensor":    {func() error { _, err := onward.NewOrtValue((*tensor.Tensor)(nil)); return err }, "the value is nil"},
		"overflow":      {func() error { _, err := onward.NewOrtValueOf(tensor.TypeFloat64, 1<<31, 1<<31); return err }, "overflows"},
		"string memory": {func() error { _, err := onward.NewOrtValueOf(tensor.TypeString, 1); return err }, "non-string"},
		"device": {func() error {
			_, err := example(t, "mul_1.onnx", enginetest.On("cpu")).
				NewOrtValueOf(onward.Device{Type: "cuda"}, tensor.TypeFloat32, 1)
			return err
		}, "open the session with a provider for that device"},
	} {
		var st *onward.StatusError
		if err := c.do(); !errors.As(err, &st) || !strings.Contains(st.Message, c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	s := example(t, "mul_1.onnx", enginetest.On("cpu"))
	copied, err := s.NewOrtValue(x, onward.Device{})
	enginetest.Must(t, err)
	if copied.Pointer() == v.Pointer() || copied.SizeInBytes() != 24 {
		t.Error("the tensor was not copied")
	}
}

// This test checks that all three sparse formats of a matrix convert to the same dense one.
func TestSparseForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, w := rapid.IntRange(1, 3).Draw(t, "h"), rapid.IntRange(1, 3).Draw(t, "w")
		br, bc := rapid.IntRange(1, 4).Draw(t, "block rows"), rapid.IntRange(1, 4).Draw(t, "block columns")
		rows, cols := br*h, bc*w
		dense := make([]float32, rows*cols)
		var values, blocks []float32
		var blockRow, blockCol []int64
		for b := range br * bc {
			if rapid.Bool().Draw(t, "block") {
				r, c := b/bc, b%bc
				blockRow, blockCol = append(blockRow, int64(r)), append(blockCol, int64(c))
				for i := range h * w {
					v := float32(len(blocks) + 1)
					blocks = append(blocks, v)
					dense[(r*h+i/w)*cols+c*w+i%w] = v
				}
			}
		}
		var at, inner []int64
		outer := []int64{0}
		for r := range rows {
			for c := range cols {
				if v := dense[r*cols+c]; v != 0 {
					values, at, inner = append(values, v), append(at, int64(r*cols+c)), append(inner, int64(c))
				}
			}
			outer = append(outer, int64(len(values)))
		}
		ints := func(v []int64, shape ...int) *tensor.Tensor {
			return tensor.Must(tensor.New(append([]int64{}, v...), shape...))
		}
		vals := tensor.Must(tensor.New(append([]float32{}, values...), len(values)))
		n := len(blockRow)
		shape := []int{rows, cols}
		coo, err1 := tensor.NewSparse(vals, ints(at, len(at)), shape...)
		csr, err2 := tensor.NewSparseCSR(shape, vals, ints(inner, len(inner)), ints(outer, rows+1))
		block, err3 := tensor.NewSparseBlock(shape, tensor.Must(tensor.New(append([]float32{}, blocks...), n, h, w)),
			ints(append(blockRow, blockCol...), 2, n))
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*tensor.Sparse{coo, csr, block} {
			v, err := onward.NewOrtValue(s)
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.COO()
			if err != nil {
				t.Fatal(err)
			}
			d, err := x.ToDense(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := tensor.AllClose(d, tensor.Must(tensor.New(append([]float32{}, dense...), rows, cols)), 0,
				0); err != nil {
				t.Fatalf("%s: %v", s.Format, err)
			}
			if back, err := v.Sparse(); err != nil || back != s || !v.IsSparseTensor() ||
				v.DataType() != "sparse_tensor(float)" {
				t.Fatalf("%s: %v, %v", v, back, err)
			}
		}
	})
}

// This test checks that an inconsistent sparse tensor fails with a status error.
func TestOrtValueOfInconsistentSparse(t *testing.T) {
	two := tensor.Must(tensor.New([]float32{1, 2}, 2))
	s := &tensor.Sparse{Format: tensor.SparseCSR, Shape: []int{2, 2}, Values: two,
		Indices: tensor.Must(tensor.New([]int64{0, 1}, 2))}
	if _, err := onward.NewOrtValue(s); !errors.Is(err, onward.ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "values or indices are missing") {
		t.Errorf("error is %v", err)
	}
}

func TestRunWithOrtValues(t *testing.T) {
	for _, p := range enginetest.Engines {
		s := example(t, "mul_1.onnx", enginetest.On(p))
		x, err := onward.NewOrtValue(tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2)))
		enginetest.Must(t, err)
		out, err := s.RunWithOrtValues(context.Background(), map[string]*onward.OrtValue{"X": x}, nil)
		enginetest.Must(t, err)
		y, err := out["Y"].Tensor()
		enginetest.Must(t, err)
		equal(t, y, []float32{1, 4, 9, 16, 25, 36})
		cuda, err := onward.OrtValueOfBuffer(onward.Buffer{Device: onward.Device{Type: "cuda"},
			Type: tensor.TypeFloat32, Shape: []int{3, 2}, Pointer: onward.Address(0x1000)})
		enginetest.Must(t, err)
		for name, c := range map[string]struct {
			feed map[string]*onward.OrtValue
			opts *onward.RunOptions
			want string
		}{
			"name of an input":   {map[string]*onward.OrtValue{"nope": x}, nil, "Invalid input name: nope"},
			"name of an output":  {map[string]*onward.OrtValue{"X": x}, &onward.RunOptions{Outputs: []string{"nope"}}, "Invalid output name:nope"},
			"no input":           {map[string]*onward.OrtValue{"X": nil}, nil, "Required inputs (['X']) are missing"},
			"device":             {map[string]*onward.OrtValue{"X": cuda}, nil, "not of cuda:0"},
			"device, input name": {map[string]*onward.OrtValue{"nope": cuda}, nil, "Invalid input name: nope"},
		} {
			if _, err := s.RunWithOrtValues(context.Background(), c.feed, c.opts); !errors.Is(err,
				onward.ErrInvalidArgument) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: got %v, want %q", p, name, err, c.want)
			}
		}
	}
}

// This test checks that sparse inputs of any format reach the Go engine in COO format.
func TestRunWithSparseOrtValue(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.InputType("a", onnx.NewType(tensor.SparseType(tensor.TypeFloat32))).
		OutputType("y", onnx.NewType(tensor.SparseType(tensor.TypeFloat32)))
	b.Node("Identity", []string{"a"}, []string{"y"})
	s, err := onward.OpenModel(t.Context(), b.Must(), nil)
	enginetest.Must(t, err)
	csr, err := tensor.NewSparseCSR([]int{2, 2}, tensor.Must(tensor.New([]float32{1, 2}, 2)),
		tensor.Must(tensor.New([]int64{1, 0}, 2)), tensor.Must(tensor.New([]int64{0, 1, 2}, 3)))
	enginetest.Must(t, err)
	v, err := onward.NewOrtValue(csr)
	enginetest.Must(t, err)
	out, err := s.RunWithOrtValues(context.Background(), map[string]*onward.OrtValue{"a": v}, nil)
	enginetest.Must(t, err)
	got, err := out["y"].Sparse()
	enginetest.Must(t, err)
	if ix := tensor.MustData[int64](got.Indices); ix[0] != 1 || ix[1] != 2 {
		t.Errorf("indices %v, want [1 2]", ix)
	}
}

// This test checks that RunAsync calls its callback exactly once, also after errors.
func TestRunAsync(t *testing.T) {
	s := example(t, "mul_1.onnx", enginetest.On("cpu"))
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	var wg sync.WaitGroup
	run := func(feed onward.Values, check func(onward.Values, error)) {
		wg.Add(1)
		s.RunAsync(context.Background(), feed, nil, func(out onward.Values, err error) {
			defer wg.Done()
			check(out, err)
		})
	}
	for range 20 {
		feed := onward.Values{"X": x}
		run(feed, func(out onward.Values, err error) {
			if err != nil || tensor.MustData[float32](out["Y"].(*tensor.Tensor))[5] != 36 {
				t.Error(out, err)
			}
		})
		delete(feed, "X") // the caller may change the map now
	}
	run(onward.Values{"nope": x}, func(_ onward.Values, err error) {
		if !errors.Is(err, onward.ErrInvalidArgument) {
			t.Error(err)
		}
	})
	wg.Wait()
	enginetest.Must(t, s.Close())
	run(onward.Values{"X": x}, func(_ onward.Values, err error) {
		if err == nil || !strings.Contains(err.Error(), "the session is closed") {
			t.Error(err)
		}
	})
	wg.Wait()
}

// This test checks that results of an engine without driver.Binder are copied to the bound
// memory.
func TestBindingOfPlainEngine(t *testing.T) {
	s := example(t, "mul_1.onnx", enginetest.On(plainProvider(t)))
	b := newBinding(t, s)
	x, y := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 6)
	enginetest.Must(t, b.BindInput("X", buffer(x, 3, 2)), b.BindOutput("Y", onward.Buffer{}))
	for range 3 {
		enginetest.Must(t, s.RunBinding(context.Background(), b, nil))
		out, err := b.CopyOutputsToCPU()
		enginetest.Must(t, err)
		equal(t, out[0], []float32{1, 4, 9, 16, 25, 36})
	}
	enginetest.Must(t, b.BindOutput("Y", buffer(y, 3, 2)), s.RunBinding(context.Background(), b, nil))
	equal(t, tensor.Must(tensor.New(y, 3, 2)), []float32{1, 4, 9, 16, 25, 36})
	out, err := b.Outputs()
	enginetest.Must(t, err)
	if out[0].Pointer() != unsafe.Pointer(&y[0]) {
		t.Error("the output is not where it was bound")
	}
	if err := b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "cuda"}}); !errors.Is(err,
		onward.ErrInvalidArgument) {
		t.Errorf("memory of another device: %v", err)
	}
}

// plainProvider registers a provider whose enginetest.Engines have no methods but Run and Close.
func plainProvider(t *testing.T) string {
	const name = "test:plain"
	if driver.Lookup(name) == nil {
		driver.Register(plain{})
	}
	return name
}

type plain struct{}

func (plain) Name() string                  { return "test:plain" }
func (plain) Available(driver.Config) error { return nil }
func (plain) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	_ driver.Config) (driver.Engine, error) {
	s, err := onward.OpenModel(ctx, m.Model, nil)
	return plainEngine{s}, err
}

type plainEngine struct{ s *onward.Session }

func (e plainEngine) Close() error { return e.s.Close() }
func (e plainEngine) Run(ctx context.Context, req *driver.Request) error {
	out, err := e.s.RunList(ctx, req.In, nil)
	copy(req.Out, out)
	return err
}

// TestRunInto runs a model whose outputs are given memory, on both Go enginetest.Engines.
func TestRunInto(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "N", 3).Output("y", onnx.Float, "N", 3).Output("z", onnx.Float, "N", 3).
		Output("n", onnx.Int64, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Exp", []string{"y"}, []string{"z"})
	b.Node("Shape", []string{"x"}, []string{"n"})
	for _, provider := range []string{"cpu", "reference"} {
		s, err := onward.OpenModel(t.Context(), b.Must(),
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 2, 3))}
		y := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 3))
		for range 3 { // the memory is written again
			clear(tensor.MustData[float32](y))
			r, err := s.Run(t.Context(), feed, &onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}})
			if err != nil {
				t.Fatal(err)
			}
			if r["y"] != tensor.Value(y) ||
				!slices.Equal(tensor.MustData[float32](y), []float32{-1, -2, -3, -4, -5, -6}) ||
				len(r) != 3 {
				t.Errorf("%s: got %v, y is %v", provider, r, tensor.MustData[float32](y))
			}
			if n, err := tensor.Data[int64](r["n"]); err != nil || !slices.Equal(n, []int64{2, 3}) {
				t.Errorf("%s: n is %v, %v", provider, n, err)
			}
		}
		r, err := s.Run(t.Context(), feed,
			&onward.RunOptions{Outputs: []string{"y"}, Into: map[string]*tensor.Tensor{"y": y}})
		if err != nil || len(r) != 1 {
			t.Errorf("%s: got %v, %v", provider, r, err)
		}
		small := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 3))
		for want, o := range map[string]*onward.RunOptions{
			"Invalid output name:q":       {Into: map[string]*tensor.Tensor{"q": y}},
			"Invalid output name:y":       {Outputs: []string{"z"}, Into: map[string]*tensor.Tensor{"y": y}},
			"Unexpected output data type": {Into: map[string]*tensor.Tensor{"n": y}},
			"Invalid rank for output":     {Into: map[string]*tensor.Tensor{"y": tensor.Scalar(float32(1))}},
			"shape":                       {Into: map[string]*tensor.Tensor{"y": small}},
			`RunOptions.Into["y"] is nil`: {Into: map[string]*tensor.Tensor{"y": nil}},
			"At least one output":         {Outputs: []string{}, Into: map[string]*tensor.Tensor{"z": y}},
		} {
			_, err := s.Run(t.Context(), feed, o)
			if !errors.Is(err, onward.ErrInvalidArgument) && !errors.Is(err, onward.ErrFail) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", provider, err, want)
			}
		}
		if _, err := s.Run(t.Context(), onward.Values{"x": nil},
			&onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}}); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("%s: a nil input: got %v", provider, err)
		}
		bound, err := s.NewBinding()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RunBinding(t.Context(), bound, &onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}}); err ==
			nil || !strings.Contains(err.Error(), "Into must be nil") {
			t.Errorf("%s: got %v", provider, err)
		}
	}
}
