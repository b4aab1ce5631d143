package optimize

import (
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestPassesKeepResults evaluates graphs without and with passes that change constants or
// attributes. The tolerance is below the difference of the two forms of Gelu.
func TestPassesKeepResults(t *testing.T) {
	image := input("x", 2, 4, 3, 3)
	norm := steps(constant("s", []float32{2, -3, 0.5, 4}, 4), constant("b", []float32{1, -2, 3, 5}, 4),
		constant("m", []float32{0.5, 1, -1, 2}, 4), constant("v", []float32{1, 2, 3, 4}, 4))
	factors := constant("k", []float32{3, -1, 0.25, 2}, 4, 1, 1)
	gelu := func(form string) []build {
		return steps(input("x", 2, 8), ramp("w", 8, 3), node("MatMul", "x w", "p"),
			node("Gelu", "p", "y", onnx.Attrs{"approximate": form}))
	}
	for _, c := range []struct {
		name   string
		passes string
		build  []build
		want   string // the operators with the passes
	}{
		{"a delayed shuffle", "channel-shuffle delay-shuffle", shuffleThenConv(6), "Conv ChannelShuffle"},
		{"means of padded images in NHWC", "sink-transpose", excited(image), "Relu Mul Pad ReduceMean Tanh Mul"},
		{"parts of channels", "block-layout", steps(input("x", 2, 5, 9, 7), ramp("w", 40, 5, 3, 3), ramp("v", 3, 16, 3, 3), constant("n", []int64{16, 16, 8}, 3), node("Conv", "x w", "c"), node("Split", "c n", "d e f", onnx.Attrs{"axis": int64(-3)}), node("Mul", "e d", "m"), node("Conv", "m v", "p", onnx.Attrs{"pads": []int64{1, 1, 1, 1}}), node("ReduceMean", "f", "s"), node("Add", "p s", "y")), "ToBlocked BlockedConv BlockedSplit BlockedSplit BlockedSplit FromBlocked BlockedMul BlockedConv FromBlocked ReduceMean Add"},
		{"slices of channels", "block-layout", steps(input("x", 2, 5, 9, 7), ramp("w", 42, 5, 3, 3), ramp("v", 3, 14, 3, 3), node("Conv", "x w", "c"), sliced("c", "d", 1, 0, 20), sliced("c", "e", 1, 20, 40), sliced("c", "f", 1, 28, 42), node("Mul", "d e", "m"), node("ReduceMean", "m", "s"), node("Conv", "f v", "p"), node("Add", "p s", "y")), "ToBlocked BlockedConv BlockedSlice BlockedSlice BlockedSlice BlockedMul FromBlocked ReduceMean BlockedConv FromBlocked Add"},
		{"groups of four channels", "block-layout", steps(input("x", 2, 5, 9, 7), ramp("w", 40, 5, 3, 3), ramp("v", 3, 70, 3, 3), ramp("u", 18, 5, 3, 3), constant("n", []int64{12, 20, 8}, 3), node("Conv", "x w", "c"), node("Conv", "x u", "k"), node("Split", "c n", "d e f", onnx.Attrs{"axis": int64(1)}), node("Concat", "e f d d k", "j", onnx.Attrs{"axis": int64(1)}), node("Relu", "j", "r"), node("Conv", "r v", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), "ToBlocked BlockedConv BlockedConv BlockedSplit BlockedSplit BlockedSplit BlockedConcat BlockedRelu BlockedConv FromBlocked"},
		{"the largest pixels and a sum", "block-layout", steps(input("x", 2, 5, 9, 7), ramp("z", 2, 18), ramp("w", 18, 5, 3, 3), constant("a", []int64{2, 3}, 2), node("Conv", "x w", "c"), node("ReduceMax", "c a", "m", onnx.Attrs{"keepdims": int64(0)}), node("Add", "z m", "y")), "ToBlocked BlockedConv BlockedReduceMax ToBlocked BlockedAdd FromBlocked"},
		{"normalization of a transposed convolution", "fold-into-conv", steps(input("x", 2, 4, 6, 5), ramp("w", 4, 3, 2, 3), ramp("k", 3), ramp("s", 3), ramp("m", 3), ramp("f", 3, 1, 1), constant("v", []float32{1, 2, 3}, 3), node("ConvTranspose", "x w k", "c", onnx.Attrs{"strides": []int64{2, 2}}), node("BatchNormalization", "c s k m v", "b"), node("Mul", "b f", "y")), "ConvTranspose"},
		{"functions of a convolution", "fuse-activation affine fuse-conv block-layout fuse-blocked-map", steps(input("x", 2, 5, 9, 7), ramp("w", 18, 5, 3, 3), ramp("v", 3, 18, 1, 1), constant("l", float32(0)), constant("h", float32(6)), constant("k", float32(3)), node("Conv", "x w", "c"), node("Add", "c k", "a"), node("Clip", "a l h", "g"), node("Mul", "c g", "p"), node("Div", "p h", "s"), node("Mul", "s k", "m"), node("Add", "m k", "n"), node("Conv", "n v", "y")), "ToBlocked BlockedConv BlockedConv FromBlocked"},
		{"bounds of one side", "fuse-activation", steps(image, constant("l", []float32{0.25}, 1, 1, 1), constant("h", float32(0.5)), node("Max", "x l", "a"), node("Min", "h a", "y")), "Clip Clip"},
		{"few channels of wide images", "fuse-activation block-layout fuse-blocked-map", steps(input("x", 2, 3, 6, 40), ramp("w", 2, 3, 5, 5), ramp("v", 1, 2, 3, 9), node("Conv", "x w", "c", onnx.Attrs{"pads": []int64{2, 2, 2, 2}, "strides": []int64{1, 2}}), node("Conv", "c v", "d", onnx.Attrs{"pads": []int64{1, 4, 1, 4}}), node("Sigmoid", "d", "s"), node("Mul", "d s", "m"), node("ReduceMax", "c", "r"), node("Mul", "m r", "y")), "BlockedConv FromBlocked BlockedConv FromBlocked ReduceMax Mul"},
		{"a scaled residual", "factor-scale", steps(image, node("GlobalAveragePool", "x", "s"), node("Mul", "x s", "m"), node("Add", "m x", "y")), "GlobalAveragePool Add Mul"},
		{"twice the nearest pixels", "block-layout", resized(onnx.Attrs{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "c o s", constant("s", []float32{1, 1, 2, 2}, 4)), "ToBlocked BlockedConv BlockedResize BlockedConv FromBlocked"},
		{"the nearest pixels for a size", "block-layout", resized(onnx.Attrs{"nearest_mode": "round_prefer_ceil"}, "c o s n", constant("s", []float32{}, 0), constant("n", []int64{2, 18, 13, 4}, 4)), "ToBlocked BlockedConv BlockedResize BlockedConv FromBlocked"},
		{"interpolated pixels", "block-layout", resized(onnx.Attrs{"mode": "linear"}, "c o s", constant("s", []float32{1, 1, 2, 2}, 4)), "ToBlocked BlockedConv FromBlocked Resize ToBlocked BlockedConv FromBlocked"},
		{"mirrored pixels", "block-layout", padded("Pad", "c p", onnx.Attrs{"mode": "reflect"}, constant("p", []int64{0, 0, 1, 2, 0, 0, 3, 1}, 8)), "ToBlocked BlockedConv BlockedPad BlockedConv FromBlocked"},
		{"mirrored and cropped pixels", "block-layout", padded("Pad", "c p", onnx.Attrs{"mode": "edge"}, constant("p", []int64{0, 0, -2, 2, 0, 0, 3, -1}, 8)), "ToBlocked BlockedConv BlockedPad BlockedConv FromBlocked"},
		{"mirrored channels", "block-layout", padded("Pad", "c p", onnx.Attrs{"mode": "reflect"}, constant("p", []int64{0, 1, 0, 0, 0, -1, 0, 0}, 8)), "ToBlocked BlockedConv FromBlocked Pad ToBlocked BlockedConv FromBlocked"},
		{"circular rows", "block-layout", padded("Concat", "l c f", onnx.Attrs{"axis": int64(2)}, circular(2)...), "ToBlocked BlockedConv BlockedConcat BlockedConv FromBlocked"},
		{"circular columns", "block-layout", padded("Concat", "l c f", onnx.Attrs{"axis": int64(-1)}, circular(-1)...), "ToBlocked BlockedConv BlockedConcat BlockedConv FromBlocked"},
		{"slices of another axis", "block-layout", padded("Concat", "l l", onnx.Attrs{"axis": int64(2)}, circular(3)...), "ToBlocked BlockedConv FromBlocked Slice Concat ToBlocked BlockedConv FromBlocked"},
		{"channels that are selected too", "block-layout", resized(onnx.Attrs{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "c o s", constant("s", []float32{1, 1.03, 2, 2}, 4)), "ToBlocked BlockedConv FromBlocked Resize ToBlocked BlockedConv FromBlocked"},
		{"Gelu of x·(1 + c·x²)", "fuse-activation", steps(input("x", 5, 8), constant("half", float32(0.5)), constant("one", float32(1)), constant("r", float32(0.79788456)), constant("c", float32(0.044715)), node("Mul", "x half", "h"), node("Mul", "x r", "a"), node("Mul", "x c", "b"), node("Mul", "b x", "q"), node("Add", "q one", "s"), node("Mul", "a s", "u"), node("Tanh", "u", "t"), node("Add", "t one", "w"), node("Mul", "h w", "y")), "Gelu"},
		{"nearly Gelu of x·(1 + c·x²)", "fuse-activation", steps(input("x", 5, 8), constant("half", float32(0.5)), constant("one", float32(1)), constant("r", float32(0.79788456)), constant("c", float32(0.044715)), node("Mul", "x half", "h"), node("Mul", "x r", "a"), node("Mul", "x c", "b"), node("Mul", "b h", "q"), node("Add", "q one", "s"), node("Mul", "a s", "u"), node("Tanh", "u", "t"), node("Add", "t one", "w"), node("Mul", "h w", "y")), "Mul Mul Mul Mul Add Mul Tanh Add Mul"},
		{"squares", "block-layout", steps(input("x", 2, 16, 9, 7), ramp("w", 40, 16, 1, 1), ramp("v", 3, 40, 1, 1), constant("e", float32(2)), node("Conv", "x w", "c"), node("Pow", "c e", "p"), node("Conv", "p v", "y")), "ToBlocked BlockedConv BlockedPow BlockedConv FromBlocked"},
		{"means of lines", "block-layout", steps(input("x", 2, 16, 90), ramp("w", 18, 16, 3), constant("a", []int64{-1}, 1), node("Conv", "x w", "c"), node("ReduceMean", "c a", "y", onnx.Attrs{"keepdims": int64(1)})), "ToBlocked BlockedConv BlockedReduceMean FromBlocked"},
		{"a convolution over one axis", "squeeze-conv fold-into-conv fuse-conv", steps(input("x", 2, 4, 9), ramp("w", 3, 4, 1, 3), ramp("k", 1, 3, 1), constant("a", []int64{2}, 1), node("Unsqueeze", "x a", "u"), node("Conv", "u w", "c", onnx.Attrs{"pads": []int64{0, 2, 0, 1}, "strides": []int64{1, 2}}), node("Squeeze", "c a", "s"), node("Add", "s k", "b"), node("Relu", "b", "y")), "FusedConv"},
		{"few channels of long rows", "block-layout", steps(input("x", 2, 3, 4, 200), ramp("w", 3, 1, 3, 1), ramp("v", 3, 1, 1, 3), ramp("u", 8, 3, 1, 1), node("Conv", "x w", "c", onnx.Attrs{"group": int64(3)}), node("Relu", "c", "r"), node("Conv", "r v", "d", onnx.Attrs{"group": int64(3)}), node("Sigmoid", "d", "s"), node("Conv", "x u", "p"), node("ReduceSum", "p", "q"), node("Add", "s q", "y")), "Conv Relu Conv Sigmoid BlockedConv FromBlocked ReduceSum Add"},
		{"few channels of short rows", "block-layout", steps(input("x", 2, 3, 4, 20), ramp("w", 3, 1, 3, 1), ramp("v", 3, 1, 1, 3), node("Conv", "x w", "c", onnx.Attrs{"group": int64(3)}), node("Conv", "c v", "y", onnx.Attrs{"group": int64(3)})), "ToBlocked BlockedConv BlockedConv FromBlocked"},
		{"images of long rows", "block-layout", steps(input("x", 1, 2, 3, 300), ramp("w", 2, 2, 3, 3), node("Conv", "x w", "y")), "Conv"},
		{"a carried weight", "hoist-invariants fold", append(steps(input("x", 2, 8)), carried(ramp("w", 8, 8), "MatMul", "k")[1:]...), "Loop[Identity MatMul]"},
		{"zeros around an image", "fold-pad", steps(image, ramp("w", 3, 4, 3, 3), constant("p", []int64{0, 0, 2, 0, 0, 0, 1, 3}, 8), node("Pad", "x p", "d"), node("Conv", "d w", "y", onnx.Attrs{"pads": []int64{1, 0, 0, 2}})), "Conv"},
		{"queries, keys and values", "split-heads fuse-transpose fuse-attention", append(packedQKV(2, 5), constant("n", []int64{1, 1, 1}, 3), constant("z", []int64{0}, 1), node("Split", "t n", "q5 k5 v5"),
			node("Squeeze", "q5 z", "q"), node("Squeeze", "k5 z", "k"), node("Squeeze", "v5 z", "v"), node("Transpose", "k", "kt", onnx.Attrs{"perm": []int64{0, 1, 3, 2}}),
			node("MatMul", "q kt", "c"), node("Softmax", "c", "p"), node("MatMul", "p v", "y")), strings.Repeat("MatMul Add Reshape ", 3) + "Attention"},
		{"Gelu of x + x·(x·(c·x))", "fuse-activation", steps(input("x", 5, 8), constant("half", float32(0.5)), constant("one", float32(1)), constant("r", float32(0.79788456)), constant("c", float32(0.044715)), node("Mul", "c x", "a"), node("Mul", "x a", "b"), node("Mul", "x b", "q"), node("Add", "x q", "s"), node("Mul", "r s", "u"), node("Tanh", "u", "t"), node("Add", "one t", "w"), node("Mul", "half w", "h"), node("Mul", "x h", "y")), "Gelu"},
		{"Gelu", "fuse-linear", gelu("none"), "Linear"},
		{"Gelu by tanh", "fuse-linear", gelu("tanh"), "Linear"},
		{"two affine functions", "affine fuse-conv", append(slices.Clone(norm), image, factors, node("BatchNormalization", "x s b m v", "a"), node("Mul", "a k", "y")), "ChannelAffine"},
		{"weights of two convolutions", "fold-into-conv", append(slices.Clone(norm), image, ramp("w", 4, 4, 1, 1), node("Conv", "x w", "c"), node("Conv", "x w", "c2"), node("BatchNormalization", "c s b m v", "n"), node("Sub", "n c2", "y")), "Conv Conv Sub"},
		{"functions after a convolution", "fold-into-conv", append(slices.Clone(norm), image, ramp("w", 4, 4, 1, 1), factors, node("Conv", "x w s", "c"), node("BatchNormalization", "c s b m v", "n"), node("Sub", "n k", "p"), node("Mul", "p k", "y")), "Conv"},
		{"an affine function of a convolution", "fold-into-conv", append(slices.Clone(norm), image, ramp("w", 4, 4, 1, 1), node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "y")), "Conv"},
		{"a divided product", "fuse-transpose", steps(input("x", 2, 5, 8), constant("k", float32(4)), node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("MatMul", "x t", "p"), node("Div", "p k", "y")), "StridedMatMul"},
		{"a convolution of float16", "widen-half", steps(image, halfRamp("w", 4, 4, 1, 1), node("Cast", "x", "a", onnx.Attrs{"to": onnx.Float16}), node("Conv", "a w", "c"), node("Relu", "c", "r"),
			node("Cast", "r", "q", onnx.Attrs{"to": onnx.Float16}), node("Cast", "q", "y", onnx.Attrs{"to": onnx.Float})), "Cast Cast Conv Relu Cast Cast"},
		{"parallel branches", "affine merge-convs", repVGG(), "Conv Relu"},
		{"a kernel off its middle", "merge-convs", offMiddle(), "Conv"},
		{"a mixer of tokens", "fold-into-conv affine merge-convs", mixer(), "Conv"},
		{"patches of two images", "multiply-patches", embedding(input("x", 2, 3, 16, 27), onnx.Attrs{"strides": []int64{8, 9}}), "Reshape Transpose Reshape Linear"},
		{"a depthwise convolution of images", "fuse-conv depthwise-nhwc", nhwc(20, input("x", 2, 5, 7, 20), imagesIn, steps(node("Relu", "c", "q"), node("Transpose", "q", "t", onnx.Attrs{"perm": []int64{0, 2, 3, 1}})), nil, node("Gelu", "t", "y")), "DepthwiseNHWC"},
		{"a depthwise convolution of tokens", "depthwise-nhwc", nhwc(32, input("x", 3, 24, 32), steps(constant("s", []int64{3, 0, -1, 6}, 4), constant("r", []int64{0, 32, -1}, 3), node("Transpose", "x", "p", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("Reshape", "p s", "i")), tokensOut, nil, node("Tanh", "t", "y")), "DepthwiseNHWC"},
		{"an unrolled cell", "merge-steps fuse-linear", cells(3, 3), "Linear Gather Tanh Gather Sub Gather Sub Relu"},
		{"two tokens of an encoder layer", "fuse-transpose fuse-attention fuse-linear advance-gather", encoderLayer(), encoderLayerAdvanced},
		{"later parts of a spectrum", "slice-conv", spectrum(input("x", 2, 1, 150), sliced("c", "d", 1, 0, 3), sliced("d", "p", 2, 1, 9), sliced("c", "e", 1, 3, 6), sliced("e", "q", 2, 1, 9)), "Slice Conv Conv Mul Mul Add"},
		{"enlarged images of three sizes", "fuse-conv sink-resize", decoder(), "Conv Conv Relu Conv Resize Conv Resize Add FusedConv"},
		{"an enlarged image with a bias", "sink-resize", enlargedConv("c o s", onnx.Attrs{"mode": "cubic"}, constant("s", []float32{1, 1, 3, 1.7}, 4)), "Conv Conv Resize"},
		{"a slice of a padded convolution", "slice-conv", steps(input("x", 2, 3, 17), ramp("w", 4, 3, 3), ramp("k", 4), node("Conv", "x w k", "c", onnx.Attrs{"pads": []int64{3, 4}, "strides": []int64{2}}), sliced("c", "y", 2, 1, -2)), "Conv"},
		{"signed activations", "unsigned-activations", steps(constant("s", float32(0.05)), constant("z", int8(-7)), constant("u", float32(0.04)), input("x", 4), node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "f"), node("QuantizeLinear", "f u", "p", onnx.Attrs{"output_dtype": int64(onnx.Int8)}), node("DequantizeLinear", "p u", "r"), node("DequantizeLinear", "q u", "e"), node("Sub", "r e", "y")),
			"QuantizeLinear DequantizeLinear QuantizeLinear DequantizeLinear DequantizeLinear Sub"},
		{"a bias of floats", "fuse-quantized", steps(image, constant("s", float32(0.01)), constant("z", uint8(100)), constant("w", []int8{-128, -1, 5, 127, 3, 2, 1, 0}, 2, 4, 1, 1), constant("ws", []float32{0.01, 0.02}, 2), constant("wz", []int8{0, 0}, 2), constant("b", []float32{1.5, -2}, 2), constant("t", float32(0.05)),
			node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "f"), node("DequantizeLinear", "w ws wz", "g", onnx.Attrs{"axis": int64(0)}), node("Conv", "f g b", "c"), node("QuantizeLinear", "c t z", "r"), node("DequantizeLinear", "r t z", "y")), "QuantizeLinear QLinearConv DequantizeLinear"},
		{"a sum of bytes of both types", "fuse-quantized", steps(constant("s", float32(0.05)), constant("z", uint8(100)), constant("k", []int8{-128, -1, 5, 127}, 4), constant("n", int8(-2)), inputBytes("x"),
			node("DequantizeLinear", "x s z", "f"), node("DequantizeLinear", "k s n", "g"), node("Add", "g f", "a"), node("QuantizeLinear", "a s z", "b"), node("DequantizeLinear", "b s z", "y")), "QLinearAdd DequantizeLinear"},
		{"dynamically quantized layers", "fuse-dynamic", dynamicLayers(), "DynamicQuantizeLinear MatMulIntegerToFloat Gelu DynamicQuantizeLinear MatMulIntegerToFloat Add"},
		{"packed layers of bytes", "fuse-dynamic fuse-linear", dynamicLayers(), "DynamicQuantizeLinear Linear DynamicQuantizeLinear Linear"},
		{"a function of bytes", "fuse-quantized", steps(constant("s", float32(0.05)), constant("z", uint8(100)), inputBytes("x"),
			node("DequantizeLinear", "x s z", "f"), node("Tanh", "f", "a"), node("QuantizeLinear", "a s z", "y")), "ByteMap"},
	} {
		b := onnx.NewModel("m").Opset("", 21)
		for _, step := range c.build {
			step(b)
		}
		b.Output("y", 0) // of any type
		var results []tensor.Value
		for _, enabled := range []bool{false, true} {
			g, err := frontend.Convert(b.Must(), frontend.Options{KeepSource: true})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			o := onlyPass("dce")
			for _, name := range strings.Fields(c.passes) {
				o.Disabled[name] = !enabled
			}
			if err := Run(t.Context(), g, o); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if got := operators(g); enabled && got != c.want {
				t.Errorf("%s became %s, want %s", c.name, got, c.want)
			}
			shape, _ := ir.Ints(g.Values[g.Inputs[0]].Type.Shape)
			x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
			for i := range tensor.MustData[float32](x) {
				tensor.MustData[float32](x)[i] = float32(i%11)/8 - 0.6
			}
			if g.Values[g.Inputs[0]].Type.Elem == tensor.TypeUint8 {
				x = tensor.Must(tensor.New([]uint8{80, 95, 107, 130}, 4))
			}
			results = append(results, evaluate(t, g, x))
		}
		if err := tensor.AllClose(results[1], results[0], 1e-5, 1e-5); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// resized is a Resize between two convolutions. in are its inputs: the image c, the empty tensor o,
// and those of more.
func resized(attrs onnx.Attrs, in string, more ...build) []build {
	return append(steps(input("x", 2, 5, 9, 7), ramp("w", 18, 5, 3, 3), ramp("v", 3, 18, 3, 3),
		constant("o", []float32{}, 0), node("Conv", "x w", "c"), node("Resize", in, "r", attrs),
		node("Conv", "r v", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}})), more...)
}

// padded is an operator that repeats pixels, between two convolutions. in are its inputs: the image
// c and those of more.
func padded(op, in string, attrs onnx.Attrs, more ...build) []build {
	made := append(steps(input("x", 2, 5, 9, 7), ramp("w", 18, 5, 3, 3), ramp("v", 3, 18, 3, 3),
		node("Conv", "x w", "c")), more...)
	return append(made, node(op, in, "r", attrs),
		node("Conv", "r v", "y", onnx.Attrs{"pads": []int64{1, 1, 1, 1}}))
}

// circular are Slices l and f: the last two and the first of the elements of c along an axis.
func circular(axis int64) []build {
	return steps(constant("a", []int64{axis}, 1), constant("i", []int64{-2}, 1), constant("z", []int64{0}, 1),
		constant("j", []int64{1}, 1), constant("e", []int64{1 << 40}, 1),
		node("Slice", "c i e a", "l"), node("Slice", "c z j a", "f"))
}

// evaluate computes the output of a graph with one input and one output.
func evaluate(t *testing.T, g *ir.Graph, x tensor.Value) tensor.Value {
	t.Helper()
	values := map[ir.ValueID]tensor.Value{g.Inputs[0]: x}
	for _, n := range g.Nodes {
		var in []tensor.Value
		for _, id := range n.In {
			v := values[id]
			if id != ir.None && v == nil {
				v = g.Values[id].Const
			}
			in = append(in, v)
		}
		out, err := exec.Eval(t.Context(), g, n, in, 1<<20)
		if err != nil {
			t.Fatalf("%s: %v", n.OpType, err)
		}
		for i, id := range n.Out {
			values[id] = out[i]
		}
	}
	return values[g.Outputs[0]]
}
