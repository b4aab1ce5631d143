package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// QLinearConv convolves quantized tensors: it dequantizes input and weights, convolves, adds a bias
// in units of x_scale·w_scale and quantizes the result. Sums are int32
// (https://onnx.ai/onnx/operators/onnx__QLinearConv.html).
type QLinearConv struct {
	window.Window
	Group        int
	ChannelsLast bool // com.microsoft: x and y are N×D1×…×Dk×C
}

var _ = kit.Register(&kit.Def{Name: "QLinearConv", Since: kit.Versions{10},
	MACs: kit.QLinearConvMACs,
	In: "x:T1, x_scale:float, x_zero_point:T1, w:T2, w_scale:float, w_zero_point:T2, y_scale:float, " +
		"y_zero_point:T3, B:T4?", Out: "y:T3",
	Types: "T1: int8 uint8; T2: int8 uint8; T3: int8 uint8; T4: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &QLinearConv{Window: window.Read(a, true), Group: window.ReadGroup(a)}
	}})

// Infer checks the channels and computes the spatial sizes.
func (v *QLinearConv) Infer(c *ir.InferContext) error {
	if v.ChannelsLast {
		return window.InferConvLast(c, &v.Window, v.Group, 0, 3, ir.UnrankedTensor(c.Elem(7)))
	}
	return window.InferConv(c, &v.Window, v.Group, 0, 3, ir.UnrankedTensor(c.Elem(7)))
}

// Run rounds to nearest, ties to even.
func (v *QLinearConv) Run(c *ir.Call) error { return v.RunThen(c, nil, nil) }

// RunThen computes the convolution. packed holds the weights if they are constant. then, if not
// nil, changes the elements from at on of the result, which is N×D1×…×Dk×C if ChannelsLast is set.
// It is called for parts that together cover it.
func (v *QLinearConv) RunThen(c *ir.Call, packed *window.ConvWeights, then func(y []byte, at int)) error {
	x := c.Tensor(0)
	p := packed.Plan(c, 1, 2, 4, 6, 7, 8)
	if p == nil {
		var err error
		if p, err = v.plan(c, packed); err != nil {
			return err
		}
	}
	s := &p.Shape
	shape := s.Shape
	if v.ChannelsLast && !p.Last {
		var err error
		if x, err = window.ChannelsFirst(c, x); err != nil {
			return err
		}
	}
	if p.Last {
		shape = window.ChannelsLastShape(shape)
	}
	y, done, err := window.ChannelsOutput(c, 0, c.Tensor(7).DType(), shape, v.ChannelsLast && !p.Last)
	if err != nil || y.Len() == 0 {
		return err
	}
	if p.Packed() {
		var after func(lo, hi int)
		if data := y.Bytes(); p.Last && then != nil {
			after = func(lo, hi int) { then(data[lo:hi], lo) }
		}
		if err := p.Requantized(c, x, y, c.Tensor(7), after); err != nil || p.Last {
			return err
		}
		return finish(c, done, then)
	}
	out := kit.Product(s.Out)
	sums, err := ir.ScratchOf[int32](c, y.Len())
	if err != nil {
		return err
	}
	var bias []int32
	if b := c.Tensor(8); b != nil {
		bias = tensor.MustData[int32](b)
	}
	if err := window.ConvolveBytes(c, s, x, c.Tensor(3), c.Tensor(2), c.Tensor(5), bias, sums); err != nil {
		return err
	}
	c.Parallel(s.N*s.M, kit.GrainFor(4*out), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			requantize(y, i*out, sums[i*out:][:out], p.Scale[i%s.M], c.Tensor(7))
		}
	})
	return finish(c, done, then)
}

// plan checks the inputs and prepares [QLinearConv.RunThen]. It packs the weights if that pays.
func (v *QLinearConv) plan(c *ir.Call, packed *window.ConvWeights) (*window.ConvPlan, error) {
	shape, b := c.Tensor(0).Shape(), c.Tensor(8)
	if v.ChannelsLast {
		shape = window.ChannelsFirstShape(shape)
	}
	s, packed, err := window.ConvBytesShape(c, &v.Window, v.Group, shape, c.Tensor(3), c.Tensor(2), c.Tensor(5), packed)
	if err != nil {
		return nil, err
	}
	if b != nil {
		if err := window.ConvBias(b.Shape(), s.M); err != nil {
			return nil, err
		}
	}
	ws := tensor.MustData[float32](c.Tensor(4))
	if len(ws) != 1 && len(ws) != s.M {
		return nil, fail.Errorf("scale of the weights has shape %v, want one element or [%d]", c.Tensor(4).Shape(), s.M)
	}
	for _, i := range []int{1, 6, 7} {
		if t := c.Tensor(i); t.Len() != 1 {
			return nil, fail.Errorf("%s has shape %v, want one element",
				[]string{1: "x_scale", 6: "y_scale", 7: "y_zero_point"}[i], t.Shape())
		}
	}
	if err := c.Reserve(8 * int64(s.M)); err != nil {
		return nil, err
	}
	scale, xs, ys := make([]float32, s.M), tensor.MustData[float32](c.Tensor(1))[0],
		tensor.MustData[float32](c.Tensor(6))[0]
	for i := range scale {
		scale[i] = xs * ws[min(i, len(ws)-1)] / ys
	}
	if packed == nil {
		return &window.ConvPlan{Shape: s, Scale: scale}, nil
	}
	return packed.NewPlan(c, &s, c.Tensor(2), b, scale, v.ChannelsLast, 1, 2, 4, 6, 7, 8), nil
}

// finish calls done, and then for the whole result.
func finish(c *ir.Call, done func(), then func(y []byte, at int)) error {
	done()
	if y := c.Out[0].(*tensor.Tensor).Bytes(); then != nil {
		c.Parallel(len(y), kit.GrainCheap, func(lo, hi int) { then(y[lo:hi], lo) })
	}
	return c.Err()
}

// qlinearConvPacked is a QLinearConv with constant weights.
type qlinearConvPacked struct {
	QLinearConv
	w *window.ConvWeights
}

// Prepare packs constant weights.
func (v *QLinearConv) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, err := window.PrepareConvBytes(in, types, 3, 5, v.Group)
	if w == nil || err != nil {
		return nil, nil, err
	}
	return &qlinearConvPacked{QLinearConv: *v, w: w}, []int{3}, nil
}

// Run convolves with the packed weights.
func (v *qlinearConvPacked) Run(c *ir.Call) error { return v.RunThen(c, v.w, nil) }

// requantize writes round(v·scale) + zero, saturated, to y from element at on.
func requantize(y *tensor.Tensor, at int, v []int32, scale float32, zero *tensor.Tensor) {
	if y.DType() == tensor.TypeInt8 {
		requantizeOf(tensor.MustData[int8](y)[at:][:len(v)], v, scale, float32(tensor.MustData[int8](zero)[0]), -128,
			127)
	} else {
		requantizeOf(tensor.MustData[uint8](y)[at:][:len(v)], v, scale, float32(tensor.MustData[uint8](zero)[0]), 0,
			255)
	}
}

func requantizeOf[T int8 | uint8](dst []T, v []int32, scale, zero, lo, hi float32) {
	for i, x := range v {
		r := float32(math.RoundToEven(float64(float32(x)*scale))) + zero
		if !(r > lo) { // NaN becomes the lower bound
			r = lo
		}
		dst[i] = T(min(r, hi))
	}
}
