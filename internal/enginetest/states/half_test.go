package states

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This test compares steps whose float16 caches are read in place with runs without a binding, bit
// for bit, and with the reference engine.
func TestHalfCachesAreReadInPlace(t *testing.T) {
	const heads, size, positions = 4, 64, 1024
	grouped := func(b *onnx.ModelBuilder) {
		b.Input("lens", onnx.Int32, batch).Input("total", onnx.Int32, 1)
		b.Input("cos", onnx.Float16, positions, size/2).Input("sin", onnx.Float16, positions, size/2)
		b.Node("com.microsoft.GroupQueryAttention", []string{"q", "k", "v", "past_k", "past_v", "lens", "total",
			"cos", "sin"}, []string{"y", "present_k", "present_v"},
			onnx.Attrs{"num_heads": heads, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 700})
	}
	plain := func(b *onnx.ModelBuilder) {
		b.Input("mask", onnx.Float16, batch, 1, 1, "total")
		b.Node("Attention", []string{"q", "k", "v", "mask", "past_k", "past_v"},
			[]string{"y", "present_k", "present_v"},
			onnx.Attrs{"q_num_heads": heads, "kv_num_heads": 2, "is_causal": 1})
	}
	multi := func(b *onnx.ModelBuilder) {
		b.Input("mask", onnx.Float16, batch, 1, 1, "total")
		b.Node("com.microsoft.MultiHeadAttention", []string{"q", "k", "v", "", "", "mask", "past_k", "past_v"},
			[]string{"y", "present_k", "present_v"}, onnx.Attrs{"num_heads": heads})
	}
	for name, add := range map[string]func(*onnx.ModelBuilder){"grouped": grouped, "attention": plain, "multi": multi} {
		kvHeads := 2
		if name == "multi" {
			kvHeads = heads
		}
		b := onnx.NewModel("decoder").Opset("", 23).Opset("com.microsoft", 1)
		b.Input("q", onnx.Float16, batch, 1, heads*size).Input("k", onnx.Float16, batch, 1, kvHeads*size).
			Input("v", onnx.Float16, batch, 1, kvHeads*size)
		b.Input("past_k", onnx.Float16, batch, kvHeads, "past", size)
		b.Input("past_v", onnx.Float16, batch, kvHeads, "past", size)
		b.Output("y", onnx.Float16, batch, 1, heads*size)
		b.Output("present_k", onnx.Float16, batch, kvHeads, "all", size)
		b.Output("present_v", onnx.Float16, batch, kvHeads, "all", size)
		add(b)
		for _, past := range []int{0, 1, 127, 128, 511, 900} {
			for _, threads := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, past, threads), func(t *testing.T) {
					o := enginetest.On("cpu")
					o.Threads = threads
					s, ref := enginetest.Open(t, b.Must(), o), enginetest.Open(t, b.Must(), enginetest.On("reference"))
					n, err := s.NewBinding()
					must(t, err)
					defer n.Close()
					rng := rand.New(rand.NewPCG(3, uint64(past)))
					in := onward.Values{}
					bind := func(name string, v *tensor.Tensor) {
						in[name] = v
						must(t, n.BindCPUInput(name, v))
					}
					for _, p := range kv {
						bind(p[1], half(enginetest.Normal(rng, batch, kvHeads, past, size)))
						must(t, n.BindState(p[0], p[1]))
					}
					if name == "grouped" {
						bind("cos", half(enginetest.Normal(rng, positions, size/2)))
						bind("sin", half(enginetest.Normal(rng, positions, size/2)))
					}
					must(t, n.BindOutput("y", onward.Buffer{}))
					for step := range 3 {
						for x, h := range map[string]int{"q": heads, "k": kvHeads, "v": kvHeads} {
							bind(x, half(enginetest.Normal(rng, batch, 1, h*size)))
						}
						total := past + step + 1
						if name == "grouped" {
							last := int32(total - 1)
							bind("lens", ints([]int{batch}, last, last))
							bind("total", ints([]int{1}, last+1))
						} else {
							bind("mask", half(enginetest.Normal(rng, batch, 1, 1, total)))
						}
						must(t, s.RunBinding(t.Context(), n, nil))
						got, err := n.CopyOutputsToCPU()
						must(t, err)
						want, err := s.Run(t.Context(), in, nil)
						must(t, err)
						must(t, enginetest.Same(got[0], want["y"], "y"))
						exact, err := ref.Run(t.Context(), in, nil)
						must(t, err)
						must(t, tensor.AllClose(got[0], exact["y"], 4e-3, 4e-3))
						for _, p := range kv {
							state, err := n.State(p[1])
							must(t, err)
							must(t, enginetest.Same(state, want[p[0]], p[0]))
							in[p[1]] = want[p[0]]
						}
					}
				})
			}
		}
	}
}
