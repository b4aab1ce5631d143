package onward

import (
	"maps"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// prepareModel applies to a model what the options say of its dimensions and
// initializers. The model itself is not changed; the initializers are those that
// replace the model's.
func prepareModel(m *onnx.Model, opts *SessionOptions) (*onnx.Model, map[string]tensor.Value, error) {
	m, err := fixDimensions(m, opts)
	if err != nil || len(opts.Initializers)+len(opts.ExternalInitializers) == 0 {
		return m, nil, err
	}
	given := map[string]tensor.Value{}
	for _, name := range slices.Sorted(maps.Keys(opts.Initializers)) {
		if err := checkInitializer(m.Graph, name, opts.Initializers[name], false); err != nil {
			return nil, nil, err
		}
		given[name] = opts.Initializers[name]
	}
	for _, name := range slices.Sorted(maps.Keys(opts.ExternalInitializers)) {
		if given[name] != nil {
			return nil, nil, statusf(InvalidArgument, "initializer %q is given among Initializers and ExternalInitializers", name)
		}
		if err := checkInitializer(m.Graph, name, opts.ExternalInitializers[name], true); err != nil {
			return nil, nil, err
		}
		given[name] = opts.ExternalInitializers[name]
	}
	return m, given, nil
}

// checkInitializer reports whether a value may replace an initializer of the model.
func checkInitializer(g *onnx.Graph, name string, v tensor.Value, external bool) error {
	t, ok := v.(*tensor.Tensor)
	if !ok || t == nil {
		return statusf(InvalidArgument, "initializer %q is no tensor; only tensors are supported", name)
	}
	i := slices.IndexFunc(g.Initializers, func(t *onnx.Tensor) bool { return t != nil && t.Name == name })
	if i < 0 {
		return statusf(InvalidArgument, "the model has no initializer %q to replace", name)
	}
	is := g.Initializers[i]
	if external && is.DataLocation != onnx.LocationExternal {
		return statusf(InvalidArgument, "initializer %q is no external one: its data is in the model", name)
	}
	dims := make([]int64, t.Rank())
	for k := range dims {
		dims[k] = int64(t.Dim(k))
	}
	if onnx.DataType(t.DType()) != is.DataType || !slices.Equal(dims, is.Dims) {
		return statusf(InvalidArgument, "initializer %q is %s%v in the model, the value given is %s%v", name, tensor.DType(is.DataType), is.Dims, t.DType(), dims)
	}
	return nil
}

// fixDimensions gives the dimensions that the options name their sizes.
func fixDimensions(m *onnx.Model, opts *SessionOptions) (*onnx.Model, error) {
	byName, byDenotation := opts.FreeDimensions, opts.FreeDimensionsByDenotation
	if len(byName)+len(byDenotation) == 0 || m.Graph == nil {
		return m, nil
	}
	for _, sizes := range []map[string]int64{byName, byDenotation} {
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if sizes[name] < 0 {
				return nil, statusf(InvalidArgument, "free dimension %q: %d is no size", name, sizes[name])
			}
		}
	}
	model, graph := *m, *m.Graph
	fix := func(list []*onnx.ValueInfo) ([]*onnx.ValueInfo, error) {
		list = slices.Clone(list)
		for i, v := range list {
			if v == nil || v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
				continue
			}
			value, typ, tt, shape := *v, *v.Type, *v.Type.Tensor, *v.Type.Tensor.Shape
			shape.Dims = slices.Clone(shape.Dims)
			for k, d := range shape.Dims {
				n, ok := byName[d.Param]
				what := d.Param
				if ok = ok && d.Kind == onnx.DimParam; !ok {
					n, ok = byDenotation[d.Denotation]
					what = d.Denotation
					if ok = ok && d.Denotation != ""; !ok {
						continue
					}
				}
				if d.Kind == onnx.DimValue && d.Value >= 0 && d.Value != n {
					return nil, statusf(InvalidArgument, "free dimension %q is to be %d, dimension %d of %q is fixed to %d", what, n, k, v.Name, d.Value)
				}
				shape.Dims[k] = onnx.Dim{Kind: onnx.DimValue, Value: n, Denotation: d.Denotation}
			}
			tt.Shape, typ.Tensor, value.Type = &shape, &tt, &typ
			list[i] = &value
		}
		return list, nil
	}
	for _, list := range []*[]*onnx.ValueInfo{&graph.Inputs, &graph.Outputs, &graph.ValueInfo} {
		var err error
		if *list, err = fix(*list); err != nil {
			return nil, err
		}
	}
	model.Graph = &graph
	return &model, nil
}

// applyOptions does for a provider what it does not do itself: it returns the model
// as the options want it, options that do not say so any more, and the model's path,
// which is empty for a model that has changed.
func applyOptions(p Provider, path string, m *onnx.Model, opts *SessionOptions) (*onnx.Model, *SessionOptions, string, error) {
	if len(opts.CustomOperators) > 0 {
		return nil, nil, "", statusf(NotImplemented, "provider %s does not run operators written in Go", p.Name())
	}
	if opts.OptimizedModelPath != "" {
		opts.Log().Warn("the provider does not save the optimized model", "provider", p.Name(), "path", opts.OptimizedModelPath)
	}
	r, given, err := prepareModel(m, opts)
	if err != nil {
		return nil, nil, "", err
	}
	if len(given) > 0 {
		model, graph := *r, *r.Graph
		graph.Initializers = slices.Clone(graph.Initializers)
		for i, t := range graph.Initializers {
			if t == nil || given[t.Name] == nil {
				continue
			}
			v, ok := given[t.Name].(*tensor.Tensor)
			if !ok {
				continue // prepareModel has refused it
			}
			name := t.Name
			graph.Initializers[i] = onnx.FromTensor(v)
			graph.Initializers[i].Name = name
		}
		model.Graph = &graph
		r = &model
	}
	if r == m {
		return m, opts, path, nil
	}
	o := *opts
	o.FreeDimensions, o.FreeDimensionsByDenotation, o.Initializers, o.ExternalInitializers = nil, nil, nil, nil
	return r, &o, "", nil
}
