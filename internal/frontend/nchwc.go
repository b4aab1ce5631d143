package frontend

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/nchwc"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// blockEvidence collects evidence for the channel block size, 8 or 16, of the operators of
// [ops.DomainNchwc] in a model. ONNX Runtime uses the size of the machine on which it optimizes and
// does not store it. The size follows from numbers of channels that were, or were not, rounded up.
type blockEvidence struct {
	of [2]string // a node that implies blocks of 8, and one that implies blocks of 16
}

// nchwcBlock returns the channel block size of a model, or 0 if it is unknown.
func nchwcBlock(m *onnx.Model) (int, error) {
	var e blockEvidence
	e.graph(m.Graph, 0)
	switch {
	case e.of[0] != "" && e.of[1] != "":
		return 0, fail.Errorf("node %q of domain %s has channels in blocks of 8, node %q in blocks of 16", e.of[0],
			kit.DomainNchwc, e.of[1])
	case e.of[0] != "":
		return 8, nil
	case e.of[1] != "":
		return 16, nil
	}
	return 0, nil
}

// keepsChannels lists ONNX operators whose outputs have the channels of the first input. Sums and
// products of blocked images also have them.
var keepsChannels = []string{"Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "Tanh", "Clip", "MaxPool", "AveragePool",
	"GlobalMaxPool", "GlobalAveragePool"}

func (e *blockEvidence) graph(g *onnx.Graph, depth int) {
	if g == nil || depth > 100 {
		return
	}
	filters := map[string][]int64{}
	for _, t := range g.Initializers {
		if t != nil && len(t.Dims) == 4 {
			filters[t.Name] = t.Dims
		}
	}
	inputs := map[string]bool{}
	for _, v := range g.Inputs {
		if v != nil && filters[v.Name] == nil {
			inputs[v.Name] = true
		}
	}
	// What is known of values: the number of channels in the blocked form, and the number before
	// rounding up.
	blocked, plain, inBlocks := map[string]int64{}, map[string]int64{}, map[string]bool{}
	for _, n := range g.Nodes {
		if n == nil || len(n.Outputs) == 0 {
			continue
		}
		for _, a := range n.Attributes {
			if a != nil {
				e.graph(a.G, depth+1)
			}
		}
		in := func(i int) string {
			if i < len(n.Inputs) {
				return n.Inputs[i]
			}
			return ""
		}
		x, y := in(0), n.Outputs[0]
		if x == "" || y == "" {
			continue
		}
		name := n.Name
		if name == "" {
			name = y
		}
		vote := func(size int, is bool) {
			if is {
				e.of[size/16] = name
			}
		}
		if n.Domain != kit.DomainNchwc {
			switch {
			case n.Domain != "" && n.Domain != "ai.onnx":
			case slices.Contains(keepsChannels, n.OpType):
				plain[y], blocked[y], inBlocks[y] = plain[x], blocked[x], inBlocks[x]
			case slices.Contains([]string{"Add", "Mul", "Sum"}, n.OpType):
				blocked[y], inBlocks[y] = blocked[x], inBlocks[x]
			case n.OpType == "Concat":
				inBlocks[y] = inBlocks[x]
				sum := int64(0)
				for _, v := range n.Inputs {
					if blocked[v] == 0 {
						sum = 0
						break
					}
					sum += blocked[v]
				}
				blocked[y] = sum
			}
			continue
		}
		switch n.OpType {
		case "ReorderInput":
			plain[y], inBlocks[y] = plain[x], true
		case "ReorderOutput":
			channels := attribute(n, "channels")
			vote(16, blocked[x]-channels >= 8 && channels > 0)
			plain[y] = channels
		case "Conv":
			s := filters[in(1)]
			inBlocks[y] = true
			if s == nil {
				continue
			}
			out, channels, groups := s[0], s[1], max(attribute(n, "group"), 1)
			blocked[y] = out
			vote(8, out%16 != 0 || channels > 16 && channels%16 != 0 || channels > 1 && out/groups%16 != 0 ||
				channels == 8 && groups > 1)
			vote(16, channels > 8 && channels < 16)
			if channels == 8 && groups == 1 {
				vote(8, inBlocks[x])
				vote(16, inputs[x])
			}
			if wide := channels * groups; inBlocks[x] && plain[x] > 0 {
				vote(16, wide-plain[x] >= 8)
			}
		default:
			blocked[y], plain[y], inBlocks[y] = blocked[x], plain[x], true
		}
	}
}

// attribute returns an int attribute of a node, or 0 if it is absent.
func attribute(n *onnx.Node, name string) int64 {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.I
		}
	}
	return 0
}

// unblock converts the constant filter of a convolution of [ops.DomainNchwc] to the plain layout.
func (s *scope) unblock(n *ir.Node) error {
	conv, ok := n.Op.(*nchwc.Conv)
	if !ok || len(n.In) < 2 || n.In[1] == ir.None {
		return nil
	}
	v := s.g.Value(n.In[1])
	w, ok := v.Const.(*tensor.Tensor)
	if !ok || w.DType() != tensor.TypeFloat32 {
		return nil
	}
	data := make([]float32, w.Len())
	if err := nchwc.UnblockFilter(data, w, conv.Block); err != nil {
		return err
	}
	t, err := tensor.New(data, w.Shape()...)
	if err != nil {
		return err
	}
	in := slices.Clone(n.In)
	in[1] = s.g.NewConst(v.Name, t)
	n.In, n.Op = in, conv.Plain()
	return nil
}
