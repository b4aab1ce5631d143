package main

import (
	"slices"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/onnx"
)

// addExclusions lists nodes to exclude from quantization: those that compute or read the values
// with the largest losses. It does so if the first model is a quantized form of the second.
func (c *compareJSON) addExclusions(quantized, original *onnx.Graph, pairs []layers.Pair) {
	if quantizers(quantized) <= quantizers(original) {
		return
	}
	reader := map[string]*onnx.Node{}
	for _, n := range original.Nodes {
		for _, in := range n.Inputs {
			if reader[in] == nil {
				reader[in] = n
			}
		}
	}
	for _, l := range c.Losses {
		k := slices.IndexFunc(pairs, func(p layers.Pair) bool { return p.A == l.Value })
		if k < 0 {
			continue
		}
		n := pairs[k].NodeB
		if n == nil { // a weight
			n = reader[pairs[k].B]
		}
		if n != nil && n.Name != "" && !slices.Contains(c.Exclude, n.Name) {
			c.Exclude = append(c.Exclude, n.Name)
		}
	}
	if len(c.Exclude) == 0 {
		return
	}
	c.Requantize = "onward quantize " + quoted(c.With) + mode(quantized) + " --output OUT"
	for _, name := range c.Exclude {
		c.Requantize += " --exclude " + quoted(name)
	}
}

// mode returns the flags that quantize a model again in the way that a model was.
func mode(quantized *onnx.Graph) string {
	for _, n := range quantized.Nodes {
		switch n.OpType {
		case "MatMulNBits":
			return " --mode nbits"
		case "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "ConvInteger":
			return " --mode dynamic"
		}
	}
	return " --data DATA"
}

// quantizers counts the nodes that quantize values or compute with quantized ones.
func quantizers(g *onnx.Graph) int {
	n := 0
	for _, x := range g.Nodes {
		if strings.Contains(x.OpType, "Quantize") || strings.HasPrefix(x.OpType, "QLinear") ||
			strings.HasSuffix(x.OpType, "Integer") || x.OpType == "MatMulNBits" {
			n++
		}
	}
	return n
}
