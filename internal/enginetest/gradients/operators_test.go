package gradients

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// lossCases returns losses with scores x and class weights w.
func lossCases() []gradientCase {
	var r []gradientCase
	for _, op := range []string{"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"} {
		for _, reduction := range []string{"none", "mean", "sum"} {
			for _, ignore := range []bool{false, true} {
				for _, weights := range []bool{false, true} {
					attrs := onnx.Attrs{"reduction": reduction}
					if ignore {
						attrs["ignore_index"] = -1
					}
					name := fmt.Sprint(op, " ", attrs, weights)
					r = append(r, gradientCase{name, []int64{2, 3, 2}, []int64{3}, func(b *onnx.ModelBuilder) {
						target := []int64{0, 2, 1, 2}
						if ignore {
							target[1] = -1
						}
						b.Initializer("t", target, 2, 2)
						in := []string{"x", "t", "w"}
						if !weights {
							in = in[:2]
						}
						b.Node(op, in, []string{"y"}, attrs)
					}})
				}
			}
		}
	}
	return append(r,
		gradientCase{"SoftmaxCrossEntropyLoss both outputs", []int64{3, 4}, []int64{4}, func(b *onnx.ModelBuilder) {
			b.Initializer("t", []int32{1, 3, 0}, 3)
			b.Node("SoftmaxCrossEntropyLoss", []string{"x", "t", "w"}, []string{"l", "p"})
			b.Node("Mul", []string{"l", "p"}, []string{"y"})
		}}, gradientCase{"SoftmaxCrossEntropyLoss log_prob", []int64{2, 3, 2}, []int64{1}, func(b *onnx.ModelBuilder) {
			b.Initializer("t", []int64{1, 2, 0, 0}, 2, 2)
			b.Node("SoftmaxCrossEntropyLoss", []string{"x", "t"}, []string{"l", "y"})
		}})
}

// scatterCases returns scatters of w into x with repeated indices.
func scatterCases() []gradientCase {
	var r []gradientCase
	for _, reduction := range []string{"none", "add", "mul", "max", "min"} {
		r = append(r, gradientCase{"ScatterElements " + reduction, []int64{2, 4}, []int64{2, 3},
			func(b *onnx.ModelBuilder) {
				b.Initializer("i", []int64{1, 3, 1, -4, 0, 2}, 2, 3)
				b.Node("ScatterElements", []string{"x", "i", "w"}, []string{"y"},
					onnx.Attrs{"axis": 1, "reduction": reduction})
			}}, gradientCase{"ScatterND " + reduction, []int64{3, 2, 2}, []int64{3, 2}, func(b *onnx.ModelBuilder) {
			b.Initializer("i", []int64{2, 1, 0, 1, 2, -1}, 3, 2)
			b.Node("ScatterND", []string{"x", "i", "w"}, []string{"y"}, onnx.Attrs{"reduction": reduction})
		}})
	}
	return r
}

// normalizationCases returns normalizations of x. groups is the shape of the scale of
// two groups of four channels.
func normalizationCases(groups int64) []gradientCase {
	one := []string{"x"}
	r := []gradientCase{{"GroupNormalization", []int64{2, 4, 2}, []int64{groups},
		oneNode("GroupNormalization", []string{"x", "w", "w"}, onnx.Attrs{"num_groups": 2})},
		{"Det", []int64{2, 3, 3}, []int64{1}, oneNode("Det", one)}, {"Det", []int64{1, 1}, []int64{1}, oneNode("Det", one)},
		{"MeanVarianceNormalization", []int64{2, 2, 2, 2}, []int64{1}, oneNode("MeanVarianceNormalization", one)},
		{"MeanVarianceNormalization axes", []int64{2, 3, 2}, []int64{1}, oneNode("MeanVarianceNormalization", one, onnx.Attrs{"axes": []int64{-1, 0}})}}
	for _, size := range []int64{1, 2, 3, 9} {
		r = append(r, gradientCase{fmt.Sprint("LRN ", size), []int64{2, 4, 2}, []int64{1},
			oneNode("LRN", one, onnx.Attrs{"size": size, "alpha": 0.5, "beta": 0.75, "bias": 1.25})})
	}
	return r
}

