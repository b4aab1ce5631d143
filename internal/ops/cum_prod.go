package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// CumProd multiplies the elements along an axis and stores every product on the
// way (https://onnx.ai/onnx/operators/onnx__CumProd.html).
type CumProd struct{ cumulative }

var _ = register(Def{Name: "CumProd", Since: []int{26}, In: "x:T, axis:T2", Out: "y:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float", "T2": "int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator { return &CumProd{readCumulative(a)} })})

var cumProdTable = map[tensor.DType]cumulativeKernel{
	tensor.TypeInt32:   cumulativeOf(cumProdLines[int32]),
	tensor.TypeInt64:   cumulativeOf(cumProdLines[int64]),
	tensor.TypeUint32:  cumulativeOf(cumProdLines[uint32]),
	tensor.TypeUint64:  cumulativeOf(cumProdLines[uint64]),
	tensor.TypeFloat32: cumulativeOf(cumProdLines[float32]),
	tensor.TypeFloat64: cumulativeOf(cumProdLines[float64]),
}

// Run implements [ir.Operator].
func (o *CumProd) Run(c *ir.Call) error { return o.run(c, cumProdTable) }

func cumProdLines[T realNumber](dst, src []T, l cumulativeLines) {
	var acc [columnBlock]T
	for j := range acc {
		acc[j] = 1
	}
	for k := range l.n {
		at := l.at(k)
		x, y, a := src[at:at+l.m], dst[at:at+l.m], acc[:l.m]
		if l.exclusive {
			for j := range y {
				y[j] = a[j]
				a[j] *= x[j]
			}
			continue
		}
		for j := range y {
			a[j] *= x[j]
			y[j] = a[j]
		}
	}
}
