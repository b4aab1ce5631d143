package layers

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestCompare(t *testing.T) {
	a := tensor.Must(tensor.New([]float32{1, 2, 4, float32(math.NaN())}, 4))
	b := tensor.Must(tensor.New([]float32{1, 2.5, 4, float32(math.NaN())}, 4))
	v := Compare(a, b, Tolerance{Rtol: 0.1, Atol: 0.1})
	if v.Agree || *v.MaxAbs != 0.5 || math.Abs(*v.MaxRel-0.2) > 1e-12 || math.Abs(*v.NeedRtol-0.16) > 1e-12 ||
		math.Abs(*v.NeedAtol-0.25) > 1e-12 {
		t.Errorf("%+v: %v %v %v %v", v, *v.MaxAbs, *v.MaxRel, *v.NeedRtol, *v.NeedAtol)
	}
	for _, tol := range [][2]float64{{*v.NeedRtol * (1 + 1e-9), 0.1}, {0.1, *v.NeedAtol * (1 + 1e-9)}} {
		if w := Compare(a, b, Tolerance{Rtol: tol[0], Atol: tol[1]}); !w.Agree {
			t.Errorf("rtol %g, atol %g does not pass: %s", tol[0], tol[1], w.Error)
		}
	}
	inf := tensor.Must(tensor.New([]float32{1, float32(math.Inf(1)), 4, 0}, 4))
	if v := Compare(inf, b, Tolerance{}); v.Agree || v.MaxAbs != nil || v.NeedAtol != nil {
		t.Errorf("an infinity has distance %v", v.MaxAbs)
	}
	if v := Compare(nil, b, Tolerance{}); v.Agree || v.Error == "" {
		t.Error("nothing agrees with something")
	}
}

func TestCompareSteps(t *testing.T) {
	a, b := tensor.Must(tensor.New([]uint8{10, 200}, 2)), tensor.Must(tensor.New([]uint8{11, 200}, 2))
	if d := Compare(a, b, Tolerance{}); d.Agree {
		t.Error("bytes that differ agree")
	}
	if d := Compare(a, b, Tolerance{Steps: 1}); !d.Agree || d.Error != "" {
		t.Errorf("one step: got %+v, want agreement", d)
	}
	wide := tensor.Must(tensor.New([]int32{10, 200}, 2))
	if d := Compare(wide, tensor.Must(tensor.New([]int32{11, 200}, 2)), Tolerance{Steps: 1}); d.Agree {
		t.Error("int32 values one apart agree: they are not quantized")
	}
}

func TestCompareOtherPrecision(t *testing.T) {
	half := tensor.Must(tensor.Convert(tensor.Must(tensor.New([]float32{1, 0.1}, 2)), tensor.TypeFloat16,
		nil))
	d := Compare(half, tensor.Must(tensor.New([]float32{1, 0.1}, 2)), Tolerance{Rtol: 1e-3})
	if !d.Agree || d.SNR == nil || *d.SNR < 60 || *d.SNR > 110 {
		t.Errorf("float16 against float32: got %+v, want agreement with the noise of rounding", d)
	}
}

// Rounding errors of sums whose terms cancel do not differ: a product of queries and keys of
// an exported BERT did.
func TestCompareScaled(t *testing.T) {
	of := func(v ...float32) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }
	for _, c := range []struct {
		a, b          *tensor.Tensor
		plain, scaled bool
	}{
		{of(1000, 0.003), of(1000, 0), false, true},
		{of(1000, 0.03), of(1000, 0), false, false},
		{of(1, 0.0001), of(1, 0), false, false}, // not above 1
		{of(1e30, 0.003, float32(math.Inf(1))), of(1e30, 0, float32(math.Inf(1))), false, true},
		{of(1000, 0.000001), of(1000, 0), true, true},
		{of(1000, float32(math.NaN())), of(1000, 0), false, false},
	} {
		o := Tolerance{Rtol: 1e-3, Atol: 1e-5}
		plain := Compare(c.a, c.b, o)
		o.Scaled = true
		if scaled := Compare(c.a, c.b, o); plain.Agree != c.plain || scaled.Agree != c.scaled {
			t.Errorf("%s against %s: agree %t, scaled %t, want %t and %t", c.a, c.b, plain.Agree, scaled.Agree,
				c.plain, c.scaled)
		}
	}
}
