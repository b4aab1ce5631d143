package backendtest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Check tests a case by the distribution of its results. It replaces the comparison of
// a case whose expected outputs are one draw of a random generator that ONNX does not
// specify. Each element of a result records an event, for instance that an element is
// kept.
//
// The seeds of the model are removed, so that the draws of several runs must differ.
// The model with its seeds runs once.
type Check struct {
	Why string // why results are not compared, and what is tested instead
	// Draw tests the outputs of one run and returns the events that happened.
	Draw func(out []tensor.Value, s DataSet) (happened []bool, err error)
	// Probabilities returns the probability of each event.
	Probabilities func(s DataSet) ([]float64, error)
}

const (
	whyBernoulli = "draws are not specified; tested: type, shape, values 0 and 1, the frequency of 1 and the " +
		"independence of draws"
	// Bernoulli's body in ONNX's operator definitions is RandomUniformLike > input.
	whyExpanded = "as for Bernoulli with the probability 1−p: the model computes Greater(uniform, p)"
	whyDropout  = "which elements are dropped is not specified; tested: type, shape, y = mask·x/(1−ratio), the " +
		"frequency of kept elements and the independence of draws"
)

var (
	checkBernoulli = Check{whyBernoulli, drawBernoulli, func(s DataSet) ([]float64, error) {
		return elements(s.Inputs, 0, "input")
	}}
	checkExpanded = Check{whyExpanded, drawBernoulli, complement}
	checkDropout  = Check{whyDropout, drawDropout, keepProbabilities}
)

// RandomChecks lists the cases of the ONNX suite that are tested by distribution. Their
// expected outputs come from NumPy's Mersenne Twister; the specification of Bernoulli
// and Dropout does not name a generator.
var RandomChecks = map[string]Check{
	"test_bernoulli":                     checkBernoulli,
	"test_bernoulli_expanded":            checkExpanded,
	"test_bernoulli_double":              checkBernoulli,
	"test_bernoulli_double_expanded":     checkExpanded,
	"test_bernoulli_seed":                checkBernoulli,
	"test_bernoulli_seed_expanded":       checkExpanded,
	"test_training_dropout":              checkDropout,
	"test_training_dropout_mask":         checkDropout,
	"test_training_dropout_default":      checkDropout,
	"test_training_dropout_default_mask": checkDropout,
}

// draws is the number of runs that the statistics are over.
const draws = 300

// verify draws several times and tests the distribution. Each run gets another seed,
// for backends whose unseeded operators take one.
func (c Check) verify(run func(seed uint64) ([]tensor.Value, error), s DataSet) error {
	p, err := c.Probabilities(s)
	if err != nil {
		return err
	}
	events := make([][]bool, draws)
	for n := range events {
		out, err := run(uint64(n) + 1)
		if err != nil {
			return err
		}
		if events[n], err = c.Draw(out, s); err != nil {
			return fmt.Errorf("run %d: %w", n, err)
		}
		if len(events[n]) != len(p) {
			return fmt.Errorf("%d events, %d probabilities", len(events[n]), len(p))
		}
	}
	return plausible(events, p)
}

// plausible tests that the events of several runs are independent draws with the given
// probabilities.
func plausible(events [][]bool, p []float64) error {
	var all count
	mean, random, varies := 0.0, false, false
	for i, q := range p {
		var ones count
		var again [2]count // runs 2k and 2k+1, 2k+1 and 2k+2: disjoint pairs, so that agreements are independent
		var neighbours count
		for n, e := range events {
			ones.add(e[i])
			all.add(e[i])
			if n > 0 {
				again[n%2].add(e[i] == events[n-1][i])
			}
			if i > 0 {
				neighbours.add(e[i] == e[i-1])
			}
		}
		mean += q / float64(len(p))
		if q <= 0 || q >= 1 {
			if ones.happened != 0 && q <= 0 || ones.happened != ones.of && q >= 1 {
				return fmt.Errorf("element %d: %d of %d events with probability %g", i, ones.happened, ones.of, q)
			}
			continue
		}
		random, varies = true, varies || ones.happened > 0 && ones.happened < ones.of
		if err := ones.likely(q); err != nil {
			return fmt.Errorf("events of element %d: %w", i, err)
		}
		for _, a := range again {
			if err := a.likely(q*q + (1-q)*(1-q)); err != nil {
				return fmt.Errorf("element %d equal to that of the previous run: %w", i, err)
			}
		}
		if i > 0 {
			if err := neighbours.likely(q*p[i-1] + (1-q)*(1-p[i-1])); err != nil {
				return fmt.Errorf("elements %d and %d equal: %w", i-1, i, err)
			}
		}
	}
	if random && !varies {
		return fmt.Errorf("the results of %d runs are equal, want different draws", len(events))
	}
	if err := all.likely(mean); err != nil {
		return fmt.Errorf("events of all elements: %w", err)
	}
	return nil
}

// count counts the trials in which an event happened.
type count struct{ happened, of int }

func (c *count) add(happened bool) {
	if c.of++; happened {
		c.happened++
	}
}

// implausible is the Chernoff bound's exponent above which a frequency is refused: a
// right generator exceeds it with a probability below 2·e⁻²⁵ = 3·10⁻¹¹.
const implausible = 25

