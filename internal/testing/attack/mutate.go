package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// mutateTargets lists the suite's models.
func mutateTargets(a *attack) []string {
	var r []string
	for _, kind := range []string{"node", "simple", "pytorch-operator", "pytorch-converted"} {
		dirs, _ := filepath.Glob(filepath.Join(a.suite, kind, "*"))
		for _, d := range dirs {
			if a.suite != "" {
				r = append(r, kind+"/"+filepath.Base(d))
			}
		}
	}
	return r
}

// tryMutate changes the structure of a model of the suite and compares both engines.
func tryMutate(a *attack, name string, seed uint64) (*attempt, error) {
	rng := rand.New(rand.NewPCG(seed, hash(name)))
	dir := filepath.Join(a.suite, filepath.FromSlash(name))
	file := filepath.Join(dir, "model.onnx")
	if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
		return nil, nil
	}
	m, err := onnx.ReadFile(file, nil)
	if err != nil {
		return nil, nil
	}
	feed := map[string]tensor.Value{}
	for i, in := range m.Graph.Inputs {
		b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			return nil, nil
		}
		if feed[in.Name], err = onnx.UnmarshalValue(b, in.Type, nil, nil); err != nil {
			return nil, nil
		}
	}
	var text []string
	for range 1 + rng.IntN(3) {
		text = append(text, mutate(rng, m, feed))
	}
	return compareEngines(a, &attempt{model: m, feed: feed, text: strings.Join(text, "; ")}, false)
}

// compareEngines runs a model on both engines. They must agree on whether it is valid; their
// results, and those of panics, are compared. It returns a nil attempt if the model does not run.
// If finite is set, results with infinities and NaN are not compared.
func compareEngines(a *attack, at *attempt, finite bool) (*attempt, error) {
	m, feed := at.model, at.feed
	var results [2]map[string]tensor.Value
	var errs [2]error
	for k, p := range a.engines {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		resetPeak(self)
		start, before, used := cputime.Now(), peak(self), allocated()
		var s *onward.Session
		s, errs[k] = onward.OpenModel(ctx, m,
			&onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: 64 << 20},
				Providers: []onward.ProviderConfig{{Name: p}}})
		if errs[k] == nil {
			for range 1 + 2*k {
				if results[k], errs[k] = s.Run(ctx, feed, nil); errs[k] != nil {
					break
				}
			}
			s.Close()
		}
		cancel()
		if d := start.Elapsed(); d > 2*time.Second {
			return at, fmt.Errorf("on %s: ended after %v of processor time with a deadline of 1s", p, d)
		}
		late := errors.Is(errs[k], context.DeadlineExceeded)
		// A loop may drop more than 1 GiB until its deadline, but not hold half of it.
		if n := allocated() - used; n > 1<<30 && (!late || peak(self)-before > 1<<29) {
			return at, fmt.Errorf("on %s: %d MiB were allocated with a limit of 64 MiB", p, n>>20)
		}
		if late || errors.Is(errs[k], onward.ErrMemoryLimit) {
			return nil, nil
		}
	}
	if errs[0] != nil && errs[1] == nil && !runsUnoptimized(m, feed) {
		return nil, nil // an optimization removed the node that fails (docs/differences.md)
	}
	if (errs[0] == nil) != (errs[1] == nil) {
		return at, fmt.Errorf("the engines disagree: reference: %v; cpu: %v", errs[0], errs[1])
	}
	if errs[0] != nil {
		return nil, nil
	}
	c := &opfuzz.Chain{Model: m, Feeds: []map[string]tensor.Value{feed}}
	nodes, err := c.Nodes(0)
	if err != nil || slices.ContainsFunc(nodes, func(n *opfuzz.Case) bool {
		return n.Random() || opfuzz.Explained(n)
	}) {
		return at, nil
	}
	if finite && !allFinite(results[0]) {
		return at, nil
	}
	if len(nodes) == 1 {
		n := nodes[0]
		return at, opfuzz.Compare(n, renamed(m, results[1]), renamed(m, results[0]))
	}
	_, err = c.Compare(0, results[1], results[0], true)
	return at, err
}

// allocated returns the bytes that the process has allocated on the heap so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// allFinite reports whether tensors have no infinities and NaN.
func allFinite(values map[string]tensor.Value) bool {
	for _, v := range values {
		t, ok := v.(*tensor.Tensor)
		if !ok || !t.DType().IsFloat() {
			continue
		}
		f, err := opfuzz.Floats(t)
		if err != nil || slices.ContainsFunc(f, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return false
		}
	}
	return true
}

// runsUnoptimized reports whether cpu runs a model without optimizations.
func runsUnoptimized(m *onnx.Model, feed map[string]tensor.Value) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{Threads: 1, OptimizationLevel: onward.OptimizeNone,
		Limits: onward.Limits{MaxMemory: 64 << 20}})
	if err != nil {
		return false
	}
	defer s.Close()
	_, err = s.Run(ctx, feed, nil)
	return err == nil
}

// renamed maps results of a model of one node to the names of a case's outputs.
func renamed(m *onnx.Model, out map[string]tensor.Value) map[string]tensor.Value {
	r := map[string]tensor.Value{}
	for i, name := range m.Graph.Nodes[0].Outputs {
		r[fmt.Sprintf("o%d", i)] = out[name]
	}
	return r
}

