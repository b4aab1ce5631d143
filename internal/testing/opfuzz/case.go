// Package opfuzz draws random models of one node, most of them valid, for differential
// tests: cpu against reference, and both against ONNX Runtime.
//
// A case is drawn by the generator of the operator's family, or by mutating a seed. Seeds
// are recorded cases and cases of ONNX's suite; sizes, contents, types, attributes, opset
// and constant inputs are mutated.
package opfuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Case is one node with the values of its inputs.
type Case struct {
	Domain, Op string
	Opset      int // of that domain
	Attrs      []*onnx.Attribute
	In         []tensor.Value // nil for an omitted input
	Constant   []bool         // inputs that are initializers
	Out        []bool         // which outputs are wanted
	OutTypes   []tensor.Type  // to declare, nil to leave them out
	From       string         // "generator", or the name of the seed
}

// Name returns the operator with its domain.
func (c *Case) Name() string { return kit.QualifiedName(c.Domain, c.Op) }

// Attr returns an attribute, nil if the case has none of that name.
func (c *Case) Attr(name string) *onnx.Attribute {
	for _, a := range c.Attrs {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Int returns an int attribute, or def.
func (c *Case) Int(name string, def int64) int64 {
	if a := c.Attr(name); a != nil {
		return a.I
	}
	return def
}

// Text returns a string attribute, or def.
func (c *Case) Text(name, def string) string {
	if a := c.Attr(name); a != nil {
		return a.S
	}
	return def
}

// Tensor returns input i if it is a tensor, nil otherwise.
func (c *Case) Tensor(i int) *tensor.Tensor {
	if i >= 0 && i < len(c.In) {
		if t, ok := c.In[i].(*tensor.Tensor); ok {
			return t
		}
	}
	return nil
}

// DType returns the element type of input i, 0 if it is not a tensor.
func (c *Case) DType(i int) tensor.DType {
	if t := c.Tensor(i); t != nil {
		return t.DType()
	}
	return 0
}

func (c *Case) clone() *Case {
	d := *c
	d.Attrs = append([]*onnx.Attribute{}, c.Attrs...)
	d.In = append([]tensor.Value{}, c.In...)
	d.Constant = append([]bool{}, c.Constant...)
	d.Out = append([]bool{}, c.Out...)
	return &d
}

func (c *Case) set(name string, value any) *Case {
	a, err := onnx.NewAttribute(name, value)
	if err != nil {
		panic(err)
	}
	for i, old := range c.Attrs {
		if old.Name == name {
			c.Attrs[i] = a
			return c
		}
	}
	c.Attrs = append(c.Attrs, a)
	return c
}

// Model returns the case as a model and its feed. Inputs are i0, i1 and so on, outputs
// o0, o1 and so on.
func (c *Case) Model() (*onnx.Model, map[string]tensor.Value, error) {
	b := onnx.NewModel("case").Opset(c.Domain, int64(c.Opset))
	if c.Domain != "" {
		b.Opset("", 21)
	} else if c.Opset > newest {
		b.IRVersion(13) // the newest that ONNX Runtime 1.30 reads
	}
	feed := map[string]tensor.Value{}
	var in, out []string
	for i, v := range c.In {
		if v == nil {
			in = append(in, "")
			continue
		}
		name := fmt.Sprintf("i%d", i)
		in = append(in, name)
		x, isTensor := v.(*tensor.Tensor)
		if isTensor && i < len(c.Constant) && c.Constant[i] {
			b.Initializer(name, onnx.FromTensor(x))
			continue
		}
		t := onnx.NewType(v.Type())
		if isTensor {
			t.Tensor.Shape = &onnx.Shape{}
			for k, d := range x.Shape() {
				// ONNX Runtime rejects wrong fixed sizes before a run; dynamic ones
				// let the kernel run.
				t.Tensor.Shape.Dims = append(t.Tensor.Shape.Dims,
					onnx.Dim{Kind: onnx.DimParam, Param: fmt.Sprintf("d%d_%d", i, k)})
				if (i+k)%3 != 0 {
					t.Tensor.Shape.Dims[k] = onnx.Dim{Kind: onnx.DimValue, Value: int64(d)}
				}
			}
		}
		b.InputType(name, t)
		feed[name] = v
	}
	for i, want := range c.Out {
		if !want {
			out = append(out, "")
			continue
		}
		name := fmt.Sprintf("o%d", i)
		out = append(out, name)
		if i < len(c.OutTypes) {
			b.OutputType(name, onnx.NewType(c.OutTypes[i]))
		} else {
			b.OutputType(name, nil)
		}
	}
	n := b.Node(c.Op, in, out).Domain(c.Domain)
	for _, a := range c.Attrs {
		n.Node().Attributes = append(n.Node().Attributes, a)
	}
	m, err := b.Model()
	return m, feed, err
}

// DeclareOutputs declares the types of the outputs in out.
func (c *Case) DeclareOutputs(out map[string]tensor.Value) {
	c.OutTypes = make([]tensor.Type, len(c.Out))
	for i := range c.Out {
		if v := out[fmt.Sprintf("o%d", i)]; v != nil {
			c.OutTypes[i] = v.Type()
		}
	}
}

// String returns the text of the case for failure messages.
func (c *Case) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s-%d", c.Name(), c.Opset)
	for _, a := range c.Attrs {
		fmt.Fprintf(&s, " %s=%s", a.Name, showAttr(a))
	}
	for i, v := range c.In {
		constant := ""
		if i < len(c.Constant) && c.Constant[i] {
			constant = "const "
		}
		fmt.Fprintf(&s, "\n  input %d: %s%s", i, constant, Show(v))
	}
	fmt.Fprintf(&s, "\n  outputs %v, from %s", c.Out, c.From)
	return s.String()
}

func showAttr(a *onnx.Attribute) string {
	switch a.Type {
	case onnx.AttrInt:
		return fmt.Sprint(a.I)
	case onnx.AttrFloat:
		return fmt.Sprint(a.F)
	case onnx.AttrString:
		return fmt.Sprintf("%q", a.S)
	case onnx.AttrInts:
		return fmt.Sprint(a.Ints)
	case onnx.AttrFloats:
		return fmt.Sprint(a.Floats)
	case onnx.AttrStrings:
		return fmt.Sprintf("%q", a.Strings)
	case onnx.AttrTensor:
		if v, err := a.T.Decode(nil); err == nil {
			return Show(v)
		}
	}
	return "…"
}

// Show returns the text of a value with its first elements.
func Show(v tensor.Value) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case *tensor.Tensor:
		if v.DType() == tensor.TypeString {
			return fmt.Sprintf("%s %q", v, head(tensor.MustData[string](v)))
		}
		f, err := Floats(v)
		if err != nil {
			return v.String()
		}
		return fmt.Sprintf("%s %v", v, head(f))
	case *tensor.Sequence:
		s := "["
		for _, it := range v.Items {
			s += Show(it) + ", "
		}
		return s + "]"
	case *tensor.Optional:
		return "optional " + Show(v.Value)
	case *tensor.Map:
		return "map " + Show(v.Keys) + " " + Show(v.Values)
	}
	return v.Type().String()
}

