// Package nchwc implements the operators of com.microsoft.nchwc, to which ONNX Runtime's
// optimizer of level 3 converts convolutions and pools. In ONNX Runtime their images have shape
// N×C×H×W and the layout N×C/b×H×W×b. Here images stay N×C×H×W in memory, with C rounded up to a
// multiple of b. The results are equal, because the other operators between them are elementwise or
// concatenate channels. The filters of Conv are constants in the blocked layout.
package nchwc

import (
	"runtime"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// MachineBlock returns the b that ONNX Runtime takes on this machine (MlasNchwcGetBlockSize in
// https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/mlas/lib/platform.cpp).
func MachineBlock() int {
	if cpu.Detected() == cpu.AVX512 || runtime.GOARCH == "arm64" {
		return 16
	}
	return 8
}

// readBlock returns the b of the model that a node is from.
func readBlock(a *kit.Attrs) int {
	if a.Block == 0 {
		return MachineBlock()
	}
	return a.Block
}

// sameOperator builds the named operator of ONNX at an opset.
func sameOperator(name string, opset int) func(a *kit.Attrs, _ int) kit.Operator {
	return func(a *kit.Attrs, _ int) kit.Operator { return kit.Registered("", name).Build(a, opset) }
}

// UnblockFilter writes a blocked filter to dst as M×C×kH×kW. The blocked layout is
// M/b×C/b×kH×kW×b×b, channels before filters, or M/b×C×kH×kW×b if C is below b.
func UnblockFilter(dst []float32, w *tensor.Tensor, block int) error {
	s := w.Shape()
	if len(s) != 4 || s[0]%block != 0 || s[1] >= block && s[1]%block != 0 || w.DType() != tensor.TypeFloat32 {
		return fail.Errorf("W is %s with shape %v, want float [M C kH kW] with M a multiple of the block size %d, and "+
			"C too unless it is less", w.DType(), s, block)
	}
	channels, size, src := s[1], s[2]*s[3], tensor.MustData[float32](w)
	if len(src) == 0 { // whose other dimensions may be large
		return nil
	}
	per := 1 // channels in a block
	if channels >= block {
		per = block
	}
	i := 0
	for m := 0; m < s[0]; m += block {
		for c := 0; c < channels; c += per {
			for k := range size {
				for ci := range per {
					for mi := range block {
						dst[((m+mi)*channels+c+ci)*size+k] = src[i]
						i++
					}
				}
			}
		}
	}
	return nil
}

// Conv is [msft.ActivatedConv] with a filter in blocks.
type Conv struct {
	Block int
	of    msft.ActivatedConv
}

// Plain returns the operator for a filter that [UnblockFilter] has written.
func (op *Conv) Plain() ir.Operator { return &op.of }

// Infer infers the convolution: blocks do not change the filter's shape.
func (op *Conv) Infer(c *ir.InferContext) error { return op.of.Infer(c) }

// Run convolves with the filter in the plain layout.
func (op *Conv) Run(c *ir.Call) error {
	w, err := kit.ScratchTensor(c, tensor.TypeFloat32, c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	if err := UnblockFilter(tensor.MustData[float32](w), c.Tensor(1), op.Block); err != nil {
		return err
	}
	in := slices.Clone(c.In)
	in[1] = w
	return c.Inner(&op.of, in...)
}
