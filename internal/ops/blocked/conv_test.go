package blocked_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// convCase is a convolution of images of side×side pixels.
type convCase struct {
	in, out, group, kernel, stride, dilation, pad, side int
}

func (c convCase) attrs() optest.Attrs {
	p := c.pad
	return optest.Attrs{"group": c.group, "strides": []int{c.stride, c.stride},
		"dilations": []int{c.dilation, c.dilation}, "pads": []int{p, p, p, p}}
}

// outSide is the side of the results.
func (c convCase) outSide() int { return (c.side+2*c.pad-c.dilation*(c.kernel-1)-1)/c.stride + 1 }

func (c convCase) inLayout() blocked.Layout {
	return blocked.NewLayout(c.in, c.side, c.side, c.pad, c.pad, c.pad, c.pad)
}

func (c convCase) weights(rng *rand.Rand) *tensor.Tensor {
	w := normal(rng, c.out, c.in/c.group, c.kernel, c.kernel)
	size := float64(w.Len() / c.out)
	for i := range tensor.MustData[float32](w) {
		tensor.MustData[float32](w)[i] /= float32(math.Sqrt(size))
	}
	return w
}

// convCases has convolutions for each kind of kernel, with channels that fill blocks of 16 in part.
var convCases = map[string]convCase{
	"NCHW input":           {3, 20, 1, 3, 2, 1, 1, 11},
	"NCHW input, 1×1":      {1, 7, 1, 1, 1, 1, 0, 6},
	"depthwise":            {33, 33, 33, 3, 1, 1, 1, 9},
	"depthwise, dilated":   {16, 16, 16, 3, 2, 2, 2, 10},
	"groups of 4":          {24, 24, 6, 3, 1, 1, 1, 8},
	"groups of 3":          {9, 15, 3, 3, 1, 1, 1, 7},
	"pointwise":            {40, 21, 1, 1, 1, 1, 0, 6},
	"pointwise, stride":    {17, 48, 1, 1, 2, 1, 0, 7},
	"pointwise, groups":    {40, 20, 2, 1, 1, 1, 0, 5},
	"Winograd":             {24, 20, 1, 3, 1, 1, 1, 10},
	"Winograd, large":      {16, 17, 1, 3, 1, 1, 1, 22},
	"direct":               {20, 33, 1, 5, 1, 1, 2, 9},
	"direct, stride":       {6, 5, 1, 3, 2, 1, 0, 8},
	"direct, dilated":      {18, 12, 1, 3, 1, 3, 3, 9},
	"direct, no padding":   {5, 16, 1, 3, 1, 1, 0, 6},
	"direct, single pixel": {32, 10, 1, 3, 1, 1, 0, 3},
}

func TestConv(t *testing.T) {
	relu, clip := kit.Activation{Kind: kit.ActRelu}, kit.Activation{Kind: kit.ActClip, Lo: -0.25, Hi: 0.5}
	for name, c := range convCases {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(10, uint64(c.in)))
			cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
			x, w, bias := normal(rng, 2, c.in, c.side, c.side), c.weights(rng), normal(rng, c.out)
			in, o := c.inLayout(), c.outSide()
			input := x
			if !blocked.ReadsNCHW(c.in, c.group) {
				input = toBlocked(t, in, x)
			}
			residual := normal(rng, 2, c.out, o, o)
			for _, out := range borders(c.out, o, o) {
				op, err := blocked.NewConv(cv, w, nil, in, out, nil, kit.Activation{}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				checkBlocked(t, "no bias", op, out, plain(t, "Conv", 11, c.attrs(), x, w), 1e-4, input)
				want := plain(t, "Conv", 11, c.attrs(), x, w, bias)
				if op, err = blocked.NewConv(cv, w, bias, in, out, nil, relu, nil, nil); err != nil {
					t.Fatal(err)
				}
				checkBlocked(t, "ReLU", op, out, plain(t, "Relu", 13, nil, want), 1e-4, input)
				if op, err = blocked.NewConv(cv, w, bias, in, out, nil, clip, nil, nil); err != nil {
					t.Fatal(err)
				}
				op.HasAdd, op.Add = true, out
				want = plain(t, "Clip", 13, nil, plain(t, "Add", 13, nil, want, residual), tensor.Scalar(clip.Lo),
					tensor.Scalar(clip.Hi))
				checkBlocked(t, "residual", op, out, want, 1e-4, input, toBlocked(t, out, residual))
				fails(t, "input 1 has 1 images, want 2", op, input, normal(rng, 1, out.Len()))
			}
		})
	}
}

