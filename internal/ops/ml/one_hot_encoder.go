package ml

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// OneHotEncoder appends a dimension to X that is 1 at the index of the element's category
// and 0 elsewhere. Numbers are truncated to integers. An element without a category gives
// zeros, or an error if Zeros is false
// (https://onnx.ai/onnx/operators/onnx_aionnxml_OneHotEncoder.html).
type OneHotEncoder struct {
	ints  map[int64]int
	dense []int32 // index of the category least+i, −1 if it does not exist; nil if the categories are far apart
	least int64
	strs  map[string]int
	n     int
	Zeros bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "OneHotEncoder", Since: kit.Versions{1},
	In: "X:T", Out: "Y:float",
	Types: "T: string int64 int32 float double", Build: func(a *kit.Attrs, opset int) kit.Operator {
		l := readClassLabels(a, "cats_int64s", "cats_strings")
		op := &OneHotEncoder{n: l.len(), Zeros: a.Bool("zeros", true)}
		if l.dtype() == tensor.TypeString {
			op.strs = map[string]int{}
			for i, s := range l.strs {
				op.strs[s] = i
			}
		} else {
			op.ints = map[int64]int{}
			for i, k := range l.ints {
				op.ints[k] = i
			}
			op.compact(l.ints)
		}
		return op
	}})

// compact fills dense if it does not take much more memory than the categories.
func (op *OneHotEncoder) compact(cats []int64) {
	if len(cats) == 0 {
		return
	}
	least, most := slices.Min(cats), slices.Max(cats)
	if span := uint64(most) - uint64(least); span < uint64(64+4*len(cats)) {
		op.least, op.dense = least, slices.Repeat([]int32{-1}, int(span)+1)
		for k, i := range op.ints {
			op.dense[k-least] = int32(i)
		}
	}
}

// index returns the index of category k, and whether there is one.
func (op *OneHotEncoder) index(k int64) (int, bool) {
	if op.dense == nil {
		i, ok := op.ints[k]
		return i, ok
	}
	if at := uint64(k) - uint64(op.least); at < uint64(len(op.dense)) {
		return int(op.dense[at]), op.dense[at] >= 0
	}
	return 0, false
}

// Infer appends the number of categories to the shape of X.
func (op *OneHotEncoder) Infer(c *ir.InferContext) error {
	if (c.Elem(0) == tensor.TypeString) != (op.strs != nil) {
		return fail.Errorf("X is %s, want the type of the categories: strings with cats_strings, numbers "+
			"with cats_int64s", c.Elem(0))
	}
	t := ir.UnrankedTensor(tensor.TypeFloat32)
	if s := c.Shape(0); s != nil {
		t.Shape = append(append([]ir.Dim{}, s...), ir.Known(op.n))
	}
	c.SetOut(0, t)
	return nil
}

// Run looks up every element.
func (op *OneHotEncoder) Run(c *ir.Call) error {
	x := c.Tensor(0)
	t, err := c.Output(0, tensor.TypeFloat32, append(append([]int{}, x.Shape()...), op.n)...)
	if err != nil {
		return err
	}
	y := tensor.MustData[float32](t)
	ir.Clear(c, y)
	if x.DType() == tensor.TypeString {
		in := tensor.MustData[string](x)
		c.Serial(len(in), kit.GrainCostly, func(lo, hi int) {
			for i := lo; i < hi && err == nil; i++ {
				k, ok := op.strs[in[i]]
				if !ok && !op.Zeros {
					err = fail.Errorf("element %d is %q, which is not a category", i, in[i])
				}
				if ok {
					y[i*op.n+k] = 1
				}
			}
		})
		return err
	}
	switch x.DType() {
	case tensor.TypeInt64:
		return oneHot(c, op, tensor.MustData[int64](x), y)
	case tensor.TypeInt32:
		return oneHot(c, op, tensor.MustData[int32](x), y)
	case tensor.TypeFloat32:
		return oneHot(c, op, tensor.MustData[float32](x), y)
	case tensor.TypeFloat64:
		return oneHot(c, op, tensor.MustData[float64](x), y)
	}
	return fail.Errorf("X has unsupported type %s", x.DType())
}

func oneHot[T int64 | int32 | float32 | float64](c *ir.Call, op *OneHotEncoder, x []T, y []float32) (err error) {
	c.Serial(len(x), kit.GrainCostly, func(lo, hi int) {
		if op.Zeros && op.dense != nil { // no errors
			for i, v := range x[lo:hi] {
				at := uint64(int64(v)) - uint64(op.least)
				if at < uint64(len(op.dense)) && op.dense[at] >= 0 &&
					(math.Abs(float64(v)) < 1<<63 || v == T(int64(v))) {
					y[(lo+i)*op.n+int(op.dense[at])] = 1
				}
			}
			return
		}
		for i := lo; i < hi && err == nil; i++ {
			v := x[i]
			ok := math.Abs(float64(v)) < 1<<63
			k := 0
			if ok || v == T(int64(v)) {
				k, ok = op.index(int64(v))
			}
			if !ok && !op.Zeros {
				err = fail.Errorf("element %d is %v, which is not a category", i, v)
			}
			if ok {
				y[i*op.n+k] = 1
			}
		}
	})
	return err
}
