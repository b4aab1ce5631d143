package passes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// smallModel is a model and values for its inputs.
type smallModel struct {
	name string
	m    *onnx.Model
	feed onward.Values
	tol  float64
}

// convolutions returns a model with the patterns of the passes for convolutions:
// BatchNormalization, Relu, Clip, a sum, a channel shuffle, a decomposed Gelu.
func convolutions(opset int64) *onnx.Model {
	rng := rand.New(rand.NewPCG(1, uint64(opset)))
	b := onnx.NewModel("conv").Opset("", opset).IRVersion(8)
	g := b.GraphBuilder
	b.Input("x", onnx.Float, "n", 3, 12, 12).Output("y", onnx.Float, "n", 10)
	positive := func(name string, n int) string {
		v := make([]float32, n)
		for i := range v {
			v[i] = 0.5 + rng.Float32()
		}
		b.Initializer(name, v, int64(n))
		return name
	}
	b.Node("Conv", []string{"x", enginetest.AddWeights(g, rng, "w1", 0.2, 16, 3, 3, 3)}, []string{"c1"},
		onnx.Attrs{"pads": []int64{1, 1, 1, 1}})
	b.Node("BatchNormalization", []string{"c1", positive("s1", 16), enginetest.AddWeights(g, rng, "b1", 1, 16),
		enginetest.AddWeights(g, rng, "m1", 1, 16), positive("v1", 16)}, []string{"n1"})
	b.Node("Relu", []string{"n1"}, []string{"r1"})
	b.Initializer("lo", float32(0)).Initializer("hi", float32(6))
	b.Node("Conv", []string{"r1", enginetest.AddWeights(g, rng, "w2", 0.2, 16, 1, 3, 3)}, []string{"c2"},
		onnx.Attrs{"group": int64(16), "auto_pad": "SAME_UPPER"})
	if opset < 11 {
		b.Node("Clip", []string{"c2"}, []string{"k2"}, onnx.Attrs{"min": float32(0), "max": float32(6)})
	} else {
		b.Node("Clip", []string{"c2", "lo", "hi"}, []string{"k2"})
	}
	b.Node("Conv", []string{"k2", enginetest.AddWeights(g, rng, "w3", 0.2, 16, 16, 1, 1),
		enginetest.AddWeights(g, rng, "b3", 1, 16)}, []string{"c3"})
	b.Node("Add", []string{"c3", "r1"}, []string{"a3"})
	b.Node("Relu", []string{"a3"}, []string{"r3"})
	b.Initializer("split", []int64{-1, 4, 4, 12, 12}).Initializer("joined", []int64{-1, 16, 12, 12})
	b.Node("Reshape", []string{"r3", "split"}, []string{"g4"})
	b.Node("Transpose", []string{"g4"}, []string{"t4"}, onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}})
	b.Node("Reshape", []string{"t4", "joined"}, []string{"s4"})
	b.Node("BatchNormalization", []string{"s4", positive("s5", 16), enginetest.AddWeights(g, rng, "b5", 1, 16),
		enginetest.AddWeights(g, rng, "m5", 1, 16), positive("v5", 16)}, []string{"n5"})
	b.Node("Relu", []string{"n5"}, []string{"r5"})
	b.Node("Sigmoid", []string{"r5"}, []string{"g5"})
	b.Node("Mul", []string{"r5", "g5"}, []string{"u5"})
	b.Node("GlobalAveragePool", []string{"u5"}, []string{"p"})
	b.Node("Flatten", []string{"p"}, []string{"f"})
	b.Node("Gemm", []string{"f", enginetest.AddWeights(g, rng, "w6", 0.5, 16, 10),
		enginetest.AddWeights(g, rng, "b6", 1, 10)}, []string{"y"})
	return b.Must()
}

