package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Report compares a quantized model with its original.
type Report struct {
	Batches int
	Outputs []OutputReport // in the model's order
}

// OutputReport compares an output of two models over all batches. Values that are NaN or
// infinite in either model are excluded from MaxAbs and the sums.
type OutputReport struct {
	Name   string
	Values int64
	// Odd is the number of values that differ and are NaN or infinite in either model.
	Odd int64
	// MaxAbs is the largest difference.
	MaxAbs float64
	// Running sums over all values x of the original and q of the quantized model: Σx², Σq²,
	// Σxq, Σ(x−q)².
	Signal, Quantized, Product, Noise float64
	// Rows is the number of vectors along the last dimension of a float output of rank 2 or more.
	// Agree is the number of rows with the same argmax in both models. For other types they are the
	// numbers of all and of equal elements.
	Rows, Agree int64
}

// SNR returns the signal-to-noise ratio in decibels, +Inf if there is no difference.
func (r OutputReport) SNR() float64 {
	if r.Noise == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(r.Signal/r.Noise)
}

// Cosine returns the cosine of the angle between both outputs as vectors, 1 if both are
// zero.
func (r OutputReport) Cosine() float64 {
	if r.Signal == 0 && r.Quantized == 0 {
		return 1
	}
	return r.Product / math.Sqrt(r.Signal*r.Quantized)
}

// Agreement returns Agree / Rows: for a classifier, how often both models give the same
// class. It is NaN if Rows is 0.
func (r OutputReport) Agreement() float64 {
	return float64(r.Agree) / float64(r.Rows)
}

// EvaluateOptions configure [Evaluate].
type EvaluateOptions struct {
	// Session holds the options of both sessions. Default: the provider cpu.
	Session *onward.SessionOptions
	// MaxBatches bounds the number of batches. Default: no limit.
	MaxBatches int
	// Progress is called after each batch with the number of completed ones.
	Progress func(done int)
}

// Evaluate runs a model and its quantized form on the same data and compares the
// outputs of the same names.
func Evaluate(ctx context.Context, original, quantized *onnx.Model, data Data, o *EvaluateOptions) (*Report, error) {
	if o == nil {
		o = &EvaluateOptions{}
	}
	if data == nil {
		return nil, errors.New("evaluation: the data is nil: make it with Batches")
	}
	r, err := evaluate(ctx, original, quantized, data, o)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	return r, nil
}

func evaluate(ctx context.Context, original, quantized *onnx.Model, data Data, o *EvaluateOptions) (*Report, error) {
	a, err := onward.OpenModel(ctx, original, o.Session)
	if err != nil {
		return nil, fmt.Errorf("the original: %w", err)
	}
	defer a.Close()
	b, err := onward.OpenModel(ctx, quantized, o.Session)
	if err != nil {
		return nil, fmt.Errorf("the quantized model: %w", err)
	}
	defer b.Close()
	r := &Report{}
	for _, out := range a.Outputs() {
		r.Outputs = append(r.Outputs, OutputReport{Name: out.Name})
	}
	for feed, err := range data {
		if err != nil {
			return nil, fmt.Errorf("batch %d: %w", r.Batches+1, err)
		}
		x, err := a.Run(ctx, feed, nil)
		if err != nil {
			return nil, fmt.Errorf("batch %d, the original: %w", r.Batches+1, err)
		}
		y, err := b.Run(ctx, feed, nil)
		if err != nil {
			return nil, fmt.Errorf("batch %d, the quantized model: %w", r.Batches+1, err)
		}
		for i := range r.Outputs {
			out := &r.Outputs[i]
			p, ok := x[out.Name].(*tensor.Tensor)
			q, ok2 := y[out.Name].(*tensor.Tensor)
			if !ok || !ok2 {
				continue // sequences and maps are not compared
			}
			if !slices.Equal(p.Shape(), q.Shape()) || p.DType() != q.DType() {
				return nil, fmt.Errorf("output %q is %s in the original and %s in the quantized model", out.Name, p, q)
			}
			out.merge(compareTensors(p, q))
		}
		r.Batches++
		if o.Progress != nil {
			o.Progress(r.Batches)
		}
		if r.Batches == o.MaxBatches {
			break
		}
	}
	if r.Batches == 0 {
		return nil, errors.New("the data has no batches")
	}
	return r, nil
}

func (r *OutputReport) merge(o OutputReport) {
	r.Values, r.Odd, r.Rows, r.Agree = r.Values+o.Values, r.Odd+o.Odd, r.Rows+o.Rows, r.Agree+o.Agree
	r.MaxAbs = max(r.MaxAbs, o.MaxAbs)
	r.Signal, r.Quantized, r.Product, r.Noise = r.Signal+o.Signal, r.Quantized+o.Quantized,
		r.Product+o.Product, r.Noise+o.Noise
}

// compareTensors compares two tensors of the same type and shape.
func compareTensors(a, b *tensor.Tensor) (r OutputReport) {
	r.Values = int64(a.Len())
	d := a.DType()
	if d == tensor.TypeString || d == tensor.TypeComplex64 || d == tensor.TypeComplex128 {
		r.Rows = r.Values
		if tensor.Equal(a, b) == nil {
			r.Agree = r.Values
		}
		return r
	}
	x, err1 := tensor.Float64s(a)
	y, err2 := tensor.Float64s(b)
	if err1 != nil || err2 != nil {
		return r
	}
	for i := range x {
		p, q := x[i], y[i]
		odd := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
		if odd(p) || odd(q) {
			if p != q && !(math.IsNaN(p) && math.IsNaN(q)) {
				r.Odd++
			}
			continue
		}
		r.MaxAbs = max(r.MaxAbs, math.Abs(p-q))
		r.Signal, r.Quantized, r.Product, r.Noise = r.Signal+p*p, r.Quantized+q*q, r.Product+p*q, r.Noise+(p-q)*(p-q)
	}
	if !d.IsFloat() {
		r.Rows = r.Values
		for i := range x {
			if x[i] == y[i] {
				r.Agree++
			}
		}
		return r
	}
	if n := a.Rank(); n >= 2 && a.Dim(n-1) > 1 {
		width := a.Dim(n - 1)
		for i := 0; i+width <= len(x); i += width {
			r.Rows++
			if largest(x[i:i+width]) == largest(y[i:i+width]) {
				r.Agree++
			}
		}
	}
	return r
}

func largest(v []float64) int {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return best
}