func head[T any](s []T) []T { return s[:min(len(s), 40)] }

// Floats returns the elements of a numeric tensor as float64.
func Floats(t *tensor.Tensor) ([]float64, error) {
	if t.DType() == tensor.TypeBool {
		r := make([]float64, t.Len())
		for i, b := range tensor.MustData[bool](t) {
			if b {
				r[i] = 1
			}
		}
		return r, nil
	}
	r, err := tensor.Zeros(tensor.TypeFloat64, t.Shape()...)
	if err != nil {
		return nil, err
	}
	if err := tensor.ConvertInto(r, t, nil); err != nil {
		return nil, err
	}
	return tensor.MustData[float64](r), nil
}

// gen draws cases. Choices are drawn by rapid, which can shrink them. Contents come from a
// generator that rapid seeds.
type gen struct {
	t   *rapid.T
	rng *rand.Rand
	def *kit.Def
}

func newGen(t *rapid.T, def *kit.Def) *gen {
	return &gen{t: t, def: def, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "contents"), 1))}
}

// n draws a number from [0, k), which rapid shrinks towards 0.
func (g *gen) n(k int) int { return rapid.IntRange(0, max(0, k-1)).Draw(g.t, "n") }

// in draws a number from [lo, hi].
func (g *gen) in(lo, hi int) int { return rapid.IntRange(lo, max(lo, hi)).Draw(g.t, "in") }

// one returns true with probability 1/k.
func (g *gen) one(k int) bool { return g.n(k) == k-1 }

func pick[T any](g *gen, of ...T) T { return of[g.n(len(of))] }

// shape draws a shape of rank lo to hi, mostly of small sizes, some above the vector width.
func (g *gen) shape(lo, hi int) []int {
	s := make([]int, g.in(lo, hi))
	total := 1
	for i := range s {
		s[i] = g.size()
		if total *= max(1, s[i]); total > 20_000 {
			s[i] = 2
		}
	}
	return s
}

func (g *gen) size() int {
	if g.one(24) {
		return 0
	}
	if g.one(5) {
		return g.in(8, 37)
	}
	return g.in(1, 6)
}

// Draw draws a case of an operator, nil if there is neither a family nor a seed for it.
func Draw(t *rapid.T, def *kit.Def, seeds Seeds) *Case {
	g := newGen(t, def)
	name := kit.QualifiedName(def.Domain, def.Name)
	family, has := families[name]
	of := seeds[name]
	if has && (len(of) == 0 || g.n(4) != 3) {
		c := family(g)
		c.Domain, c.Op, c.From = def.Domain, def.Name, "generator"
		if c.Opset == 0 {
			c.Opset = g.opset(7)
		}
		g.constants(c)
		return c
	}
	if len(of) == 0 {
		return nil
	}
	c := g.mutate(of, of[g.n(len(of))])
	for n := len(c.In); n > 0 && c.In[n-1] == nil && c.Domain == ""; n = len(c.In) {
		c.In = c.In[:n-1] // ONNX Runtime dereferences a null pointer for some of them
	}
	return c
}

// opset draws one of the operator's versions from lo on, mostly the newest that ONNX Runtime
// supports.
func (g *gen) opset(lo int) int {
	var vs []int
	since := g.def.Since.List()
	for _, v := range since {
		if v >= lo && (v <= newest || g.def.Domain != "") {
			vs = append(vs, v)
		}
	}
	last := since[len(since)-1]
	if len(vs) == 0 {
		if last >= lo || g.def.Domain != "" {
			return last
		}
		return lo
	}
	if g.n(3) == 0 {
		return pick(g, vs...)
	}
	return vs[len(vs)-1]
}

// newest is the newest opset that ONNX Runtime 1.30 loads.
const newest = 26

// constants turns some of the inputs into initializers.
func (g *gen) constants(c *Case) {
	c.Constant = make([]bool, len(c.In))
	for i := range c.In {
		if t := c.Tensor(i); t != nil && g.one(5) {
			c.Constant[i] = true
		}
	}
}