// branches returns a model with an If and a Loop whose bodies read outer values and
// weights, contain removable nodes, and have outputs that are constants or inputs.
func branches() *onnx.Model {
	rng := rand.New(rand.NewPCG(5, 6))
	b := onnx.NewModel("branches").Opset("", 18).IRVersion(8)
	b.Input("x", onnx.Float, 2, 4).Input("c", onnx.Bool).Output("y", onnx.Float, 2, 4).
		Output("again", onnx.Float, 2, 4).Output("all", onnx.Float, 3, 2, 4).Output("k", onnx.Float)
	enginetest.AddWeights(b.GraphBuilder, rng, "w", 0.5, 4, 4)
	then := onnx.NewGraph("then")
	then.Initializer("half", float32(0.5))
	then.Node("Identity", []string{"x"}, []string{"t1"})
	then.Node("MatMul", []string{"t1", "w"}, []string{"t2"})
	then.Node("Mul", []string{"t2", "half"}, []string{"t3"})
	then.Output("t3", onnx.Float, 2, 4)
	other := onnx.NewGraph("else")
	other.Node("Constant", nil, []string{"t1"}, onnx.Attrs{"value": enginetest.Normal(rng, 2, 4)})
	other.Output("t1", onnx.Float, 2, 4)
	b.Node("If", []string{"c"}, []string{"z"}, onnx.Attrs{"then_branch": then, "else_branch": other})
	body := onnx.NewGraph("body")
	body.Input("i", onnx.Int64).Input("go", onnx.Bool).Input("v", onnx.Float, 2, 4)
	body.Node("Identity", []string{"go"}, []string{"more"})
	body.Node("Add", []string{"v", "z"}, []string{"next"})
	body.Node("Identity", []string{"v"}, []string{"scan"})
	body.Output("more", onnx.Bool).Output("next", onnx.Float, 2, 4).Output("scan", onnx.Float, 2, 4)
	b.Initializer("three", int64(3)).Initializer("yes", true)
	b.Node("Loop", []string{"three", "yes", "x"}, []string{"last", "all"}, onnx.Attrs{"body": body})
	b.Node("Tanh", []string{"last"}, []string{"y"})
	b.Node("Tanh", []string{"last"}, []string{"again"})
	b.Initializer("one", float32(1))
	b.Node("Add", []string{"one", "one"}, []string{"k"})
	return b.Must()
}

// withFunction returns a model that calls a function twice, so that names of its values
// repeat.
func withFunction() *onnx.Model {
	b := onnx.NewModel("function").Opset("", 18).Opset("own", 1).IRVersion(8)
	b.Input("x", onnx.Float, 2, 4).Output("y", onnx.Float, 2, 4)
	b.Node("Swing", []string{"x"}, []string{"a"}).Domain("own").Name("first")
	b.Node("Swing", []string{"a"}, []string{"y"}).Domain("own").Name("second")
	f := b.Function("own", "Swing").Opset("", 18)
	f.Inputs("v").Outputs("r")
	f.Node("Sin", []string{"v"}, []string{"s"})
	f.Node("Add", []string{"s", "v"}, []string{"r"})
	return b.Must()
}

func quantizedNet() *onnx.Model {
	rng := rand.New(rand.NewPCG(7, 8))
	b := onnx.NewModel("quantized").Opset("", 18).IRVersion(8)
	b.Input("x", onnx.Float, 2, 3, 8, 8).Output("y", onnx.Float, 2, 5)
	b.Initializer("s", float32(0.04)).Initializer("z", uint8(128)).Initializer("z8", int8(0)).
		Initializer("ws", float32(0.02))
	bytes := func(name string, dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		w := make([]int8, n)
		for i := range w {
			w[i] = int8(rng.IntN(60) - 30)
		}
		b.Initializer(name+"_q", w, dims...)
		b.Node("DequantizeLinear", []string{name + "_q", "ws", "z8"}, []string{name})
		return name
	}
	step := 0
	quantize := func(x string) string {
		step++
		q, d := fmt.Sprintf("q%d", step), fmt.Sprintf("d%d", step)
		b.Node("QuantizeLinear", []string{x, "s", "z"}, []string{q})
		b.Node("DequantizeLinear", []string{q, "s", "z"}, []string{d})
		return d
	}
	x := quantize("x")
	b.Node("Conv", []string{x, bytes("w1", 8, 3, 3, 3)}, []string{"c"},
		onnx.Attrs{"pads": []int64{1, 1, 1, 1}, "strides": []int64{2, 2}})
	x = quantize("c")
	b.Node("AveragePool", []string{x}, []string{"v"}, onnx.Attrs{"kernel_shape": []int64{2, 2}, "ceil_mode": int64(1)})
	x = quantize("v")
	b.Node("GlobalAveragePool", []string{x}, []string{"ga"})
	x = quantize("ga")
	b.Node("Flatten", []string{x}, []string{"f"})
	x = quantize("f")
	b.Node("MatMul", []string{x, bytes("w2", 8, 16)}, []string{"m"})
	x = quantize("m")
	b.Node("Add", []string{x, x}, []string{"a"})
	x = quantize("a")
	b.Node("Mul", []string{x, x}, []string{"u"})
	x = quantize("u")
	b.Node("Concat", []string{x, x}, []string{"j"}, onnx.Attrs{"axis": int64(1)})
	x = quantize("j")
	b.Node("Sigmoid", []string{x}, []string{"g"}) // becomes a lookup table, except in the saved model
	x = quantize("g")
	b.Node("Softmax", []string{x}, []string{"p"})
	x = quantize("p")
	b.Node("MatMul", []string{x, bytes("w3", 32, 5)}, []string{"y"})
	return b.Must()
}