// TestConvOfTapsInside has kernels whose taps are in the padding in part or for all outputs, and
// inputs with only the border that is read.
func TestConvOfTapsInside(t *testing.T) {
	for name, test := range map[string]struct {
		convCase
		border [4]int
	}{
		"the middle of a dilated kernel": {convCase{20, 33, 1, 3, 1, 7, 7, 5}, [4]int{}},
		"a dilated kernel":               {convCase{18, 12, 1, 3, 1, 4, 4, 6}, [4]int{4, 4, 4, 4}},
		"the middle of a wider one":      {convCase{5, 16, 1, 5, 1, 3, 6, 4}, [4]int{3, 3, 3, 3}},
		"a stride":                       {convCase{5, 16, 1, 5, 2, 3, 8, 3}, [4]int{5, 5, 5, 5}},
		"one pixel":                      {convCase{32, 32, 1, 3, 1, 1, 1, 1}, [4]int{}},
		"one pixel of each channel":      {convCase{33, 33, 33, 5, 1, 1, 2, 1}, [4]int{}},
		"wide images of each channel":    {convCase{16, 16, 16, 5, 1, 1, 2, 20}, [4]int{0, 2, 0, 2}},
		"an NCHW input":                  {convCase{3, 20, 1, 5, 1, 4, 8, 3}, [4]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, rng := test.convCase, rand.New(rand.NewPCG(13, uint64(test.in)))
			cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
			x, w := normal(rng, 2, c.in, c.side, c.side), c.weights(rng)
			g, err := cv.Geometry2(c.side, c.side, w.Shape()[2:])
			if err != nil {
				t.Fatal(err)
			}
			b := blocked.InputBorder(cv, w.Shape(), c.in, c.side, c.side, g)
			if b != test.border {
				t.Errorf("the border is %v, want %v", b, test.border)
			}
			in := blocked.NewLayout(c.in, c.side, c.side, b[0], b[1], b[2], b[3])
			out := borders(c.out, c.outSide(), c.outSide())[1]
			op, err := blocked.NewConv(cv, w, nil, in, out, nil, kit.Activation{}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			input := x
			if !blocked.ReadsNCHW(c.in, c.group) {
				input = toBlocked(t, in, x)
			}
			checkBlocked(t, name, op, out, plain(t, "Conv", 11, c.attrs(), x, w), 1e-4, input)
		})
	}
}

