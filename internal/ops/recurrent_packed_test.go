package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// TestRecurrentPacked compares the steps with packed weights with those of the plain engine, on
// one thread and on two.
func TestRecurrentPacked(t *testing.T) {
	t.Run("any", func(t *testing.T) { testRecurrentPacked(t, "RNN", "GRU", "LSTM") })
	// without the cases that its fastest kernel does not support
	t.Run("LSTM", func(t *testing.T) { testRecurrentPacked(t, "LSTM") })
}

func testRecurrentPacked(t *testing.T, ops ...string) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(lo, hi int, name string) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
		is := func(name string) bool { return rapid.Bool().Draw(rt, name) }
		op, plain := rapid.SampledFrom(ops).Draw(rt, "op"), len(ops) == 1
		gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[op]
		seq, in := n(0, 5, "seq"), n(1, 20, "in")
		batch := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 30}).Draw(rt, "batch")
		h := rapid.SampledFrom([]int{1, 3, 16, 31, 64, 100, 140}).Draw(rt, "hidden")
		attrs, dirs := map[string]any{}, 1
		switch rapid.SampledFrom([]string{"forward", "reverse", "bidirectional"}).Draw(rt, "direction") {
		case "reverse":
			attrs["direction"] = "reverse"
		case "bidirectional":
			attrs["direction"], dirs = "bidirectional", 2
		}
		if !plain && is("clip") {
			attrs["clip"] = 0.7
		}
		first := is("layout")
		if first {
			attrs["layout"] = 1
		}
		switch {
		case op == "GRU" && is("linear_before_reset"):
			attrs["linear_before_reset"] = 1
		case op == "LSTM" && !plain && is("input_forget"):
			attrs["input_forget"] = 1
		case op == "RNN" && is("relu"):
			attrs["activations"] = []string{"relu", "softsign"}[:dirs]
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		random := func(shape ...int) tensor.Value { return uniformTensor(r, 1, shape...) }
		maybe := func(name string, shape ...int) tensor.Value {
			if is(name) {
				return random(shape...)
			}
			return nil
		}
		x, state := []int{seq, batch, in}, []int{dirs, batch, h}
		if first {
			x, state = []int{batch, seq, in}, []int{batch, dirs, h}
		}
		inputs := []tensor.Value{random(x...), random(dirs, gates*h, in), nil, maybe("B", dirs, 2*gates*h), nil,
			maybe("initial_h", state...)}
		// States must not amplify the rounding of others.
		inputs[2] = uniformTensor(r, 1/float32(math.Sqrt(float64(h))), dirs, gates*h, h)
		if is("lens") {
			lens := make([]int32, batch)
			for i := range lens {
				lens[i] = int32(n(0, seq, "len"))
			}
			inputs[4] = optest.Tensor(lens, batch)
		}
		numOut := 2
		if op == "LSTM" {
			inputs, numOut = append(inputs, maybe("initial_c", state...)), 3
			if !plain {
				inputs = append(inputs, maybe("P", dirs, 3*h))
			}
		}
		// Outputs are bounded except those of Relu, and states grow by one term per step.
		b, err := optest.Build(op, 14, attrs, len(inputs), numOut)
		if err != nil {
			rt.Fatal(err)
		}
		var unranked []int
		if is("unknown batch") {
			unranked = []int{0}
		}
		if !checkPreparedOp(t, rt, b.Node, numOut, 2e-5, inputs, unranked) {
			rt.Fatal("weights are not packed")
		}
	})
}

func TestRecurrentPackedErrors(t *testing.T) {
	w, r := optest.Tensor([]float32{1}, 1, 1, 1), optest.Tensor([]float32{0.5}, 1, 1, 1)
	for _, in := range [][]tensor.Value{{nil, w, nil}, {nil, nil, r}, {nil, optest.Tensor([]float64{1}, 1, 1, 1), r},
		{nil, optest.Tensor([]float32{1}, 1, 1), r}, {nil, optest.Tensor([]float32{1, 2}, 1, 2, 1), r}, {nil, optest.Tensor([]float32{1, 2}, 2, 1, 1), r}, {nil, optest.Tensor([]float32{}, 1, 1, 0), r}} {
		b, err := optest.Build("RNN", 14, nil, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		if op, _, err := b.Node.Op.(ir.Preparer).Prepare(in, make([]ir.Type, 3)); op != nil || err != nil {
			t.Errorf("%s and %s are packed: %v", optest.Show(in[1]), optest.Show(in[2]), err)
		}
	}
	b, err := optest.Build("RNN", 14, nil, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	op, _, err := b.Node.Op.(ir.Preparer).Prepare([]tensor.Value{nil, w, r}, make([]ir.Type, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*tensor.Tensor{optest.Tensor([]float32{1, 2}, 1, 1, 2), optest.Tensor([]float32{1, 2}, 1, 2)} {
		c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit},
			In: []tensor.Value{x, nil, nil}, Out: make([]tensor.Value, 1)}
		if err := optest.RunCaught(op, c); err == nil {
			t.Errorf("no error for X %s", x)
		}
	}
}

// TestRecurrentWithoutItems runs an operator that was prepared for several items with none.
func TestRecurrentWithoutItems(t *testing.T) {
	b, err := optest.Build("RNN", 14, nil, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	w, r := optest.Tensor([]float32{1}, 1, 1, 1), optest.Tensor([]float32{0.5}, 1, 1, 1)
	types := []ir.Type{ir.TensorType(tensor.TypeFloat32, ir.Known(2), ir.Known(3), ir.Known(1)),
		ir.TypeOf(w), ir.TypeOf(r)}
	op, _, err := b.Node.Op.(ir.Preparer).Prepare([]tensor.Value{nil, w, r}, types)
	if err != nil {
		t.Fatal(err)
	}
	c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit},
		In: []tensor.Value{optest.Tensor([]float32{}, 2, 0, 1), nil, nil}, Out: make([]tensor.Value, 1)}
	if err := optest.RunCaught(op, c); err != nil {
		t.Error(err)
	}
}
