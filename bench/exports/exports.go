package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// engines lists the providers that run every case.
var engines = []string{"cpu", "reference"}

// note is case.json: the origin of a model and the tolerances of its results.
type note struct {
	Library  string  `json:"library"`
	Exporter string  `json:"exporter"`
	RTol     float64 `json:"rtol"`
	ATol     float64 `json:"atol"`

	// ONNXRuntime describes how ONNX Runtime differs from the library; empty if it agrees. If both
	// engines agree with ONNX Runtime only, the exported model computes something else than the
	// library.
	ONNXRuntime string `json:"onnxruntime"`

	// NotExported is the error of an exporter that failed. It wrote no model.
	NotExported string `json:"not_exported"`
}

// exported is one exported model with its inputs and the library's results.
type exported struct {
	family, name string
	folder       string
	note
	in, out map[string]*tensor.Tensor
	ort     map[string]*tensor.Tensor // ONNX Runtime's results, if they differ from out
}

// outcome is the result of a case on one engine.
type outcome struct {
	maxAbs float64 // largest absolute difference over all numbers compared
	err    error
	asORT  bool // err is not nil, and the results agree with ONNX Runtime's
}

// find returns the cases below a folder, FOLDER/FAMILY/NAME/case.json, in order.
func find(root string) ([]*exported, error) {
	var cases []*exported
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "case.json" {
			return err
		}
		c := &exported{folder: filepath.Dir(path)}
		c.name = filepath.Base(c.folder)
		c.family = filepath.Base(filepath.Dir(c.folder))
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &c.note); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		cases = append(cases, c)
		return nil
	})
	return cases, err
}

// load reads the inputs and the expected results.
func (c *exported) load() error {
	z, err := tensor.ReadNPZFile(filepath.Join(c.folder, "data.npz"), 1<<30)
	if err != nil {
		return err
	}
	c.in, c.out, c.ort = map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	for name, t := range z.Arrays {
		if n, ok := strings.CutPrefix(name, "in/"); ok {
			c.in[n] = t
		} else if n, ok := strings.CutPrefix(name, "out/"); ok {
			c.out[n] = t
		} else if n, ok := strings.CutPrefix(name, "ort/"); ok {
			c.ort[n] = t
		} else {
			return fmt.Errorf("data.npz holds %q, want in/NAME, out/NAME or ort/NAME", name)
		}
	}
	if len(c.out) == 0 {
		return errors.New("data.npz holds no expected results")
	}
	return nil
}

// model returns the path of the case's model.
func (c *exported) model() string { return filepath.Join(c.folder, "model.onnx") }

// run runs the case on one engine and compares the results.
func (c *exported) run(ctx context.Context, engine string) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := onward.Open(ctx, c.model(), &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: engine}}})
	if err != nil {
		return outcome{err: err}
	}
	defer s.Close()
	feed := onward.Values{}
	for name, t := range c.in {
		feed[name] = t
	}
	got, err := s.Run(ctx, feed, nil)
	if err != nil {
		return outcome{err: err}
	}
	o.asORT = len(c.ort) > 0
	for _, name := range slices.Sorted(maps.Keys(c.out)) {
		if o.asORT {
			_, err := compare(got[name], c.ort[name], c.RTol, c.ATol)
			o.asORT = err == nil
		}
		d, err := compare(got[name], c.out[name], c.RTol, c.ATol)
		if math.IsNaN(d) || d > o.maxAbs {
			o.maxAbs = d
		}
		if err != nil {
			o.err = errors.Join(o.err, fmt.Errorf("output %s: %w", name, err))
		}
	}
	return o
}

