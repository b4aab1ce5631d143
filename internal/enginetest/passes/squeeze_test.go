package passes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"github.com/onward-ml/onward/onnx"
)

// TestSqueezeAndExcitation runs a block whose channels are scaled before a 1×1 convolution, with
// and without the fusion of the two, and of the convolutions of the means.
func TestSqueezeAndExcitation(t *testing.T) {
	type test struct {
		in, out, h, w, batch int64
		residual, line       bool
		mid                  int64 // channels between the convolutions of the means, or 0 without
	}
	for i, c := range []test{
		{in: 24, out: 16, h: 9, w: 11, batch: 1}, {in: 40, out: 24, h: 14, w: 14, batch: 3, residual: true}, {in: 17, out: 70, h: 12, w: 13, batch: 2},
		{in: 16, out: 160, h: 25, w: 26, batch: 1, residual: true}, {in: 33, out: 7, h: 1, w: 40, batch: 2, line: true},
		{in: 40, out: 24, h: 14, w: 14, batch: 3, residual: true, mid: 10}, {in: 17, out: 70, h: 12, w: 13, batch: 2, mid: 33},
		{in: 240, out: 80, h: 7, w: 7, batch: 1, mid: 12}, {in: 33, out: 300, h: 70, w: 70, batch: 1, residual: true, mid: 8},
		{in: 96, out: 20, h: 20, w: 21, batch: 2, mid: 4}, {in: 40, out: 90, h: 8, w: 8, batch: 1, mid: 1},
		{in: 560, out: 16, h: 3, w: 2, batch: 2, mid: 11}, {in: 96, out: 24, h: 56, w: 60, batch: 1, mid: 5},
		{in: 33, out: 7, h: 1, w: 40, batch: 2, line: true, mid: 9},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			b := onnx.NewModel("net").Opset("", 17)
			image, kernel := []any{"n", int64(8), c.h, c.w}, []int{1, 1}
			feed := onward.Values{"x": enginetest.Normal(rng, int(c.batch), 8, int(c.h), int(c.w))}
			if c.line {
				image, kernel = []any{"n", int64(8), c.w}, []int{1}
				feed = onward.Values{"x": enginetest.Normal(rng, int(c.batch), 8, int(c.w))}
			}
			b.Input("x", onnx.Float, image...)
			enginetest.AddWeights(b.GraphBuilder, rng, "w", 0.3, append([]int{int(c.in), 8}, kernel...)...)
			enginetest.AddWeights(b.GraphBuilder, rng, "v", 0.3, append([]int{int(c.out), int(c.in)}, kernel...)...)
			enginetest.AddWeights(b.GraphBuilder, rng, "b", 0.3, int(c.out))
			enginetest.AddWeights(b.GraphBuilder, rng, "r", 0.3, append([]int{int(c.out), int(c.in)}, kernel...)...)
			b.Node("Conv", []string{"x", "w"}, []string{"e"})
			b.Node("GlobalAveragePool", []string{"e"}, []string{"p"})
			mean := "p"
			if c.mid > 0 {
				for _, v := range []struct {
					name    string
					out, in int64
				}{{"w1", c.mid, c.in}, {"w2", c.in, c.mid}} {
					shape := append([]int{int(v.out), int(v.in)}, kernel...)
					enginetest.AddWeights(b.GraphBuilder, rng, v.name, 0.5, shape...)
					enginetest.AddWeights(b.GraphBuilder, rng, v.name+"b", 0.5, shape[0])
				}
				b.Node("Conv", []string{"p", "w1", "w1b"}, []string{"q"})
				b.Node("Sigmoid", []string{"q"}, []string{"g"})
				b.Node("Mul", []string{"q", "g"}, []string{"silu"})
				b.Node("Conv", []string{"silu", "w2", "w2b"}, []string{"excited"})
				mean = "excited"
			}
			b.Node("Sigmoid", []string{mean}, []string{"s"})
			b.Node("Mul", []string{"s", "e"}, []string{"m"})
			b.Node("Conv", []string{"m", "v", "b"}, []string{"c"})
			sum := "c"
			if c.residual {
				b.Node("Conv", []string{"e", "r"}, []string{"z"})
				b.Node("Add", []string{"c", "z"}, []string{"sum"})
				sum = "sum"
			}
			b.Node("Relu", []string{sum}, []string{"y"})
			b.OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
			m := b.Must()
			run := func(o *onward.SessionOptions) onward.Values {
				s, err := onward.OpenModel(t.Context(), m, o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var got onward.Values
				for range 3 { // later runs replay the captured run
					again, err := s.Run(context.Background(), feed, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got != nil {
						enginetest.CompareValues(t, "a later run", again, got, 0)
					}
					got = again
				}
				return got
			}
			want := run(enginetest.On("reference"))
			one := run(&onward.SessionOptions{Threads: 1})
			enginetest.CompareValues(t, "together", one, want, 1e-4)
			enginetest.CompareValues(t, "on three threads", run(&onward.SessionOptions{Threads: 3}), one, 0)
			for _, apart := range [][]string{{"fuse-scale"}, {"fuse-squeeze"}, {"fuse-scale", "fuse-squeeze"}} {
				enginetest.CompareValues(t, "apart", run(&onward.SessionOptions{DisabledPasses: apart}), want, 1e-4)
			}
			testkit.BF16Orders(t, func(t *testing.T) {
				rounded := run(&onward.SessionOptions{Precision: onward.PrecisionBFloat16})
				enginetest.CompareValues(t, "rounded", rounded, want, 0.1)
				apart := run(&onward.SessionOptions{Precision: onward.PrecisionBFloat16,
					DisabledPasses: []string{"fuse-scale"}})
				if cpu.UsesBF16(cpu.Active()) == cpu.BF16Pairs { // the images are scaled and rounded either way
					enginetest.CompareValues(t, "rounded, apart", apart, rounded, 0)
					return
				}
				// Convolutions compute in float32: fuse-scale multiplies the weights by the
				// scale, not the images.
				enginetest.CompareValues(t, "not rounded", rounded, one, 0)
				enginetest.CompareValues(t, "not rounded, apart", apart, want, 1e-4)
			})
		})
	}
}
