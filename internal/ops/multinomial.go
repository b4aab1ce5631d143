package ops

import (
	"math"
	"sort"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Multinomial draws SampleSize classes for each row of its input, which holds the logarithms of
// unnormalized probabilities: [batch, class] to [batch, sample]
// (https://onnx.ai/onnx/operators/onnx__Multinomial.html).
type Multinomial struct {
	randomSeed
	DType      tensor.DType
	SampleSize int
}

var _ = kit.Register(&kit.Def{Name: "Multinomial", Since: kit.Versions{7, 22}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassOther,
	Types: "T1: @float; T2: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Multinomial{randomSeed: readRandomSeed(a), DType: a.DType("dtype", tensor.TypeInt32),
			SampleSize: a.Int("sample_size", 1)}
		if o.DType != tensor.TypeInt32 && o.DType != tensor.TypeInt64 {
			a.Errorf("attribute dtype is %s, want int32 or int64", o.DType)
		}
		if o.SampleSize < 1 {
			a.Errorf("attribute sample_size is %d, want at least 1", o.SampleSize)
		}
		return o
	}})

// Infer implements [ir.Operator].
func (o *Multinomial) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 2, "input"); err != nil {
		return err
	}
	batch := ir.Unknown
	if s := c.Shape(0); s != nil {
		batch = s[0]
	}
	c.SetOut(0, ir.TensorType(o.DType, batch, ir.Known(o.SampleSize)))
	return nil
}

// Run implements [ir.Operator].
func (o *Multinomial) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 2 {
		return fail.Errorf("input has rank %d, want 2", x.Rank())
	}
	batch, classes := x.Dim(0), x.Dim(1)
	out, err := c.Output(0, o.DType, batch, o.SampleSize)
	if err != nil {
		return err
	}
	if batch == 0 {
		return nil
	}
	if classes == 0 {
		return fail.Errorf("input has shape %v, want at least one class", x.Shape())
	}
	wide, err := kit.ToScratch(c, x, tensor.TypeFloat64)
	if err != nil {
		return err
	}
	logs := tensor.MustData[float64](wide)
	sums, err := ir.ScratchOf[float64](c, classes)
	if err != nil {
		return err
	}
	src := o.Source(c)
	for b := range batch {
		row := logs[b*classes : (b+1)*classes]
		top := math.Inf(-1)
		for _, v := range row {
			top = max(top, v)
		}
		total := 0.0
		for i, v := range row {
			total += math.Exp(v - top)
			sums[i] = total
		}
		if !(total > 0) || math.IsInf(total, 0) {
			return fail.Errorf("probabilities of row %d add up to %g, want a positive number", b, total)
		}
		for i := range o.SampleSize {
			if i%ir.GrainWatch == 0 && c.Err() != nil {
				return c.Err()
			}
			u := src.Uniform() * total
			class := min(sort.Search(classes, func(k int) bool { return sums[k] > u }), classes-1)
			if at := b*o.SampleSize + i; o.DType == tensor.TypeInt32 {
				tensor.MustData[int32](out)[at] = int32(class)
			} else {
				tensor.MustData[int64](out)[at] = int64(class)
			}
		}
	}
	return nil
}