// TestConvThen fuses what follows a convolution: a function, another image, and both.
func TestConvThen(t *testing.T) {
	for name, c := range convCases {
		rng := rand.New(rand.NewPCG(11, uint64(c.in)))
		cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
		x, w := normal(rng, 2, c.in, c.side, c.side), c.weights(rng)
		in, o := c.inLayout(), c.outSide()
		input := x
		if !blocked.ReadsNCHW(c.in, c.group) {
			input = toBlocked(t, in, x)
		}
		flat, out := borders(c.out, o, o)[0], borders(c.out, o, o)[1]
		first, err := blocked.NewConv(cv, w, nil, in, flat, nil, kit.Activation{Kind: kit.ActRelu}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := plain(t, "Relu", 13, nil, plain(t, "Conv", 11, c.attrs(), x, w))
		affine, scaled := channelAffine(rng, c.out, kit.Activation{})
		normalized := first.Then(blocked.NewAffine(affine, flat, out), 0)
		want = scaled(t, want)
		checkBlocked(t, name+", affine", normalized, out, want, 1e-4, input)

		residual := normal(rng, 2, c.out, o, o)
		add := built[kit.Operator](t, "Add", 13, nil, 2)
		for k := range 2 {
			layouts := []blocked.Layout{out, flat}
			sum := normalized.Then(blocked.NewBinary(add, layouts[k], layouts[1-k], out, kit.Activation{}), k)
			checkBlocked(t, name+", sum", sum, out, plain(t, "Add", 13, nil, want, residual), 1e-4, input,
				toBlocked(t, flat, residual))
			if sum.Then(blocked.NewAffine(affine, out, out), 0) != nil {
				t.Errorf("%s: a function is fused after a sum", name)
			}
		}
		mul := blocked.NewBinary(built[kit.Operator](t, "Mul", 13, nil, 2), out, out, out, kit.Activation{})
		if normalized.Then(mul, 0) != nil {
			t.Errorf("%s: a product is fused", name)
		}
		twice := normalized.Then(blocked.NewAffine(affine, out, flat), 0)
		checkBlocked(t, name+", two functions", twice, flat, scaled(t, want), 1e-4, input)
	}
}

// TestConvOfPermutedChannels reads the channels of a shuffled image without shuffling it.
func TestConvOfPermutedChannels(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	s := &blocked.ChannelShuffle{Groups: 5}
	for _, c := range []convCase{{20, 9, 1, 1, 1, 1, 0, 5}, {40, 40, 4, 1, 2, 1, 0, 7}} {
		cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
		x, w, bias := normal(rng, 2, c.in, c.side, c.side), c.weights(rng), normal(rng, c.out)
		in, out := c.inLayout(), blocked.NewLayout(c.out, c.outSide(), c.outSide(), 1, 1, 1, 1)
		op, err := blocked.NewConv(cv, w, bias, in, out, nil, kit.Activation{}, s.Order(c.in), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkBlocked(t, fmt.Sprint(c), op, out, plain(t, "Conv", 11, c.attrs(), shuffled(t, x, 5), w, bias), 1e-4,
			toBlocked(t, in, x))
	}
	c := convCase{20, 9, 1, 3, 1, 1, 1, 5}
	if _, err := blocked.NewConv(built[*ops.Conv](t, "Conv", 11, c.attrs(), 2), c.weights(rng), nil, c.inLayout(),
		blocked.NewLayout(9, 5, 5, 0, 0, 0, 0), nil, kit.Activation{}, s.Order(20), nil); err == nil {
		t.Error("a 3×3 convolution permutes channels")
	}
}

func TestConvErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	c := convCase{20, 33, 1, 5, 1, 1, 2, 9}
	cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
	in, out, w := c.inLayout(), blocked.NewLayout(33, 9, 9, 0, 0, 0, 0), c.weights(rng)
	for what, make := range map[string]func() (*blocked.Conv, error){
		"weights of rank 3": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, normal(rng, 33, 20, 5), nil, in, out, nil, kit.Activation{}, nil, nil)
		},
		"weights of float64": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, tensor.Must(tensor.Zeros(tensor.TypeFloat64, 33, 20, 5, 5)), nil, in, out, nil,
				kit.Activation{}, nil, nil)
		},
		"other channels": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, normal(rng, 33, 19, 5, 5), nil, in, out, nil, kit.Activation{}, nil, nil)
		},
		"another size": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, w, nil, in, blocked.NewLayout(33, 8, 9, 0, 0, 0, 0), nil,
				kit.Activation{}, nil, nil)
		},
		"a short bias": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, w, normal(rng, 32), in, out, nil, kit.Activation{}, nil, nil)
		},
		"a border too small": func() (*blocked.Conv, error) {
			return blocked.NewConv(cv, w, nil, blocked.NewLayout(20, 9, 9, 1, 1, 1, 1), out, nil,
				kit.Activation{}, nil, nil)
		},
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	op, err := blocked.NewConv(cv, w, nil, in, out, nil, kit.Activation{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "for 20×9×9 images", op, normal(rng, 1, 20, 9, 9))
	if y := ran(t, op, normal(rng, 0, in.Len())); y.Dim(0) != 0 {
		t.Errorf("no images give %s", optest.Show(y))
	}
}

