package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// NodeOptions configure [RunNode].
type NodeOptions struct {
	Options
	// OpsetVersion is the version of the node's domain. Default: for ai.onnx the newest
	// that the backend accepts, 1 for other domains.
	OpsetVersion int64
	// OutputsInfo describes the outputs in the order of the node's. A result of another
	// type or shape is an error.
	OutputsInfo []OutputInfo
	// Functions are model-local functions that the node may call.
	Functions []*onnx.Function
}

// OutputInfo is the expected type and shape of an output.
type OutputInfo struct {
	Type  tensor.Type // the zero Type accepts every type
	Shape []int       // nil accepts every shape, and −1 every size of a dimension
}

// check returns an error if a value is not as described.
func (o OutputInfo) check(v tensor.Value) error {
	if o.Type.Kind != tensor.KindInvalid && !v.Type().Equal(o.Type) {
		return invalid("its type is %s, want %s", v.Type(), o.Type)
	}
	if o.Shape == nil {
		return nil
	}
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return invalid("it is %s, want a tensor of shape %v", v.Type(), o.Shape)
	}
	if !slices.EqualFunc(t.Shape(), o.Shape, func(have, want int) bool { return want == -1 || have == want }) {
		return invalid("its shape is %v, want %v", t.Shape(), o.Shape)
	}
	return nil
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
	version, opset := opts.OpsetVersion, o.TargetOpset
	if domain == "" && version != 0 {
		opset = version
	}
	if opset == 0 {
		device, err := o.device(b)
		if err != nil {
			return nil, err
		}
		opset = newestOpset(ctx, b, device, o.Session)
	}
	switch {
	case domain == "":
		version = opset
	case version == 0:
		version = 1
	}
	imports := []onnx.OperatorSetID{{Domain: domain, Version: version}}
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
	if len(opts.OutputsInfo) > len(out.Values) {
		return nil, invalid("OutputsInfo describes %d outputs, the node has %d", len(opts.OutputsInfo), len(out.Values))
	}
	for i, want := range opts.OutputsInfo {
		if err := want.check(out.Values[i]); err != nil {
			return nil, fmt.Errorf("output %d (%s): %w", i, out.Names[i], err)
		}
	}
	return out, nil
}
