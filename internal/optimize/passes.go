// Package optimize rewrites typed graphs into faster ones with the same results. Each pass has its
// own file; passes lists them in order.
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

var dce = pass{Pass{"dce", Basic, "removes unused nodes, outputs and captures (dead code elimination)"}, removeDead}

var removals = pass{Pass{"identity", Basic, "removes operators that return their input: Identity, Dropout in " +
	"inference, Cast to the same type, Mul by ones, full Slice"}, removeIdentity}

// passes lists the passes in order. A pass runs on the subgraphs of a node before the graph. Passes
// that leave nodes unused are followed by dce.
var passes = []pass{
	{Pass{"inline-if", Basic, "replaces an If with a constant condition by the branch that runs"}, inlineIf},
	removals, // folding would copy a constant for each Identity of it
	{Pass{"hoist-invariants", All, "captures values that a Loop carries unchanged"}, hoistInvariants},
	{Pass{"fold", Basic, "folds nodes whose inputs are all constant"}, foldFloats},
	removals,
	{Pass{"drop-expand", Basic, "drops an Expand where the arithmetic that reads it broadcasts"}, dropExpand},
	{Pass{"cse", Basic, "merges equal nodes (common subexpression elimination)"}, mergeCommon},
	dce,
	{Pass{"unsigned-activations", All, "quantizes activations to uint8 instead of int8, for VNNI and AMX"},
		unsignedActivations},
	{Pass{"fuse-quantized", Extended, "fuses DequantizeLinear, operator and QuantizeLinear into one integer operator"},
		fuseQuantized},
	dce,
	{Pass{"fuse-dynamic", Extended, "fuses MatMulInteger, the scaling of its result and a bias"}, fuseDynamic},
	dce,
	{Pass{"fold-quantized", Basic, "folds DequantizeLinear of constants"}, foldQuantized},
	{Pass{"widen-half", All,
		"widens float16 and bfloat16 to float32, from the first operator with constant weights to the last"},
		widenHalf},
	{Pass{"sink-transpose", Extended,
		"sinks Transposes from and to NHWC below elementwise operators, so that they cancel"}, sinkTranspose},
	{Pass{"squeeze-conv", Extended, "removes an axis of size 1 before a Conv instead of after it"},
		squeezeConv},
	dce,
	{Pass{"fold-pad", Extended, "folds a zero Pad into the padding of the following Conv"}, foldPad},
	{Pass{"slice-conv", Extended, "computes only the elements of a Conv that Slices select"}, sliceConv},
	dce,
	{Pass{"fuse-activation", Extended, "fuses decomposed Gelu, Silu, HardSigmoid, HardSwish and Clip"}, fuseActivation},
	{Pass{"fold-into-conv", Basic,
		"folds BatchNormalization and constant arithmetic per channel into the preceding Conv or ConvTranspose"},
		foldIntoConv},
	{Pass{"factor-scale", Extended, "replaces x + x·s by x·(s + 1), s being one element per channel"}, factorScale},
	{Pass{"affine", Extended, "fuses BatchNormalization and constant arithmetic into one per-channel affine operator"},
		affine},
	{Pass{"merge-convs", Extended,
		"merges parallel Convs of one input whose results are added, with identity and affine branches"}, mergeConvs},
	{Pass{"channel-shuffle", Extended, "fuses Reshape, Transpose, Reshape into a channel shuffle"}, channelShuffle},
	{Pass{"fuse-conv", Extended, "fuses a following residual add, Relu or Clip into a Conv (epilogue)"}, fuseConv},
	{Pass{"sink-resize", All, "sinks a Resize that enlarges images below the 1×1 Conv that reads it"}, sinkResize},
	dce,
	{Pass{"fuse-layer-norm", Extended, "fuses decomposed LayerNormalization"}, fuseLayerNorm},
	{Pass{"fuse-rms-norm", Extended, "fuses decomposed RMSNormalization"}, fuseRMSNorm},
	dce,
	{Pass{"flush-subnormals", All, "sets subnormal elements of weights to zero"}, flushSubnormals},
	{Pass{"split-heads", All, "splits a fused QKV projection into three MatMuls"}, splitHeads},
	{Pass{"fuse-transpose", Extended, "fuses Transposes of inputs and outputs into MatMul"}, fuseTranspose},
	dce,
	{Pass{"fuse-attention", All, "fuses MatMul, Softmax and MatMul into Attention"}, fuseAttention},
	dce,
	{Pass{"merge-steps", All, "merges MatMuls of slices of one tensor by equal weights, as of unrolled recurrences"},
		mergeSteps},
	dce,
	{Pass{"multiply-patches", All, "computes a patch embedding, a Conv whose kernel is its stride, as a MatMul"},
		multiplyPatches},
	dce,
	{Pass{"fuse-linear", All, "packs constant weights of MatMul and Gemm, and fuses what follows (epilogue)"},
		fuseLinear},
	dce,
	{Pass{"advance-gather", All, "hoists a constant Gather above operators that act on each row independently"},
		advanceGather},
	{Pass{"depthwise-nhwc", All, "computes a depthwise Conv between Transposes from and to NHWC without them"},
		depthwiseNHWC},
	dce,
	{Pass{"channels-last", All, "converts regions of quantized convolutions to NHWC"}, channelsLast},
	{Pass{"fuse-quantized-add", All, "fuses a following residual add into a quantized Conv"}, fuseQuantizedAdd},
	{Pass{"delay-shuffle", All, "sinks a channel shuffle below the depthwise Conv that reads it"}, delayShuffle},
	{Pass{"block-layout", All, "converts regions of convolutions to the blocked layout NCHW16c"}, blockLayout},
	{Pass{"fuse-blocked-map", All, "fuses a following activation and residual add into a blocked Conv (epilogue)"},
		fuseBlockedMap},
	{Pass{"fuse-scale", All, "folds a per-channel scale of the input into the weights of a blocked 1×1 Conv"},
		fuseScale},
	{Pass{"fuse-squeeze", All, "fuses squeeze-and-excitation: means of planes, two blocked 1×1 Convs, and a Mul"},
		fuseSqueeze},
	{Pass{"fuse-depthwise", All, "fuses a depthwise Conv with the preceding Conv, over a row ring"}, fuseDepthwise},
	dce,
}

