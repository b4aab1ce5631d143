package opfuzz

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// TestWithinRounding compares results of a product whose terms cancel, 10000 + 1 - 10000: inputs
// have units of 0.001. Results beyond what the inputs' neighbours give are errors.
func TestWithinRounding(t *testing.T) {
	value := func(v float32) map[string]tensor.Value {
		return map[string]tensor.Value{"o0": tensor.Must(tensor.New([]float32{v}, 1, 1))}
	}
	product := &Case{Op: "MatMul", Opset: 13, Constant: []bool{false, false}, Out: []bool{true},
		In: []tensor.Value{tensor.Must(tensor.New([]float32{10000, 1, -10000}, 1, 3)),
			tensor.Must(tensor.New([]float32{1, 1, 1}, 3, 1))}}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		got, want float32
		agree     bool
	}{
		{1, 1, true}, {1.002, 1, true}, {0.998, 1, true}, {1.1, 1, false}, {inf, 1, false}, {1, inf, false}, {inf, inf, true},
		{float32(math.NaN()), 1, false},
	} {
		if err := Compare(product, value(c.got), value(c.want)); (err == nil) != c.agree {
			t.Errorf("%v for %v: error is %v", c.got, c.want, err)
		}
	}
	exactly := &Case{Op: "Neg", Opset: 13, Constant: []bool{false}, Out: []bool{true},
		In: []tensor.Value{tensor.Must(tensor.New([]float32{1}, 1, 1))}}
	if Compare(exactly, value(-1.0000001), value(-1)) == nil {
		t.Error("an exact operator may not round")
	}
}

// TestRoundingOfWeights resizes an axis of one element with cubic weights of about 1e6, whose sum
// of 1 loses digits where they are float32.
func TestRoundingOfWeights(t *testing.T) {
	value := func(v float32) map[string]tensor.Value {
		return map[string]tensor.Value{"o0": tensor.Must(tensor.New([]float32{v, v}, 2))}
	}
	for a, right := range map[float32]float32{-0.75: 2.00001, 1e6: 2.2} {
		c := (&Case{Op: "Resize", Opset: 19, Constant: []bool{false, false, false}, Out: []bool{true},
			In: []tensor.Value{tensor.Must(tensor.New([]float32{2}, 1)), nil,
				tensor.Must(tensor.New([]float32{2}, 1))}}).set("mode", "cubic").set("cubic_coeff_a", a)
		if err := Compare(c, value(right), value(2)); err != nil {
			t.Errorf("%v with cubic_coeff_a %v: %v", right, a, err)
		}
		if Compare(c, value(right*2), value(2)) == nil {
			t.Errorf("%v with cubic_coeff_a %v is no error", right*2, a)
		}
	}
}

// TestRoundingOfEmbeddings adds 1 and -1 to positions of 100 times a scale: their difference loses
// digits where the sums are float32 and the scale is large.
func TestRoundingOfEmbeddings(t *testing.T) {
	row := func(a, b int8) tensor.Value { return tensor.Must(tensor.New([]int8{a, b}, 1, 2)) }
	one, zero := tensor.Scalar(float32(1)), tensor.Scalar(int8(0))
	value := func(v float32) map[string]tensor.Value {
		return map[string]tensor.Value{"o0": tensor.Must(tensor.New([]float32{v, -v}, 1, 1, 2))}
	}
	for scale, right := range map[float32]float32{1: 1.00001, 1e6: 1.1} {
		c := &Case{Domain: "com.microsoft", Op: "QEmbedLayerNormalization", Opset: 1, Constant: make([]bool, 18),
			Out: []bool{true}, In: []tensor.Value{tensor.Must(tensor.New([]int32{0}, 1, 1)), nil, row(1, -1),
				row(100, 100), nil, tensor.Must(tensor.New([]int8{1, 1}, 2)), tensor.Must(tensor.New([]int8{0, 0}, 2)),
				nil, one, tensor.Scalar(scale), nil, one, one, zero, zero, nil, zero, zero}}
		if err := Compare(c, value(right), value(1)); err != nil {
			t.Errorf("%v with a scale of %v: %v", right, scale, err)
		}
		if Compare(c, value(right+20), value(1)) == nil {
			t.Errorf("%v with a scale of %v is no error", right+20, scale)
		}
	}
}
