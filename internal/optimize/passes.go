// Package optimize optimizes typed graphs without changing their results. Each pass has its own
// file; passes lists them in order.
package optimize

import (
	"context"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Level is an optimization level.
type Level int

// The optimization levels, in ascending order. A pass runs at its level and all higher ones.
const (
	None     Level = iota
	Basic          // fold constants, also into the weights of a Conv, and remove unused nodes
	Extended       // fuse operators
	All            // pack weights and change layouts, which ONNX operators cannot express
)

// Pass describes a pass.
type Pass struct {
	Name  string
	Level Level
	Doc   string // summary in one line
}

// pass is one rewriting of a graph. It returns the number of edits. Run applies it to subgraphs
// unless the pass does so itself.
type pass struct {
	Pass
	run func(o *Options, g *ir.Graph) (int, error)
}

var dce = pass{Pass{"dce", Basic, "removes unused nodes, outputs and captures"}, removeDead}

// passes lists the passes in order. A pass runs on the subgraphs of a node before the graph. Passes
// that leave nodes unused are followed by dce.
var passes = []pass{
	{Pass{"inline-if", Basic, "replaces each If with a constant condition by the branch that it runs"}, inlineIf},
	{Pass{"fold", Basic, "computes nodes whose inputs are all constant"}, foldFloats},
	{Pass{"identity", Basic, "removes operators that return their input: Identity, Dropout outside of training, Cast to the same type, Mul by ones, Slice of everything and others"}, removeIdentity},
	{Pass{"cse", Basic, "computes equal nodes once"}, mergeCommon},
	dce,
	{Pass{"unsigned-activations", All, "quantizes activations to uint8 in place of int8, for processors that multiply unsigned by signed integers"}, unsignedActivations},
	{Pass{"fuse-quantized", Extended, "computes with integers between DequantizeLinear and QuantizeLinear"}, fuseQuantized},
	dce,
	{Pass{"fold-quantized", Basic, "computes the DequantizeLinear of constants"}, foldQuantized},
	{Pass{"widen-half", All, "computes float16 and bfloat16 in float32, from the first operator with constant weights to the last one"}, widenHalf},
	{Pass{"fold-pad", Extended, "adds the zeros of a Pad to the padding of the Conv after it"}, foldPad},
	dce,
	{Pass{"fold-into-conv", Basic, "merges BatchNormalization and arithmetic with constants per channel into the weights of the Conv before it"}, foldIntoConv},
	{Pass{"affine", Extended, "makes one function per channel of BatchNormalization and of arithmetic with constants"}, affine},
	{Pass{"merge-convs", Extended, "merges Convs of one image whose results are added, with the image itself and functions per channel of it"}, mergeConvs},
	{Pass{"channel-shuffle", Extended, "makes one operator of Reshape, Transpose and Reshape that shuffle channels"}, channelShuffle},
	{Pass{"fuse-conv", Extended, "merges what follows a Conv into it: a sum, Relu, Clip"}, fuseConv},
	{Pass{"fuse-activation", Extended, "recognizes Gelu and Silu written with simpler operators"}, fuseActivation},
	{Pass{"fuse-layer-norm", Extended, "recognizes LayerNormalization written with simpler operators"}, fuseLayerNorm},
	{Pass{"fuse-rms-norm", Extended, "recognizes RMSNormalization written with simpler operators"}, fuseRMSNorm},
	dce,
	{Pass{"split-heads", All, "computes queries, keys and values that are one product apart"}, splitHeads},
	{Pass{"fuse-transpose", Extended, "lets MatMul read and write transposed memory"}, fuseTranspose},
	dce,
	{Pass{"fuse-attention", All, "computes scores, softmax and values of attention in one operator"}, fuseAttention},
	dce,
	{Pass{"fuse-linear", All, "packs constant weights of MatMul and Gemm and merges what follows"}, fuseLinear},
	dce,
	{Pass{"advance-gather", All, "moves a Gather with constant indices in front of the products and functions that compute each of them by itself"}, advanceGather},
	{Pass{"channels-last", All, "moves regions of quantized convolutions to the layout N×H×W×C"}, channelsLast},
	{Pass{"fuse-quantized-add", All, "merges the sum after a quantized convolution into it"}, fuseQuantizedAdd},
	{Pass{"delay-shuffle", All, "moves a shuffle of channels behind the depthwise Conv that reads it"}, delayShuffle},
	{Pass{"block-layout", All, "moves regions of convolutions to the layout NCHW16c"}, blockLayout},
	{Pass{"fuse-blocked-map", All, "lets a Conv in NCHW16c apply the function that follows it, and add the image after that"}, fuseBlockedMap},
	{Pass{"fuse-scale", All, "scales the weights of a 1×1 Conv in NCHW16c in place of the channels that it reads"}, fuseScale},
	{Pass{"fuse-depthwise", All, "computes a depthwise Conv from a few rows at a time of the Conv before it"}, fuseDepthwise},
	dce,
}

// Passes returns the passes in order.
func Passes() []Pass {
	var r []Pass
	for _, p := range passes {
		if !slices.Contains(r, p.Pass) {
			r = append(r, p.Pass)
		}
	}
	return r
}

// Options are the options of [Run], and what passes need from the engine.
type Options struct {
	// Level is the last level whose passes run.
	Level Level
	// Eval runs one node on constant inputs. On error the node is not changed.
	Eval func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error)
	// MaxFolded limits the bytes that constant folding may add to the model, beyond once the size of
	// its own constants.
	MaxFolded int64
	// Portable allows only operators that ONNX or ONNX Runtime has.
	Portable bool
	// Disabled holds the names of passes to skip.
	Disabled map[string]bool
	// Explain is called for each pass that changed a graph. It may be nil.
	Explain func(Edit)

	constants     int64 // size of the model's own constants
	folded        int64 // size that folding has added
	keepQuantized bool  // do not fold DequantizeLinear
}

