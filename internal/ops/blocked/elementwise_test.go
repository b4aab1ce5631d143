package blocked_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"github.com/onward-ml/onward/tensor"
)

func TestMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, c := range tails {
		for _, in := range borders(c, 3, 5) {
			for _, out := range borders(c, 3, 5) {
				x := normal(rng, 2, c, 3, 5)
				// The exponential of the border is not zero.
				checkBlocked(t, fmt.Sprint(c), blocked.NewMap(vec.ExpF32, in, out), out, plain(t, "Exp", 13, nil, x),
					1e-5, toBlocked(t, in, x))
			}
		}
	}
	l := blocked.NewLayout(3, 2, 2, 0, 0, 0, 0)
	fails(t, "want [N", blocked.NewMap(vec.ExpF32, l, l), normal(rng, 1, 3, 2, 2))
}

func TestBinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	clip := kit.Activation{Kind: kit.ActClip, Lo: -0.5, Hi: 0.75}
	for _, op := range []string{"Add", "Sub", "Mul", "Sum"} {
		attrs := built[kit.Operator](t, op, 13, nil, 2)
		for _, c := range tails {
			a, wide, pixel := normal(rng, 2, c, 3, 5), normal(rng, 2, c, 3, 5), normal(rng, 2, c, 1, 1)
			for _, b := range []*tensor.Tensor{wide, pixel} {
				for i, act := range []kit.Activation{{}, {Kind: kit.ActRelu}, clip} {
					want := plain(t, op, 13, nil, a, b)
					switch i {
					case 1:
						want = plain(t, "Relu", 13, nil, want)
					case 2:
						want = plain(t, "Clip", 13, nil, want, tensor.Scalar(clip.Lo), tensor.Scalar(clip.Hi))
					}
					la, out := borders(c, 3, 5)[i%2], borders(c, 3, 5)[1]
					lb := blocked.NewLayout(c, b.Dim(2), b.Dim(3), 0, 0, 0, i)
					checkBlocked(t, fmt.Sprint(op, c, b.Shape(), act), blocked.NewBinary(attrs, la, lb, out, act), out,
						want, 1e-6, toBlocked(t, la, a), toBlocked(t, lb, b))
				}
			}
		}
	}
	if blocked.NewBinary(built[kit.Operator](t, "Div", 13, nil, 2), blocked.Layout{}, blocked.Layout{},
		blocked.Layout{}, kit.Activation{}) != nil {
		t.Error("NewBinary makes an operator of Div")
	}
	l := blocked.NewLayout(3, 2, 2, 0, 0, 0, 0)
	add := blocked.NewBinary(built[kit.Operator](t, "Add", 13, nil, 2), l, l, l, kit.Activation{})
	fails(t, "inputs have 2 and 1 images", add, normal(rng, 2, l.Len()), normal(rng, 1, l.Len()))
	fails(t, "input 1 has shape", add, normal(rng, 1, l.Len()), normal(rng, 1, 3))
}

// channelAffine returns a function of channels and the plain operands that compute it.
func channelAffine(rng *rand.Rand, c int, act kit.Activation) (*blocked.ChannelAffine,
	func(t *testing.T, x *tensor.Tensor) *tensor.Tensor) {
	scale, shift := normal(rng, c), normal(rng, c)
	a := &blocked.ChannelAffine{Scale: tensor.MustData[float32](scale), Shift: tensor.MustData[float32](shift),
		Act: act}
	return a, func(t *testing.T, x *tensor.Tensor) *tensor.Tensor {
		t.Helper()
		perChannel := append([]int{c}, make([]int, x.Rank()-2)...)
		for i := range perChannel[1:] {
			perChannel[i+1] = 1
		}
		y := plain(t, "Mul", 13, nil, x, tensor.Must(scale.Reshape(perChannel...)))
		y = plain(t, "Add", 13, nil, y, tensor.Must(shift.Reshape(perChannel...)))
		if act.Kind == kit.ActRelu {
			y = plain(t, "Relu", 13, nil, y)
		}
		return y
	}
}

func TestAffine(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, c := range tails {
		for i, act := range []kit.Activation{{}, {Kind: kit.ActRelu}} {
			a, want := channelAffine(rng, c, act)
			x, in, out := normal(rng, 2, c, 4, 3), borders(c, 4, 3)[i], borders(c, 4, 3)[1]
			checkBlocked(t, fmt.Sprint(c, act), blocked.NewAffine(a, in, out), out, want(t, x), 1e-5,
				toBlocked(t, in, x))
		}
	}
}