func smallModels(t testing.TB) []smallModel {
	rng := rand.New(rand.NewPCG(3, 4))
	iris, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		t.Fatal(err)
	}
	logreg, err := onnx.Unmarshal(iris, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := []smallModel{
		{"logreg", logreg, enginetest.Flowers(), 1e-5},
		{"branches", branches(), onward.Values{"x": enginetest.Normal(rng, 2, 4), "c": tensor.Scalar(true)}, 1e-5},
		{"branches, else", branches(), onward.Values{"x": enginetest.Normal(rng, 2, 4), "c": tensor.Scalar(false)}, 1e-5},
		{"function", withFunction(), onward.Values{"x": enginetest.Normal(rng, 2, 4)}, 1e-5},
		{"quantized", quantizedNet(), onward.Values{"x": enginetest.Normal(rng, 2, 3, 8, 8)}, 0.1}, // steps of 0.04
	}
	for _, opset := range []int64{9, 11, 13, 18} {
		list = append(list, smallModel{fmt.Sprintf("conv net, opset %d", opset), convolutions(opset),
			onward.Values{"x": enginetest.Normal(rng, 2, 3, 12, 12)}, 1e-4})
	}
	for i, e := range []encoder{{}, {modern: true}, {tanh: true, scaleQ: true}, {modern: true, tanh: true}} {
		e.rng, e.heads, e.size = rng, 2, 8
		for _, opset := range []int64{13, 17, 20} {
			if e.modern != (opset == 20) {
				continue
			}
			m := encoderModel(e, opset)
			list = append(list, smallModel{fmt.Sprintf("encoder %d, opset %d", i, opset), m,
				onward.Values{"x": enginetest.Normal(rng, 2, 5, e.heads*e.size)}, 1e-4})
		}
	}
	return list
}

// encoderModel returns a model with two encoder layers.
func encoderModel(e encoder, opset int64) *onnx.Model {
	e.b = onnx.NewModel("encoder").Opset("", opset).IRVersion(8)
	e.b.Input("x", onnx.Float, "batch", "length", int64(e.heads*e.size))
	e.b.Output("y", onnx.Float, "batch", "length", int64(e.heads*e.size))
	x := e.layer(e.layer("x"))
	e.b.Node("Identity", []string{x}, []string{"y"})
	return e.b.Must()
}

// savedOn returns the providers that saved models must run on.
func savedOn(t testing.TB) []onward.ProviderConfig {
	r := []onward.ProviderConfig{{Name: "reference"}, {Name: "cpu"}}
	if lib, err := ortlib.Find(); err == nil {
		r = append(r, onward.ProviderConfig{Name: "ort", Options: map[string]string{"library": lib}})
	} else {
		t.Logf("not compared on ONNX Runtime: %v", err)
	}
	return r
}

