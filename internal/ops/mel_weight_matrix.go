package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MelWeightMatrix returns a matrix [dft_length/2+1, num_mel_bins] of triangular filters of equal
// width on the mel scale 2595·log10(1 + f/700), between two frequencies in hertz
// (https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html).
type MelWeightMatrix struct{ dtype tensor.DType }

var _ = kit.Register(&kit.Def{Name: "MelWeightMatrix", Since: kit.Versions{17},
	Class: kit.ClassOther,
	In:    "num_mel_bins:T1, dft_length:T1, sample_rate:T1, lower_edge_hertz:T2, upper_edge_hertz:T2",
	Out:   "output:T3", Types: "T1: int32 int64; T2: @float; T3: " + numberOutputs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &MelWeightMatrix{a.DType("output_datatype", tensor.TypeFloat32)}
	}})

// Infer sets the output to [dft_length/2+1, num_mel_bins].
func (op *MelWeightMatrix) Infer(c *ir.InferContext) error {
	dims := ir.UnknownDims(2)
	if d := c.Contents(1); len(d) == 1 {
		dims[0] = d[0].Div(ir.Known(2)).Add(ir.Known(1))
	}
	if d := c.Contents(0); len(d) == 1 {
		dims[1] = d[0]
	}
	for i, d := range dims {
		if v, ok := d.Value(); ok && v < 0 {
			return fail.Errorf("dimension %d of the output must be non-negative, got %d", i, v)
		}
	}
	c.SetOut(0, ir.TensorType(op.dtype, dims...))
	return nil
}

// Run computes the matrix.
func (op *MelWeightMatrix) Run(c *ir.Call) error {
	var n [3]int
	for i, name := range []string{"num_mel_bins", "dft_length", "sample_rate"} {
		var err error
		if n[i], err = kit.ScalarInt(c.Tensor(i), name); err != nil {
			return err
		}
		if n[i] < 0 || i == 2 && n[i] == 0 {
			return fail.Errorf("%s is %d, want at least %d", name, n[i], i/2)
		}
	}
	bins, length, rate := n[0], n[1], n[2]
	var edge [2]float64
	for i, name := range []string{"lower_edge_hertz", "upper_edge_hertz"} {
		if t := c.Tensor(3 + i); t.Len() != 1 {
			return fail.Errorf("%s has shape %v, want a scalar", name, t.Shape())
		}
		v, err := kit.RealIn[float64](c, c.Tensor(3+i))
		if err != nil {
			return err
		}
		edge[i] = v[0]
	}
	rows := length/2 + 1
	t, err := c.Output(0, op.dtype, rows, bins)
	if err != nil {
		return err
	}
	out, err := ir.ScratchOf[float64](c, t.Len())
	if err != nil {
		return err
	}
	ir.Clear(c, out)
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	low, step := mel(edge[0]), (mel(edge[1])-mel(edge[0]))/float64(bins+2)
	bin := func(i int) (int, error) {
		hz := 700 * (math.Pow(10, (float64(i)*step+low)/2595) - 1)
		b := math.Floor((float64(length) + 1) * hz / float64(rate))
		if !(b >= 0 && b < float64(rows)) {
			return 0,
				fail.Errorf("frequencies from %v to %v Hz are out of range of the %d bins of a DFT of length %d at %d "+
					"samples per second", edge[0], edge[1], rows, length, rate)
		}
		return int(b), nil
	}
	for i := range bins {
		var p [3]int
		for k := range p {
			if p[k], err = bin(i + k); err != nil {
				return err
			}
		}
		left, center, right := p[0], p[1], p[2]
		if left == center {
			out[center*bins+i] = 1
		}
		for j := left; j <= center && left < center; j++ {
			out[j*bins+i] = float64(j-left) / float64(center-left)
		}
		for j := center; j < right; j++ {
			out[j*bins+i] = float64(right-j) / float64(right-center)
		}
		if i%64 == 63 {
			if err := c.Err(); err != nil {
				return err
			}
		}
	}
	return storeNumbers(t, out)
}
