package msft

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestRotaryHalfCaches compares rotations by float16 caches, of which only the rows of the given
// positions are converted, with those by equal float32 caches.
func TestRotaryHalfCaches(t *testing.T) {
	const rows, half, heads, length = 600, 8, 2, 3
	r := rand.New(rand.NewPCG(1, 2))
	values := func(n int, shape ...int) (wide, narrow *tensor.Tensor) {
		f, h := make([]float32, n), make([]tensor.Float16, n)
		for i := range f {
			h[i] = tensor.NewFloat16(2*r.Float32() - 1)
			f[i] = h[i].Float32()
		}
		return optest.Tensor(f, shape...), optest.Tensor(h, shape...)
	}
	var wide, narrow [5]*tensor.Tensor
	for i := range 2 {
		wide[i], narrow[i] = values(rows*half, rows, half)
	}
	for i := 2; i < 5; i++ {
		wide[i], narrow[i] = values(2*length*heads*2*half, 2, length, heads*2*half)
	}
	compare := func(op string, got, want []tensor.Value) {
		t.Helper()
		w := tensor.MustData[float32](want[0].(*tensor.Tensor))
		for i, v := range tensor.MustData[tensor.Float16](got[0].(*tensor.Tensor)) {
			if d := math.Abs(float64(v.Float32() - w[i])); !(d <= 2e-3*(1+math.Abs(float64(w[i])))) {
				t.Fatalf("%s: element %d is %g, want %g", op, i, v.Float32(), w[i])
			}
		}
	}
	run := func(op string, attrs map[string]any, in ...tensor.Value) []tensor.Value {
		t.Helper()
		outputs := map[string]int{"RotaryEmbedding": 1, "GroupQueryAttention": 3}[op]
		out, err := optest.RunN(t, outputs, "com.microsoft."+op, 1, attrs, in...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, p := range [][]int64{{0, 1, 2, 3, 4, 5}, {501, 502, 503, 40, 41, 42}, {599, 7, 300, 7, 7, 0}} {
		pos := optest.Tensor(p, 2, length)
		attrs := map[string]any{"num_heads": heads}
		compare("RotaryEmbedding", run("RotaryEmbedding", attrs, narrow[2], pos, narrow[0], narrow[1]),
			run("RotaryEmbedding", attrs, wide[2], pos, wide[0], wide[1]))
		attrs = map[string]any{"num_heads": heads, "kv_num_heads": heads, "do_rotary": 1}
		attend := func(x [5]*tensor.Tensor) []tensor.Value {
			past := optest.Tensor(make([]float32, 2*heads*4*2*half), 2, heads, 4, 2*half)
			if x[0].DType() == tensor.TypeFloat16 {
				past = optest.Tensor(make([]tensor.Float16, 2*heads*4*2*half), 2, heads, 4, 2*half)
			}
			return run("GroupQueryAttention", attrs, x[2], x[3], x[4], past, past, optest.Tensor([]int32{6, 5}, 2),
				tensor.Scalar(int32(7)), x[0], x[1], pos)
		}
		compare("GroupQueryAttention", attend(narrow), attend(wide))
	}
}