// likely tests a frequency against the mean probability p of independent events. The
// bound n·KL(frequency, p) holds for events of different probabilities too (Hoeffding 1963).
func (c count) likely(p float64) error {
	f := float64(c.happened) / float64(c.of)
	if float64(c.of)*(divergence(f, p)+divergence(1-f, 1-p)) > implausible {
		return fmt.Errorf("%d of %d, want about %.4g", c.happened, c.of, p*float64(c.of))
	}
	return nil
}

// divergence returns one term of the Kullback-Leibler divergence.
func divergence(f, p float64) float64 {
	if f <= 0 {
		return 0
	}
	return f * math.Log(f/p)
}

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
			return nil, fmt.Errorf("output %d must be a tensor", i)
		}
		if _, _, err := tensor.Distance(g, w); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
		r[i] = g
	}
	return r, nil
}

// elements returns the elements of value i of a list as float64.
func elements(values []tensor.Value, i int, what string) ([]float64, error) {
	if i >= len(values) {
		return nil, fmt.Errorf("%s %d is missing", what, i)
	}
	t, ok := values[i].(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("%s %d must be a tensor", what, i)
	}
	return tensor.Float64s(t)
}

func complement(s DataSet) ([]float64, error) {
	p, err := elements(s.Inputs, 0, "input")
	for i := range p {
		p[i] = 1 - p[i]
	}
	return p, err
}

// drawBernoulli tests that output 0 holds zeros and ones.
func drawBernoulli(out []tensor.Value, s DataSet) ([]bool, error) {
	t, err := sameForm(out, s.Outputs)
	if err != nil {
		return nil, err
	}
	x, err := tensor.Float64s(t[0])
	if err != nil {
		return nil, err
	}
	happened := make([]bool, len(x))
	for i, v := range x {
		if v != 0 && v != 1 {
			return nil, fmt.Errorf("element %d is %g, want 0 or 1", i, v)
		}
		happened[i] = v == 1
	}
	return happened, nil
}

// dropoutRatio returns the ratio of Dropout in training mode, whose inputs are x, ratio
// and training_mode.
func dropoutRatio(s DataSet) (float64, error) {
	if len(s.Inputs) < 2 || s.Inputs[1] == nil {
		return 0.5, nil
	}
	r, err := elements(s.Inputs, 1, "input")
	if err != nil {
		return 0, err
	}
	if len(r) != 1 {
		return 0, fmt.Errorf("the ratio has %d elements, want 1", len(r))
	}
	return r[0], nil
}

// dropoutInputs returns the elements of the input and the ratio.
func dropoutInputs(s DataSet) (x []float64, ratio float64, err error) {
	if x, err = elements(s.Inputs, 0, "input"); err == nil {
		ratio, err = dropoutRatio(s)
	}
	return x, ratio, err
}

// keepProbabilities returns 1−ratio for each element. Without a mask output a zero of x
// looks dropped always.
func keepProbabilities(s DataSet) ([]float64, error) {
	x, ratio, err := dropoutInputs(s)
	if err != nil {
		return nil, err
	}
	p := make([]float64, len(x))
	for i, v := range x {
		if v != 0 || len(s.Outputs) > 1 {
			p[i] = 1 - ratio
		}
	}
	return p, nil
}

// drawDropout tests that the outputs y and mask (or y alone) are those of Dropout in
// training mode, and returns which elements are kept.
func drawDropout(out []tensor.Value, s DataSet) ([]bool, error) {
	x, ratio, err := dropoutInputs(s)
	if err != nil {
		return nil, err
	}
	t, err := sameForm(out, s.Outputs)
	if err != nil {
		return nil, err
	}
	if len(t) == 0 {
		return nil, errors.New("there are no outputs")
	}
	y, err := tensor.Float64s(t[0])
	if err != nil {
		return nil, err
	}
	if len(y) != len(x) {
		return nil, fmt.Errorf("%d elements, want %d", len(y), len(x))
	}
	kept := make([]bool, len(y))
	for i, v := range y {
		kept[i] = v != 0
	}
	if len(t) > 1 {
		mask, err := tensor.Data[bool](t[1])
		if err != nil {
			return nil, err
		}
		kept = slices.Clone(mask)
	}
	for i, v := range y {
		want := 0.0
		if kept[i] {
			want = x[i] / (1 - ratio)
		}
		if math.Abs(v-want) > DefaultAtol+DefaultRtol*math.Abs(want) {
			return nil, fmt.Errorf("element %d is %g, want 0 or %g", i, v, x[i]/(1-ratio))
		}
	}
	return kept, nil
}

// withoutSeeds returns a copy of the model whose main graph has no attributes "seed",
// nil if it has none.
func withoutSeeds(m *onnx.Model) *onnx.Model {
	c, g := *m, *m.Graph
	g.Nodes = make([]*onnx.Node, len(m.Graph.Nodes))
	found := false
	for i, n := range m.Graph.Nodes {
		k := *n
		k.Attributes = nil
		for _, a := range n.Attributes {
			if a.Name == "seed" {
				found = true
			} else {
				k.Attributes = append(k.Attributes, a)
			}
		}
		g.Nodes[i] = &k
	}
	if !found {
		return nil
	}
	c.Graph = &g
	return &c
}
