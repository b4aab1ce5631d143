package ort_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// quantizedLSTM describes a DynamicQuantizeLSTM of ONNX Runtime.
type quantizedLSTM struct {
	name                       string
	steps, batch, in, hidden   int
	direction                  string
	signed, perColumn, dynamic bool // dynamic: weights are inputs of the model
	lens                       []int32
	noBias, state, peepholes   bool
	withoutY                   bool
	gain                       float32 // of the recurrent weights; 0 means 1
	exact                      bool    // activations that round only as sums and products do: results must be equal
	attrs                      map[string]any
}

// exactActivations are functions whose results are the same float32 in every implementation.
var exactActivations = map[string]any{"activations": []string{"Relu", "Affine", "LeakyRelu"},
	"activation_alpha": []float32{2, 0.5}, "activation_beta": []float32{0}, "clip": float32(0.9)}

func TestDynamicQuantizeLSTM(t *testing.T) {
	both := func(a map[string]any) map[string]any { // for two directions
		b := map[string]any{}
		for k, v := range a {
			switch v := v.(type) {
			case []string:
				b[k] = slices.Repeat(v, 2)
			case []float32:
				b[k] = slices.Repeat(v, 2)
			default:
				b[k] = v
			}
		}
		return b
	}
	cases := []quantizedLSTM{
		{name: "chaotic", steps: 150, batch: 1, in: 40, hidden: 96, gain: 12, exact: true, signed: true,
			attrs: exactActivations},
		{name: "chaotic bidirectional", steps: 60, batch: 3, in: 17, hidden: 100, gain: 12, exact: true,
			direction: "bidirectional", perColumn: true, signed: true, attrs: both(exactActivations)},
		{name: "chaotic uint8", steps: 60, batch: 1, in: 33, hidden: 31, gain: 12, exact: true,
			direction: "reverse", state: true, attrs: exactActivations},
		{name: "chaotic inputs", steps: 20, batch: 2, in: 33, hidden: 31, gain: 12, exact: true, dynamic: true,
			attrs: exactActivations},
		{name: "int8", steps: 40, batch: 1, in: 80, hidden: 256, direction: "bidirectional", signed: true},
		{name: "uint8", steps: 40, batch: 1, in: 80, hidden: 256, direction: "bidirectional"},
		{name: "one step", steps: 1, batch: 1, in: 5, hidden: 512, signed: true},
		{name: "one step with states", steps: 1, batch: 1, in: 64, hidden: 257, signed: true, state: true,
			perColumn: true},
		{name: "four items", steps: 12, batch: 4, in: 30, hidden: 70, perColumn: true, state: true},
		{name: "lengths", steps: 9, batch: 4, in: 6, hidden: 20, direction: "bidirectional", signed: true,
			lens: []int32{5, 9, 1, 3}, state: true},
		{name: "lengths without Y", steps: 9, batch: 3, in: 6, hidden: 20, signed: true, lens: []int32{5, 7,
			2}, state: true, withoutY: true},
		{name: "shorter than X", steps: 9, batch: 1, in: 6, hidden: 20, lens: []int32{4}},
		{name: "one unit", steps: 7, batch: 1, in: 1, hidden: 1, signed: true},
		{name: "peepholes", steps: 7, batch: 2, in: 9, hidden: 24, peepholes: true, state: true, signed: true},
		{name: "peepholes in two directions", steps: 7, batch: 1, in: 9, hidden: 40, peepholes: true,
			direction: "bidirectional", noBias: true},
		{name: "input forget", steps: 7, batch: 1, in: 9, hidden: 24, signed: true,
			attrs: map[string]any{"input_forget": int64(1)}},
		{name: "clip", steps: 7, batch: 1, in: 9, hidden: 24, gain: 4, signed: true,
			attrs: map[string]any{"clip": float32(0.3)}},
		{name: "not constant", steps: 5, batch: 1, in: 9, hidden: 24, dynamic: true, signed: true,
			perColumn: true},
	}
	for _, f := range []string{"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "Affine", "LeakyRelu",
		"ThresholdedRelu",
		"ScaledTanh", "HardSigmoid", "Elu"} {
		attrs := func(f ...string) map[string]any {
			return map[string]any{"activations": f, "activation_alpha": []float32{0.5, 0.5},
				"activation_beta": []float32{0.25, 0.25}}
		}
		q := quantizedLSTM{name: f, steps: 6, batch: 1, in: 12, hidden: 33, signed: true, attrs: attrs("Sigmoid", f, f)}
		cases = append(cases, q)
		q.name, q.batch, q.attrs = f+" gates", 2, attrs(f, "Tanh", "Tanh")
		cases = append(cases, q)
	}
	for i, q := range cases {
		t.Run(q.name, func(t *testing.T) { q.check(t, rand.New(rand.NewPCG(uint64(i), 0))) })
	}
}

