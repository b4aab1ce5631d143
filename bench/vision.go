package main

import (
	"fmt"

	"github.com/onward-ml/onward/onnx"
)

// net builds a convolutional network.
type net struct {
	*onnx.ModelBuilder
	weights
	at    string // name of the value that the next layer reads
	next  int
	clips bool // whether the bounds of relu6 have been added
}

func newNet(size int) *net {
	b := begin()
	b.Input("x", f32, 1, 3, size, size)
	return &net{ModelBuilder: b, weights: weights{GraphBuilder: b.GraphBuilder, rng: seeded()}, at: "x"}
}

func (n *net) node(op string, attrs onnx.Attrs, inputs ...string) string {
	n.next++
	out := fmt.Sprintf("t%d", n.next)
	n.ModelBuilder.Node(op, inputs, []string{out}, attrs)
	n.at = out
	return out
}

// conv adds a convolution and its BatchNormalization, which engines fold.
func (n *net) conv(in, out, k, stride, group int) string {
	pad := k / 2
	c := n.node("Conv", onnx.Attrs{"pads": []int{pad, pad, pad, pad}, "strides": []int{stride, stride}, "group": group},
		n.at, n.weights.add(out, in/group, k, k))
	one := make([]float32, out)
	for i := range one {
		one[i] = 1
	}
	scale, mean := fmt.Sprintf("scale%d", n.next), fmt.Sprintf("mean%d", n.next)
	n.ModelBuilder.Initializer(scale, one).Initializer(mean, make([]float32, out))
	return n.node("BatchNormalization", nil, c, scale, mean, mean, scale)
}

func (n *net) relu() string { return n.node("Relu", nil, n.at) }

func (n *net) relu6() string {
	if !n.clips {
		n.clips = true
		n.ModelBuilder.Initializer("zero", float32(0)).Initializer("six", float32(6))
	}
	return n.node("Clip", nil, n.at, "zero", "six")
}

// classify adds the classifier for the given number of channels and returns the model.
func (n *net) classify(channels, classes int) *onnx.Model {
	n.node("GlobalAveragePool", nil, n.at)
	n.node("Flatten", nil, n.at)
	n.node("Gemm", onnx.Attrs{"transB": 1}, n.at, n.weights.add(classes, channels), n.weights.add(classes))
	n.ModelBuilder.Output(n.at, f32, 1, classes)
	return n.Must()
}

// mobileNetV2 returns MobileNetV2 1.0 at 224² (Sandler and others, 2018, table 2).
func mobileNetV2() *onnx.Model {
	n := newNet(224)
	n.conv(3, 32, 3, 2, 1)
	n.relu6()
	in := 32
	for _, s := range []struct{ expand, out, count, stride int }{
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
	} {
		for i := range s.count {
			stride := s.stride
			if i > 0 {
				stride = 1
			}
			from, mid := n.at, in*s.expand
			if s.expand > 1 {
				n.conv(in, mid, 1, 1, 1)
				n.relu6()
			}
			n.conv(mid, mid, 3, stride, mid)
			n.relu6()
			n.conv(mid, s.out, 1, 1, 1)
			if stride == 1 && in == s.out {
				n.node("Add", nil, from, n.at)
			}
			in = s.out
		}
	}
	n.conv(in, 1280, 1, 1, 1)
	n.relu6()
	return n.classify(1280, 1000)
}

// resNet returns a residual network (He and others, 2016) with the given numbers of blocks in its
// stages, after the first convolution. The blocks are two 3×3 convolutions as in ResNet-18, or, if
// bottleneck is set, a 3×3 between two 1×1 convolutions as in ResNet-50.
func resNet(bottleneck bool, blocks ...int) *onnx.Model {
	n := newNet(224)
	n.conv(3, 64, 7, 2, 1)
	n.relu()
	n.node("MaxPool", onnx.Attrs{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}}, n.at)
	in, widen := 64, 1
	if bottleneck {
		widen = 4
	}
	for stage, count := range blocks {
		mid := 64 << stage
		out := widen * mid
		for i := range count {
			from, stride, body := n.at, 1, ""
			if i == 0 && stage > 0 {
				stride = 2
			}
			if bottleneck {
				n.conv(in, mid, 1, 1, 1)
				n.relu()
				n.conv(mid, mid, 3, stride, 1)
				n.relu()
				body = n.conv(mid, out, 1, 1, 1)
			} else {
				n.conv(in, mid, 3, stride, 1)
				n.relu()
				body = n.conv(mid, out, 3, 1, 1)
			}
			if stride != 1 || in != out {
				n.at = from
				from = n.conv(in, out, 1, stride, 1)
			}
			n.node("Add", nil, body, from)
			n.relu()
			in = out
		}
	}
	return n.classify(in, 1000)
}

func (n *net) silu() string {
	x := n.at
	return n.node("Mul", nil, x, n.node("Sigmoid", nil, x))
}

