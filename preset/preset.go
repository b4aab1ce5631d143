// Package preset opens models with ready-made choices of provider and options: the
// Go engine, ONNX Runtime's execution providers, and OpenVINO. [Auto] measures
// them and opens the fastest, [Benchmark] prints figures for each.
//
//	p := preset.OrtTensorRTInt8{Model: preset.From("model.onnx"), Table: table, InputExample: example}
//	rep, err := p.Open(ctx)
//	best, report, err := preset.Auto{Model: preset.From("model.onnx"), InputExample: example}.Open(ctx)
package preset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Preset opens a model on one provider with a set of options. The presets are structs such as
// [OrtCPU] and [OrtTensorRTInt8]:
//
//	p := preset.OrtTensorRTInt8{Model: preset.From("model.onnx"), Table: table, InputExample: example}
//	rep, err := p.Open(ctx)
//
// The field Model is what [From] returns for a path, bytes, a stream, or a model, which must not
// change while the Rep is in use.
//
// The field InputExample is an input as [backend.Rep.Run] takes it. It is checked against the
// model. It also fixes the dynamic axes of the inputs, so that every shape is known when the
// provider compiles the model; inputs of other shapes cannot be run then. Presets of OpenVINO
// and TensorRT require it for models with dynamic axes.
type Preset interface {
	// Name returns the name of the preset, such as "OrtTensorRTInt8".
	Name() string
	// Open loads the model. Errors begin with the name of the preset. If a library or a
	// device is missing, the error names it and says where to get it.
	Open(ctx context.Context) (*backend.Rep, error)

	// plan returns what Open does.
	plan() *plan
}

// Model is the model of a preset, as [From] returns it. The zero Model is not set.
type Model = backend.Any

// From returns a model for the field Model of a preset: the path of a file, bytes,
// a [backend.Stream], *onnx.Model, or *onnx.Graph.
func From[S backend.Source](source S) Model {
	return backend.From(source)
}

var errNoModel = errors.New("the field Model is not set")

// TensorInfo is an input or output of a model: its name, type and shape, as
// [backend.Rep.Inputs] and [backend.Rep.Outputs] list them.
type TensorInfo = onward.NodeArg

// plan holds the provider, options and model that a preset opens.
type plan struct {
	name    string
	config  onward.ProviderConfig
	session onward.SessionOptions
	model   Model
	example backend.Inputs
	binds   bool            // the example fixes dynamic axes
	demands bool            // the example is required for a model with dynamic axes
	dynamic map[string]bool // inputs whose axes stay dynamic
	// finish completes the options when the model and the values of the example are
	// known. It may be nil.
	finish func(p *plan, m *onnx.Model, example onward.Values) error
	// table returns the calibration table, on which a measured choice depends. It may
	// be nil.
	table func() ([]byte, error)
}

// available returns nil if a provider is registered and can work, else what is
// missing.
func available(c onward.ProviderConfig) error {
	p, err := driver.Find(c.Name)
	if err != nil {
		return err
	}
	return p.Available(c)
}

// on sets the model and the example if the preset has none of its own.
func (p *plan) on(model Model, example backend.Inputs) *plan {
	if p.model.Form() == nil {
		p.model = model
	}
	if p.example == nil {
		p.example = example
	}
	return p
}

func (p *plan) open(ctx context.Context) (*backend.Rep, error) {
	r, err := p.prepare(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return r, nil
}

func (p *plan) prepare(ctx context.Context) (*backend.Rep, error) {
	if p.model.Form() == nil {
		return nil, errNoModel
	}
	if err := available(p.config); err != nil {
		return nil, err
	}
	provider := backend.Provider(p.config.Name)
	path, isPath := p.model.Form().(string)
	var m *onnx.Model
	var err error
	if isPath && !goEngine(p.config.Name) {
		// The provider reads the file itself unless the model has to be changed.
		m, err = onnx.ReadFile(path, &onnx.ReadOptions{Map: true, MaxFileSize: p.session.Limits.MaxFileSize,
			StrictExternalData: p.session.StrictExternalData})
	} else {
		m, err = backend.Load(p.model)
	}
	if err != nil {
		return nil, err
	}
	bound, values, err := p.bind(m)
	if err == nil && p.finish != nil {
		err = p.finish(p, m, values)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.close(m)
		return nil, err
	}
	session := p.session
	session.Providers = []onward.ProviderConfig{p.config}
	if goEngine(p.config.Name) {
		// The session checks what it needs, as native libraries do. The ONNX checker refuses more
		// than that, such as outputs without shapes.
		return backend.Prepare(ctx, bound, provider, &backend.Options{Session: &session, SkipCheck: true})
	}
	var sess *onward.Session
	if isPath && bound == m {
		if err := m.Close(); err != nil {
			return nil, err
		}
		bound = nil
		sess, err = onward.Open(ctx, path, &session)
	} else {
		sess, err = onward.OpenModel(ctx, bound, &session)
	}
	if err != nil {
		p.close(m)
		return nil, err
	}
	return backend.NewRep(sess, bound, provider, provider.Device(p.config.Options)), nil
}

// close closes a model that prepare has read. One that the caller gave stays open.
func (p *plan) close(m *onnx.Model) {
	if _, given := p.model.Form().(*onnx.Model); !given {
		m.Close()
	}
}

// goEngine reports whether a provider is part of the Go engine, which runs inputs of all shapes
// at full speed.
func goEngine(name string) bool { return driver.TraitsOf(driver.Lookup(name)).Operators }

// bind checks the example and fixes the dynamic axes of the inputs to its sizes. It returns the
// model, or a changed copy of it, and the values of the example by name.
func (p *plan) bind(m *onnx.Model) (*onnx.Model, onward.Values, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, nil, err
	}
	if p.example == nil {
		if open := openAxes(d.Inputs); p.demands && open != "" {
			return nil, nil, fmt.Errorf("InputExample is required, since the model has dynamic axes: %s", open)
		}
		return m, nil, nil
	}
	values, err := exampleValues(p.example, d)
	if err != nil {
		return nil, nil, fmt.Errorf("InputExample: %w", err)
	}
	if !p.binds {
		return m, values, nil
	}
	named, shapes, err := axesOf(d, values, p.dynamic)
	if err != nil {
		return nil, nil, fmt.Errorf("InputExample: %w", err)
	}
	if len(shapes) > 0 {
		return withShapes(m, shapes, named), values, nil
	}
	if len(named) > 0 {
		dims := maps.Clone(p.session.FreeDimensions)
		if dims == nil {
			dims = map[string]int64{}
		}
		maps.Copy(dims, named)
		p.session.FreeDimensions = dims
	}
	return m, values, nil
}

