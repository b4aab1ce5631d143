package fit

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/exported"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// draw draws the inputs of a model that have no initializer.
func draw(t *testing.T, m *onnx.Model, o Options, seed uint64) (*Inputs, onward.Values, error) {
	t.Helper()
	f, err := Of(m, o)
	if err != nil {
		return nil, nil, err
	}
	d, err := onward.Describe(m)
	if err != nil {
		t.Fatal(err)
	}
	feed, rng := onward.Values{}, rand.New(rand.NewPCG(seed, 2))
	for _, a := range d.Inputs {
		if feed[a.Name], err = f.Draw(rng, a); err != nil {
			return nil, nil, err
		}
	}
	return f, feed, nil
}

func run(m *onnx.Model, feed onward.Values) (onward.Values, error) {
	s, err := onward.OpenModel(context.Background(), m, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(context.Background(), feed, nil)
}

// Every model of the suite runs with inputs that are drawn without any hint. Without ONWARD_LONG,
// the test leaves out the large ones and 3 of 4 models with one node.
func TestSuiteModelsRun(t *testing.T) {
	dir, long := suite.Dir(t), os.Getenv("ONWARD_LONG") != ""
	var files []string
	for _, pattern := range []string{"node/*/model.onnx", "simple/*/model.onnx", "pytorch-*/*/model.onnx",
		"light/*.onnx"} {
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range list {
			if long || pattern[0] != 'l' && (pattern[0] != 'n' || i%4 == 0) {
				files = append(files, file)
			}
		}
	}
	if len(files) < 400 {
		t.Fatalf("the suite has %d models", len(files))
	}
	for _, file := range files {
		m, err := onnx.ReadFile(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, feed, err := draw(t, m, Options{}, 1)
		if err == nil {
			_, err = run(m, feed)
		}
		if err != nil {
			t.Errorf("%s: %v", file[len(dir)+1:], err)
		}
		m.Close()
	}
	t.Logf("%d models", len(files))
}

// integers returns the elements of an input.
func integers(t *testing.T, v tensor.Value) []int64 {
	t.Helper()
	x, err := tensor.Convert(v.(*tensor.Tensor), tensor.TypeInt64, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tensor.MustData[int64](x)
}

// bounds returns the least and the largest element.
func bounds(t *testing.T, v tensor.Value) (lo, hi int64) {
	x := integers(t, v)
	lo, hi = x[0], x[0]
	for _, y := range x {
		lo, hi = min(lo, y), max(hi, y)
	}
	return lo, hi
}

func TestEncoders(t *testing.T) {
	for seed := range uint64(40) {
		e := exported.DrawEncoder(rand.New(rand.NewPCG(seed, 1)))
		m := e.Model()
		f, feed, err := draw(t, m, Options{}, seed)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		out, err := run(m, feed)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if lo, hi := bounds(t, feed["input_ids"]); lo < 0 || hi >= int64(e.Vocabulary) || hi < 10 {
			t.Errorf("%+v: ids from %d to %d", e, lo, hi)
		}
		if lo, hi := bounds(t, feed["attention_mask"]); lo < 0 || hi != 1 {
			t.Errorf("%+v: mask from %d to %d", e, lo, hi)
		}
		if e.Types > 0 {
			if lo, hi := bounds(t, feed["token_type_ids"]); lo < 0 || hi >= int64(e.Types) {
				t.Errorf("%+v: token types from %d to %d", e, lo, hi)
			}
		}
		if got := f.Shapes["input_ids"]; got[0] != 1 || got[1] != 8 {
			t.Errorf("%+v: ids %v, want [1 8]", e, got)
		}
		for _, x := range tensor.MustData[float32](out["last_hidden_state"].(*tensor.Tensor)) {
			if x != x {
				t.Fatalf("%+v: a result is not a number", e)
			}
		}
	}
}

func TestDecoders(t *testing.T) {
	for seed := range uint64(40) {
		d := exported.DrawDecoder(rand.New(rand.NewPCG(seed, 1)))
		m := d.Model()
		f, feed, err := draw(t, m, Options{}, seed)
		if err == nil {
			_, err = run(m, feed)
		}
		if err != nil {
			t.Fatalf("%+v: %v\nshapes %v", d, err, f.Shapes)
		}
		past, now := f.Shapes["past_key_values.0.key"][2], f.Shapes["input_ids"][1]
		if got := f.Shapes["attention_mask"][1]; past < 1 || got != past+now {
			t.Errorf("%+v: mask of %d positions for %d + %d", d, got, past, now)
		}
		if lo, hi := bounds(t, feed["input_ids"]); lo < 0 || hi >= int64(d.Vocabulary) {
			t.Errorf("%+v: ids from %d to %d", d, lo, hi)
		}
	}
}

// A caller's sizes hold for the dimensions of other inputs, too.
func TestSizesOfTheCaller(t *testing.T) {
	d := exported.Decoder{Vocabulary: 30, Past: "past", Total: "total", Heads: 2}
	m := d.Model()
	for name, o := range map[string]Options{
		"dimensions": {Dimensions: map[string]int{"past": 5, "sequence": 3, "batch": 2}},
		"shapes":     {Shapes: map[string][]int{"past_key_values.0.key": {2, 2, 5, 4}, "input_ids": {2, 3}}},
	} {
		f, feed, err := draw(t, m, o, 1)
		if err == nil {
			_, err = run(m, feed)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if s := f.Shapes["attention_mask"]; s[0] != 2 || s[1] != 8 {
			t.Errorf("%s: mask %v, want [2 8]", name, s)
		}
	}
	for _, o := range []Options{{Dimensions: map[string]int{"patch": 1}}, {Shapes: map[string][]int{"ids": {1}}},
		{Dimensions: map[string]int{"past": -1}}} {
		if _, err := Of(m, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// Where 8 does not fit, other sizes are tried.
func TestSizesThatNodesAccept(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, "N", 3, "H", "W").Output("y", onnx.Float, nil, nil)
	b.Initializer("w", make([]float32, 4*3*11*11), 4, 3, 11, 11)
	b.Node("Conv", []string{"x", "w"}, []string{"c"}, onnx.Attrs{"strides": []int64{4, 4}})
	b.Node("MaxPool", []string{"c"}, []string{"p"}, onnx.Attrs{"kernel_shape": []int64{3, 3}})
	b.Node("Flatten", []string{"p"}, []string{"f"})
	b.Initializer("v", make([]float32, 4*5*5*2), 4*5*5, 2)
	b.Node("MatMul", []string{"f", "v"}, []string{"y"})
	// The product wants 5×5 positions after a pooling of 3 and a convolution of 11
	// with strides of 4.
	m := b.Must()
	f, feed, err := draw(t, m, Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(m, feed); err == nil {
		t.Errorf("sizes %v of the list make 5×5 positions; the test wants others", f.Dimensions)
	}
	if f.Dimensions["N"] != 1 {
		t.Errorf("N is %d without a solution, want the default", f.Dimensions["N"])
	}
	if _, feed, err = draw(t, m, Options{Dimensions: map[string]int{"H": 35, "W": 35}}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := run(m, feed); err != nil {
		t.Error(err)
	}
	b = onnx.NewModel("m")
	b.Input("x", onnx.Float, "N", 3, "H", "W").Output("y", onnx.Float, nil, nil, nil, nil)
	b.Initializer("w", make([]float32, 4*3*11*11), 4, 3, 11, 11)
	b.Node("Conv", []string{"x", "w"}, []string{"y"})
	m = b.Must()
	if f, feed, err = draw(t, m, Options{}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := run(m, feed); err != nil || f.Dimensions["H"] != 16 {
		t.Errorf("sizes %v: %v", f.Dimensions, err)
	}
}

// Requirements reach inputs through arithmetic, subgraphs and functions.
func TestIndicesAreFollowed(t *testing.T) {
	table := func(b *onnx.GraphBuilder) { b.Initializer("table", make([]float32, 6*2), 6, 2) }
	scalar := func(b *onnx.GraphBuilder, name string, x int64) { b.Initializer(name, []int64{x}) }
	for name, build := range map[string]func(b *onnx.ModelBuilder){
		"shifted": func(b *onnx.ModelBuilder) {
			scalar(b.GraphBuilder, "two", 2)
			b.Node("Add", []string{"x", "two"}, []string{"i"})
			b.Node("Gather", []string{"table", "i"}, []string{"y"})
		},
		"scaled": func(b *onnx.ModelBuilder) {
			scalar(b.GraphBuilder, "two", 2)
			b.Node("Mul", []string{"two", "x"}, []string{"i"})
			b.Node("Gather", []string{"table", "i"}, []string{"y"})
		},
		"reversed": func(b *onnx.ModelBuilder) {
			scalar(b.GraphBuilder, "five", 5)
			b.Node("Sub", []string{"five", "x"}, []string{"i"})
			b.Node("Gather", []string{"table", "i"}, []string{"y"})
		},
		"cast": func(b *onnx.ModelBuilder) {
			b.Node("Cast", []string{"x"}, []string{"f"}, onnx.Attrs{"to": int64(onnx.Float)})
			b.Node("Unsqueeze", []string{"f", "axes"}, []string{"u"})
			b.Initializer("axes", []int64{0}, 1)
			b.Node("Cast", []string{"u"}, []string{"i"}, onnx.Attrs{"to": int64(onnx.Int32)})
			b.Node("Gather", []string{"table", "i"}, []string{"y"})
		},
		"subgraph": func(b *onnx.ModelBuilder) {
			branch := func() *onnx.Graph {
				g := onnx.NewGraph("g")
				g.Node("Gather", []string{"table", "x"}, []string{"z"})
				g.Output("z", onnx.Float, nil, nil)
				r, err := g.Graph()
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			b.Input("condition", onnx.Bool)
			b.Node("If", []string{"condition"}, []string{"y"},
				onnx.Attrs{"then_branch": branch(), "else_branch": branch()})
		},
		"function": func(b *onnx.ModelBuilder) {
			b.Opset("own", 1)
			f := b.Function("own", "Lookup").Inputs("t", "i").Outputs("r")
			f.Node("Gather", []string{"t", "i"}, []string{"r"})
			b.Node("Lookup", []string{"table", "x"}, []string{"y"}).Domain("own")
		},
	} {
		b := onnx.NewModel(name).Opset("", 18)
		b.Input("x", onnx.Int64, 50).Output("y", onnx.Float, nil, nil)
		if name == "cast" {
			b = onnx.NewModel(name).Opset("", 18)
			b.Input("x", onnx.Int64, 50).Output("y", onnx.Float, nil, nil, nil)
		}
		table(b.GraphBuilder)
		build(b)
		m := b.Must()
		_, feed, err := draw(t, m, Options{}, 1)
		if err == nil {
			_, err = run(m, feed)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lo, hi := bounds(t, feed["x"]); lo == hi {
			t.Errorf("%s: all indices are %d", name, lo)
		}
	}
}

// TestSizesOfRuns draws the shapes of real files that inference does not know: a convolution of a
// part of a signal whose length depends on the values, an image whose halves are doubled and added,
// and a state beside the signal.
func TestSizesOfRuns(t *testing.T) {
	signal := onnx.NewModel("signal").Opset("", 17)
	signal.Input("x", onnx.Float, nil, nil).Input("state", onnx.Float, 2, nil).Output("y", onnx.Float, nil, nil, nil)
	signal.Initializer("w", make([]float32, 4*256), 4, 1, 256).Initializer("zero", []int64{0}, 1).
		Initializer("one", []int64{1}, 1).Initializer("two", []int64{2}, 1)
	signal.Node("NonZero", []string{"x"}, []string{"places"})
	signal.Node("Shape", []string{"places"}, []string{"counts"})
	signal.Node("Slice", []string{"counts", "one", "two"}, []string{"n"})
	signal.Node("Slice", []string{"x", "zero", "n", "one"}, []string{"part"})
	signal.Node("Unsqueeze", []string{"part", "one"}, []string{"rows"})
	signal.Node("Conv", []string{"rows", "w"}, []string{"c"}, onnx.Attrs{"strides": []int64{64}})
	signal.Node("ReduceSum", []string{"state", "zero"}, []string{"s"}, onnx.Attrs{"keepdims": int64(0)})
	signal.Node("Expand", []string{"s", "one"}, []string{"e"})
	signal.Node("Reshape", []string{"e", "one"}, []string{"single"})
	signal.Node("Add", []string{"c", "single"}, []string{"y"})
	image := onnx.NewModel("image").Opset("", 17)
	image.Input("x", onnx.Float, "n", 3, "height", "width").Output("y", onnx.Float, nil, nil, nil, nil)
	image.Initializer("w", make([]float32, 3*3), 3, 3, 1, 1).Initializer("four", []float32{1, 1, 16, 16}, 4)
	image.Node("Conv", []string{"x", "w"}, []string{"c"}, onnx.Attrs{"strides": []int64{16, 16}})
	image.Node("Abs", []string{"four"}, []string{"scales"}) // floats, which inference does not fold
	image.Node("Resize", []string{"c", "", "scales"}, []string{"r"}, onnx.Attrs{"mode": "nearest"})
	image.Node("Add", []string{"r", "x"}, []string{"y"})
	for _, c := range []struct {
		m    *onnx.Model
		want map[string][]int
	}{
		{signal.Must(), map[string][]int{"x": {1, 256}, "state": {2, 1}}},
		{image.Must(), map[string][]int{"x": {1, 3, 32, 32}}},
	} {
		calls := 0
		try := func(feed onward.Values) error {
			calls++
			_, err := run(c.m, feed)
			return err
		}
		f, feed, err := draw(t, c.m, Options{Run: try}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run(c.m, feed); err != nil || calls < 2 || f.Untested != nil {
			t.Errorf("%s: %v after %d runs, %v", c.m.Graph.Name, err, calls, f.Untested)
		}
		for name, want := range c.want {
			if !slices.Equal(f.Shapes[name], want) {
				t.Errorf("%s: %s has the shape %v, want %v", c.m.Graph.Name, name, f.Shapes[name], want)
			}
		}
		// A model that fails for every size keeps the sizes of the inference, and says so.
		before, _, err := draw(t, c.m, Options{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		never := errors.New("never")
		f, _, err = draw(t, c.m, Options{Run: func(onward.Values) error { return never }}, 1)
		if err != nil || f.Untested != never || !maps.EqualFunc(f.Shapes, before.Shapes, slices.Equal) {
			t.Errorf("%s: shapes %v, %v, %v; want %v", c.m.Graph.Name, f.Shapes, f.Untested, err, before.Shapes)
		}
	}
}
