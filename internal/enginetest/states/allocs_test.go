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

// A layer of a decoder whose caches grow allocates nothing in a step. The step itself allocates
// shapes of its outputs.
func TestStepsAllocateLittle(t *testing.T) {
	if enginetest.Race || os.Getenv("ONWARD_CHECK_REPLAY") != "" {
		t.Skip("checks of runs allocate")
	}
	const most = 6
	for name, k := range map[string]struct {
		dtype    onnx.DataType
		fourBits bool
	}{"float32": {onnx.Float, false}, "float16": {onnx.Float16, false}, "4 bits": {onnx.Float, true}} {
		t.Run(name, func(t *testing.T) {
			two, five := stepAllocs(t, k.dtype, k.fourBits, 2), stepAllocs(t, k.dtype, k.fourBits, 5)
			if two != five || five > most {
				t.Errorf("a step allocates %v times with two layers, %v with five, want as many, and at most %d", two,
					five, most)
			}
		})
	}
}

// stepAllocs returns the number of allocations of a step of a decoder.
func stepAllocs(t *testing.T, dtype onnx.DataType, fourBits bool, layers int) float64 {
	const heads, kvHeads, size, past = 4, 2, 64, 600
	rng := rand.New(rand.NewPCG(7, 8))
	b := onnx.NewModel("decoder").Opset("", 21).Opset("com.microsoft", 1)
	b.Input("x", dtype, 1, 1, heads*size).Input("lens", onnx.Int32, 1).Input("total", onnx.Int32, 1)
	normal := func(dims ...int) *tensor.Tensor {
		if x := enginetest.Normal(rng, dims...); dtype == onnx.Float {
			return x
		} else {
			return half(x)
		}
	}
	constant := func(name string, dims ...int) string {
		d := make([]int64, len(dims))
		for i, n := range dims {
			d[i] = int64(n)
		}
		if x := normal(dims...); dtype == onnx.Float {
			b.Initializer(name, tensor.MustData[float32](x), d...)
		} else {
			b.Initializer(name, tensor.MustData[tensor.Float16](x), d...)
		}
		return name
	}
	product := func(x, w string, k, n int) string {
		if !fourBits {
			b.Node("MatMul", []string{x, constant(w, k, n)}, []string{w + "x"})
			return w + "x"
		}
		const block = 32
		digits := make([]uint8, n*k/2)
		for i := range digits {
			digits[i] = uint8(rng.Uint32())
		}
		b.Initializer(w, digits, int64(n), int64(k/block), block/2)
		b.Node("com.microsoft.MatMulNBits", []string{x, w, constant(w+"s", n, k/block)}, []string{w + "x"},
			onnx.Attrs{"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4})
		return w + "x"
	}
	last := "x"
	var pairs [][2]string
	for i := range layers {
		id := func(s string) string { return s + strconv.Itoa(i) }
		for _, s := range []string{"k", "v"} {
			b.Input(id("past_"+s), dtype, 1, kvHeads, "past", size)
			b.Output(id("present_"+s), dtype, 1, kvHeads, "all", size)
			pairs = append(pairs, [2]string{id("present_" + s), id("past_" + s)})
		}
		b.Node("com.microsoft.SkipLayerNormalization", []string{last, "x", constant(id("gain"), heads*size),
			constant(id("bias"), heads*size)}, []string{id("n"), "", "", id("sum")})
		b.Node("com.microsoft.GroupQueryAttention", []string{product(id("n"), id("w"), heads*size,
			(heads+2*kvHeads)*size), "", "", id("past_k"), id("past_v"), "lens", "total"},
			[]string{id("a"), id("present_k"), id("present_v")},
			onnx.Attrs{"num_heads": heads, "kv_num_heads": kvHeads})
		last = product(id("a"), id("o"), heads*size, heads*size)
	}
	b.Output(last, dtype, 1, 1, heads*size)
	o := enginetest.On("cpu")
	o.Threads = 1
	s := enginetest.Open(t, b.Must(), o)
	n, err := s.NewBinding()
	must(t, err)
	defer n.Close()
	must(t, n.BindCPUInput("x", normal(1, 1, heads*size)))
	must(t, n.BindCPUInput("lens", ints([]int{1}, past)))
	must(t, n.BindCPUInput("total", ints([]int{1}, past+1)))
	for _, p := range pairs {
		must(t, n.BindCPUInput(p[1], normal(1, kvHeads, past, size)))
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
	return testing.AllocsPerRun(20, run)
}