func einsumCases() []gradientCase {
	var r []gradientCase
	for _, e := range []struct {
		equation string
		x, w     []int64
	}{{"ii->i", []int64{3, 3}, nil}, {"ii", []int64{3, 3}, nil}, {"jij,ik->k", []int64{2, 3, 2}, []int64{3, 2}},
		{"i...i->...", []int64{2, 3, 2}, nil},
		{"i...i,...->...i", []int64{2, 3, 2}, []int64{3}}, {"iijj,jj", []int64{2, 2, 3, 3}, []int64{3, 3}}} {
		in := []string{"x", "w"}
		if e.w == nil {
			in, e.w = in[:1], []int64{1}
		}
		r = append(r, gradientCase{"Einsum " + e.equation, e.x, e.w,
			oneNode("Einsum", in, onnx.Attrs{"equation": e.equation})})
	}
	return r
}

// attentionCases returns attention with queries x and keys and values w.
func attentionCases() []gradientCase {
	two, both := []string{"x", "w", "w"}, []int64{2, 2, 3, 2}
	r := []gradientCase{{"plain", both, both, oneNode("Attention", two)},
		{"groups of heads", []int64{1, 4, 2, 2}, []int64{1, 2, 3, 2}, oneNode("Attention", two, onnx.Attrs{"scale": 0.75, "is_causal": 1})},
		{"heads last", []int64{1, 3, 8}, []int64{1, 3, 4}, oneNode("Attention", two, onnx.Attrs{"q_num_heads": 4, "kv_num_heads": 2, "softcap": 0.5})},
		{"present and past", []int64{1, 2, 2, 2}, []int64{1, 2, 1, 2}, func(b *onnx.ModelBuilder) {
			b.Node("Attention", []string{"x", "w", "w", "", "x", "x"}, []string{"y0", "k", "v"},
				onnx.Attrs{"is_causal": 1})
			b.Node("Concat", []string{"y0", "k", "v"}, []string{"y"}, onnx.Attrs{"axis": 2})
		}}}
	for mode := range int64(4) {
		r = append(r, gradientCase{fmt.Sprint("mode ", mode), both, both, func(b *onnx.ModelBuilder) {
			b.Node("Attention", two, []string{"y0", "", "", "y"},
				onnx.Attrs{"softcap": 2.0, "qk_matmul_output_mode": mode})
		}})
	}
	keys := func(name string, mask []int64, attrs ...onnx.Attrs) {
		r = append(r, gradientCase{name, []int64{2, 2, 2, 3}, mask, func(b *onnx.ModelBuilder) {
			b.Initializer("k", []float64{1, -2, 0.5, 0.25, 0, 1, 1, 1, -1, 0.5, 2, 0}, 1, 1, 4, 3)
			b.Node("Concat", []string{"k", "k"}, []string{"k2"}, onnx.Attrs{"axis": 0})
			b.Node("Attention", []string{"x", "k2", "k2", "w"}, []string{"y"}, attrs...)
		}})
	}
	keys("mask", []int64{2, 1, 1, 4})
	keys("short mask", []int64{2, 3})
	keys("mask of heads", []int64{2, 1, 4}, onnx.Attrs{"is_causal": 1})
	keys("window", []int64{2, 4}, onnx.Attrs{"left_window_size": 0, "right_window_size": 1})
	return append(r, gradientCase{"flags that hide a row, lengths", both, both, func(b *onnx.ModelBuilder) {
		b.Initializer("m", []bool{false, false, false, true, true, false, true, true, true}, 3, 3)
		b.Initializer("n", []int64{3, 2}, 2)
		b.Node("Attention", []string{"x", "w", "w", "m", "", "", "n"}, []string{"y"})
	}})
}

