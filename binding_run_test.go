package onward_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This test checks that a run with a binding gives the bits of Run for random networks,
// for all ways to bind inputs and outputs, and after other bindings.
func TestRandomBindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		for _, p := range enginetest.Engines {
			s, err := onward.OpenModel(t.Context(), m, enginetest.On(p))
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			b, err := s.NewBinding()
			if err != nil {
				t.Fatal(err)
			}
			enginetest.CheckBinding(t, s, b, x)
		}
	})
}

// This test runs bindings of one session concurrently, each with its own memory.
func TestBindingsAtOnce(t *testing.T) {
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), convNet().Must(), enginetest.On(p))
		enginetest.Must(t, err)
		x := ramp(2*3*8*8, 2, 3, 8, 8)
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				b := newBinding(t, s)
				in := x.Clone()
				for i, d := 0, tensor.MustData[float32](in); i < len(d); i++ {
					d[i] += float32(g)
				}
				want, err := s.Run(context.Background(), onward.Values{"x": in}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				y := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 4))
				if err := b.BindCPUInput("x", in); err != nil {
					t.Error(err)
				}
				if err := b.BindCPUOutput("y", y); err != nil {
					t.Error(err)
				}
				for range 20 {
					clear(y.Bytes())
					if err := s.RunBinding(context.Background(), b, nil); err != nil {
						t.Error(err)
					}
					if err := enginetest.Same(y, want["y"], "y"); err != nil {
						t.Errorf("%s: %v", p, err)
					}
				}
			})
		}
		wg.Wait()
	}
}

func ramp(n int, shape ...int) *tensor.Tensor {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	d := make([]float32, n)
	for i := range d {
		d[i] = float32(rng.NormFloat64()) / 4
	}
	return tensor.Must(tensor.New(d, shape...))
}

func weights(b *onnx.ModelBuilder, name string, dims ...int64) {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	b.Initializer(name, tensor.MustData[float32](ramp(int(n), int(n))), dims...)
}

// convNet maps x [N,3,8,8] to y [N,4].
func convNet() *onnx.ModelBuilder {
	b := onnx.NewModel("conv").Opset("", 17)
	b.Input("x", onnx.Float, "N", 3, 8, 8).Output("y", onnx.Float, "N", 4)
	weights(b, "w1", 16, 3, 3, 3)
	weights(b, "w2", 16, 16, 3, 3)
	weights(b, "w3", 16, 4)
	pads := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	b.Node("Conv", []string{"x", "w1"}, []string{"a"}, pads)
	b.Node("Relu", []string{"a"}, []string{"b"})
	b.Node("MaxPool", []string{"b"}, []string{"c"}, onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}})
	b.Node("Conv", []string{"c", "w2"}, []string{"d"}, pads)
	b.Node("Relu", []string{"d"}, []string{"e"})
	b.Node("GlobalAveragePool", []string{"e"}, []string{"f"})
	b.Node("Flatten", []string{"f"}, []string{"g"})
	b.Node("MatMul", []string{"g", "w3"}, []string{"h"})
	b.Node("Softmax", []string{"h"}, []string{"y"})
	return b
}

// perceptron maps x [N,wide] to y [N,8] through two hidden layers.
func perceptron(wide int64) *onnx.ModelBuilder {
	b := onnx.NewModel("mlp").Opset("", 17)
	b.Input("x", onnx.Float, "N", wide).Output("y", onnx.Float, "N", 8)
	weights(b, "w1", wide, wide)
	weights(b, "w2", wide, wide)
	weights(b, "w3", wide, 8)
	b.Node("Gemm", []string{"x", "w1"}, []string{"a"})
	b.Node("Relu", []string{"a"}, []string{"b"})
	b.Node("MatMul", []string{"b", "w2"}, []string{"c"})
	b.Node("Tanh", []string{"c"}, []string{"d"})
	b.Node("MatMul", []string{"d", "w3"}, []string{"e"})
	b.Node("Sigmoid", []string{"e"}, []string{"y"})
	return b
}

