package backend

import (
	"context"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// NodeOptions configure [RunNode].
type NodeOptions struct {
	Options
	// OpsetVersion is the version of the node's domain. Default: the newest.
	OpsetVersion int64
	// OutputsInfo holds the expected types of the outputs. A result of another type is
	// an error. The zero Type accepts every type.
	OutputsInfo []tensor.Type
	// Functions are model-local functions that the node may call.
	Functions []*onnx.Function
}

// RunNode runs one node on inputs in the order of the node's inputs.
func RunNode(ctx context.Context, n *onnx.Node, b Backend, in Inputs, opts *NodeOptions) (*Outputs, error) {
	if n == nil {
		return nil, invalid("the node is nil")
	}
	if opts == nil {
		opts = &NodeOptions{}
	}
	o := opts.Options
	if in == nil {
		in = List{}
	}
	domain := onnx.NormalizeDomain(n.Domain)
	version := opts.OpsetVersion
	if version == 0 {
		version = 1
		if domain == "" {
			version = o.opset()
		}
	}
	imports := []onnx.OperatorSetID{{Domain: domain, Version: version}}
	opset := o.opset()
	if domain == "" {
		opset = version
	}
	m, err := nodeModel(n, in, opset, imports)
	if err != nil {
		return nil, err
	}
	m.Functions = opts.Functions
	if err := typeOutputs(m); err != nil {
		return nil, err
	}
	o.SkipCheck = o.SkipCheck || !shaped(m)
	rep, err := Prepare(ctx, m, b, &o)
	if err != nil {
		return nil, err
	}
	defer rep.Close()
	out, err := rep.Run(ctx, in, nil)
	if err != nil {
		return nil, err
	}
	for i, want := range opts.OutputsInfo {
		if i < len(out.Values) && want.Kind != tensor.KindInvalid && !out.Values[i].Type().Equal(want) {
			return nil, invalid("output %d (%s) is %s, want %s", i, out.Names[i], out.Values[i].Type(), want)
		}
	}
	return out, nil
}
