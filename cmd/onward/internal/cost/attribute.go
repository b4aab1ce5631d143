package cost

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
)

// Executed is a node that a provider has run: one of the model, or one that an optimization made of
// several.
type Executed struct {
	Name, Op string
	Outputs  []string // names of values; nil if the provider does not report them
	Elements int64    // of the first output
}

// Group is what an executed node computes in the terms of the model.
type Group struct {
	Nodes   []int // indices of Layers
	Outputs []string
	Inputs  []string
	FLOPs   int64
	Bytes   int64   // of Inputs and Outputs, which nodes of the group need not read from memory
	Part    float64 // of the elements of Outputs that the executed node computes, to which FLOPs and Bytes refer
}

// layoutSuffixes end the names of values in a layout of the engine. The suffix gathered marks
// values that are computed in part.
var layoutSuffixes = []string{" (blocked)", " (channels last)", gathered}

const gathered = " (gathered)"

// Attribute returns for each executed node the nodes of the model that it computes: those that its
// outputs depend on, without constant nodes and without those of earlier groups. If the provider
// does not report outputs, the node is found by its name, to which native libraries append
// suffixes. If the node of that name has another operator, the group also has its predecessors, up
// to one with MACs.
func (c *Costs) Attribute(run []Executed) []Group {
	taken := make([]bool, len(c.Layers))
	for i, l := range c.Layers { // nodes of constants are folded
		taken[i] = constant(c, l)
	}
	groups := make([]Group, len(run))
	for i, e := range run {
		g := &groups[i]
		behind := true         // whether to add the producers of inputs
		limit := len(c.Layers) // most nodes with MACs in the group
		var todo []int
		for _, name := range e.Outputs {
			for _, suffix := range layoutSuffixes {
				name = strings.TrimSuffix(name, suffix)
			}
			if k, ok := c.producer[name]; ok {
				todo = append(todo, k)
			}
		}
		if e.Outputs == nil {
			k, ok := c.named(e.Name)
			if !ok {
				continue
			}
			todo = append(todo, k)
			limit, behind = 1, c.Layers[k].MACs == 0 && c.Layers[k].OpType != e.Op
		}
		for len(todo) > 0 {
			k := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if taken[k] {
				continue
			}
			if c.Layers[k].MACs > 0 {
				if limit == 0 {
					continue
				}
				limit--
			}
			taken[k] = true
			g.Nodes = append(g.Nodes, k)
			for _, in := range c.Layers[k].Inputs {
				if !behind {
					break
				}
				if p, ok := c.producer[in]; ok {
					todo = append(todo, p)
				}
			}
		}
		slices.SortFunc(g.Nodes, cmp.Compare)
		g.Part = 1
		if len(g.Nodes) > 0 && len(e.Outputs) > 0 {
			if name, ok := strings.CutSuffix(e.Outputs[0], gathered); ok {
				g.Part = min(1, float64(e.Elements)/max(1, float64(product(shape(c.values[name])))))
			}
		}
		c.sum(g)
	}
	shareParts(run, groups)
	return groups
}

// shareParts divides a group between executed nodes that compute parts of the same values, and so
// have the same name, operator and outputs.
func shareParts(run []Executed, groups []Group) {
	same := map[string][]int{}
	for i, e := range run {
		if key := strings.Join(append([]string{e.Name, e.Op}, e.Outputs...), "\x00"); e.Outputs != nil {
			same[key] = append(same[key], i)
		}
	}
	for _, parts := range same {
		whole := groups[parts[0]]
		for _, i := range parts[1:] {
			if len(groups[i].Nodes) > 0 {
				parts = nil
			}
		}
		for _, i := range parts {
			groups[i] = whole
			groups[i].FLOPs /= int64(len(parts))
			groups[i].Bytes /= int64(len(parts))
		}
	}
}

// constant reports whether a node has the same results in each run.
func constant(c *Costs, l Layer) bool {
	return l.OpType == "Constant" || len(l.Inputs) > 0 && len(l.Outputs) > 0 && c.constant[l.Outputs[0]]
}

// sum adds the costs of the nodes of a group.
func (c *Costs) sum(g *Group) {
	share := func(n int64) int64 {
		if g.Part == 1 {
			return n
		}
		return int64(g.Part * float64(n))
	}
	bytes := func(name string) int64 {
		if c.constant[name] {
			return size(c.values[name])
		}
		return share(size(c.values[name]))
	}
	inside, made := map[int]bool{}, map[string]bool{}
	for _, k := range g.Nodes {
		inside[k] = true
		for _, out := range c.Layers[k].Outputs {
			made[out] = true
		}
		g.FLOPs = add(g.FLOPs, share(c.Layers[k].FLOPs))
	}
	seen := map[string]bool{"": true}
	for _, k := range g.Nodes {
		for _, in := range c.Layers[k].Inputs {
			if !made[in] && !seen[in] {
				seen[in] = true
				g.Inputs = append(g.Inputs, in)
				g.Bytes = add(g.Bytes, bytes(in))
			}
		}
	}
	for _, k := range g.Nodes {
		for _, out := range c.Layers[k].Outputs {
			if out == "" {
				continue
			}
			leaves := c.output[out]
			for _, user := range c.users[out] {
				leaves = leaves || !inside[user]
			}
			if leaves {
				g.Outputs = append(g.Outputs, out)
				g.Bytes = add(g.Bytes, bytes(out))
			}
		}
	}
}

// named returns the node whose name, or the name of whose output, is the beginning of a name: ONNX
// Runtime and OpenVINO append to them ("conv_nchwc", "conv/WithoutBiases").
func (c *Costs) named(name string) (int, bool) {
	for end := len(name); end > 0; end-- {
		if end < len(name) && !strings.ContainsRune("_/.:", rune(name[end])) {
			continue
		}
		if k, ok := c.byName[name[:end]]; ok {
			return k, true
		}
		if k, ok := c.producer[name[:end]]; ok {
			return k, true
		}
	}
	return 0, false
}

// Parameter reports whether a value is an initializer or computed from some, of rank 0 or 1,
// such as a bias.
func (c *Costs) Parameter(name string) bool { return c.constant[name] && len(c.values[name].Shape) < 2 }

// Shape returns a value's type and shape, such as "float[1 3 224 224]"; ? for unknown sizes.
func (c *Costs) Shape(name string) string {
	v, ok := c.values[name]
	if !ok {
		return "?"
	}
	return shapeText(v)
}

func shapeText(v onward.NodeArg) string {
	if v.Shape == nil {
		return v.ElementType().String()
	}
	var b strings.Builder
	b.WriteString(v.ElementType().Elem.String())
	b.WriteByte('[')
	for i, d := range v.Shape {
		if i > 0 {
			b.WriteByte(' ')
		}
		if d.Value < 0 {
			b.WriteByte('?')
		} else {
			b.WriteString(d.String())
		}
	}
	b.WriteByte(']')
	return b.String()
}
