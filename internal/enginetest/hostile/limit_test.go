package hostile

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestFoldingKeepsTheLimit: what constant folding adds to a model while opening stays within the
// memory limit, however many nodes read a constant and however often strings double.
func TestFoldingKeepsTheLimit(t *testing.T) {
	fan := onnx.NewModel("fan").Opset("", 22)
	fan.Input("x", onnx.Float, 1).Initializer("n", []int64{1 << 18})
	fan.Node("ConstantOfShape", []string{"n"}, []string{"v"})
	var of []string
	for i := range 400 {
		k, w := "k"+strconv.Itoa(i), "w"+strconv.Itoa(i)
		fan.Initializer(k, []float32{float32(i)})
		fan.Node("Sub", []string{"v", k}, []string{w})
		of = append(of, w)
	}
	fan.Node("Sum", append(of, "x"), []string{"y"})
	fan.Output("y", onnx.Float, nil)

	strs := onnx.NewModel("strings").Opset("", 22)
	strs.Initializer("s", []string{"0123456789abcdef"})
	prev := "s"
	for i := range 40 {
		strs.Node("StringConcat", []string{prev, prev}, []string{"t" + strconv.Itoa(i)})
		prev = "t" + strconv.Itoa(i)
	}
	strs.Node("Identity", []string{prev}, []string{"y"})
	strs.OutputType("y", nil)

	for _, m := range []*onnx.Model{fan.Must(), strs.Must()} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: small}})
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > small {
			t.Errorf("%s: the session holds %d MiB, want at most %d", m.Graph.Name, n>>20, small>>20)
		}
		// The process allocates at most twice the limit for each result that it keeps.
		if n := int64(after.TotalAlloc) - int64(before.TotalAlloc); n > 8*small {
			t.Errorf("%s: opening allocates %d MiB, want at most %d", m.Graph.Name, n>>20, 8*small>>20)
		}
		s.Close()
	}
}

// TestSparseInitializersShareALimit: many sparse initializers together expand to no
// more than one may.
func TestSparseInitializersShareALimit(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 22)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, nil)
	for i := range 9 {
		v := onnx.FromTensor(tensor.Must(tensor.New([]float32{1}, 1)))
		v.Name = "s" + strconv.Itoa(i)
		b.GraphBuilder.SparseInitializer(v.Name,
			&onnx.SparseTensor{Values: v, Indices: onnx.FromTensor(scalars(0)), Dims: []int64{1 << 25}})
	}
	b.Node("Add", []string{"x", "s0"}, []string{"y"})
	for _, p := range enginetest.Engines {
		if _, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p)); err == nil ||
			!strings.Contains(err.Error(), "bytes when dense") {
			t.Errorf("%s: error is %v, want one about the sparse initializers", p, err)
		}
	}
}

// TestEinsumWithoutAnInput: an absent input is an error that names it, also if another is given.
func TestEinsumWithoutAnInput(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 22)
	b.Input("x", onnx.Float, nil).OutputType("y", nil)
	b.Node("Einsum", []string{"x", "", "x"}, []string{"y"}, onnx.Attrs{"equation": "i,i,i->i"})
	if err := hostile(t, b.Must(), onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}); err == nil ||
		!strings.Contains(err.Error(), "input 1 is absent") {
		t.Errorf("error is %v, want one about input 1", err)
	}
}

// TestTokenizerKeepsTheLimit: the lists of tokens count, even if all strings are empty.
func TestTokenizerKeepsTheLimit(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("com.microsoft", 1)
	b.Input("x", onnx.String, "n")
	b.Node("Tokenizer", []string{"x"}, []string{"y"},
		onnx.Attrs{"mark": int64(0), "mincharnum": int64(1), "pad_value": "#", "separators": []string{" "}}).
		Domain("com.microsoft")
	b.Output("y", onnx.String)
	s, err := onward.OpenModel(t.Context(), b.Must(),
		&onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: small}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := tensor.Must(tensor.New(make([]string, small/24+1), small/24+1))
	if _, err := s.Run(t.Context(), onward.Values{"x": x}, nil); err == nil ||
		!strings.Contains(err.Error(), "memory limit") {
		t.Errorf("%d empty strings: error %v, want that the memory limit is exceeded", x.Len(), err)
	}
}

// TestStringsKeepTheLimit: the strings that a node has made count while other nodes hold them.
func TestStringsKeepTheLimit(t *testing.T) {
	const count, nodes = 1 << 12, 12
	b := onnx.NewModel("m").Opset("", 22)
	b.Input("x", onnx.String, 1).Initializer("n", []int64{count})
	b.Node("Expand", []string{"x", "n"}, []string{"e"})
	var made []string
	for i := range nodes {
		k := "k" + strconv.Itoa(i)
		b.Initializer(k, []string{strings.Repeat(k, 50/len(k))})
		made = append(made, "f"+strconv.Itoa(i))
		b.Node("StringConcat", []string{"e", k}, made[i:])
	}
	b.Node("Concat", made, []string{"y"}, onnx.Attrs{"axis": 0})
	b.OutputType("y", nil)
	feed := onward.Values{"x": tensor.Must(tensor.New([]string{strings.Repeat("a", 50)}, 1))}
	const headers, contents = 16 * count * (3*nodes + 1), 96 * count * nodes
	for _, p := range enginetest.Engines {
		for limit, ok := range map[int64]bool{headers + contents/2: false, 2 * (headers + contents): true} {
			o := enginetest.On(p)
			o.Limits.MaxMemory = limit
			s, err := onward.OpenModel(t.Context(), b.Must(), o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Run(t.Context(), feed, nil)
			if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "memory limit")) {
				t.Errorf("%s with a limit of %d bytes: error %v, want one: %t", p, limit, err, !ok)
			}
			s.Close()
		}
	}
}
