package goengine_test

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestConvolutionsOverEitherAxis compares networks over images of width 1 with the same networks
// over images of height 1, with known and with free sizes. The results must be equal.
func TestConvolutionsOverEitherAxis(t *testing.T) {
	const c, length = 24, 61
	values := func(n, seed int) []float32 {
		d := make([]float32, n)
		for i := range d {
			d[i] = float32((i*seed+i/5)%29)/32 - 0.4
		}
		return d
	}
	build := func(columns, free bool, cin int64) *onnx.Model {
		pair := func(along, across int64) []int64 {
			if columns {
				return []int64{along, across}
			}
			return []int64{across, along}
		}
		window := func(kernel, stride, dilation, before, after, group int64) onnx.Attrs {
			return onnx.Attrs{"kernel_shape": pair(kernel, 1), "strides": pair(stride, 1),
				"dilations": pair(dilation, 1),
				"pads":      append(pair(before, 0), pair(after, 0)...), "group": group}
		}
		weights := func(b *onnx.ModelBuilder, name string, m, c, k int64) {
			b.Initializer(name, values(int(m*c*k), len(name)+3), append([]int64{m, c}, pair(k, 1)...)...)
		}
		b := onnx.NewModel("either axis").Opset("", 17)
		size := pair(length, 1)
		dims := []any{"n", cin, size[0], size[1]}
		if free {
			dims = []any{"n", cin, "h", "w"}
		}
		b.Input("x", onnx.Float, dims...).Output("y", onnx.Float, nil, nil, nil, nil)
		b.Initializer("bias", values(c, 7), c)
		weights(b, "w1", c, cin, 5)
		weights(b, "w12", c, c, 3)
		weights(b, "w123", c, 1, 3)
		weights(b, "w1234", c, c, 1)
		b.Node("Conv", []string{"x", "w1", "bias"}, []string{"a"}, window(5, 2, 1, 2, 1, 1))
		b.Node("Relu", []string{"a"}, []string{"r"})
		b.Node("Conv", []string{"r", "w12"}, []string{"d"}, window(3, 1, 2, 2, 2, 1))
		b.Node("Add", []string{"d", "r"}, []string{"s"})
		b.Node("Conv", []string{"s", "w123", "bias"}, []string{"k"}, window(3, 1, 1, 1, 1, c))
		b.Node("Sigmoid", []string{"k"}, []string{"g"})
		b.Node("Mul", []string{"k", "g"}, []string{"u"})
		b.Node("Conv", []string{"u", "w1234"}, []string{"y"}, window(1, 1, 1, 0, 0, 1))
		return b.Must()
	}
	for _, cin := range []int64{3, c} {
		for _, o := range []*onward.SessionOptions{{}, {SpecializedShapes: -1}, {Deterministic: true}} {
			for _, free := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d channels, free %t, %d plans", cin, free, o.SpecializedShapes),
					func(t *testing.T) {
						var out [2]*tensor.Tensor
						for i, columns := range []bool{true, false} {
							s, err := onward.OpenModel(t.Context(), build(columns, free, cin), o)
							if err != nil {
								t.Fatal(err)
							}
							defer s.Close()
							shape := []int{2, int(cin), 1, length}
							if columns {
								shape = []int{2, int(cin), length, 1}
							}
							x := tensor.Must(tensor.New(values(2*int(cin)*length, 11), shape...))
							r, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
							if err != nil {
								t.Fatal(err)
							}
							out[i] = r["y"].(*tensor.Tensor)
						}
						flat := tensor.Must(out[0].Reshape(out[1].Shape()...))
						if err := tensor.AllClose(flat, out[1], 0, 0); err != nil {
							t.Error(err)
						}
					})
			}
		}
	}
}
