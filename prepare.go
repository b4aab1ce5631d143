package onward

import (
	"maps"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// prepare checks the initializers in the options and returns the model with its free
// dimensions set. It does not change m.
func prepare(m *onnx.Model, opts *driver.Options) (*onnx.Model, error) {
	for _, name := range slices.Sorted(maps.Keys(opts.Initializers)) {
		if err := checkInitializer(m.Graph, name, opts.Initializers[name], false); err != nil {
			return m, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.ExternalInitializers)) {
		if opts.Initializers[name] != nil {
			return m, statusf(CodeInvalidArgument, "initializer %q is in both Initializers and ExternalInitializers",
				name)
		}
		if err := checkInitializer(m.Graph, name, opts.ExternalInitializers[name], true); err != nil {
			return m, err
		}
	}
	return fixDimensions(m, opts)
}

// checkInitializer returns an error if a value cannot replace initializer name of the
// model. external requires that the initializer has external data.
func checkInitializer(g *onnx.Graph, name string, v tensor.Value, external bool) error {
	t, ok := v.(*tensor.Tensor)
	if !ok || t == nil {
		return statusf(CodeInvalidArgument, "initializer %q must be a tensor", name)
	}
	i := slices.IndexFunc(g.Initializers, func(t *onnx.Tensor) bool { return t != nil && t.Name == name })
	if i < 0 {
		names := make([]string, len(g.Initializers))
		for k, t := range g.Initializers {
			if t != nil {
				names[k] = t.Name
			}
		}
		return hinted(statusf(CodeInvalidArgument, "the model has no initializer %q to replace", name),
			driver.Suggest(name, names))
	}
	is := g.Initializers[i]
	if external && is.DataLocation != onnx.LocationExternal {
		return statusf(CodeInvalidArgument, "initializer %q is not stored externally: its data is in the model", name)
	}
	dims := make([]int64, t.Rank())
	for k := range dims {
		dims[k] = int64(t.Dim(k))
	}
	if onnx.DataType(t.DType()) != is.DataType || !slices.Equal(dims, is.Dims) {
		return statusf(CodeInvalidArgument, "initializer %q is %s%v in the model, got a value of %s%v", name,
			tensor.DType(is.DataType), is.Dims, t.DType(), dims)
	}
	return nil
}

// nameDenoted returns the sizes by name, and those of symbolic dimensions whose size is set by
// denotation: the dimensions of that name have the same size, also where they have no denotation.
func nameDenoted(g *onnx.Graph, byName, byDenotation map[string]int64) map[string]int64 {
	r := maps.Clone(byName)
	for _, v := range g.Inputs {
		if v == nil || v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
			continue
		}
		for _, d := range v.Type.Tensor.Shape.Dims {
			n, ok := byDenotation[d.Denotation]
			if _, named := r[d.Param]; !ok || named || d.Kind != onnx.DimParam || d.Denotation == "" || d.Param == "" {
				continue
			}
			if r == nil {
				r = map[string]int64{}
			}
			r[d.Param] = n
		}
	}
	return r
}

// fixDimensions returns the model with the free dimensions of the options set in its
// inputs, outputs and value_info. It does not change m.
func fixDimensions(m *onnx.Model, opts *driver.Options) (*onnx.Model, error) {
	byName, byDenotation := opts.FreeDimensions, opts.FreeDimensionsByDenotation
	if len(byName)+len(byDenotation) == 0 {
		return m, nil
	}
	for _, sizes := range []map[string]int64{byName, byDenotation} {
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			if sizes[name] < 0 {
				return m, statusf(CodeInvalidArgument, "free dimension %q: size must be non-negative, got %d",
					name, sizes[name])
			}
		}
	}
	model, graph := *m, *m.Graph
	byName = nameDenoted(&graph, byName, byDenotation)
	var names, denotations []string
	fix := func(list []*onnx.ValueInfo) ([]*onnx.ValueInfo, error) {
		list = slices.Clone(list)
		for i, v := range list {
			if v == nil || v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
				continue
			}
			value, typ, tt, shape := *v, *v.Type, *v.Type.Tensor, *v.Type.Tensor.Shape
			shape.Dims = slices.Clone(shape.Dims)
			for k, d := range shape.Dims {
				names, denotations = append(names, d.Param), append(denotations, d.Denotation)
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
					return nil, statusf(CodeInvalidArgument,
						"free dimension %q is set to %d, but dimension %d of %q is fixed to %d", what, n, k,
						v.Name, d.Value)
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
			return m, err
		}
	}
	for _, c := range []struct {
		sizes map[string]int64
		names []string
		what  string
	}{{byName, names, "name"}, {byDenotation, denotations, "denotation"}} {
		slices.Sort(c.names)
		there := slices.DeleteFunc(slices.Compact(c.names), func(name string) bool { return name == "" })
		for _, name := range slices.Sorted(maps.Keys(c.sizes)) {
			if !slices.Contains(there, name) {
				return m, hinted(statusf(CodeInvalidArgument, "no dimension of the model has the %s %q", c.what, name),
					driver.Suggest(name, there))
			}
		}
	}
	model.Graph = &graph
	return &model, nil
}

// replaceInitializers returns the model with the initializers of the options. The
// options that it returns lack these and the free dimensions, which prepare has set. It
// returns its arguments if the options have neither.
func replaceInitializers(m *onnx.Model, opts *driver.Options) (*onnx.Model, *driver.Options) {
	if len(opts.Initializers)+len(opts.ExternalInitializers)+len(opts.FreeDimensions)+
		len(opts.FreeDimensionsByDenotation) == 0 {
		return m, opts
	}
	model, graph, o := *m, *m.Graph, *opts
	graph.Initializers = slices.Clone(graph.Initializers)
	for i, t := range graph.Initializers {
		if t == nil {
			continue
		}
		v, ok := opts.Initializers[t.Name].(*tensor.Tensor)
		if !ok {
			v, ok = opts.ExternalInitializers[t.Name].(*tensor.Tensor)
		}
		if ok {
			graph.Initializers[i] = onnx.FromTensor(v)
			graph.Initializers[i].Name = t.Name
		}
	}
	model.Graph = &graph
	o.FreeDimensions, o.FreeDimensionsByDenotation, o.Initializers, o.ExternalInitializers = nil, nil, nil, nil
	return &model, &o
}