// classifier maps x [N,4] to labels [N] and scores [N,3].
func classifier() *onnx.ModelBuilder {
	b := onnx.NewModel("logreg").Opset("", 17).Opset("ai.onnx.ml", 3)
	b.Input("x", onnx.Float, "N", 4).Output("label", onnx.Int64, "N").Output("score", onnx.Float, "N", 3)
	c := tensor.MustData[float32](ramp(12, 12))
	b.Node("LinearClassifier", []string{"x"}, []string{"label", "raw"}, onnx.Attrs{
		"coefficients": c, "intercepts": []float32{0.1, 0.2, 0.3}, "classlabels_ints": []int64{0, 1, 2}, "post_transform": "SOFTMAX"}).Domain("ai.onnx.ml")
	b.Node("Normalizer", []string{"raw"}, []string{"score"}, onnx.Attrs{"norm": "L1"}).Domain("ai.onnx.ml")
	return b
}

// This test checks that a run with a binding allocates nothing once its shapes are known.
func TestBoundRunAllocatesNothing(t *testing.T) {
	cases := []struct {
		name  string
		model *onnx.ModelBuilder
		x     *tensor.Tensor
	}{
		{"logistic regression", classifier(), ramp(5*4, 5, 4)},
		{"perceptron", perceptron(32), ramp(32, 1, 32)},
		{"large perceptron", perceptron(512), ramp(256*512, 256, 512)},
		{"convolutions", convNet(), ramp(3*8*8, 1, 3, 8, 8)},
		{"many images", convNet(), ramp(64*3*8*8, 64, 3, 8, 8)},
	}
	for _, c := range cases {
		for _, demand := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " demand=", demand), func(t *testing.T) {
				s, err := onward.OpenModel(t.Context(), c.model.Must(), nil)
				enginetest.Must(t, err)
				want, err := s.Run(context.Background(), onward.Values{"x": c.x}, nil)
				enginetest.Must(t, err)
				b := newBinding(t, s)
				enginetest.Must(t, b.BindCPUInput("x", c.x))
				for name, v := range want {
					if demand {
						enginetest.Must(t, b.BindOutput(name, onward.Buffer{}))
					} else {
						enginetest.Must(t, b.BindCPUOutput(name, v.(*tensor.Tensor).Clone()))
					}
				}
				run := func() {
					if err := s.RunBinding(context.Background(), b, nil); err != nil {
						t.Fatal(err)
					}
				}
				for range 5 {
					run()
				}
				if n := testing.AllocsPerRun(20, run); n != 0 && !enginetest.Race && !replaysChecked {
					t.Errorf("%v allocations, want 0", n)
				}
				out, err := b.Outputs()
				enginetest.Must(t, err)
				for k, name := range b.OutputNames() {
					v, err := out[k].Tensor()
					enginetest.Must(t, err, enginetest.Same(v, want[name], name))
				}
			})
		}
	}
}

// replaysChecked says that the engine compares replays with other runs, which allocate.
var replaysChecked = os.Getenv("ONWARD_CHECK_REPLAY") != ""

// This test checks that nodes that no bound output depends on do not run. Otherwise the
// probabilities of a classifier, a sequence of maps, would be allocated in each run.
func TestUnboundOutputsAreNotComputed(t *testing.T) {
	s := example(t, "logreg_iris.onnx", enginetest.On("cpu"))
	b := newBinding(t, s)
	enginetest.Must(t, b.BindInput("float_input", buffer([]float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}, 3, 2)),
		b.BindOutput("output_label", onward.Buffer{}))
	for i := range 6 {
		ran := map[string]int{}
		opts := &onward.RunOptions{Observe: func(n onward.NodeRun) { ran[n.OpType]++ }}
		if i > 0 {
			opts = nil
		}
		enginetest.Must(t, s.RunBinding(context.Background(), b, opts))
		if i == 0 && (ran["ZipMap"] != 0 || ran["LinearClassifier"] != 1) {
			t.Errorf("ran %v", ran)
		}
	}
	n := testing.AllocsPerRun(20, func() { enginetest.Must(t, s.RunBinding(context.Background(), b, nil)) })
	if n != 0 && !enginetest.Race && !replaysChecked {
		t.Errorf("%v allocations, want 0", n)
	}
	out, err := b.CopyOutputsToCPU()
	enginetest.Must(t, err)
	if got := tensor.MustData[int64](out[0].(*tensor.Tensor)); got[0] != 0 || got[1] != 2 || got[2] != 2 {
		t.Errorf("labels %v, want [0 2 2]", got)
	}
	enginetest.Must(t, b.BindOutput("output_probability", onward.Buffer{}), s.RunBinding(context.Background(), b, nil))
	if out, err = b.CopyOutputsToCPU(); err != nil || len(out) != 2 {
		t.Errorf("%d outputs, %v", len(out), err)
	}
}