// firstPacking is the first pass whose results depend on packed weights.
const firstPacking = "split-heads"

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
	// MaxFolded limits the bytes that constant folding may add to the model, beyond once the size
	// of its own constants.
	MaxFolded int64
	// Limit is the memory limit of the session. Mapped constants can be larger.
	Limit int64
	// Opset, if not 0, allows only operators that ONNX has in this version of
	// ai.onnx, or ONNX Runtime.
	Opset int
	// Disabled holds the names of passes to skip.
	Disabled map[string]bool
	// Explain is called for each pass that changed a graph. It may be nil.
	Explain func(Edit)
	// Packs has the packed weights that the graph shares with others; nil: none.
	Packs *ir.Packs
	// Unpacked is called before the first pass that packs weights. It may be nil.
	Unpacked func(g *ir.Graph)

	ctx           context.Context // that of Run
	constants     int64           // size of the model's own constants, at most Limit
	folded        int64           // size that folding has added
	keepQuantized bool            // do not fold DequantizeLinear
}

// portable reports whether the graph will be written as an ONNX model.
func (o *Options) portable() bool { return o.Opset > 0 }

// err returns the cause if the context of [Run] has ended. A pass asks before each node, because
// the search at a node may visit the whole graph.
func (o *Options) err() error { return o.ctx.Err() }

// Run optimizes a graph in place.
func Run(ctx context.Context, g *ir.Graph, o *Options) error {
	o.ctx, o.constants = ctx, min(constantBytes(g), o.Limit)
	for _, p := range passes {
		if p.Name == firstPacking && o.Unpacked != nil {
			o.Unpacked(g)
		}
		if p.Level > o.Level || o.Disabled[p.Name] {
			continue
		}
		edits := 0
		if err := each(ctx, g, func(g *ir.Graph) error {
			var before snapshot
			if o.Explain != nil {
				before = takeSnapshot(g)
			}
			n, err := p.run(o, g)
			if err != nil {
				return fail.Errorf("pass %s: %w", p.Name, err)
			}
			edits += n
			if n > 0 && o.Explain != nil {
				o.Explain(before.edit(p.Name, n, g))
			}
			return nil
		}); err != nil {
			return err
		}
		if edits == 0 {
			continue
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
	for _, n := range g.Nodes {
		replaceUses(n, subst)
	}
	for i, id := range g.Outputs {
		g.Outputs[i] = follow(subst, id)
	}
}

// replaceUses replaces the keys of subst where a node or its subgraphs use them.
func replaceUses(n *ir.Node, subst map[ir.ValueID]ir.ValueID) {
	for i, id := range n.In {
		n.In[i] = follow(subst, id)
	}
	for _, s := range n.Graphs {
		for i := range s.Captures {
			s.Captures[i].Outer = follow(subst, s.Captures[i].Outer)
		}
	}
}

// follow follows an id through subst.
func follow(subst map[ir.ValueID]ir.ValueID, id ir.ValueID) ir.ValueID {
	for {
		to, ok := subst[id]
		if !ok {
			return id
		}
		id = to
	}
}
