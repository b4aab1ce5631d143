package backendtest

import (
	"errors"
	"fmt"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// Check says what is tested of a case whose expected outputs are one draw of a
// random generator that ONNX does not specify, so that they cannot be compared.
type Check struct {
	Why string // why there is no comparison, and what is tested instead
	// Verify runs the case, with seeds for a backend that takes some, and tests the
	// results.
	Verify func(run func(seed uint64) ([]tensor.Value, error), s DataSet) error
}

const (
	whyBernoulli = "draws are not specified: type, shape, values 0 and 1, and the frequency of 1 against the probabilities are tested"
	// Bernoulli's body in ONNX's operator definitions is RandomUniformLike > input.
	whyExpanded = "as for Bernoulli, but for the probability 1−p that the model computes: its node is Greater(uniform, p)"
	whyDropout  = "which elements drop out is not specified: type, shape, y = mask·x/(1−ratio) and the share of kept elements are tested"
)

// RandomChecks lists every case of the ONNX suite whose comparison is left out,
// with what takes its place. Their generator is NumPy's Mersenne Twister, while the
// specification of Bernoulli and Dropout leaves the generator open.
var RandomChecks = map[string]Check{
	"test_bernoulli":                     {whyBernoulli, bernoulli},
	"test_bernoulli_expanded":            {whyExpanded, notBernoulli},
	"test_bernoulli_double":              {whyBernoulli, bernoulli},
	"test_bernoulli_double_expanded":     {whyExpanded, notBernoulli},
	"test_bernoulli_seed":                {whyBernoulli, bernoulli},
	"test_bernoulli_seed_expanded":       {whyExpanded, notBernoulli},
	"test_training_dropout":              {whyDropout, dropout},
	"test_training_dropout_mask":         {whyDropout, dropout},
	"test_training_dropout_default":      {whyDropout, dropout},
	"test_training_dropout_default_mask": {whyDropout, dropout},
}

// draws is how many runs the statistics are over, and sigmas how many standard
// deviations a mean may be off: right generators fail once in 10⁸ tests.
const (
	draws  = 300
	sigmas = 6
)

// sameForm tests the number of outputs, their types and shapes.
func sameForm(out, want []tensor.Value) ([]*tensor.Tensor, error) {
	if len(out) != len(want) {
		return nil, fmt.Errorf("%d outputs, want %d", len(out), len(want))
	}
	r := make([]*tensor.Tensor, len(out))
	for i := range out {
		g, ok1 := out[i].(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("output %d is no tensor", i)
		}
		if _, _, err := tensor.Distance(g, w); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
		r[i] = g
	}
	return r, nil
}

// likely tests that n independent events of the given probabilities happened a
// plausible number of times.
func likely(what string, happened, mean, variance float64) error {
	if d := math.Abs(happened - mean); d > sigmas*math.Sqrt(variance)+1e-9 {
		return fmt.Errorf("%s: %g, want %.4g ± %.4g", what, happened, mean, sigmas*math.Sqrt(variance))
	}
	return nil
}

// bernoulli tests that output 0 is 1 with the probability that input 0 says. With
// a seed in the model all runs may be the same: then only the sum is tested.
func bernoulli(run func(seed uint64) ([]tensor.Value, error), s DataSet) error {
	return bernoulliOf(run, s, func(p float64) float64 { return p })
}

// notBernoulli is bernoulli with the probabilities of 0 and 1 exchanged.
func notBernoulli(run func(seed uint64) ([]tensor.Value, error), s DataSet) error {
	return bernoulliOf(run, s, func(p float64) float64 { return 1 - p })
}

func bernoulliOf(run func(seed uint64) ([]tensor.Value, error), s DataSet, one func(p float64) float64) error {
	if len(s.Inputs) != 1 || len(s.Outputs) != 1 {
		return errors.New("want one input and one output")
	}
	p, ok := s.Inputs[0].(*tensor.Tensor)
	if !ok {
		return errors.New("the input is no tensor")
	}
	prob, err := tensor.Float64s(p)
	if err != nil {
		return err
	}
	for i, q := range prob {
		prob[i] = one(q)
	}
	ones := make([]float64, len(prob))
	varies := false
	var first []float64
	for n := range draws {
		out, err := run(uint64(n) + 1)
		if err != nil {
			return err
		}
		t, err := sameForm(out, s.Outputs)
		if err != nil {
			return err
		}
		x, err := tensor.Float64s(t[0])
		if err != nil {
			return err
		}
		if first == nil {
			first = x
		}
		for i, v := range x {
			if v != 0 && v != 1 {
				return fmt.Errorf("element %d is %g, want 0 or 1", i, v)
			}
			if prob[i] == 0 && v != 0 || prob[i] == 1 && v != 1 {
				return fmt.Errorf("element %d is %g with probability %g of 1", i, v, prob[i])
			}
			ones[i] += v
			varies = varies || v != first[i]
		}
	}
	if !varies {
		var sum, mean, variance float64
		for i, q := range prob {
			sum, mean, variance = sum+first[i], mean+q, variance+q*(1-q)
		}
		return likely("ones among all elements", sum, mean, variance)
	}
	for i, q := range prob {
		if err := likely(fmt.Sprintf("ones of element %d in %d runs", i, draws), ones[i], draws*q, draws*q*(1-q)); err != nil {
			return err
		}
	}
	return nil
}

// dropout tests the outputs y and mask (or y alone) of Dropout in training mode,
// for the inputs x, ratio and training_mode.
func dropout(run func(seed uint64) ([]tensor.Value, error), s DataSet) error {
	if len(s.Inputs) == 0 || len(s.Outputs) == 0 {
		return errors.New("want inputs and outputs")
	}
	in, ok := s.Inputs[0].(*tensor.Tensor)
	if !ok {
		return errors.New("the input is no tensor")
	}
	x, err := tensor.Float64s(in)
	if err != nil {
		return err
	}
	ratio := 0.5
	if len(s.Inputs) > 1 && s.Inputs[1] != nil {
		r, ok := s.Inputs[1].(*tensor.Tensor)
		if !ok || r.Len() != 1 {
			return errors.New("the ratio is no scalar")
		}
		v, err := tensor.Float64s(r)
		if err != nil {
			return err
		}
		ratio = v[0]
	}
	kept, total := 0.0, 0.0
	varies := false
	var first []float64
	for n := range draws {
		out, err := run(uint64(n) + 1)
		if err != nil {
			return err
		}
		t, err := sameForm(out, s.Outputs)
		if err != nil {
			return err
		}
		y, err := tensor.Float64s(t[0])
		if err != nil {
			return err
		}
		if first == nil {
			first = y
		}
		var mask []bool
		if len(t) > 1 {
			if mask, err = tensor.Data[bool](t[1]); err != nil {
				return err
			}
		}
		for i, v := range y {
			keep := v != 0
			if mask != nil {
				keep = mask[i]
			}
			want := 0.0
			if keep {
				want = x[i] / (1 - ratio)
				kept++
			}
			if math.Abs(v-want) > DefaultAtol+DefaultRtol*math.Abs(want) {
				return fmt.Errorf("element %d is %g, want 0 or %g", i, v, x[i]/(1-ratio))
			}
			total++
			varies = varies || v != first[i]
		}
	}
	if !varies { // the model has a seed: all runs are one
		kept, total = kept/draws, total/draws
	}
	return likely(fmt.Sprintf("elements kept of %g", total), kept, total*(1-ratio), total*ratio*(1-ratio))
}
