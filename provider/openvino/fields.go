package openvino

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// warn logs the fields of SessionOptions that are set and have no counterpart in OpenVINO.
func warn(o *driver.Options) {
	for name, set := range map[string]bool{
		"OptimizationLevel":  o.OptimizationLevel != driver.OptimizeAll,
		"OptimizedModelPath": o.OptimizedModelPath != "",
		"ExecutionMode":      o.ExecutionMode != driver.ExecutionSequential,
		"ExecutionOrder":     o.ExecutionOrder != driver.OrderDefault,
		"DisableMemoryArena": o.DisableMemoryArena, "DisableMemoryPattern": o.DisableMemoryPattern,
		"DisableMemoryReuse": o.DisableMemoryReuse,
	} {
		if set {
			o.Log().Warn("option ignored: OpenVINO does not have it", "option", name)
		}
	}
}

// noCustom returns an error if a node uses a custom operator written in Go, including those
// that replace a standard operator.
func noCustom(m *onnx.Model, o *driver.Options) error {
	for _, c := range o.CustomOperators {
		for _, n := range m.Graph.Nodes {
			if n != nil && n.OpType == c.Name && onnx.NormalizeDomain(n.Domain) == onnx.NormalizeDomain(c.Domain) {
				return notImplemented("node %q uses the custom operator %s, which OpenVINO cannot call", n.Name, c.Name)
			}
		}
	}
	return nil
}

// withInitializers replaces the initializers for which the options give values. It returns
// the model and the path to read it from, "" if an option gives values.
func withInitializers(path string, m *onnx.Model, o *driver.Options) (string, *onnx.Model) {
	given := maps.Clone(o.Initializers)
	if given == nil {
		given = map[string]tensor.Value{}
	}
	maps.Copy(given, o.ExternalInitializers)
	if len(given) == 0 {
		return path, m
	}
	model, graph := *m, *m.Graph
	graph.Initializers = slices.Clone(graph.Initializers)
	for i, t := range graph.Initializers {
		if t == nil {
			continue
		}
		if v, ok := given[t.Name].(*tensor.Tensor); ok { // type and shape have been checked
			graph.Initializers[i] = onnx.FromTensor(v)
			graph.Initializers[i].Name = t.Name
		}
	}
	model.Graph = &graph
	return "", &model
}

// inlined returns the model with its model-local functions inlined, because OpenVINO has none,
// and the path to read it from, "" if there were functions.
func inlined(ctx context.Context, path string, m *onnx.Model, o *driver.Options) (string, *onnx.Model, error) {
	if len(m.Functions) == 0 {
		return path, m, nil
	}
	r, _, err := onward.OptimizeModel(ctx, m,
		&onward.SessionOptions{OptimizationLevel: onward.OptimizeNone, Limits: o.Limits})
	if err != nil {
		return "", nil, fmt.Errorf("the functions of the model cannot be inlined, and OpenVINO has none: %w", err)
	}
	return "", r, nil
}

// fixedDims returns the dimensions of each input, -1 for dynamic ones, if the options fix
// any, and nil otherwise. The model in memory has them fixed already; its file does not.
func fixedDims(m *onnx.Model, o *driver.Options) map[string][]int64 {
	if len(o.FreeDimensions)+len(o.FreeDimensionsByDenotation) == 0 {
		return nil
	}
	fixed := map[string][]int64{}
	for _, v := range m.Graph.Inputs {
		if v == nil || v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
			continue
		}
		dims := make([]int64, len(v.Type.Tensor.Shape.Dims))
		for i, d := range v.Type.Tensor.Shape.Dims {
			if dims[i] = -1; d.Kind == onnx.DimValue && d.Value >= 0 {
				dims[i] = d.Value
			}
		}
		fixed[v.Name] = dims
	}
	return fixed
}

// reshape sets the dimensions of a model's inputs. index maps ports to arguments.
func (r *library) reshape(model uintptr, index []int, args []onward.NodeArg, fixed map[string][]int64) error {
	var ports []uintptr
	var shapes []partialShape
	var keep [][][2]int64
	for k, i := range index {
		dims, ok := fixed[args[i].Name]
		if !ok {
			continue
		}
		ranges := make([][2]int64, len(dims))
		for d, n := range dims {
			ranges[d] = [2]int64{n, n}
		}
		ports, keep = append(ports, uintptr(k)), append(keep, ranges)
		shapes = append(shapes,
			partialShape{rank: [2]int64{int64(len(dims)), int64(len(dims))}, dims: uintptr(dl.Array(ranges))})
	}
	if len(ports) == 0 {
		return nil
	}
	err := r.do(fnReshape, model, uintptr(dl.Array(ports)), uintptr(unsafe.Pointer(&shapes[0])), uintptr(len(ports)))
	runtime.KeepAlive(keep)
	return err
}
