package ops

import (
	"context"
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// benchEnv allocates the memory of an operator once.
type benchEnv struct {
	optest.Env
	out     []*tensor.Tensor
	scratch [][]byte
	next    int
}

func (e *benchEnv) Alloc(c *ir.Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	for len(e.out) <= i {
		e.out = append(e.out, nil)
	}
	if e.out[i] == nil {
		e.out[i] = tensor.Must(tensor.Zeros(dtype, shape...))
	}
	return e.out[i], nil
}

func (e *benchEnv) Scratch(c *ir.Call, n int) ([]byte, error) {
	if e.next == len(e.scratch) {
		e.scratch = append(e.scratch, memory.Aligned(n))
	}
	e.next++
	return e.scratch[e.next-1], nil
}

func benchOp(b *testing.B, name string, opset int, attrs map[string]any, in ...tensor.Value) {
	label := name
	bytes := 0
	for _, v := range in {
		label += fmt.Sprint(v.(*tensor.Tensor).Shape())
		bytes += len(v.(*tensor.Tensor).Bytes())
	}
	b.Run(label+in[0].(*tensor.Tensor).DType().String(), func(b *testing.B) {
		op, err := optest.Build(name, opset, attrs, len(in), -1)
		if err != nil {
			b.Fatal(err)
		}
		for i := range op.Extra {
			for len(in) <= i {
				in = append(in, nil)
			}
			in[i] = op.Extra[i]
		}
		env := &benchEnv{Env: optest.Env{Ctx: context.Background(), Limit: 1 << 40}}
		c := &ir.Call{Node: op.Node, Env: env, In: in, Out: make([]tensor.Value, op.NumOut)}
		b.SetBytes(int64(bytes))
		b.ReportAllocs()
		for b.Loop() {
			env.next = 0
			if err := op.Node.Op.Run(c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOperators times elementwise operators and reductions on one thread,
// in the shapes of vision and language models.
func BenchmarkOperators(b *testing.B) {
	f := func(shape ...int) *tensor.Tensor {
		x := make([]float32, kit.Product(shape))
		for i := range x {
			x[i] = float32(i%37)*0.1 - 1
		}
		return tensor.Must(tensor.New(x, shape...))
	}
	h := func(shape ...int) *tensor.Tensor {
		return tensor.Must(tensor.Convert(f(shape...), tensor.TypeFloat16, nil))
	}
	k := func(v ...int64) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	act, seq := []int{1, 64, 56, 56}, []int{1, 128, 768}
	benchOp(b, "Add", 14, nil, f(act...), f(act...))
	benchOp(b, "Add", 14, nil, f(seq...), f(768))
	benchOp(b, "Add", 14, nil, f(act...), f(64, 1, 1))
	benchOp(b, "Mul", 14, nil, f(seq...), f(1, 128, 1))
	benchOp(b, "Add", 14, nil, f(128, 16, 8), f(128, 1, 8))
	benchOp(b, "Add", 14, nil, h(seq...), h(768))
	benchOp(b, "Add", 14, nil, f(4), f(4))
	benchOp(b, "Pow", 15, nil, f(seq...), optest.Tensor([]float32{2}))
	benchOp(b, "Exp", 13, nil, f(seq...))
	benchOp(b, "Gelu", 20, nil, f(seq...))
	benchOp(b, "Relu", 14, nil, f(act...))
	benchOp(b, "Sin", 22, nil, f(seq...))
	benchOp(b, "Where", 16, nil, tensor.Must(tensor.Zeros(tensor.TypeBool, 1, 1, 128, 128)), f(1, 12, 128, 128),
		optest.Tensor([]float32{-1}))
	benchOp(b, "Less", 13, nil, f(seq...), optest.Tensor([]float32{0.5}))
	benchOp(b, "Cast", 13, map[string]any{"to": tensor.TypeFloat16}, f(seq...))
	benchOp(b, "Softmax", 13, nil, f(1, 12, 128, 128))
	benchOp(b, "Softmax", 13, map[string]any{"axis": 1}, f(1, 21, 65, 65))
	benchOp(b, "ReduceMean", 18, nil, f(seq...), k(-1))
	benchOp(b, "ReduceMean", 18, nil, f(act...), k(2, 3))
	benchOp(b, "ReduceMean", 18, nil, f(seq...), k(1))
	benchOp(b, "ReduceMax", 18, nil, f(seq...), k(1))
	benchOp(b, "ReduceSum", 13, nil, f(1000, 4), k(1))
	benchOp(b, "ArgMax", 13, map[string]any{"axis": -1}, f(1, 128, 1000))
	benchOp(b, "ArgMax", 13, map[string]any{"axis": 1}, f(1, 21, 65, 65))
	benchOp(b, "TopK", 24, nil, f(1, 30000), k(10))
	benchOp(b, "CumSum", 14, nil, f(1, 128, 768), tensor.Scalar[int64](1))
	benchOp(b, "QuantizeLinear", 13, nil, f(act...), optest.Tensor([]float32{0.1}), optest.Tensor([]uint8{128}))
	benchOp(b, "QuantizeLinear", 13, map[string]any{"axis": 1}, f(act...), f(64),
		tensor.Must(tensor.Zeros(tensor.TypeInt8, 64)))
	benchOp(b, "DequantizeLinear", 13, nil, tensor.Must(tensor.Zeros(tensor.TypeUint8, act...)),
		optest.Tensor([]float32{0.1}), optest.Tensor([]uint8{128}))
	benchOp(b, "DynamicQuantizeLinear", 11, nil, f(seq...))
}
