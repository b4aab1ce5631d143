package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ArrayFeatureExtractor selects the columns Y of the last dimension of X; a vector X is
// one row
// (https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html).
type ArrayFeatureExtractor struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "ArrayFeatureExtractor", Since: kit.Versions{1},
	In: "X:T, Y:int64", Out: "Z:T",
	Types: "T: float double int64 int32 string",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &ArrayFeatureExtractor{} }})

// Infer sets the last dimension of Z to the number of indices.
func (*ArrayFeatureExtractor) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	if s == nil {
		c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
		return nil
	}
	if len(s) == 0 {
		return fail.Errorf("X is a scalar, want rank 1 or more")
	}
	n := ir.Unknown
	if y := c.Shape(1); y != nil {
		n = ir.Product(y)
	}
	lead := s[:len(s)-1]
	if len(s) == 1 {
		lead = []ir.Dim{ir.Known(1)}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), append(append([]ir.Dim{}, lead...), n)...))
	return nil
}

// Run copies the columns.
func (*ArrayFeatureExtractor) Run(c *ir.Call) error {
	x, ix := c.Tensor(0), tensor.MustData[int64](c.Tensor(1))
	if x.Rank() == 0 {
		return fail.Errorf("X is a scalar, want rank 1 or more")
	}
	cols := x.Dim(x.Rank() - 1)
	for i, k := range ix {
		if k < 0 || k >= int64(cols) {
			return fail.Errorf("index %d is %d, want 0 to %d", i, k, cols-1)
		}
	}
	lead := x.Shape()[:x.Rank()-1]
	if x.Rank() == 1 {
		lead = []int{1}
	}
	z, err := c.Output(0, x.DType(), append(append([]int{}, lead...), len(ix))...)
	if err != nil {
		return err
	}
	switch x.DType() {
	case tensor.TypeString:
		pickColumns(tensor.MustData[string](z), tensor.MustData[string](x), cols, ix)
	case tensor.TypeFloat32, tensor.TypeInt32:
		pickColumns(memory.FromRaw[uint32](z.Bytes()), memory.FromRaw[uint32](x.Bytes()), cols, ix)
	default:
		pickColumns(memory.FromRaw[uint64](z.Bytes()), memory.FromRaw[uint64](x.Bytes()), cols, ix)
	}
	return nil
}

func pickColumns[T any](dst, src []T, cols int, ix []int64) {
	for len(dst) > 0 {
		for i, k := range ix {
			dst[i] = src[k]
		}
		dst, src = dst[len(ix):], src[cols:]
	}
}