// gridCases returns samplings of x at the coordinates w, some of which are outside of x.
func gridCases(opset int) []gradientCase {
	modes := []string{"linear", "cubic", "nearest"}
	if opset < 20 {
		modes = []string{"bilinear", "bicubic", "nearest"}
	}
	var r []gradientCase
	for _, mode := range modes {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for corners := range int64(2) {
				for _, shift := range []float64{-1, 0.2} {
					dims := [][2][]int64{{{1, 2, 3, 4}, {1, 2, 1, 2}}}
					if opset >= 20 && mode != "cubic" {
						dims = append(dims, [2][]int64{{2, 1, 2, 2, 3}, {2, 1, 1, 1, 3}},
							[2][]int64{{1, 1, 5}, {1, 2, 1}})
					}
					for _, d := range dims {
						r = append(r, gradientCase{fmt.Sprint(mode, padding, corners, shift, d), d[0], d[1],
							func(b *onnx.ModelBuilder) {
								b.Initializer("s", []float64{shift}, 1)
								b.Node("Add", []string{"w", "s"}, []string{"grid"})
								b.Node("GridSample", []string{"x", "grid"}, []string{"y"},
									onnx.Attrs{"mode": mode, "padding_mode": padding, "align_corners": corners})
							}})
					}
				}
			}
		}
	}
	return r
}

// TestGradientsOfOperators compares the first and second derivatives of composite
// operators with finite differences.
func TestGradientsOfOperators(t *testing.T) {
	for _, set := range []struct {
		name  string
		opset int
		cases []gradientCase
	}{{"loss", 12, lossCases()}, {"loss", 13, lossCases()}, {"scatter", 18, scatterCases()},
		{"einsum", 13, einsumCases()}, {"attention", 25, attentionCases()},
		{"grid", 16, gridCases(16)}, {"grid", 20, gridCases(20)},
		{"normalization", 18, normalizationCases(2)}, {"normalization", 21, normalizationCases(4)}} {
		t.Run(fmt.Sprint(set.name, set.opset), func(t *testing.T) {
			for _, c := range set.cases {
				for order := 1; order <= 2; order++ {
					checkGradients(t, c, order, set.opset)
				}
			}
		})
	}
	for _, c := range []gradientCase{{"Scatter", []int64{3, 2}, []int64{1, 2}, func(b *onnx.ModelBuilder) {
		b.Initializer("i", []int64{2, 1}, 1, 2)
		b.Node("Scatter", []string{"x", "i", "w"}, []string{"y"})
	}}, {"MeanVarianceNormalization", []int64{2, 2, 2, 2}, []int64{1}, oneNode("MeanVarianceNormalization", []string{"x"})}} {
		checkGradients(t, c, 1, 9)
	}
}

// The gradient of the determinant is the cofactor matrix, for a singular matrix, too.
func TestGradientOfSingularDet(t *testing.T) {
	b := onnx.NewModel("gradient").Opset("", 13).Opset("ai.onnx.preview.training", 1)
	b.Input("x", onnx.DataType(tensor.TypeFloat64), 3, 3)
	b.Node("Det", []string{"x"}, []string{"y"})
	b.Node("Gradient", []string{"x"}, []string{"d"}, onnx.Attrs{"xs": []string{"x"}, "y": "y"}).
		Domain("ai.onnx.preview.training")
	b.Output("d", onnx.DataType(tensor.TypeFloat64), 3, 3)
	sess, err := onward.OpenModel(t.Context(), b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	out, err := sess.RunList(context.Background(),
		[]tensor.Value{tensor.Must(tensor.New([]float64{1, 2, 3, 2, 4, 6, 1, 0, 1}, 3, 3))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tensor.MustData[float64](out[0].(*tensor.Tensor)),
		[]float64{4, 4, -4, -2, -2, 2, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("gradient %v, want %v", got, want)
	}
}

// This test compares derivatives of random scatters with finite differences.
func TestScatterGradients(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(1, 3)
		rows, cols, updates := n.Draw(rt, "rows"), n.Draw(rt, "columns"), n.Draw(rt, "updates")
		reduction := rapid.SampledFrom([]string{"none", "add", "mul", "max", "min"}).Draw(rt, "reduction")
		var at []int64
		for range rows * updates {
			at = append(at, rapid.Int64Range(-cols, cols-1).Draw(rt, "index"))
		}
		checkGradients(rt,
			gradientCase{reduction, []int64{rows, cols}, []int64{rows, updates}, func(b *onnx.ModelBuilder) {
				b.Initializer("i", at, rows, updates)
				b.Node("ScatterElements", []string{"x", "i", "w"}, []string{"y"},
					onnx.Attrs{"axis": -1, "reduction": reduction})
			}}, rapid.IntRange(1, 2).Draw(rt, "order"), 18)
	})
}