// excite multiplies channels by a function of their means, a bottleneck of mid channels (Hu and
// others, 2018).
func (n *net) excite(channels, mid int) string {
	x := n.at
	n.node("GlobalAveragePool", nil, x)
	n.node("Conv", nil, n.at, n.weights.add(mid, channels, 1, 1), n.weights.add(mid))
	n.silu()
	n.node("Conv", nil, n.at, n.weights.add(channels, mid, 1, 1), n.weights.add(channels))
	return n.node("Mul", nil, x, n.node("Sigmoid", nil, n.at))
}

// efficientNet returns EfficientNet-B0 (Tan and Le, 2019, table 1).
func efficientNet() *onnx.Model {
	n := newNet(224)
	n.conv(3, 32, 3, 2, 1)
	n.silu()
	in := 32
	for _, s := range []struct{ expand, out, count, kernel, stride int }{
		{1, 16, 1, 3, 1}, {6, 24, 2, 3, 2}, {6, 40, 2, 5, 2}, {6, 80, 3, 3, 2}, {6, 112, 3, 5, 1}, {6, 192, 4, 5, 2},
		{6, 320, 1, 3, 1},
	} {
		for i := range s.count {
			stride := s.stride
			if i > 0 {
				stride = 1
			}
			from, mid := n.at, in*s.expand
			if s.expand > 1 {
				n.conv(in, mid, 1, 1, 1)
				n.silu()
			}
			n.conv(mid, mid, s.kernel, stride, mid)
			n.silu()
			n.excite(mid, in/4)
			n.conv(mid, s.out, 1, 1, 1)
			if stride == 1 && in == s.out {
				n.node("Add", nil, from, n.at)
			}
			in = s.out
		}
	}
	n.conv(in, 1280, 1, 1, 1)
	n.silu()
	return n.classify(1280, 1000)
}

// unet returns a U-Net over four sizes with skip connections (Ronneberger and others, 2015), with
// half of its channels.
func unet() *onnx.Model {
	n := newNet(256)
	double := func(in, out int) string {
		n.conv(in, out, 3, 1, 1)
		n.relu()
		n.conv(out, out, 3, 1, 1)
		return n.relu()
	}
	widths := []int{32, 64, 128, 256}
	var across []string
	in := 3
	for _, w := range widths {
		across = append(across, double(in, w))
		n.node("MaxPool", onnx.Attrs{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}, n.at)
		in = w
	}
	double(in, 512)
	in = 512
	for i := len(widths) - 1; i >= 0; i-- {
		w := widths[i]
		n.node("ConvTranspose", onnx.Attrs{"strides": []int{2, 2}}, n.at, n.weights.add(in, w, 2, 2), n.weights.add(w))
		n.node("Concat", onnx.Attrs{"axis": 1}, across[i], n.at)
		double(2*w, w)
		in = w
	}
	n.node("Conv", nil, n.at, n.weights.add(2, in, 1, 1), n.weights.add(2))
	n.ModelBuilder.Output(n.at, f32, 1, 2, 256, 256)
	return n.Must()
}

// yolo returns the parts of YOLO detectors since version 5: split stages of residual blocks with
// SiLU, pooling at several sizes, upsampling and concatenation, and heads at two strides.
func yolo() *onnx.Model {
	n := newNet(320)
	conv := func(in, out, k, stride int) string {
		n.conv(in, out, k, stride, 1)
		return n.silu()
	}
	stage := func(in, out, count int, residual bool) string { // C3
		from := n.at
		conv(in, out/2, 1, 1)
		for range count {
			x := n.at
			conv(out/2, out/2, 1, 1)
			conv(out/2, out/2, 3, 1)
			if residual {
				n.node("Add", nil, x, n.at)
			}
		}
		body := n.at
		n.at = from
		side := conv(in, out/2, 1, 1)
		n.node("Concat", onnx.Attrs{"axis": 1}, body, side)
		return conv(out, out, 1, 1)
	}
	conv(3, 32, 3, 2)
	conv(32, 64, 3, 2)
	stage(64, 64, 1, true)
	conv(64, 128, 3, 2)
	small := stage(128, 128, 2, true)
	conv(128, 256, 3, 2)
	middle := stage(256, 256, 2, true)
	_ = middle
	conv(256, 128, 1, 1)
	pools := []string{n.at}
	for range 3 {
		pools = append(pools,
			n.node("MaxPool", onnx.Attrs{"kernel_shape": []int{5, 5}, "pads": []int{2, 2, 2, 2}}, n.at))
	}
	n.node("Concat", onnx.Attrs{"axis": 1}, pools...)
	deep := conv(512, 256, 1, 1)
	conv(256, 128, 1, 1)
	n.ModelBuilder.Initializer("twice", []float32{1, 1, 2, 2})
	n.node("Resize", onnx.Attrs{"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
		"nearest_mode": "floor"}, n.at, "", "twice")
	n.node("Concat", onnx.Attrs{"axis": 1}, n.at, small)
	stage(256, 128, 1, false)
	for _, h := range []struct {
		from      string
		in, cells int
	}{{n.at, 128, 40}, {deep, 256, 20}} {
		y := n.node("Sigmoid", nil, n.node("Conv", nil, h.from, n.weights.add(255, h.in, 1, 1), n.weights.add(255)))
		n.ModelBuilder.Output(y, f32, 1, 255, h.cells, h.cells)
	}
	return n.Must()
}
