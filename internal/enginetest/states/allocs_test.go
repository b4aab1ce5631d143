package states

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This test checks that steps of a decoder whose caches grow allocate no arguments of products and
// normalizations. GroupQueryAttention allocates its core, the functions of its mask, the numbers of
// tokens and the section of its heads.
func TestStepsAllocateLittle(t *testing.T) {
	const layers, heads, kvHeads, size, past, most = 4, 4, 2, 64, 600, 10
	rng := rand.New(rand.NewPCG(7, 8))
	b := onnx.NewModel("decoder").Opset("", 21).Opset("com.microsoft", 1)
	b.Input("x", onnx.Float, 1, 1, heads*size).Input("lens", onnx.Int32, 1).Input("total", onnx.Int32, 1)
	constant := func(name string, dims ...int64) string {
		n := 1
		for _, d := range dims {
			n *= int(d)
		}
		b.Initializer(name, tensor.MustData[float32](enginetest.Normal(rng, n)), dims...)
		return name
	}
	last := "x"
	var pairs [][2]string
	for i := range layers {
		id := func(s string) string { return s + strconv.Itoa(i) }
		for _, s := range []string{"k", "v"} {
			b.Input(id("past_"+s), onnx.Float, 1, kvHeads, "past", size)
			b.Output(id("present_"+s), onnx.Float, 1, kvHeads, "all", size)
			pairs = append(pairs, [2]string{id("present_" + s), id("past_" + s)})
		}
		b.Node("com.microsoft.SkipLayerNormalization", []string{last, "x", constant(id("gain"), heads*size),
			constant(id("bias"), heads*size)}, []string{id("n"), "", "", id("sum")})
		b.Node("MatMul", []string{id("n"), constant(id("w"), heads*size, (heads+2*kvHeads)*size)}, []string{id("qkv")})
		b.Node("com.microsoft.GroupQueryAttention", []string{id("qkv"), "", "", id("past_k"), id("past_v"), "lens",
			"total"}, []string{id("a"), id("present_k"), id("present_v")},
			onnx.Attrs{"num_heads": heads, "kv_num_heads": kvHeads})
		b.Node("MatMul", []string{id("a"), constant(id("o"), heads*size, heads*size)}, []string{id("y")})
		last = id("y")
	}
	b.Output(last, onnx.Float, 1, 1, heads*size)
	o := enginetest.On("cpu")
	o.Threads = 1
	s := enginetest.Open(t, b.Must(), o)
	n, err := s.NewBinding()
	must(t, err)
	defer n.Close()
	must(t, n.BindCPUInput("x", enginetest.Normal(rng, 1, 1, heads*size)))
	must(t, n.BindCPUInput("lens", ints([]int{1}, past)))
	must(t, n.BindCPUInput("total", ints([]int{1}, past+1)))
	for _, p := range pairs {
		must(t, n.BindCPUInput(p[1], enginetest.Normal(rng, 1, kvHeads, past, size)))
		must(t, n.BindState(p[0], p[1]))
	}
	must(t, n.BindOutput(last, onward.Buffer{}))
	run := func() {
		must(t, s.RunBinding(t.Context(), n, nil))
		for _, p := range pairs {
			must(t, n.TruncateState(p[1], 2, past))
		}
	}
	for range 6 {
		run()
	}
	a := testing.AllocsPerRun(20, run)
	if a > layers*most && !enginetest.Race && os.Getenv("ONWARD_CHECK_REPLAY") == "" {
		t.Errorf("a step allocates %v times, want at most %d for each of %d layers", a, most, layers)
	}
}
