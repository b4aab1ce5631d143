package optest

import (
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// BenchPrepared measures an operator prepared for constant inputs, in 1e9 products per second.
func BenchPrepared(b *testing.B, name string, attrs map[string]any, constant []int, products int,
	inputs ...tensor.Value) {
	b.Helper()
	o, err := Build(name, 22, attrs, len(inputs), 1)
	if err != nil {
		o, err = Build(name, 1, attrs, len(inputs), 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	in, types := make([]tensor.Value, len(inputs)), make([]ir.Type, len(inputs))
	o.Node.In = make([]ir.ValueID, len(inputs))
	for i, v := range inputs {
		if v != nil {
			types[i] = ir.TypeOf(v)
		}
	}
	for _, i := range constant {
		in[i] = inputs[i]
	}
	op := o.Node.Op
	inputs = append([]tensor.Value{}, inputs...)
	if p, ok := op.(ir.Preparer); ok {
		r, drop, err := p.Prepare(in, types)
		if err != nil {
			b.Fatal(err)
		}
		if r != nil {
			op = r
		}
		for _, i := range drop {
			inputs[i] = nil
		}
	}
	for b.Loop() {
		c := &ir.Call{Node: o.Node, Env: &Env{Ctx: b.Context(), Limit: MemoryLimit}, In: inputs,
			Out: make([]tensor.Value, 1)}
		if err := op.Run(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*float64(products)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
}

func BenchBytes(shape ...int) *tensor.Tensor {
	d := make([]uint8, kit.Product(shape))
	for i := range d {
		d[i] = uint8(i * 37 >> 3)
	}
	return Tensor(d, shape...)
}

// Graph builds a subgraph by hand.
type Graph struct {
	t *testing.T
	g *ir.Graph
}

func NewGraph(t *testing.T) *Graph { return &Graph{t, &ir.Graph{}} }

func (b *Graph) Input(t ir.Type) ir.ValueID {
	id := b.g.NewValue("", t)
	b.g.Inputs = append(b.g.Inputs, id)
	return id
}

func (b *Graph) Float() ir.ValueID { return b.Input(ir.UnrankedTensor(tensor.TypeFloat32)) }

func (b *Graph) Constant(v tensor.Value) ir.ValueID { return b.g.NewConst("", v) }

func (b *Graph) Node(name string, a Attrs, in ...ir.ValueID) ir.ValueID {
	b.t.Helper()
	op, err := Build(name, 21, a, len(in), 1)
	if err != nil {
		b.t.Fatal(err)
	}
	out := b.g.NewValue("", ir.Type{})
	op.Node.In, op.Node.Out = in, []ir.ValueID{out}
	b.g.Nodes = append(b.g.Nodes, op.Node)
	return out
}

func (b *Graph) Returns(ids ...ir.ValueID) *ir.Graph {
	b.g.Outputs = ids
	if err := ir.Infer(b.t.Context(), b.g); err != nil {
		b.t.Fatal(err)
	}
	return b.g
}

// PreparedExactly checks that an operator prepared for constant inputs returns the same bits
// as the plain loops.
func PreparedExactly(t testing.TB, name string, attrs map[string]any, constant []int, inputs ...tensor.Value) {
	t.Helper()
	opset := 22
	if domain, _ := SplitOpName(name); domain != "" {
		opset = 1
	}
	b, err := Build(name, opset, attrs, len(inputs), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Node.In = make([]ir.ValueID, len(inputs))
	c := &ir.Call{Node: b.Node, Env: &Env{Ctx: t.Context(), Limit: MemoryLimit}, Generic: true, In: inputs,
		Out: make([]tensor.Value, 1)}
	if err := b.Node.Op.Run(c); err != nil {
		t.Fatal(err)
	}
	if got := PreparedAt(t, name, opset, attrs, constant, inputs...); !Same(c.Out[0], got, 0) {
		t.Errorf("prepared %s returns %s, the plain loops %s", name, Show(got), Show(c.Out[0]))
	}
}

func PreparedAt(t testing.TB, name string, opset int, attrs map[string]any, constant []int,
	inputs ...tensor.Value) *tensor.Tensor {
	t.Helper()
	b, err := Build(name, opset, attrs, len(inputs), 1)
	if err != nil {
		t.Fatal(err)
	}
	in, types := make([]tensor.Value, len(inputs)), make([]ir.Type, len(inputs))
	for i, v := range inputs {
		if v != nil {
			types[i] = ir.TypeOf(v)
		}
	}
	for _, i := range constant {
		in[i] = inputs[i]
	}
	op, drop, err := b.Node.Op.(ir.Preparer).Prepare(in, types)
	if err != nil || op == nil {
		t.Fatalf("%s is not prepared: %v, %v", name, op, err)
	}
	c := &ir.Call{Node: b.Node, Env: &Env{Ctx: t.Context(), Two: true, Limit: MemoryLimit},
		In: append([]tensor.Value{}, inputs...), Out: make([]tensor.Value, 1)}
	for _, i := range drop {
		c.In[i] = nil
	}
	if err := op.Run(c); err != nil {
		t.Fatal(err)
	}
	return c.Out[0].(*tensor.Tensor)
}

func Int64s(v ...int64) *tensor.Tensor { return Tensor(v, len(v)) }

type Attrs = map[string]any
