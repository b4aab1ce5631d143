package passes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestPrecisionStates checks that bfloat16 leaves states as they are with float32: those of a
// selective scan that Add and Mul update, of LinearAttention, and of a Scan. Products that do not
// feed the states round.
func TestPrecisionStates(t *testing.T) { testkit.BF16Orders(t, testPrecisionStates) }

func testPrecisionStates(t *testing.T) {
	const n, d = 3, 128
	for name, build := range map[string]func(b *onnx.ModelBuilder){
		"selective scan": func(b *onnx.ModelBuilder) { // one step of Mamba
			b.Node("Softplus", []string{"a"}, []string{"dt"})
			b.Node("Neg", []string{"dt"}, []string{"decay"})
			b.Node("Exp", []string{"decay"}, []string{"da"})
			b.Node("Mul", []string{"dt", "b"}, []string{"db"})
			b.Node("Mul", []string{"da", "past"}, []string{"kept"})
			b.Node("Add", []string{"kept", "db"}, []string{"present"})
			b.Node("Relu", []string{"present"}, []string{"read"})
		},
		"LinearAttention": func(b *onnx.ModelBuilder) {
			for from, to := range map[string]string{"a": "key", "b": "value"} {
				b.Node("Unsqueeze", []string{from, "zero"}, []string{to})
			}
			b.Node("LinearAttention", []string{"key", "key", "value"}, []string{"seen", "present"},
				onnx.Attrs{"q_num_heads": 64, "kv_num_heads": 64, "update_rule": "linear"})
			b.Node("Squeeze", []string{"seen", "zero"}, []string{"read"})
		},
		"Scan": func(b *onnx.ModelBuilder) {
			g := onnx.NewGraph("body").Input("s", onnx.Float, n, d).Input("x", onnx.Float, d).
				Output("t", onnx.Float, n, d).Output("o", onnx.Float, d)
			g.Node("Add", []string{"s", "x"}, []string{"sum"})
			g.Node("MatMul", []string{"sum", "wb"}, []string{"product"})
			g.Node("Tanh", []string{"product"}, []string{"t"})
			g.Node("ReduceMax", []string{"t", "zero"}, []string{"o"}, onnx.Attrs{"keepdims": 0})
			b.Node("Scan", []string{"past", "a"}, []string{"present", "read"},
				onnx.Attrs{"num_scan_inputs": 1, "body": g})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			b := onnx.NewModel("states").Opset("", 27)
			b.Input("x", onnx.Float, n, d).Input("past", onnx.Float, n, d)
			b.Output("present", onnx.Float, nil).Output("y", onnx.Float, n, d)
			b.Initializer("zero", []int64{0}, 1)
			for _, w := range []string{"wa", "wb", "wy"} {
				enginetest.AddWeights(b.GraphBuilder, r, w, 0.1, d, d)
			}
			b.Node("MatMul", []string{"x", "wa"}, []string{"a"})
			b.Node("MatMul", []string{"x", "wb"}, []string{"b"})
			build(b)
			b.Node("MatMul", []string{"read", "wy"}, []string{"y"})
			m := b.Must()
			feed := onward.Values{}
			for _, in := range []string{"x", "past"} {
				x := make([]float32, n*d)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				feed[in] = tensor.Must(tensor.New(x, n, d))
			}
			result := func(p onward.Precision) (state, y []float32) {
				out, err := enginetest.Open(t, m, &onward.SessionOptions{Precision: p}).Run(t.Context(), feed, nil)
				if err != nil {
					t.Fatal(err)
				}
				return enginetest.Floats(t, out["present"]), enginetest.Floats(t, out["y"])
			}
			state, y := result(onward.PrecisionFloat32)
			gotState, gotY := result(onward.PrecisionBFloat16)
			if !slices.Equal(gotState, state) {
				t.Error("bfloat16 changes the state")
			}
			var worst float64
			for i, v := range gotY {
				worst = max(worst, math.Abs(float64(v-y[i])))
			}
			if worst > 0.2 || (worst == 0) == cpu.BFloat16(cpu.Active()) {
				t.Errorf("y differs by %g from float32 (fast bfloat16 %t)", worst, cpu.BFloat16(cpu.Active()))
			}
		})
	}
}
