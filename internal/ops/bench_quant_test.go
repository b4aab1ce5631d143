package ops

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// benchPrepared times an operator prepared for constant inputs, in G products/s.
func benchPrepared(b *testing.B, name string, attrs map[string]any, constant []int, products int, inputs ...tensor.Value) {
	b.Helper()
	o, err := buildOp(name, 22, attrs, len(inputs), 1)
	if err != nil {
		o, err = buildOp(name, 1, attrs, len(inputs), 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	in, types := make([]tensor.Value, len(inputs)), make([]ir.Type, len(inputs))
	o.node.In = make([]ir.ValueID, len(inputs))
	for i, v := range inputs {
		if v != nil {
			types[i] = ir.TypeOf(v)
		}
	}
	for _, i := range constant {
		in[i] = inputs[i]
	}
	op := o.node.Op
	inputs = append([]tensor.Value{}, inputs...)
	if p, ok := op.(ir.Preparer); ok {
		r, drop, err := p.Prepare(in, types)
		if err != nil {
			b.Fatal(err)
		}
		if r != nil {
			op = r
		}
		for _, i := range drop {
			inputs[i] = nil
		}
	}
	for b.Loop() {
		c := &ir.Call{Node: o.node, Env: &testEnv{ctx: b.Context(), limit: testMemoryLimit}, In: inputs, Out: make([]tensor.Value, 1)}
		if err := op.Run(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*float64(products)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
}

func benchBytes(shape ...int) *tensor.Tensor {
	d := make([]uint8, product(shape))
	for i := range d {
		d[i] = uint8(i * 37 >> 3)
	}
	return tt(d, shape...)
}

func BenchmarkQLinearConv(b *testing.B) {
	scale, zero := tt([]float32{0.01}), tt([]uint8{128})
	for _, s := range []struct{ c, m, k, size, stride, group int }{
		{64, 64, 3, 56, 1, 1}, {256, 64, 1, 56, 1, 1}, {3, 64, 7, 224, 2, 1}, {96, 96, 3, 56, 1, 96}, {512, 512, 3, 7, 1, 1},
	} {
		b.Run(fmt.Sprintf("%dx%d,%d→%d,k%d,s%d,g%d", s.size, s.size, s.c, s.m, s.k, s.stride, s.group), func(b *testing.B) {
			p := s.k / 2
			attrs := map[string]any{"pads": []int{p, p, p, p}, "strides": []int{s.stride, s.stride}, "group": s.group}
			out := (s.size+2*p-s.k)/s.stride + 1
			benchPrepared(b, "QLinearConv", attrs, []int{1, 2, 3, 4, 5, 6, 7}, out*out*s.m*s.c/s.group*s.k*s.k,
				benchBytes(1, s.c, s.size, s.size), scale, zero, benchBytes(s.m, s.c/s.group, s.k, s.k), scale, zero, scale, zero)
		})
	}
}

func BenchmarkMatMulNBits(b *testing.B) {
	const n, k, block = 4096, 4096, 32
	x := make([]float32, 128*k)
	for i := range x {
		x[i] = float32(i%31-15) / 16
	}
	scales := make([]float32, n*k/block)
	for i := range scales {
		scales[i] = 0.01
	}
	for _, rows := range []int{1, 128} {
		for _, level := range []int{0, 4} {
			b.Run(fmt.Sprintf("m%d,level%d", rows, level), func(b *testing.B) {
				benchPrepared(b, msDomain+"MatMulNBits", map[string]any{"N": n, "K": k, "block_size": block, "accuracy_level": level}, []int{1, 2}, rows*n*k,
					tt(x[:rows*k], rows, k), benchBytes(n, k/block, block/2), tt(scales, len(scales)))
			})
		}
	}
}

func BenchmarkQuantizedMatMul(b *testing.B) {
	const m, n, k = 128, 768, 768
	x := make([]float32, m*k)
	for i := range x {
		x[i] = float32(i%31-15) / 16
	}
	scale, zero := tt([]float32{0.01}), tt([]uint8{128})
	b.Run("DynamicQuantizeMatMul", func(b *testing.B) {
		benchPrepared(b, msDomain+"DynamicQuantizeMatMul", nil, []int{1}, m*n*k, tt(x, m, k), benchBytes(k, n), scale, zero)
	})
	b.Run("MatMulIntegerToFloat", func(b *testing.B) {
		benchPrepared(b, msDomain+"MatMulIntegerToFloat", nil, []int{1}, m*n*k, benchBytes(m, k), benchBytes(k, n), scale, scale, zero, zero)
	})
	b.Run("QGemm", func(b *testing.B) {
		benchPrepared(b, msDomain+"QGemm", nil, []int{3}, m*n*k, benchBytes(m, k), scale, zero, benchBytes(k, n), scale, zero, nil, scale, zero)
	})
}

func BenchmarkHalfWeights(b *testing.B) {
	const n, k = 4096, 4096
	w := make([]tensor.Float16, n*k)
	for i, v := range half16(0.5, -0.25, 1, 0.125) {
		for j := i; j < len(w); j += 4 {
			w[j] = v
		}
	}
	for _, m := range []int{1, 16} {
		x, _ := tensor.Zeros(tensor.TypeFloat16, m, k)
		b.Run(fmt.Sprintf("m%d", m), func(b *testing.B) {
			benchPrepared(b, "MatMul", nil, []int{1}, m*n*k, x, tt(w, k, n))
		})
	}
}
