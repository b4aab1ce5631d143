package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// CumProd returns the cumulative products of the elements along an axis
// (https://onnx.ai/onnx/operators/onnx__CumProd.html).
type CumProd struct{ cumulative }

var _ = kit.Register(&kit.Def{Name: "CumProd", Since: kit.Versions{26}, In: "x:T, axis:T2", Out: "y:T",
	Types: "T: uint32 uint64 int32 int64 @float; T2: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &CumProd{readCumulative(a)} }})

var cumProdTable = map[tensor.DType]cumulativeKernel{
	tensor.TypeInt32:   cumProdInts32,
	tensor.TypeInt64:   cumProdInts64,
	tensor.TypeUint32:  cumulativeBits(tensor.TypeInt32, cumProdInts32),
	tensor.TypeUint64:  cumulativeBits(tensor.TypeInt64, cumProdInts64),
	tensor.TypeFloat32: cumulativeRows(kit.ShortRow, vec.MulF32, cumulativeOf(kit.ColumnBlock, cumProdLines[float32])),
	tensor.TypeFloat64: cumulativeRows(kit.ShortRow, vec.MulF64, cumulativeOf(kit.ColumnBlock, cumProdLines[float64])),
}

var (
	cumProdInts32 = cumulativeRows(kit.ShortRow, vec.MulI32, cumulativeOf(kit.ColumnBlock, cumProdLines[int32]))
	cumProdInts64 = cumulativeRows(kit.ShortRow, vec.MulI64, cumulativeOf(kit.ColumnBlock, cumProdLines[int64]))
)

// Run implements [ir.Operator].
func (o *CumProd) Run(c *ir.Call) error { return o.RunWith(c, cumProdTable) }

func cumProdLines[T kit.RealNumber](dst, src []T, l cumulativeLines) {
	if l.M == 1 {
		product, at := T(1), l.At(0)
		step := l.At(1) - at
		exclusive := l.Exclusive
		for k := range l.N {
			if k&0xfff == 0xfff && l.Call.Err() != nil {
				return
			}
			v := product * src[at]
			if exclusive {
				dst[at] = product
			} else {
				dst[at] = v
			}
			product = v
			at += step
		}
		return
	}
	var acc [kit.ColumnBlock]T
	for j := range acc {
		acc[j] = 1
	}
	for k := range l.N {
		if k&0xfff == 0xfff && l.Call.Err() != nil {
			return
		}
		at := l.At(k)
		x, y, a := src[at:at+l.M], dst[at:at+l.M], acc[:l.M]
		if l.Exclusive {
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
