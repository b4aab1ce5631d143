package onnx_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// nested returns a node whose two subgraphs read names of the outer graph.
func nested() *onnx.Node {
	inner := &onnx.Graph{Nodes: []*onnx.Node{{OpType: "Add", Inputs: []string{"p", "deep"}, Outputs: []string{"q"}}},
		Outputs: []*onnx.ValueInfo{{Name: "q"}}}
	then := &onnx.Graph{
		Inputs:             []*onnx.ValueInfo{{Name: "in"}, nil},
		Initializers:       []*onnx.Tensor{{Name: "init"}, nil},
		SparseInitializers: []*onnx.SparseTensor{{Values: &onnx.Tensor{Name: "sparse"}}, nil},
		Nodes: []*onnx.Node{
			{OpType: "Sum", Inputs: []string{"in", "init", "sparse", "b", ""}, Outputs: []string{"p"}},
			{OpType: "If", Inputs: []string{"c"}, Outputs: []string{"r"}, Attributes: []*onnx.Attribute{{Name: "then_branch", G: inner}}},
		},
		Outputs: []*onnx.ValueInfo{{Name: "r"}, nil},
	}
	other := &onnx.Graph{Outputs: []*onnx.ValueInfo{{Name: "a"}}}
	return &onnx.Node{Name: "n", OpType: "If", Inputs: []string{"c"}, Outputs: []string{"y"},
		Attributes: []*onnx.Attribute{{Name: "then_branch", G: then}, {Name: "branches", Graphs: []*onnx.Graph{other, then}}, {Name: "axis", I: 1}}}
}

func TestScopesOuterNames(t *testing.T) {
	var s onnx.Scopes
	n := nested()
	for range 2 { // the second time from the cache
		if got, want := s.Outer(n.Attributes[0].G), []string{"b", "c", "deep"}; !slices.Equal(got, want) {
			t.Errorf("Outer = %q, want %q", got, want)
		}
	}
	if got, want := s.Reads(n), []string{"c", "b", "c", "deep", "a"}; !slices.Equal(got, want) {
		t.Errorf("Reads = %q, want %q", got, want)
	}
	if len(n.Inputs) != 1 || cap(s.Reads(n)) == cap(n.Inputs) {
		t.Errorf("Reads shares its memory with the inputs %q", n.Inputs)
	}
}

func TestScopesSort(t *testing.T) {
	node := func(out string, in ...string) *onnx.Node {
		return &onnx.Node{Name: out, OpType: "Sum", Inputs: in, Outputs: []string{out, ""}}
	}
	branch := nested()
	branch.Name = "branch"
	gradient := &onnx.Node{Name: "g", OpType: "Gradient", Domain: "ai.onnx.preview.training", Inputs: []string{"x"},
		Outputs:    []string{"dx"},
		Attributes: []*onnx.Attribute{{Name: "y", S: "z"}}}
	for _, c := range []struct {
		name  string
		nodes []*onnx.Node
		want  string
		err   string
	}{
		{"already sorted", []*onnx.Node{node("a", "x"), node("b", "x", "a"), node("c")}, "a b c", ""},
		{"reversed", []*onnx.Node{node("c", "b"), node("b", "a"), node("a", "x")}, "a b c", ""},
		{"one out of order", []*onnx.Node{node("a", "x"), node("b", "q"), node("c", "a"), node("q", "a")}, "a q b c", ""},
		{"a subgraph reads a name", []*onnx.Node{branch, node("deep", "x")}, "deep branch", ""},
		{"a gradient differentiates a name", []*onnx.Node{gradient, node("z", "x")}, "z g", ""},
		{"cycle", []*onnx.Node{node("x"), node("a", "b"), node("b", "a", "x")}, "", `graph "main" has a cycle through node "a" (Sum)`},
		{"own output", []*onnx.Node{node("a", "a")}, "", `cycle through node "a"`},
		{"defined twice", []*onnx.Node{node("a"), node("a")}, "", `value "a" is defined twice`},
	} {
		var s onnx.Scopes
		r, err := s.Sort(&onnx.Graph{Name: "main", Nodes: c.nodes})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
			}
			continue
		}
		var names []string
		for _, n := range r {
			names = append(names, n.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestCountNodes(t *testing.T) {
	model := func(nodes ...*onnx.Node) *onnx.Model { return &onnx.Model{Graph: &onnx.Graph{Nodes: nodes}} }
	inFunction := model(nested())
	inFunction.Functions = []*onnx.Function{{Nodes: []*onnx.Node{nested()}}}
	noFunction := model()
	noFunction.Functions = []*onnx.Function{nil}
	badFunction := model()
	badFunction.Functions = []*onnx.Function{{Nodes: []*onnx.Node{nil}}}
	for _, c := range []struct {
		name  string
		model *onnx.Model
		depth int
		want  int
		err   string
	}{
		{"empty", model(), 0, 0, ""},
		{"nested", model(nested()), 2, 7, ""}, // then_branch occurs twice
		{"function", inFunction, 2, 14, ""},
		{"too deep", model(nested()), 1, 0, "subgraphs nest deeper than 1 levels"},
		{"no graph", &onnx.Model{}, 1, 0, "the model has no graph"},
		{"no node", model(nil), 1, 0, "a node is missing"},
		{"no attribute", model(&onnx.Node{Name: "n", Attributes: []*onnx.Attribute{nil}}), 1, 0, `node "n" has an empty attribute`},
		{"no subgraph", model(&onnx.Node{Name: "n", Attributes: []*onnx.Attribute{{Name: "a", Graphs: []*onnx.Graph{nil}}}}), 1, 0, `attribute a of node "n" lacks a graph`},
		{"no function", noFunction, 1, 0, "a function is missing"},
		{"no node in a function", badFunction, 1, 0, "a node is missing"},
	} {
		n, err := c.model.CountNodes(c.depth)
		switch {
		case c.err == "" && (err != nil || n != c.want):
			t.Errorf("%s: %d, %v, want %d", c.name, n, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
		}
	}
}
