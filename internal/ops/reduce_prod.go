package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ReduceProd returns the product along axes; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__ReduceProd.html).
type ReduceProd struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceProd", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceProd{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Rule(reduceProdGradient)})

// reduceProdGradient multiplies the gradient by the product of the other elements: the
// product of all elements but zeros, divided by this one, and 0 if another element is 0.
func reduceProdGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	if err := b.Need(11); err != nil {
		return nil, err
	}
	x := n.Inputs[0]
	zeros, ones := b.Filled(0, x), b.Filled(1, x)
	zero := b.Op("Equal", x, zeros)
	rest := b.Op("Where", zero, ones, x)
	product := b.Kept(n.WithInputs(rest))
	isZero := b.Op("Where", zero, ones, zeros)
	others := b.Op("Sub", b.Op("onward.ExpandTo", b.SumTo(isZero, product), x), isZero)
	d := b.Op("Where", b.Op("Equal", others, zeros), b.Op("Div", b.Op("onward.ExpandTo", product, x), rest), zeros)
	return n.First(b.Op("Mul", d, b.Op("onward.ExpandTo", b.Op("onward.ReshapeTo", g, product), x))), nil
}

// Infer implements [ir.Operator].
func (o *ReduceProd) Infer(c *ir.InferContext) error {
	return o.InferFolded(c, ir.Known(1), ir.Dim.Mul)
}

// Run implements [ir.Operator].
func (o *ReduceProd) Run(c *ir.Call) error { return o.RunWith(c, reduceProdTable) }

var reduceProdTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(prodReducer[float32, float64](), fastProdReducer()),
	tensor.TypeFloat64: reduce.With(prodReducer[float64, float64]()),
	tensor.TypeInt32:   reduce.With(prodReducer[int32, int32]()),
	tensor.TypeInt64:   reduce.With(prodReducer[int64, int64]()),
	tensor.TypeUint32:  reduce.Bits(tensor.TypeInt32, reduce.With(prodReducer[int32, int32]())),
	tensor.TypeUint64:  reduce.Bits(tensor.TypeInt64, reduce.With(prodReducer[int64, int64]())),
}

func prodReducer[T, A kit.RealNumber]() *reduce.Reducer[T, A] {
	return &reduce.Reducer[T, A]{
		Init: 1,
		Row:  prodRow[T, A],
		Cols: func(acc []A, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] *= A(x[i])
			}
		},
		Merge: func(a, b A) A { return a * b },
		Done:  reduce.StoreAll[T, A],
	}
}

func prodRow[T, A kit.RealNumber](acc A, x []T) A {
	var p, q, r A = 1, 1, 1 // independent products
	for ; len(x) >= 4; x = x[4:] {
		acc *= A(x[0])
		p *= A(x[1])
		q *= A(x[2])
		r *= A(x[3])
	}
	for _, v := range x {
		acc *= A(v)
	}
	return acc * p * (q * r)
}

// fastProdReducer reduces short rows together: those of scikit-learn's PolynomialFeatures have two
// elements.
func fastProdReducer() *reduce.Reducer[float32, float64] {
	r := prodReducer[float32, float64]()
	r.Rows = func(dst, x []float32, n, first int) {
		x = x[first*n:]
		if n == 2 {
			for i := range dst {
				dst[i] = float32(float64(x[2*i]) * float64(x[2*i+1]))
			}
			return
		}
		for i := range dst {
			dst[i] = float32(prodRow(1., x[i*n:(i+1)*n]))
		}
	}
	return r
}