func TestPool(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	for _, c := range tails {
		for _, test := range []struct {
			op    string
			attrs optest.Attrs
			h, w  int // of the results
		}{
			{"MaxPool", optest.Attrs{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}, 3, 2},
			{"MaxPool", optest.Attrs{"kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1}}, 7, 5},
			{"MaxPool", optest.Attrs{"kernel_shape": []int{2, 3}, "dilations": []int{2, 1}, "pads": []int{0, 1, 1, 0}},
				6, 4},
			{"AveragePool", optest.Attrs{"kernel_shape": []int{3, 2}, "strides": []int{2, 1},
				"pads": []int{1, 0, 1, 1}}, 4, 5},
			{"AveragePool", optest.Attrs{"kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1},
				"count_include_pad": true}, 7, 5},
			{"AveragePool", optest.Attrs{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}, "ceil_mode": true}, 4, 3},
		} {
			op := built[kit.Operator](t, test.op, 12, test.attrs, 1)
			x := normal(rng, 2, c, 7, 5)
			for k := range tensor.MustData[float32](x) { // padding that counted would be the maximum
				tensor.MustData[float32](x)[k] -= 10
			}
			for i, in := range borders(c, 7, 5) {
				out := borders(c, test.h, test.w)[1-i]
				p, err := blocked.NewPool(op, in, out)
				if err != nil {
					t.Fatalf("%s %v: %v", test.op, test.attrs, err)
				}
				checkBlocked(t, fmt.Sprint(test.op, test.attrs, c), p, out, plain(t, test.op, 12, test.attrs, x), 1e-5,
					toBlocked(t, in, x))
			}
		}
	}
	l := blocked.NewLayout(3, 4, 4, 0, 0, 0, 0)
	attrs := optest.Attrs{"kernel_shape": []int{2, 2}}
	for what, op := range map[string]kit.Operator{
		"another size": built[kit.Operator](t, "MaxPool", 12, attrs, 1), "another operator": built[kit.Operator](t,
			"Relu", 13, nil, 1),
		"three axes": built[kit.Operator](t, "MaxPool", 12, optest.Attrs{"kernel_shape": []int{2, 2, 2}}, 1),
	} {
		if _, err := blocked.NewPool(op, l, l); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	p, err := blocked.NewPool(built[kit.Operator](t, "MaxPool", 12, attrs, 1), l,
		blocked.NewLayout(3, 3, 3, 0, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "want [N", p, normal(rng, 1, 3, 4, 4))
}

// TestConvDepthwise fuses convolutions with the depthwise ones after them. The images between the
// two exceed the cache.
func TestConvDepthwise(t *testing.T) {
	for _, c := range []struct {
		first        convCase
		kernel, step int
		residual     bool
		activation   kit.ActivationKind
		batch        int
	}{
		{first: convCase{13, 40, 1, 1, 1, 1, 0, 96}, kernel: 3, step: 1, batch: 1},
		{first: convCase{20, 36, 1, 1, 1, 1, 0, 90}, kernel: 5, step: 2, batch: 2, activation: kit.ActRelu,
			residual: true},
		{first: convCase{3, 33, 1, 3, 2, 1, 1, 190}, kernel: 3, step: 2, batch: 1, activation: kit.ActRelu},
	} {
		rng := rand.New(rand.NewPCG(15, uint64(c.kernel)))
		mid, side := c.first.out, c.first.outSide()
		second := convCase{mid, mid, mid, c.kernel, c.step, 1, c.kernel / 2, side}
		x, w1, w2 := normal(rng, c.batch, c.first.in, c.first.side,
			c.first.side), c.first.weights(rng), second.weights(rng)
		act := kit.Activation{Kind: c.activation}
		inner, o := second.inLayout(), second.outSide()
		out := blocked.NewLayout(mid, o, o, 1, 1, 1, 1)
		one, err := blocked.NewConv(built[*ops.Conv](t, "Conv", 11, c.first.attrs(), 2), w1, nil, c.first.inLayout(),
			inner, nil, act, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		two, err := blocked.NewConv(built[*ops.Conv](t, "Conv", 11, second.attrs(), 2), w2, nil, inner, out, nil,
			kit.Activation{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := plain(t, "Conv", 11, c.first.attrs(), x, w1)
		if c.activation == kit.ActRelu {
			want = plain(t, "Relu", 13, nil, want)
		}
		want = plain(t, "Conv", 11, second.attrs(), want, w2)
		input := x
		if !blocked.ReadsNCHW(c.first.in, 1) {
			input = toBlocked(t, c.first.inLayout(), x)
		}
		in := []*tensor.Tensor{input}
		if c.residual {
			residual := normal(rng, c.batch, mid, o, o)
			two.HasAdd, two.Add = true, out
			want = plain(t, "Add", 13, nil, want, residual)
			in = append(in, toBlocked(t, out, residual))
		}
		fused := blocked.NewConvDepthwise(one, two)
		if fused == nil {
			t.Fatalf("%v is not fused", c)
		}
		checkBlocked(t, fmt.Sprint(c), fused, out, want, 1e-4, in...)
		fails(t, "want [N", fused, normal(rng, 1, 5))
		if blocked.NewConvDepthwise(two, one) != nil {
			t.Error("a convolution that is not depthwise is fused with the one before it")
		}
	}
}

func TestScaledConv(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	for _, c := range []convCase{{32, 16, 1, 1, 1, 1, 0, 9}, {16, 20, 1, 1, 1, 1, 0, 10}, {47, 33, 1, 1, 1, 1, 0, 12}} {
		for _, residual := range []bool{false, true} {
			in, out := c.inLayout(), blocked.NewLayout(c.out, c.side, c.side, 1, 1, 1, 1)
			pixel := blocked.NewLayout(c.in, 1, 1, 0, 0, 0, 0)
			x, scale, w, bias := normal(rng, 2, c.in, c.side, c.side), normal(rng, 2, c.in, 1,
				1), c.weights(rng), normal(rng, c.out)
			mul := blocked.NewBinary(built[kit.Operator](t, "Mul", 13, nil, 2), in, pixel, in, kit.Activation{})
			cv, err := blocked.NewConv(built[*ops.Conv](t, "Conv", 11, c.attrs(), 2), w, bias, in, out, nil,
				kit.Activation{Kind: kit.ActRelu}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := plain(t, "Conv", 11, c.attrs(), plain(t, "Mul", 13, nil, x, scale), w, bias)
			inputs := []*tensor.Tensor{toBlocked(t, in, x), toBlocked(t, pixel, scale)}
			if residual {
				z := normal(rng, 2, c.out, c.side, c.side)
				cv.HasAdd, cv.Add = true, out
				want = plain(t, "Add", 13, nil, want, z)
				inputs = append(inputs, toBlocked(t, out, z))
			}
			op := blocked.NewScaledConv(mul, cv)
			if op == nil {
				t.Fatalf("%v is not fused", c)
			}
			checkBlocked(t, fmt.Sprint(c, residual), op, out, plain(t, "Relu", 13, nil, want), 1e-4, inputs...)
			fails(t, "inputs have 2 and 1 images", op, inputs[0], normal(rng, 1, pixel.Len()))
			if add := blocked.NewBinary(built[kit.Operator](t, "Add", 13, nil, 2), in, pixel, in,
				kit.Activation{}); blocked.NewScaledConv(add, cv) != nil {
				t.Error("a sum is fused with a convolution")
			}
		}
	}
}