// exampleValues returns the values of an example by name and checks them.
func exampleValues(in backend.Inputs, d *onward.Description) (onward.Values, error) {
	values, err := in.Bind(d.Inputs, d.OverridableInitializers)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i, a := range append(append([]onward.NodeArg{}, d.Inputs...), d.OverridableInitializers...) {
		known[a.Name] = true
		v := values[a.Name]
		if v == nil && (i >= len(d.Inputs) || strings.HasPrefix(a.Type, "optional(")) {
			continue
		}
		if err := a.Check(v); err != nil {
			return nil, err
		}
	}
	for name := range values {
		if !known[name] {
			return nil, fmt.Errorf("the model has no input %q", name)
		}
	}
	return values, nil
}

// openAxes describes the axes of inputs whose size is unknown. The text is empty if there are
// none.
func openAxes(args []onward.NodeArg) string {
	var all []string
	for _, a := range args {
		if a.ElementType().Kind != tensor.KindTensor {
			continue
		}
		if a.Shape == nil {
			all = append(all, fmt.Sprintf("input %q (of unknown rank)", a.Name))
			continue
		}
		var axes []string
		for i, d := range a.Shape {
			if d.Value < 0 {
				axes = append(axes, fmt.Sprintf("%d (%s)", i, d))
			}
		}
		if axes != nil {
			word := "axis"
			if len(axes) > 1 {
				word = "axes"
			}
			all = append(all, fmt.Sprintf("input %q %s %s", a.Name, word, strings.Join(axes, ", ")))
		}
	}
	return strings.Join(all, "; ")
}

// axesOf returns the sizes of dynamic axes in an example: those of named dimensions, and the
// whole shapes of inputs with unnamed dynamic axes.
func axesOf(d *onward.Description, example onward.Values,
	dynamic map[string]bool) (named map[string]int64, shapes map[string][]int, err error) {
	named, shapes = map[string]int64{}, map[string][]int{}
	from := map[string]string{}
	for _, a := range d.Inputs {
		t, ok := example[a.Name].(*tensor.Tensor)
		if !ok || dynamic[a.Name] {
			continue
		}
		if a.Shape == nil {
			shapes[a.Name] = t.Shape()
		}
		for i, dim := range a.Shape {
			n := int64(t.Dim(i))
			switch {
			case dim.Value >= 0:
			case dim.Param == "":
				shapes[a.Name] = t.Shape()
			case from[dim.Param] == "":
				named[dim.Param], from[dim.Param] = n, fmt.Sprintf("axis %d of %q", i, a.Name)
			case named[dim.Param] != n:
				return nil, nil, fmt.Errorf("dimension %q is %d at %s and %d at axis %d of %q", dim.Param,
					named[dim.Param], from[dim.Param], n, i, a.Name)
			}
		}
	}
	for _, a := range d.Inputs {
		if dynamic[a.Name] {
			for _, dim := range a.Shape {
				delete(named, dim.Param)
			}
		}
	}
	return named, shapes, nil
}

// withShapes returns a copy of a model in which the inputs have the given shapes, and named
// dimensions of other inputs the given sizes.
func withShapes(m *onnx.Model, shapes map[string][]int, named map[string]int64) *onnx.Model {
	c, g := *m, *m.Graph
	c.Graph, g.Inputs = &g, make([]*onnx.ValueInfo, len(m.Graph.Inputs))
	for i, in := range m.Graph.Inputs {
		g.Inputs[i] = in
		if in.Type == nil || in.Type.Tensor == nil {
			continue
		}
		v, t, tt := *in, *in.Type, *in.Type.Tensor
		s := &onnx.Shape{}
		if shape, ok := shapes[in.Name]; ok {
			for _, n := range shape {
				s.Dims = append(s.Dims, onnx.Dim{Kind: onnx.DimValue, Value: int64(n)})
			}
		} else if tt.Shape != nil {
			s.Dims = append(s.Dims, tt.Shape.Dims...)
			for k, d := range s.Dims {
				if n, ok := named[d.Param]; ok && d.Kind == onnx.DimParam {
					s.Dims[k] = onnx.Dim{Kind: onnx.DimValue, Value: n, Denotation: d.Denotation}
				}
			}
		} else {
			continue
		}
		tt.Shape, t.Tensor, v.Type = s, &tt, &t
		g.Inputs[i] = &v
	}
	return &c
}
