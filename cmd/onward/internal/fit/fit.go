// Package fit draws inputs that a model accepts: shapes that its nodes can compute with, indices
// within their tables, masks of zeros and ones, lengths within their axes, values of shapes.
package fit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/internal/autodiff"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Options are the properties of inputs that the caller sets.
type Options struct {
	Dimensions map[string]int   // sizes of free dimensions by name
	Shapes     map[string][]int // shapes of inputs by name
	Given      onward.Values    // inputs that are not drawn
	// Run runs the model. If it is set, sizes of free dimensions on which shapes depend that cannot
	// be inferred are tried by it.
	Run func(onward.Values) error
}

// Inputs describes inputs that fit a model.
type Inputs struct {
	Args []onward.NodeArg // those that have an initializer come last
	// Shapes are the shapes of the tensors among Args.
	Shapes map[string][]int
	// Dimensions are the sizes of the free dimensions that have names, and Free are these names
	// in the order of the inputs.
	Dimensions map[string]int
	Free       []string
	// Untested is the error of a run with these shapes, if no other size was found to work.
	Untested error

	required int         // number of Args without an initializer
	graph    *ir.Graph   // nil if the model cannot be converted
	exact    []*ir.Value // inputs whose contents fixContents has set
	declared map[string][]onnx.Dim
	needs    map[string]*need
	shaped   map[string]bool // whose shape the caller has given
}

// Of finds the shapes and requirements of a model's inputs. A model that cannot be analyzed, for
// example because of custom operators, has inputs of the declared shapes without requirements.
func Of(m *onnx.Model, o Options) (*Inputs, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	f := &Inputs{Args: slices.Concat(d.Inputs, d.OverridableInitializers), required: len(d.Inputs),
		Shapes:     map[string][]int{},
		Dimensions: map[string]int{}, needs: map[string]*need{}, declared: map[string][]onnx.Dim{},
		shaped: map[string]bool{}}
	for _, a := range f.Args {
		for _, dim := range a.Shape {
			if dim.Value < 0 && dim.Param != "" && !slices.Contains(f.Free, dim.Param) {
				f.Free = append(f.Free, dim.Param)
			}
		}
	}
	if err := f.check(&o); err != nil {
		return nil, err
	}
	f.graph = convert(m)
	for _, v := range m.Graph.Outputs {
		if v.Type != nil && v.Type.Tensor != nil && v.Type.Tensor.Shape != nil {
			f.declared[v.Name] = v.Type.Tensor.Shape.Dims
		}
	}
	s := f.chooseDimensions(&o)
	if f.graph == nil {
		return f, nil
	}
	f.walk()
	if o.Run != nil {
		s.runs()
	}
	return f, nil
}

// walk finds the needs of the inputs. Contents that are fixed, such as shapes, let more shapes be
// inferred.
func (f *Inputs) walk() {
	for range 3 {
		f.needs = map[string]*need{}
		w := walker{f: f}
		w.graph(f.graph, w.inputs())
		if !f.fixContents() || ir.Infer(context.Background(), f.graph) != nil {
			break
		}
	}
}

// check returns an error if an option names something that the model does not have.
func (f *Inputs) check(o *Options) error {
	for name, n := range o.Dimensions {
		if !slices.Contains(f.Free, name) {
			return cli.Usagef("the model has no free dimension %q; it has %s", name, list(f.Free))
		}
		if n < 0 {
			return cli.Usagef("dimension %q is %d, want 0 or more", name, n)
		}
	}
	for name := range o.Shapes {
		f.shaped[name] = true
		if !slices.ContainsFunc(f.Args, func(a onward.NodeArg) bool { return a.Name == name }) {
			names := make([]string, len(f.Args))
			for i, a := range f.Args {
				names[i] = a.Name
			}
			return cli.Usagef("the model has no input %q; it has %s", name, list(names))
		}
	}
	return nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// convert returns the typed graph of a model, or nil.
func convert(m *onnx.Model) *ir.Graph {
	limits := frontend.Limits{}.OrDefault()
	m, err := autodiff.Expand(m, limits.MaxDepth)
	if err != nil {
		return nil
	}
	g, err := frontend.Convert(m, frontend.Options{Limits: limits, KeepSource: true})
	if err != nil {
		return nil
	}
	return g
}

// fixContents stores the exact contents of inputs in the graph, and reports whether there are new
// ones.
func (f *Inputs) fixContents() bool {
	changed := false
	for _, id := range f.graph.Inputs {
		v := f.graph.Value(id)
		n := f.needs[v.Name]
		if v.Const != nil || n == nil || n.exact == nil {
			continue
		}
		t, err := numbers(n.exact, v.Type.Elem, f.Shapes[v.Name])
		if err == nil {
			v.Const, changed = t, true
			f.exact = append(f.exact, v)
		}
	}
	return changed
}

// numbers returns a tensor with the values in x, repeated or cut to the size of the shape.
func numbers(x []float64, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.Elements(shape)
	if err == nil && n > maxContents {
		err = fmt.Errorf("shape %v has %d elements, want at most %d for contents that the model fixes",
			shape, n, maxContents)
	}
	if err != nil {
		return nil, err
	}
	data := make([]float64, n)
	for i := range data {
		if len(x) > 0 {
			data[i] = x[i%len(x)]
		}
	}
	return convertTo(data, dtype, shape)
}

func convertTo(data []float64, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	t, err := tensor.New(data, append([]int{}, shape...)...)
	if err != nil {
		return nil, err
	}
	if t.Rank() != len(shape) {
		if t, err = t.Reshape(shape...); err != nil {
			return nil, err
		}
	}
	return tensor.Convert(t, dtype, &tensor.ConvertOptions{Saturate: true})
}
