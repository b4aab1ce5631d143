package states

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// A step of a decoder whose caches grow allocates nothing, in its layers and around them.
func TestStepsAllocateNothing(t *testing.T) {
	if enginetest.Race || os.Getenv("ONWARD_CHECK_REPLAY") != "" {
		t.Skip("checks of runs allocate")
	}
	if cpu.Active() == cpu.Generic {
		t.Skip("there are no kernels for few queries")
	}
	for name, k := range map[string]struct {
		dtype    onnx.DataType
		fourBits bool
	}{"float32": {onnx.Float, false}, "float16": {onnx.Float16, false}, "4 bits": {onnx.Float, true}} {
		t.Run(name, func(t *testing.T) {
			if n := stepAllocs(t, k.dtype, k.fourBits, 2); n != 0 {
				t.Errorf("a step allocates %v times, want 0", n)
			}
		})
	}
}

// stepAllocs returns the number of allocations of a step of a decoder.
func stepAllocs(t *testing.T, dtype onnx.DataType, fourBits bool, layers int) float64 {
	const heads, kvHeads, size, past = 4, 2, 64, 600
	rng := rand.New(rand.NewPCG(7, 8))
	b := onnx.NewModel("decoder").Opset("", 21).Opset("com.microsoft", 1)
	b.Input("ids", onnx.Int64, 1, 1).Input("mask", onnx.Int64, 1, "all")
	b.Initializer("axis", []int64{1}).Initializer("one", []int64{1}).Initializer("last", int64(1))
	b.Node("ReduceSum", []string{"mask", "axis"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
	b.Node("Sub", []string{"sum", "one"}, []string{"less"})
	b.Node("Cast", []string{"less"}, []string{"lens"}, onnx.Attrs{"to": int(onnx.Int32)})
	b.Node("Shape", []string{"mask"}, []string{"shape"})
	b.Node("Gather", []string{"shape", "last"}, []string{"length"})
	b.Node("Cast", []string{"length"}, []string{"total"}, onnx.Attrs{"to": int(onnx.Int32)})
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
	b.Node("Gather", []string{constant("embedding", 10, heads*size), "ids"}, []string{"x"})
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
	b.Node("LayerNormalization", []string{last, constant("gain", heads*size), constant("bias", heads*size)},
		[]string{"y"})
	b.Output("y", dtype, 1, 1, heads*size)
	o := enginetest.On("cpu")
	o.Threads = 1
	s := enginetest.Open(t, b.Must(), o)
	n, err := s.NewBinding()
	must(t, err)
	defer n.Close()
	mask := make([]int64, past+1)
	for i := range mask {
		mask[i] = 1
	}
	must(t, n.BindCPUInput("ids", tensor.Must(tensor.New([]int64{7}, 1, 1))))
	must(t, n.BindCPUInput("mask", tensor.Must(tensor.New(mask, 1, past+1))))
	for _, p := range pairs {
		must(t, n.BindCPUInput(p[1], normal(1, kvHeads, past, size)))
		must(t, n.BindState(p[0], p[1]))
	}
	must(t, n.BindOutput("y", onward.Buffer{}))
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