// This test checks that an optimized and saved model is valid, has fewer nodes, and gives
// the results of the original on every provider.
func TestSavedOptimizedModels(t *testing.T) {
	for _, c := range smallModels(t) {
		t.Run(c.name, func(t *testing.T) {
			reference := enginetest.Open(t, c.m, enginetest.On("reference"))
			want, err := reference.Run(context.Background(), c.feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			nodes := len(c.m.Graph.Nodes)
			for _, level := range []onward.OptimizationLevel{onward.OptimizeNone, onward.OptimizeBasic,
				onward.OptimizeExtended, onward.OptimizeAll} {
				path := filepath.Join(t.TempDir(), "saved.onnx")
				var log bytes.Buffer
				o := &onward.SessionOptions{OptimizationLevel: level, OptimizedModelPath: path,
					Logger: slog.New(slog.NewTextHandler(&log, nil))}
				got, err := enginetest.Open(t, c.m, o).Run(context.Background(), c.feed, nil)
				if err != nil {
					t.Fatal(err)
				}
				enginetest.CompareValues(t, fmt.Sprint("the session of level ", level), got, want, c.tol)
				if says := strings.Contains(log.String(), "blocked layouts"); says != (level == onward.OptimizeAll) {
					t.Errorf("level %v: log is %q", level, log.String())
				}
				saved, err := onnx.ReadFile(path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := onnx.Check(saved, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
					t.Errorf("level %v: the saved model is bad: %v", level, err)
				}
				if n := len(saved.Graph.Nodes); len(c.m.Functions) == 0 &&
					(n > nodes || level == onward.OptimizeNone && n != nodes) {
					t.Errorf("level %v: %d nodes, %d at the level before", level, n, nodes)
				} else {
					nodes = n
				}
				for _, p := range savedOn(t) {
					s, err := onward.Open(t.Context(), path,
						&onward.SessionOptions{Providers: []onward.ProviderConfig{p}, Threads: 1})
					if err != nil {
						t.Errorf("level %v: %s: %v", level, p.Name, err)
						continue
					}
					got, err := s.Run(context.Background(), c.feed, nil)
					if err != nil {
						t.Errorf("level %v: %s: %v", level, p.Name, err)
					} else {
						enginetest.CompareValues(t, fmt.Sprintf("level %v: %s", level, p.Name), got, want, c.tol)
					}
					s.Close()
				}
				saved.Close()
			}
		})
	}
}

// This test checks that fused operators are written as ONNX Runtime's, if it has them.
func TestSavedOperators(t *testing.T) {
	for name, c := range map[string]struct {
		m    *onnx.Model
		want string
	}{
		"conv": {convolutions(18), "FusedConv FusedConv FusedConv Reshape Transpose Shape Reshape BatchNormalization Relu QuickGelu GlobalAveragePool Flatten Gemm"},
		"bytes": {quantizedNet(), "QuantizeLinear QLinearConv QLinearAveragePool QLinearGlobalAveragePool Flatten QLinearMatMul QLinearAdd QLinearMul Concat " +
			"DequantizeLinear Sigmoid QuantizeLinear DequantizeLinear Softmax QuantizeLinear MatMulIntegerToFloat"},
		"branches": {branches(), "If Loop Tanh Tanh Identity"},
	} {
		m, edits, err := onward.OptimizeModel(context.Background(), c.m, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, n := range m.Graph.Nodes {
			got = append(got, n.OpType)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, " "), c.want)
		}
		if len(edits) == 0 {
			t.Errorf("%s: no pass did anything", name)
		}
		for _, e := range edits {
			if e.Edits < 1 || e.After != e.Before-len(e.Removed)+len(e.Added) {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

func TestSavedWeightsBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	enginetest.Open(t, convolutions(18),
		&onward.SessionOptions{OptimizedModelPath: path, OptimizationLevel: onward.OptimizeExtended,
			Config: map[string]string{onward.ConfigOptimizedExternalFile: "m.bin", onward.ConfigOptimizedExternalMinimum: "256"}})
	if fi, err := os.Stat(filepath.Join(dir, "m.bin")); err != nil || fi.Size() < 256 {
		t.Errorf("the weights: %v, %v", fi, err)
	}
	if _, err := onward.Open(t.Context(), path, nil); err != nil {
		t.Error(err)
	}
	if _, err := onward.OpenModel(t.Context(), convolutions(18),
		&onward.SessionOptions{OptimizedModelPath: filepath.Join(dir, "absent", "m.onnx")}); err == nil {
		t.Error("a model was saved to a folder that is not there")
	}
}
