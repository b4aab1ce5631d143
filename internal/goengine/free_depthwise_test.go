package goengine_test

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestDepthwiseOverFreeSizes runs depthwise convolutions over one and two free axes with sizes that
// change between runs, and compares the results with reference.
func TestDepthwiseOverFreeSizes(t *testing.T) {
	const c = 19
	values := func(n, seed int) []float32 {
		d := make([]float32, n)
		for i := range d {
			d[i] = float32((i*seed+i/5)%31)/16 - 1
		}
		return d
	}
	for _, axes := range []int{1, 2} {
		for _, filters := range []int64{1, 2} {
			t.Run(fmt.Sprintf("%d axes, %d filters", axes, filters), func(t *testing.T) {
				b := onnx.NewModel("depthwise").Opset("", 17)
				free := []any{"n", c, "h", "w"}[:2+axes]
				kernel := []int64{3, 5}[:axes]
				pads := []int64{1, 2, 1, 2}
				taps := int64(3)
				if axes == 1 {
					pads = []int64{1, 1}
				} else {
					taps *= 5
				}
				b.Input("x", onnx.Float, free...).Output("y", onnx.Float, make([]any, 2+axes)...)
				b.Initializer("w", values(int(c*filters*taps), 7), append([]int64{c * filters, 1}, kernel...)...)
				b.Initializer("b", values(int(c*filters), 3), c*filters)
				b.Node("Conv", []string{"x", "w", "b"}, []string{"a"}, onnx.Attrs{"group": int64(c), "pads": pads})
				b.Node("Relu", []string{"a"}, []string{"y"})
				m := b.Must()
				open := func(o *onward.SessionOptions) *onward.Session {
					s, err := onward.OpenModel(t.Context(), m, o)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					return s
				}
				s := open(&onward.SessionOptions{SpecializedShapes: -1})
				reference := open(&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}})
				for _, size := range [][]int{{2, 40, 33}, {2, 40, 33}, {1, 7, 90}, {3, 1, 1}, {0, 5, 5}, {2, 40, 33}} {
					shape := append([]int{size[0], c}, size[1:1+axes]...)
					n := 1
					for _, d := range shape {
						n *= d
					}
					feed := onward.Values{"x": tensor.Must(tensor.New(values(n, 11), shape...))}
					got, err := s.Run(t.Context(), feed, nil)
					if err != nil {
						t.Fatalf("%v: %v", shape, err)
					}
					want, err := reference.Run(t.Context(), feed, nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := tensor.AllClose(got["y"], want["y"], 1e-5, 1e-5); err != nil {
						t.Errorf("%v: %v", shape, err)
					}
				}
			})
		}
	}
}
