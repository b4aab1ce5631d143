package backendtest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

type sampler = func(seed uint64) ([]tensor.Value, error)

// stale makes runs return the previous draw if old reports true for them.
func stale(run sampler, old func(seed uint64) bool) sampler {
	return func(seed uint64) ([]tensor.Value, error) {
		for old(seed) {
			seed--
		}
		return run(seed)
	}
}

type checkCase struct {
	name string
	run  sampler
	err  string
}

func testCheck(t *testing.T, check Check, s DataSet, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		err := check.verify(c.run, s)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
	}
}

// This test checks that the check accepts independent draws with the right probabilities and
// rejects others.
func TestBernoulliCheck(t *testing.T) {
	p := []float32{0, 0.1, 0.5, 0.6, 0.9, 1}
	s := DataSet{Inputs: []tensor.Value{vector(p...)}, Outputs: []tensor.Value{vector(0, 0, 1, 1, 1, 1)}}
	draw := func(f func(rng *rand.Rand, p float32) float32) sampler {
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
	oneNumber := func(seed uint64) ([]tensor.Value, error) {
		u := rand.New(rand.NewPCG(seed, 1)).Float32()
		return draw(func(_ *rand.Rand, p float32) float32 { return is(u < p) })(seed)
	}
	testCheck(t, checkBernoulli, s, []checkCase{
		{"right", right, ""},
		{"fixed seed", stale(right, func(seed uint64) bool { return seed > 1 }), "want about"},
		{"every second draw copies the one before", stale(right, func(seed uint64) bool { return seed%2 == 0 }), "equal to that of the previous run"},
		{"every second draw copies the one before, from the second", stale(right, func(seed uint64) bool { return seed > 1 && seed%2 == 1 }), "equal to that of the previous run"},
		{"one number for all elements", oneNumber, "elements 2 and 3 equal"},
		{"constant 0", draw(func(*rand.Rand, float32) float32 { return 0 }), "events of element 1"},
		{"constant 1", draw(func(*rand.Rand, float32) float32 { return 1 }), "element 0"},
		{"rounded", draw(func(_ *rand.Rand, p float32) float32 { return is(p > 0.5) }), "events of element 1"},
		{"complement", draw(func(rng *rand.Rand, p float32) float32 { return is(rng.Float32() >= p) }), "probability 0"},
		{"fair coin", draw(func(rng *rand.Rand, p float32) float32 { return is(p == 1 || p > 0 && rng.Float32() < 0.5) }), "events of element 1"},
		{"not 0 or 1", draw(func(_ *rand.Rand, p float32) float32 { return p }), "want 0 or 1"},
		{"shape", func(uint64) ([]tensor.Value, error) { return []tensor.Value{vector(0)}, nil }, "shape"},
		{"outputs", func(uint64) ([]tensor.Value, error) { return nil, nil }, "0 outputs, want 1"},
	})
	// Probabilities so near 1 that frequencies alone do not reject a constant.
	p = []float32{0.97, 0.96}
	s = DataSet{Inputs: []tensor.Value{vector(p...)}, Outputs: []tensor.Value{vector(1, 1)}}
	testCheck(t, checkBernoulli, s, []checkCase{
		{"right", right, ""},
		{"constant 1", draw(func(*rand.Rand, float32) float32 { return 1 }), "want different draws"},
	})
}

func TestDropoutCheck(t *testing.T) {
	x := make([]float32, 60)
	for i := range x {
		x[i] = float32(i) - 20.5
	}
	mask := tensor.Must(tensor.New(make([]bool, len(x)), len(x)))
	s := DataSet{Inputs: []tensor.Value{vector(x...), tensor.Scalar(float32(0.75))},
		Outputs: []tensor.Value{vector(x...), mask}}
	dropping := func(ratio, scale float32, flip bool) sampler {
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
	right := dropping(0.75, 4, false)
	cases := []checkCase{
		{"right", right, ""},
		{"not scaled", dropping(0.75, 1, false), "want 0 or"},
		{"wrong ratio", dropping(0.5, 4, false), "events of element"},
		{"ratio off by a fiftieth", dropping(0.73, 4, false), "events of all elements"},
		{"drops everything", dropping(2, 4, false), "events of element 0: 0 of 300"},
		{"keeps everything", dropping(-1, 4, false), "events of element 0: 300 of 300"},
		{"fixed seed", stale(right, func(seed uint64) bool { return seed > 1 }), "events of element 0: "},
	}
	testCheck(t, checkDropout, s, append(cases, checkCase{"mask inverted", dropping(0.75, 4, true), "want 0 or"}))
	// Without the mask output the kept elements are those that are not 0.
	for i := range cases {
		run := cases[i].run
		cases[i].run = func(seed uint64) ([]tensor.Value, error) {
			out, err := run(seed)
			return out[:1], err
		}
	}
	s.Outputs = s.Outputs[:1]
	testCheck(t, checkDropout, s, cases)
}

// This test checks that constants fail as cases of the suite, and that a seed in the model is
// removed.
func TestRandomCasesInRunner(t *testing.T) {
	p := vector(0.25, 0.5, 0.75)
	graph := func(op string, in []string, attrs ...onnx.Attrs) *onnx.Model {
		b := onnx.NewModel("random")
		b.Input("x", onnx.Float, "n").Output("y", onnx.Float, "n")
		b.Initializer("zero", onnx.FromTensor(tensor.Scalar(float32(0)))).
			Initializer("train", onnx.FromTensor(tensor.Scalar(true)))
		b.Node(op, in, []string{"y"}, attrs...)
		return b.Must()
	}
	for _, c := range []struct {
		name, title, want string
		model             *onnx.Model
	}{
		{"test_bernoulli", "no seed", "passed", graph("Bernoulli", []string{"x"})},
		{"test_bernoulli_seed", "a seed", "passed", graph("Bernoulli", []string{"x"}, onnx.Attrs{"seed": float32(0)})},
		{"test_bernoulli", "constant 0", "failed: data set 0: events of element", graph("Mul", []string{"x", "zero"})},
		{"test_bernoulli", "constant 1", "failed: data set 0: events of element", graph("Pow", []string{"x", "zero"})},
		{"test_training_dropout", "a seed", "passed", graph("Dropout", []string{"x", "ratio", "train"}, onnx.Attrs{"seed": int64(0)})},
		{"test_training_dropout", "everything is dropped", "failed: data set 0: events of element", graph("Mul", []string{"x", "zero"})},
		{"test_training_dropout", "wrong draw with a seed", "failed: data set 0, with seeds: element 0", graph("RandomUniformLike", []string{"x"}, onnx.Attrs{"seed": float32(0)})},
	} {
		in := []tensor.Value{p}
		if strings.Contains(c.name, "dropout") {
			in = append(in, tensor.Scalar(float32(0.75)))
			scalar := onnx.NewType(in[1].Type())
			scalar.Tensor.Shape = &onnx.Shape{}
			c.model.Graph.Inputs = append(c.model.Graph.Inputs, &onnx.ValueInfo{Name: "ratio", Type: scalar})
		}
		tc := TestCase{Name: c.name, Kind: "node", Model: c.model,
			DataSets: []DataSet{{Inputs: in, Outputs: []tensor.Value{p}}}}
		r := newRunner(t, backend.Reference, Options{Devices: []string{"CPU"}}, tc)
		list, err := r.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := list[0].text(); !strings.HasPrefix(got, c.want) || list[0].Checked == "" {
			t.Errorf("%s, %s: %s, checked %q, want %s", c.name, c.title, got, list[0].Checked, c.want)
		}
		if n := CountChecked(list); n != Count(list).Passed {
			t.Errorf("%s, %s: %d cases counted as checked", c.name, c.title, n)
		}
	}
}