// Run optimizes a graph in place.
func Run(ctx context.Context, g *ir.Graph, o *Options) error {
	o.constants = constantBytes(g)
	for _, p := range passes {
		if p.Level > o.Level || o.Disabled[p.Name] {
			continue
		}
		if err := each(ctx, g, func(g *ir.Graph) error {
			var before snapshot
			if o.Explain != nil {
				before = takeSnapshot(g)
			}
			n, err := p.run(o, g)
			if err != nil {
				return fail.Errorf("pass %s: %w", p.Name, err)
			}
			if n > 0 && o.Explain != nil {
				o.Explain(before.edit(p.Name, n, g))
			}
			return nil
		}); err != nil {
			return err
		}
		if err := ir.Verify(g); err != nil {
			return fail.Errorf("pass %s produced an invalid graph: %w", p.Name, err)
		}
	}
	return nil
}

// each calls fn for all subgraphs, innermost first, and then for g.
func each(ctx context.Context, g *ir.Graph, fn func(*ir.Graph) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		for _, s := range n.Graphs {
			if err := each(ctx, s, fn); err != nil {
				return err
			}
		}
	}
	return fn(g)
}

// replace replaces all uses of the keys of subst by their values.
func replace(g *ir.Graph, subst map[ir.ValueID]ir.ValueID) {
	if len(subst) == 0 {
		return
	}
	to := func(id ir.ValueID) ir.ValueID {
		for {
			b, ok := subst[id]
			if !ok {
				return id
			}
			id = b
		}
	}
	for _, n := range g.Nodes {
		for i, id := range n.In {
			if id != ir.None {
				n.In[i] = to(id)
			}
		}
		for _, s := range n.Graphs {
			for i := range s.Captures {
				s.Captures[i].Outer = to(s.Captures[i].Outer)
			}
		}
	}
	for i, id := range g.Outputs {
		g.Outputs[i] = to(id)
	}
}