func TestChannelAffine(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, shape := range [][]int{{2, 5}, {3, 4, 7}, {1, 17, 3, 2}, {2, 1, 1, 1}, {0, 4, 2}, {2, 4, 0}} {
		for _, act := range []kit.Activation{{}, {Kind: kit.ActRelu}} {
			a, want := channelAffine(rng, shape[1], act)
			x := normal(rng, shape...)
			if got := ran(t, a, x); !near(got, want(t, x), 1e-5) {
				t.Errorf("%v: got %s, want %s", shape, optest.Show(got), optest.Show(want(t, x)))
			}
		}
	}
	a, first := channelAffine(rng, 4, kit.Activation{})
	b, second := channelAffine(rng, 4, kit.Activation{Kind: kit.ActRelu})
	x := normal(rng, 2, 4, 3)
	if got, want := ran(t, a.Then(b), x), second(t, first(t, x)); !near(got, want, 1e-5) {
		t.Errorf("Then: got %s, want %s", optest.Show(got), optest.Show(want))
	}
	for _, shape := range [][]int{{4}, {2, 3}, {2, 5, 4}} {
		fails(t, "want 4 channels", a, normal(rng, shape...))
	}
}

func TestGlobalPool(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, c := range tails {
		for i, op := range []string{"GlobalAveragePool", "GlobalMaxPool"} {
			// The blocks of the larger images are reduced in parts.
			for _, in := range slices.Concat(borders(c, 5, 7), borders(c, 35, 70)) {
				x, out := normal(rng, 2, c, in.H, in.W), blocked.NewLayout(c, 1, 1, 0, 0, 0, 0)
				// All elements are below zero, so that a border that counted would be the maximum.
				for k := range tensor.MustData[float32](x) {
					tensor.MustData[float32](x)[k] = -float32(math.Abs(float64(tensor.MustData[float32](x)[k]))) - 1
				}
				checkBlocked(t, fmt.Sprint(op, c), &blocked.GlobalPool{In: in, Out: out, Max: i == 1}, out,
					plain(t, op, 1, nil, x), 1e-5, toBlocked(t, in, x))
			}
		}
	}
	l := blocked.NewLayout(3, 2, 2, 0, 0, 0, 0)
	fails(t, "want [N", &blocked.GlobalPool{In: l, Out: blocked.NewLayout(3, 1, 1, 0, 0, 0, 0)}, normal(rng, 1, 12))
}

func TestSilu(t *testing.T) {
	x := optest.Tensor([]float32{-100, -1, 0, 0.5, 3, 90}, 6)
	sigmoid := plain(t, "Sigmoid", 13, nil, x)
	optest.Want(t, "onward.Silu", 1, nil, plain(t, "Mul", 13, nil, x, sigmoid), x)
	double := optest.Tensor([]float64{-2, 0, 1.5}, 3)
	optest.Want(t, "onward.Silu", 1, nil, plain(t, "Mul", 13, nil, double, plain(t, "Sigmoid", 13, nil, double)),
		double)
	optest.Want(t, "onward.Silu", 1, nil, optest.Tensor([]float32{}, 0, 3), optest.Tensor([]float32{}, 0, 3))
	optest.Want(t, "onward.Silu", 1, optest.Attrs{"alpha": 2.0},
		optest.Tensor([]float64{3 / (1 + math.Exp(-6)), -1 / (1 + math.Exp(2))}, 2), optest.Tensor([]float64{3, -1}, 2))
}

// TestSiluOfMultiples compares the vector kernel with a loop, in place and otherwise. Rounding
// alpha·x changes small gates.
func TestSiluOfMultiples(t *testing.T) {
	inf := float32(math.Inf(1))
	special := []float32{-inf, inf, float32(math.NaN()), -math.MaxFloat32, math.MaxFloat32, -90, 0, 1e-40}
	for _, alpha := range []float64{1, 1.702, 0.01} {
		kernel := blocked.SiluVector(blocked.NewSilu(alpha), nil)
		testkit.Levels(t, func(t *testing.T, l cpu.Level) {
			for _, n := range []int{0, 1, 7, 33, 512, 1100} {
				x, want, got := make([]float32, n), make([]float32, n), make([]float32, n)
				for i := range x {
					if x[i] = float32(i%160-80) / 4; i%5 == 4 {
						x[i] = special[i/5%len(special)]
					}
				}
				kit.SwishLoop(want, x, alpha)
				kernel(l, got, x)
				kernel(l, x, x)
				for i, w := range want {
					near := math.Abs(float64(got[i]-w)) <= 4e-6*math.Abs(float64(w))+1e-37
					if got[i] != w && !near && (w == w || got[i] == got[i]) || x[i] != got[i] && x[i] == x[i] {
						t.Fatalf("%v alpha %g: element %d is %g, in place %g, want %g", l, alpha, i, got[i], x[i], w)
					}
				}
			}
		})
	}
}
