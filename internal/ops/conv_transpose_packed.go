package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/tensor"
)

// convTransposePacked is a ConvTranspose of float over two spatial axes of known
// sizes, with constant weights and bias.
type convTransposePacked struct {
	ConvTranspose
	d       *conv.Transposed
	in, out []int // without the batch
}

// Prepare packs constant weights of enough channels for blocks.
func (v *ConvTranspose) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, ok := in[1].(*tensor.Tensor)
	if !ok || w.DType() != tensor.TypeFloat32 || w.Rank() != 4 || len(types[0].Shape) != 4 || w.Dim(0) < volumeChannels || v.Group != 1 {
		return nil, nil, nil
	}
	shape, ok := ir.Ints(types[0].Shape[1:])
	if !ok {
		return nil, nil, nil
	}
	drop := []int{1}
	var bias []float32
	if len(types) > 2 && types[2].Known() {
		b, ok := in[2].(*tensor.Tensor)
		if !ok || !slices.Equal(b.Shape(), []int{w.Dim(1)}) {
			return nil, nil, nil
		}
		bias, drop = tensor.Of[float32](b), append(drop, 2)
	}
	s, err := v.convShape(append([]int{1}, shape...), w.Shape())
	if err != nil || product(s.shape) == 0 || product(shape) == 0 || product(w.Shape()) == 0 {
		return nil, nil, nil // the run says what is wrong
	}
	var kernel, from, to, stride, pad [2]int
	for i := range 2 {
		kernel[i], from[i], to[i], stride[i], pad[i] = s.kernel[i], s.out[i], s.in[i], s.stride[i], s.before[i]
		// Outputs beyond the kernels of all inputs, and strides beyond the kernel,
		// would mostly be zeros.
		if s.dilation[i] != 1 || pad[i] >= kernel[i] || stride[i] > kernel[i] || to[i] > stride[i]*(from[i]+1)+kernel[i] {
			return nil, nil, nil
		}
	}
	d, err := conv.NewTransposed(cpu.Active(), tensor.Of[float32](w), bias, s.m, s.c, kernel, from, to, stride, pad)
	if err != nil {
		return nil, nil, err
	}
	return &convTransposePacked{ConvTranspose: *v, d: d, in: shape, out: s.shape[1:]}, drop, nil
}

// Run convolves image by image.
func (v *convTransposePacked) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 4 || !slices.Equal(x.Shape()[1:], v.in) {
		return fmt.Errorf("input has shape %v, want [N %d %d %d]", x.Shape(), v.in[0], v.in[1], v.in[2])
	}
	n := x.Dim(0)
	y, err := c.Output(0, tensor.TypeFloat32, append([]int{n}, v.out...)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	scratch, err := ir.ScratchOf[float32](c, v.d.Scratch())
	if err != nil {
		return err
	}
	for i := range n {
		if err := c.Err(); err != nil {
			return err
		}
		v.d.Run(cpu.Active(), c.Par(), tensor.Of[float32](y)[i*product(v.out):][:product(v.out)], tensor.Of[float32](x)[i*product(v.in):][:product(v.in)], scratch)
	}
	return nil
}