// mutate makes one change to a model and its feed, and says which.
func mutate(rng *rand.Rand, m *onnx.Model, feed map[string]tensor.Value) string {
	g, what := m.Graph, rng.IntN(9)
	if what < 4 { // maybe in a body or branch
		all := nested(g)
		g = all[rng.IntN(len(all))]
	}
	if len(g.Nodes) == 0 {
		return "nothing"
	}
	n := g.Nodes[rng.IntN(len(g.Nodes))]
	var names []string
	for _, in := range g.Inputs {
		names = append(names, in.Name)
	}
	for _, x := range g.Nodes {
		names = append(names, x.Outputs...)
	}
	some := names[rng.IntN(len(names))]
	switch what {
	case 0:
		if len(n.Inputs) > 0 {
			k := rng.IntN(len(n.Inputs))
			n.Inputs[k] = some
			return fmt.Sprintf("input %d of %s is %q", k, n.OpType, some)
		}
	case 1:
		if len(n.Inputs) > 0 {
			k := rng.IntN(len(n.Inputs))
			n.Inputs[k] = ""
			return fmt.Sprintf("input %d of %s is omitted", k, n.OpType)
		}
	case 2:
		for _, a := range n.Attributes {
			if rng.IntN(2) != 0 {
				continue
			}
			switch {
			case a.Type == onnx.AttrInt:
				a.I = []int64{0, 1, 2, -1, a.I + 1, -a.I, 1 << 40, -1 << 63}[rng.IntN(8)]
			case a.Type == onnx.AttrInts && len(a.Ints) > 0:
				a.Ints[rng.IntN(len(a.Ints))] = []int64{0, 1, 2, -1, 3, 1 << 40}[rng.IntN(6)]
			case a.Name == "cubic_coeff_a": // 1e30 would multiply the rounding of weights that are 0
				a.F = 2
			case a.Type == onnx.AttrFloat:
				a.F = []float32{0, 1, -1, 0.5, 1e30}[rng.IntN(5)]
			default:
				continue
			}
			return "attribute " + a.Name + " of " + n.OpType + " has another value"
		}
	case 3:
		if len(n.Attributes) > 0 {
			k := rng.IntN(len(n.Attributes))
			text := "attribute " + n.Attributes[k].Name + " of " + n.OpType + " is dropped"
			n.Attributes = slices.Delete(n.Attributes, k, k+1)
			return text
		}
	case 4:
		k := rng.IntN(len(m.OpsetImports))
		m.OpsetImports[k].Version = max(1, m.OpsetImports[k].Version+int64(rng.IntN(9)-6))
		return fmt.Sprintf("opset %d", m.OpsetImports[k].Version)
	case 5:
		op := []string{"Identity", "Neg", "Abs", "Relu", "Shape", "Flatten", "Transpose", "Exp"}[rng.IntN(8)]
		name := fmt.Sprintf("mutant %d", len(g.Nodes))
		g.Nodes = append([]*onnx.Node{}, g.Nodes...)
		g.Nodes = append(g.Nodes, &onnx.Node{OpType: op, Inputs: []string{some}, Outputs: []string{name}})
		g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: name})
		return op + " of " + some + " is an output"
	case 6:
		if len(g.Inputs) > 0 {
			in := g.Inputs[rng.IntN(len(g.Inputs))]
			if t, ok := feed[in.Name].(*tensor.Tensor); ok {
				delete(feed, in.Name)
				x := onnx.FromTensor(t)
				x.Name = in.Name
				g.Initializers = append(g.Initializers, x)
				g.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *onnx.ValueInfo) bool { return v == in })
				return "input " + in.Name + " is a constant"
			}
		}
	case 7:
		if len(g.Inputs) > 0 {
			in := g.Inputs[rng.IntN(len(g.Inputs))]
			if t, ok := feed[in.Name].(*tensor.Tensor); ok && t.DType() != tensor.TypeString && t.Len() > 0 {
				t = t.Clone()
				feed[in.Name] = t
				b := t.Bytes()
				size := max(1, len(b)/t.Len())
				at := rng.IntN(len(b)/size) * size
				copy(b[at:at+size], b[rng.IntN(len(b)/size)*size:][:size])
				return "an element of " + in.Name + " is another one"
			}
		}
	case 8:
		if len(g.Inputs) > 0 {
			in := g.Inputs[rng.IntN(len(g.Inputs))]
			in.Type = onnx.NewType(feedType(feed[in.Name]))
			return "input " + in.Name + " has no shape"
		}
	}
	return "nothing"
}

// nested returns a graph and its subgraphs.
func nested(g *onnx.Graph) []*onnx.Graph {
	r := []*onnx.Graph{g}
	for _, n := range g.Nodes {
		for _, a := range n.Attributes {
			for _, sub := range append(a.Graphs, a.G) {
				if sub != nil {
					r = append(r, nested(sub)...)
				}
			}
		}
	}
	return r
}

func feedType(v tensor.Value) tensor.Type {
	if v == nil {
		return tensor.TensorType(tensor.TypeFloat32)
	}
	return v.Type()
}
