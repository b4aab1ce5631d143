package cost

import (
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// chain is x -> Conv c -> BatchNormalization b -> Relu r -> MaxPool p -> Add with the transposed
// constant k -> y.
func chain(t *testing.T) *Costs {
	t.Helper()
	m := onnx.NewModel("m").Opset("", 21)
	m.Input("x", onnx.Float, 1, 3, 8, 8).Output("y", onnx.Float, 1, 16, 4, 4)
	m.Initializer("w", make([]float32, 16*3*9), 16, 3, 3, 3).Initializer("s", make([]float32, 16), 16).
		Initializer("k0", make([]float32, 16*16), 4, 4, 1, 16)
	m.Node("Conv", []string{"x", "w"}, []string{"c"}, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}).Name("conv")
	m.Node("BatchNormalization", []string{"c", "s", "s", "s", "s"}, []string{"b"}).Name("bn")
	m.Node("Relu", []string{"b"}, []string{"r"}).Name("relu")
	m.Node("MaxPool", []string{"r"}, []string{"p"},
		onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}).Name("pool")
	m.Node("Transpose", []string{"k0"}, []string{"k"}, onnx.Attrs{"perm": []int64{2, 3, 0, 1}}).Name("constant")
	m.Node("Add", []string{"p", "k"}, []string{"y"}).Name("add")
	c, err := Of(m.Must())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Costs) ops(g Group) string {
	var s []string
	for _, k := range g.Nodes {
		s = append(s, c.Layers[k].Name)
	}
	return strings.Join(s, "+")
}

func TestFLOPs(t *testing.T) {
	c := chain(t)
	const elements = 16 * 64
	want := map[string]int64{"conv": 2 * elements * 27, "bn": 2 * elements, "relu": elements, "pool": elements,
		"constant": 0, "add": 16 * 16}
	sum := int64(0)
	for _, l := range c.Layers {
		if l.FLOPs != want[l.Name] {
			t.Errorf("%s: %d operations, want %d", l.Name, l.FLOPs, want[l.Name])
		}
		sum += l.FLOPs
	}
	if c.FLOPs != sum {
		t.Errorf("%d operations, want %d", c.FLOPs, sum)
	}
}

func TestAttribute(t *testing.T) {
	c := chain(t)
	g := c.Attribute([]Executed{
		{Name: "conv", Op: "BlockedFusedConv", Outputs: []string{"r (blocked)"}},
		{Name: "pool", Op: "BlockedMaxPool", Outputs: []string{"p (channels last)"}},
		{Name: "", Op: "FromBlocked", Outputs: []string{"p"}},
		{Name: "add", Op: "Add", Outputs: []string{"y"}},
	})
	for i, want := range []string{"conv+bn+relu", "pool", "", "add"} {
		if got := c.ops(g[i]); got != want {
			t.Errorf("executed node %d computes %q, want %q", i, got, want)
		}
	}
	const elements = 16 * 64
	if f := g[0]; f.FLOPs != 2*elements*27+3*elements || f.Bytes != 4*(3*64+16*27+16+elements) {
		t.Errorf("%d operations on %d bytes", f.FLOPs, f.Bytes)
	}
	if !slices.Equal(g[0].Inputs, []string{"x", "w", "s"}) || !slices.Equal(g[0].Outputs, []string{"r"}) {
		t.Errorf("%v -> %v", g[0].Inputs, g[0].Outputs)
	}
	if s := c.Shape("r"); s != "float[1 16 8 8]" {
		t.Error(s)
	}
	if c.Parameter("w") || !c.Parameter("s") || c.Parameter("x") {
		t.Error("parameters")
	}
}

// Two nodes that compute parts of a node share what it costs.
func TestAttributeParts(t *testing.T) {
	c := chain(t)
	part := Executed{Name: "conv", Op: "BlockedFusedConv", Outputs: []string{"r"}}
	whole, g := c.Attribute([]Executed{part})[0], c.Attribute([]Executed{part, part})
	for i, p := range g {
		if c.ops(p) != c.ops(whole) || p.FLOPs != whole.FLOPs/2 || p.Bytes != whole.Bytes/2 {
			t.Errorf("part %d computes %q with %d operations on %d bytes, want half of %d on %d", i, c.ops(p), p.FLOPs,
				p.Bytes, whole.FLOPs, whole.Bytes)
		}
	}
}

// A node that computes a quarter of the elements costs a quarter, but reads all of the weights.
func TestAttributePartOfElements(t *testing.T) {
	c := chain(t)
	const elements = 16 * 64
	g := c.Attribute(
		[]Executed{{Name: "conv", Op: "FusedConv", Outputs: []string{"r (gathered)"}, Elements: elements / 4}})[0]
	if c.ops(g) != "conv+bn+relu" || g.Part != 0.25 || g.FLOPs != (2*elements*27+3*elements)/4 ||
		g.Bytes != 4*(3*64/4+16*27+16+elements/4) {
		t.Errorf("%q, part %g: %d operations on %d bytes", c.ops(g), g.Part, g.FLOPs, g.Bytes)
	}
}

// A hostile file can have nodes without outputs.
func TestAttributeWithoutOutputs(t *testing.T) {
	c := &Costs{Layers: []Layer{{NodeInfo: onward.NodeInfo{OpType: "Relu", Inputs: []string{"x"}}},
		{NodeInfo: onward.NodeInfo{OpType: "Constant"}}}}
	if g := c.Attribute([]Executed{{Name: "relu", Outputs: []string{"y"}}}); len(g) != 1 || len(g[0].Nodes) != 0 {
		t.Errorf("%+v, want a group without nodes", g)
	}
}

// The names of native libraries begin with those of the model's nodes or values.
func TestAttributeByName(t *testing.T) {
	c := chain(t)
	for _, x := range []struct {
		run  []Executed
		want []string
	}{
		{[]Executed{{Name: "r_nchwc", Op: "Conv"}, {Name: "pool_nchwc", Op: "MaxPool"}, {Name: "ReorderOutput"}, {Name: "add", Op: "Add"}}, []string{"conv+bn+relu", "pool", "", "add"}},
		{[]Executed{{Name: "conv/WithoutBiases", Op: "Convolution"}, {Name: "pool", Op: "MaxPool"}, {Name: "add", Op: "Eltwise"}}, []string{"conv", "pool", "add"}},
		{[]Executed{{Name: "convolution", Op: "Conv"}}, []string{""}},
	} {
		for i, g := range c.Attribute(x.run) {
			if got := c.ops(g); got != x.want[i] {
				t.Errorf("%v: executed node %d computes %q, want %q", x.run, i, got, x.want[i])
			}
		}
	}
}
