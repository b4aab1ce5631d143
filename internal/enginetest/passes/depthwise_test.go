package passes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
)

// TestConvThenDepthwise runs the first layers of inverted residual blocks that are large
// enough for fused depthwise convolution, with and without fusion, on one thread and on
// three.
func TestConvThenDepthwise(t *testing.T) {
	type test struct {
		act, last     string // between the two, and after
		kernel        int64  // of the depthwise convolution
		stride, batch int64
		residual      bool
		nchw          bool // three channels, and a kernel of three
	}
	tests := []test{
		{"Clip", "Clip", 3, 1, 1, false, false}, {"Clip", "Clip", 3, 2, 2, false, false}, {"Silu", "Silu", 5, 1, 1, false, false}, {"Silu", "Silu", 5, 2, 3, false, false},
		{"Relu", "", 5, 1, 1, true, false}, {"", "Tanh", 3, 1, 1, false, true}, {"Silu", "Silu", 3, 1, 2, false, true},
		{"Norm", "Norm", 5, 1, 2, true, false}, {"Norm", "Norm", 3, 1, 1, false, true},
	}
	for _, op := range opfuzz.Functions(17, func(d *kit.Def) bool { return d.Vector != nil && d.Name != "Clip" }) {
		tests = append(tests, test{op, "Relu", 3, 1, 2, true, false})
	}
	for i, c := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			cin, mid, h, w := int64(13), int64(40), int64(80), int64(91)
			b := onnx.NewModel("net").Opset("", 17)
			first := onnx.Attrs{}
			shape := []int{int(mid), int(cin), 1, 1}
			if c.nchw {
				cin, h, w = 3, 170, 175
				shape = []int{int(mid), int(cin), 3, 3}
				first = onnx.Attrs{"strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}}
			}
			b.Input("x", onnx.Float, "n", cin, h, w)
			enginetest.AddWeights(b.GraphBuilder, rng, "w", 0.3, shape...)
			enginetest.AddWeights(b.GraphBuilder, rng, "b", 0.3, int(mid))
			enginetest.AddWeights(b.GraphBuilder, rng, "k", 0.3, int(mid), 1, int(c.kernel), int(c.kernel))
			act := func(op, in string) string {
				switch op {
				case "":
					return in
				case "Silu":
					b.Node("Sigmoid", []string{in}, []string{in + "s"})
					b.Node("Mul", []string{in, in + "s"}, []string{in + "a"})
				case "Norm":
					for _, k := range []string{"g", "h", "m"} {
						enginetest.AddWeights(b.GraphBuilder, rng, in+k, 0.3, int(mid))
					}
					b.Initializer(in+"v", slices.Repeat([]float32{0.7}, int(mid)))
					b.Node("Relu", []string{in}, []string{in + "r"})
					b.Node("BatchNormalization", []string{in + "r", in + "g", in + "h", in + "m", in + "v"},
						[]string{in + "a"})
				case "Clip":
					b.Node("Clip", []string{in, "lo", "hi"}, []string{in + "a"})
				default:
					b.Node(op, []string{in}, []string{in + "a"})
				}
				return in + "a"
			}
			if c.act == "Clip" || c.last == "Clip" {
				b.Initializer("lo", []float32{0})
				b.Initializer("hi", []float32{6})
			}
			b.Node("Conv", []string{"x", "w", "b"}, []string{"e"}, first)
			wide := act(c.act, "e")
			p := c.kernel / 2
			b.Node("Conv", []string{wide, "k"}, []string{"d"},
				onnx.Attrs{"group": mid, "strides": []int64{c.stride, c.stride}, "pads": []int64{p, p, p, p}})
			sum := "d"
			if c.residual { // of another convolution
				enginetest.AddWeights(b.GraphBuilder, rng, "r", 0.3, int(mid), int(cin), 1, 1)
				b.Node("Conv", []string{"x", "r"}, []string{"z"})
				b.Node("Add", []string{"d", "z"}, []string{"sum"})
				sum = "sum"
			}
			enginetest.AddWeights(b.GraphBuilder, rng, "v", 0.3, 8, int(mid), 1, 1)
			b.Node("Conv", []string{act(c.last, sum), "v"}, []string{"y"})
			b.OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
			m := b.Must()
			feed := onward.Values{"x": enginetest.Normal(rng, int(c.batch), int(cin), int(h), int(w))}
			run := func(o *onward.SessionOptions, times int) onward.Values {
				s, err := onward.OpenModel(t.Context(), m, o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var got, again onward.Values
				for range times { // later runs replay the captured run
					if again, err = s.Run(context.Background(), feed, nil); err != nil {
						t.Fatal(err)
					}
					if got != nil {
						enginetest.CompareValues(t, "a later run", again, got, 0)
					}
					got = again
				}
				return got
			}
			want := run(enginetest.On("reference"), 1)
			apart := run(&onward.SessionOptions{DisabledPasses: []string{"fuse-depthwise", "fuse-blocked-map"}}, 1)
			one := run(&onward.SessionOptions{Threads: 1}, 4)
			three := run(&onward.SessionOptions{Threads: 3}, 4)
			enginetest.CompareValues(t, "one by one", apart, want, 1e-3)
			enginetest.CompareValues(t, "together", one, want, 1e-3)
			enginetest.CompareValues(t, "on three threads", three, one, 0)
		})
	}
}