// check compares both Go engines with ONNX Runtime. Rounding of an activation may move a
// hidden state across the border of two quantized values, so that results differ by less
// than a quantization step.
func (q *quantizedLSTM) check(t *testing.T, r *rand.Rand) {
	m, feed, err := q.model(r).Model()
	if err != nil {
		t.Fatal(err)
	}
	want, err := openModel(t, m).Run(t.Context(), feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		name    string
		threads int
	}{{"cpu", 1}, {"cpu", 2}, {"reference", 1}} {
		s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{Threads: e.threads,
			Providers: []onward.ProviderConfig{{Name: e.name}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context(), feed, nil)
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		for o, v := range want {
			w, g := tensor.MustData[float32](v.(*tensor.Tensor)), tensor.MustData[float32](got[o].(*tensor.Tensor))
			step := float64(max(0, slices.Max(w))-min(0, slices.Min(w))) / 255
			if q.exact {
				step = 0
			}
			for i := range w {
				if d := math.Abs(float64(g[i]) - float64(w[i])); !(d <= step) {
					t.Fatalf("%s on %d threads: element %d of %s is %g, want %g within %g", e.name, e.threads, i, o,
						g[i], w[i], step)
				}
			}
		}
	}
}

// model returns the operator with random weights and inputs.
func (q *quantizedLSTM) model(r *rand.Rand) *opfuzz.Case {
	dirs, h := 1, q.hidden
	if q.direction == "bidirectional" {
		dirs = 2
	}
	floats := func(limit float32, shape ...int) tensor.Value {
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
		for i := range tensor.MustData[float32](x) {
			tensor.MustData[float32](x)[i] = (2*r.Float32() - 1) * limit
		}
		return x
	}
	per := []int{dirs}
	if q.perColumn {
		per = []int{dirs, 4 * h}
	}
	weights := func(rows int, gain float32) (w, scale, zero tensor.Value) {
		d := tensor.TypeUint8
		if q.signed {
			d = tensor.TypeInt8
		}
		v, z := tensor.Must(tensor.Zeros(d, dirs, rows, 4*h)), tensor.Must(tensor.Zeros(d, per...))
		for i := range v.Bytes() {
			v.Bytes()[i] = uint8(r.Uint32())
			if q.signed && ortlib.Saturates() {
				v.Bytes()[i] = uint8(int8(v.Bytes()[i]) / 2)
			}
		}
		for i := range z.Bytes() {
			switch { // ONNX Runtime takes one zero point for all columns, which is 0 for those of int8
			case !q.signed:
				z.Bytes()[i] = 131
			case !q.perColumn:
				z.Bytes()[i] = uint8(int8(r.IntN(9) - 4))
			}
		}
		s := floats(1, per...).(*tensor.Tensor)
		for i, v := range tensor.MustData[float32](s) {
			tensor.MustData[float32](s)[i] = gain * (1 + v/4) / (128 * float32(math.Sqrt(float64(max(rows, h)))))
		}
		return v, s, z
	}
	gain := q.gain
	if gain == 0 {
		gain = 1
	}
	w, ws, wz := weights(q.in, 1)
	u, us, uz := weights(h, gain)
	c := &opfuzz.Case{Domain: "com.microsoft", Op: "DynamicQuantizeLSTM", Opset: 1,
		Out: []bool{!q.withoutY, true, true},
		In:  []tensor.Value{floats(2, q.steps, q.batch, q.in), w, u, nil, nil, nil, nil, nil, ws, wz, us, uz}}
	if !q.noBias {
		c.In[3] = floats(0.5, dirs, 8*h)
	}
	if q.lens != nil {
		c.In[4] = tensor.Must(tensor.New(q.lens, q.batch))
	}
	if q.state {
		c.In[5], c.In[6] = floats(1, dirs, q.batch, h), floats(1, dirs, q.batch, h)
	}
	if q.peepholes {
		c.In[7] = floats(0.5, dirs, 3*h)
	}
	c.Constant = make([]bool, len(c.In))
	for _, i := range []int{1, 2, 3, 7, 8, 9, 10, 11} {
		c.Constant[i] = !q.dynamic && c.In[i] != nil
	}
	attrs := map[string]any{"hidden_size": int64(h), "direction": "forward"}
	if q.direction != "" {
		attrs["direction"] = q.direction
	}
	for k, v := range q.attrs {
		attrs[k] = v
	}
	for k, v := range attrs {
		a, err := onnx.NewAttribute(k, v)
		if err != nil {
			panic(fmt.Sprint(k, err))
		}
		c.Attrs = append(c.Attrs, a)
	}
	return c
}
