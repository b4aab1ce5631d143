package calibration

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// Preprocess returns an equivalent model that is easier to quantize: Constant nodes become
// initializers, and BatchNormalization after Conv is folded into its weights. The result
// shares memory with m.
func Preprocess(m *onnx.Model) (*onnx.Model, error) {
	e, err := newEditor(m)
	if err != nil {
		return nil, err
	}
	e.constantsToInits()
	if err := e.foldBatchNormalization(); err != nil {
		return nil, err
	}
	name, version := m.ProducerName, m.ProducerVersion
	r, err := e.finish()
	if err != nil {
		return nil, err
	}
	r.ProducerName, r.ProducerVersion = name, version
	return r, nil
}

func (e *editor) constantsToInits() {
	e.g.Nodes = slices.DeleteFunc(e.g.Nodes, func(n *onnx.Node) bool {
		if n.OpType != "Constant" || onnx.NormalizeDomain(n.Domain) != "" || len(n.Outputs) != 1 ||
			e.outputs[n.Outputs[0]] || len(n.Attributes) != 1 {
			return false
		}
		a := n.Attributes[0]
		var t *onnx.Tensor
		var err error
		switch a.Name {
		case "value":
			if a.T == nil {
				return false
			}
			c := *a.T
			t = &c
		case "value_float":
			t, err = onnx.NewTensor("", []float32{a.F})
			t.Dims = nil
		case "value_floats":
			t, err = onnx.NewTensor("", a.Floats)
		case "value_int":
			t, err = onnx.NewTensor("", []int64{a.I})
			t.Dims = nil
		case "value_ints":
			t, err = onnx.NewTensor("", a.Ints)
		default:
			return false
		}
		if err != nil {
			return false
		}
		t.Name = n.Outputs[0]
		e.g.Initializers = append(e.g.Initializers, t)
		e.inits[t.Name] = t
		return true
	})
}

// foldBatchNormalization replaces (Conv(x, w, b) − mean) · scale / √(variance + ε) + shift
// by Conv(x, w·k, (b − mean)·k + shift) with k = scale / √(variance + ε).
func (e *editor) foldBatchNormalization() error {
	maker := map[string]*onnx.Node{}
	for _, n := range e.g.Nodes {
		for _, out := range n.Outputs {
			maker[out] = n
		}
	}
	uses := e.consumers()
	gone := map[*onnx.Node]bool{}
	for _, n := range e.g.Nodes {
		if n.OpType != "BatchNormalization" || onnx.NormalizeDomain(n.Domain) != "" || len(n.Inputs) != 5 ||
			len(n.Outputs) != 1 || intAttr(n, "training_mode", 0) != 0 || intAttr(n, "spatial", 1) != 1 {
			continue
		}
		c := maker[n.Inputs[0]]
		if c == nil || c.OpType != "Conv" || onnx.NormalizeDomain(c.Domain) != "" || uses[n.Inputs[0]] != 1 ||
			e.outputs[n.Inputs[0]] || e.captured[n.Inputs[0]] {
			continue
		}
		ok, err := e.foldInto(c, n)
		if err != nil {
			return err
		}
		if ok {
			gone[n] = true
		}
	}
	e.g.Nodes = slices.DeleteFunc(e.g.Nodes, func(n *onnx.Node) bool { return gone[n] })
	return nil
}

func (e *editor) foldInto(c, n *onnx.Node) (bool, error) {
	w := e.weight(c.Inputs[1])
	if w == nil || len(w.Dims) < 2 || w.Dims[0] <= 0 {
		return false, nil
	}
	channels := int(w.Dims[0])
	var p [5][]float32 // scale, shift, mean, variance, bias
	for i := range p {
		name := input(c, 2)
		if i < 4 {
			name = n.Inputs[i+1]
		} else if name == "" {
			p[i] = make([]float32, channels)
			continue
		}
		t := e.weight(name)
		if t == nil {
			return false, nil
		}
		v, err := e.values(t)
		if err != nil {
			return false, err
		}
		if len(v) != channels {
			return false, fmt.Errorf("node %q: initializer %q has %d values, want %d", n.Name, name, len(v), channels)
		}
		p[i] = v
	}
	data, err := e.values(w)
	if err != nil {
		return false, err
	}
	eps := float64(floatAttr(n, "epsilon", 1e-5))
	scaled, bias := slices.Clone(data), make([]float32, channels)
	per := len(scaled) / channels
	for k := range channels {
		f := float64(p[0][k]) / math.Sqrt(float64(p[3][k])+eps)
		for i := k * per; i < (k+1)*per; i++ {
			scaled[i] = float32(float64(scaled[i]) * f)
		}
		bias[k] = float32((float64(p[4][k])-float64(p[2][k]))*f + float64(p[1][k]))
	}
	inputs := []string{c.Inputs[0], e.addInit(w.Name+"_folded", scaled, w.Dims...),
		e.addInit(n.Outputs[0]+"_bias", bias, int64(channels))}
	c.Inputs, c.Outputs = inputs, []string{n.Outputs[0]}
	return true, nil
}

// gemmToMatMul replaces Gemm by MatMul and Add if alpha and beta are 1, A is not transposed,
// and B is an initializer. Before opset 7, Add does not broadcast a bias.
func (q *quantizer) gemmToMatMul() error {
	if q.opset() < 7 {
		return nil
	}
	var nodes []*onnx.Node
	for _, n := range q.g.Nodes {
		if n.OpType != "Gemm" || onnx.NormalizeDomain(n.Domain) != "" || floatAttr(n, "alpha", 1) != 1 ||
			floatAttr(n, "beta", 1) != 1 || intAttr(n, "transA", 0) != 0 {
			nodes = append(nodes, n)
			continue
		}
		t := q.weight(input(n, 1))
		if t == nil || len(t.Dims) != 2 {
			nodes = append(nodes, n)
			continue
		}
		b := t.Name
		if intAttr(n, "transB", 0) != 0 {
			v, err := q.values(t)
			if err != nil {
				return err
			}
			rows, cols := int(t.Dims[0]), int(t.Dims[1])
			turned := make([]float32, len(v))
			for i := range rows {
				for j := range cols {
					turned[j*rows+i] = v[i*cols+j]
				}
			}
			b = q.addInit(t.Name+"_Transposed", turned, t.Dims[1], t.Dims[0])
			q.floats[b] = true
		}
		out := n.Outputs[0]
		product := out
		if input(n, 2) != "" {
			product = q.unused(out + "_MatMul")
			q.floats[product] = q.floats[out]
		}
		nodes = append(nodes, newNode("MatMul", n.Name, []string{n.Inputs[0], b}, []string{product}, nil))
		if product != out {
			nodes = append(nodes, newNode("Add", n.Name+"_Add", []string{product, n.Inputs[2]}, []string{out}, nil))
		}
	}
	q.g.Nodes = nodes
	return nil
}
