package backendtest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// The checks of random cases accept a right generator and refuse wrong ones.
func TestBernoulliCheck(t *testing.T) {
	p := []float32{0, 0.1, 0.5, 0.9, 1}
	s := DataSet{Inputs: []tensor.Value{vector(p...)}, Outputs: []tensor.Value{vector(0, 0, 1, 1, 1)}}
	draw := func(f func(rng *rand.Rand, p float32) float32) func(uint64) ([]tensor.Value, error) {
		return func(seed uint64) ([]tensor.Value, error) {
			rng := rand.New(rand.NewPCG(seed, 1))
			y := make([]float32, len(p))
			for i, q := range p {
				y[i] = f(rng, q)
			}
			return []tensor.Value{vector(y...)}, nil
		}
	}
	is := func(b bool) float32 {
		if b {
			return 1
		}
		return 0
	}
	right := draw(func(rng *rand.Rand, p float32) float32 { return is(rng.Float32() < p) })
	for _, c := range []struct {
		name string
		run  func(uint64) ([]tensor.Value, error)
		err  string
	}{
		{"right", right, ""},
		{"fixed seed", func(uint64) ([]tensor.Value, error) { return right(1) }, ""},
		{"complement", draw(func(rng *rand.Rand, p float32) float32 { return is(rng.Float32() >= p) }), "probability"},
		{"fair coin", draw(func(rng *rand.Rand, p float32) float32 { return is(p == 1 || p > 0 && rng.Float32() < 0.5) }), "ones of element 1"},
		{"not 0 or 1", draw(func(_ *rand.Rand, p float32) float32 { return p }), "want 0 or 1"},
		{"shape", func(uint64) ([]tensor.Value, error) { return []tensor.Value{vector(0)}, nil }, "shape"},
		{"outputs", func(uint64) ([]tensor.Value, error) { return nil, nil }, "0 outputs, want 1"},
	} {
		err := bernoulli(c.run, s)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
	}
}

func TestDropoutCheck(t *testing.T) {
	x := make([]float32, 60)
	for i := range x {
		x[i] = float32(i) - 20
	}
	mask := tensor.Must(tensor.New(make([]bool, len(x)), len(x)))
	s := DataSet{Inputs: []tensor.Value{vector(x...), tensor.Scalar(float32(0.75))}, Outputs: []tensor.Value{vector(x...), mask}}
	dropping := func(ratio, scale float32, flip bool) func(uint64) ([]tensor.Value, error) {
		return func(seed uint64) ([]tensor.Value, error) {
			rng := rand.New(rand.NewPCG(seed, 1))
			y, m := make([]float32, len(x)), make([]bool, len(x))
			for i := range x {
				if m[i] = rng.Float32() >= ratio; m[i] {
					y[i] = x[i] * scale
				}
				m[i] = m[i] != flip
			}
			return []tensor.Value{vector(y...), tensor.Must(tensor.New(m, len(m)))}, nil
		}
	}
	for _, c := range []struct {
		name string
		run  func(uint64) ([]tensor.Value, error)
		err  string
	}{
		{"right", dropping(0.75, 4, false), ""},
		{"not scaled", dropping(0.75, 1, false), "want 0 or"},
		{"wrong ratio", dropping(0.5, 4, false), "elements kept"},
		{"mask inverted", dropping(0.75, 4, true), "want 0 or"},
	} {
		err := dropout(c.run, s)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
	}
}
