package passes

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This test compares cpu with reference on random networks.
func TestRandomNetworks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.onnx")
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		feed := onward.Values{"x": x}
		var want onward.Values
		for _, p := range append([]string{"a file"}, enginetest.Engines...) {
			var s *onward.Session
			var err error
			if p == "a file" { // the engine may pack its weights in place
				if err := onnx.WriteFile(file, m, nil); err != nil {
					t.Fatal(err)
				}
				s, err = onward.Open(t.Context(), file, nil)
			} else {
				s, err = onward.OpenModel(t.Context(), m, enginetest.On(p))
			}
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			for range 5 {
				got, err := s.Run(context.Background(), feed, nil)
				if err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				if want == nil {
					want = got
				}
				for name, v := range got {
					if err := tensor.AllClose(v, want[name], 2e-3,
						enginetest.Tolerance(want[name].(*tensor.Tensor))); err != nil {
						t.Fatalf("%s: output %s: %v", p, name, err)
					}
				}
			}
		}
	})
}

// TestConstantImageBetweenConvolutions concatenates a constant image and the result of a
// convolution and convolves both, so that the constant is in the blocked layout.
func TestConstantImageBetweenConvolutions(t *testing.T) {
	const c, size = 16, 5
	ramp := func(n int) []float32 {
		d := make([]float32, n)
		for i := range d {
			d[i] = float32(i%13)/8 - 0.7
		}
		return d
	}
	b := onnx.NewModel("net").Opset("", 15)
	b.Input("x", onnx.Float, 1, c, size, size)
	b.Initializer("w", ramp(c*c*9), c, c, 3, 3)
	b.Initializer("v", ramp(c*2*c*9), c, 2*c, 3, 3)
	b.Initializer("image", ramp(c*size*size), 1, c, size, size)
	pads := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	b.Node("Conv", []string{"x", "w"}, []string{"a"}, pads)
	b.Node("Concat", []string{"a", "image"}, []string{"b"}, onnx.Attrs{"axis": 1})
	b.Node("Conv", []string{"b", "v"}, []string{"y"}, pads)
	b.Output("y", onnx.Float, 1, c, size, size)
	feed := onward.Values{"x": tensor.Must(tensor.New(ramp(c*size*size), 1, c, size, size))}
	var want onward.Values
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		got, err := s.Run(context.Background(), feed, nil)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if want == nil {
			want = got
		}
		if err := tensor.AllClose(got["y"], want["y"], 1e-4, 1e-4); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestConvolutionsFinish normalizes channels behind the activation of convolutions with each kind
// of kernel, and adds another image, both of which the convolution then computes.
func TestConvolutionsFinish(t *testing.T) {
	const size = 14
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name                   string
		cin, cout, group, side int64
	}{
		{"planes", 3, 40, 1, 3}, {"Winograd", 64, 64, 1, 3}, {"direct", 24, 40, 1, 5}, {"1x1", 64, 40, 1, 1}, {"depthwise", 40, 40, 40, 3}, {"groups", 64, 64, 2, 3},
	} {
		for _, sum := range []string{"", "n z", "z n", "r z", "z r"} {
			b := onnx.NewModel(test.name).Opset("", 17)
			b.Input("x", onnx.Float, 2, test.cin, size, size)
			enginetest.AddWeights(b.GraphBuilder, rng, "w", 0.2, int(test.cout), int(test.cin/test.group),
				int(test.side), int(test.side))
			for _, k := range []string{"scale", "shift", "mean"} {
				enginetest.AddWeights(b.GraphBuilder, rng, k, 0.5, int(test.cout))
			}
			b.Initializer("variance", slices.Repeat([]float32{0.7}, int(test.cout)))
			p := test.side / 2
			b.Node("Conv", []string{"x", "w"}, []string{"c"},
				onnx.Attrs{"group": test.group, "pads": []int64{p, p, p, p}})
			b.Node("Relu", []string{"c"}, []string{"r"})
			b.Node("BatchNormalization", []string{"r", "scale", "shift", "mean", "variance"}, []string{"n"})
			last := "n"
			if sum != "" {
				enginetest.AddWeights(b.GraphBuilder, rng, "v", 0.2, int(test.cout), int(test.cin), 1, 1)
				b.Node("Conv", []string{"x", "v"}, []string{"z"})
				b.Node("Add", strings.Fields(sum), []string{"s"})
				last = "s"
			}
			b.Node("MaxPool", []string{last}, []string{"y"},
				onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}})
			b.Output("y", onnx.Float, 2, test.cout, size/2, size/2)
			feed := onward.Values{"x": enginetest.Normal(rng, 2, int(test.cin), size, size)}
			var want onward.Values
			for _, p := range enginetest.Engines {
				s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
				if err != nil {
					t.Fatalf("%s, %q, %s: %v", test.name, sum, p, err)
				}
				var ran []string
				got, err := s.Run(context.Background(), feed, &onward.RunOptions{Observe: func(n onward.NodeRun) {
					ran = append(ran, n.OpType)
				}})
				if err != nil {
					t.Fatalf("%s, %q, %s: %v", test.name, sum, p, err)
				}
				if want == nil {
					want = got
				} else if slices.Contains(ran, "BlockedBatchNormalization") || slices.Contains(ran, "BlockedAdd") {
					t.Errorf("%s, %q: %s ran", test.name, sum, ran)
				}
				if err := tensor.AllClose(got["y"], want["y"], 1e-4, 1e-4); err != nil {
					t.Errorf("%s, %q, %s: %v", test.name, sum, p, err)
				}
			}
		}
	}
}