// compare returns the largest difference between a result and the library's. Since the library
// computes in its own types, numbers are compared as float64: integers exactly, others within atol
// + rtol·|want|. Axes of length 1 are ignored, since exporters add or drop them. A sequence of maps
// is compared as a matrix whose columns are the sorted keys.
func compare(got tensor.Value, want *tensor.Tensor, rtol, atol float64) (maxAbs float64, err error) {
	if s, ok := got.(*tensor.Sequence); ok {
		if got, err = matrix(s); err != nil {
			return 0, err
		}
	}
	g, ok := got.(*tensor.Tensor)
	if !ok {
		return 0, fmt.Errorf("is %T, want a tensor or a sequence of maps", got)
	}
	if want == nil {
		return 0, errors.New("there is no expected result")
	}
	if !slices.Equal(squeezed(g.Shape()), squeezed(want.Shape())) {
		return 0, fmt.Errorf("shape is %v, want %v", g.Shape(), want.Shape())
	}
	if (g.DType() == tensor.TypeString) != (want.DType() == tensor.TypeString) {
		return 0, fmt.Errorf("type is %v, want %v", g.DType(), want.DType())
	}
	if g.DType() == tensor.TypeString {
		if g, err = g.Reshape(want.Shape()...); err != nil {
			return 0, err
		}
		return 0, tensor.Equal(g, want)
	}
	if integers(g) && integers(want) {
		rtol, atol = 0, 0
	}
	a, err := tensor.Float64s(g)
	if err != nil {
		return 0, err
	}
	b, err := tensor.Float64s(want)
	if err != nil {
		return 0, err
	}
	wrong, first := 0, -1
	for i := range a {
		d := math.Abs(a[i] - b[i])
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue // including infinities of the same sign
		}
		if math.IsNaN(d) || d > maxAbs {
			maxAbs = d
		}
		if !(d <= atol+rtol*math.Abs(b[i])) {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	if wrong > 0 {
		return maxAbs, fmt.Errorf(
			"%d of %d elements differ, the first is %d: %g, want %g; the largest difference is %.3g", wrong, len(a),
			first, a[first], b[first], maxAbs)
	}
	return maxAbs, nil
}

func integers(t *tensor.Tensor) bool {
	switch t.DType() {
	case tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32, tensor.TypeInt64, tensor.TypeUint8, tensor.TypeUint16,
		tensor.TypeUint32, tensor.TypeUint64, tensor.TypeBool:
		return true
	}
	return false
}

func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// matrix converts a result of ZipMap, a map from class to probability per row, to a matrix. All
// rows must have the same keys in the same order; ZipMap sorts them.
func matrix(s *tensor.Sequence) (*tensor.Tensor, error) {
	var all []float64
	var keys *tensor.Tensor
	for i, item := range s.Items {
		m, ok := item.(*tensor.Map)
		if !ok {
			return nil, fmt.Errorf("item %d is %T, want a map", i, item)
		}
		if keys == nil {
			keys = m.Keys
		} else if err := tensor.Equal(m.Keys, keys); err != nil {
			return nil, fmt.Errorf("keys of row %d differ from row 0: %w", i, err)
		}
		t, ok := m.Values.(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("the values of row %d are %T, want a tensor", i, m.Values)
		}
		row, err := tensor.Float64s(t)
		if err != nil {
			return nil, err
		}
		all = append(all, row...)
	}
	if keys == nil {
		return nil, errors.New("sequence is empty")
	}
	return tensor.New(all, len(s.Items), keys.Len())
}

// operators returns the number of nodes of a model, including subgraphs and functions, and the
// number of different operators.
func operators(m *onnx.Model) (nodes, kinds int) {
	seen := map[string]bool{}
	var count func([]*onnx.Node)
	count = func(ns []*onnx.Node) {
		for _, n := range ns {
			nodes++
			seen[n.Domain+"."+n.OpType] = true
			for _, a := range n.Attributes {
				if a.G != nil {
					count(a.G.Nodes)
				}
				for _, g := range a.Graphs {
					count(g.Nodes)
				}
			}
		}
	}
	count(m.Graph.Nodes)
	for _, f := range m.Functions {
		count(f.Nodes)
	}
	return nodes, len(seen)
}
