// Package frontend converts ONNX models to typed graphs. It resolves names, scopes, opset versions
// and model-local functions. Package autodiff must have expanded Gradient nodes before.
package frontend

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	_ "github.com/onward-ml/onward/internal/ops/all" // fills the registry
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Limits limit the cost of untrusted models.
type Limits struct {
	// MaxNodes limits the number of nodes after inlining functions, in addition to four times the
	// nodes of the file. Default: 250,000.
	MaxNodes int
	// MaxDepth limits the nesting of subgraphs and functions. Default: 100, ONNX's own limit for
	// function calls.
	MaxDepth int
}

// Options are the options of [Convert].
type Options struct {
	Limits
	// Custom returns an operator that takes precedence over the registered ones, or nil. Custom may
	// be nil.
	Custom func(domain, opType string, opset int) *kit.Def
	// Initializers replace those of the main graph, by name.
	Initializers map[string]tensor.Value
	// Release frees the model's raw data as it is converted, so that weights never need their
	// memory twice. The model must not be used afterwards.
	Release bool
	// Context ends the conversion with its error; nil does not.
	Context context.Context
	// Reserve is called before memory for decoded tensors is allocated; its error ends the
	// conversion. nil: half of the machine's memory.
	Reserve func(bytes int64) error
	// KeepSource keeps the information that package export needs in every node.
	KeepSource bool
}

// OrDefault returns l with defaults for fields that are 0.
func (l Limits) OrDefault() Limits {
	if l.MaxNodes == 0 {
		l.MaxNodes = 250_000
	}
	if l.MaxDepth == 0 {
		l.MaxDepth = 100
	}
	return l
}

// reserveUpTo returns a function that fails when the sum of its arguments exceeds a limit.
func reserveUpTo(limit int64) func(int64) error {
	left := limit
	return func(n int64) error {
		if n > left {
			return fail.Errorf("%w: the data of the model takes more than %d bytes, half of the machine's memory",
				onnx.ErrTooLarge, limit)
		}
		left -= n
		return nil
	}
}

// Convert returns the typed graph of a model: every value has an element type, and every node an
// operator of the engine.
func Convert(m *onnx.Model, opts Options) (*ir.Graph, error) {
	if opts.Reserve == nil {
		opts.Reserve = reserveUpTo(memory.Default())
	}
	if opts.Context == nil {
		opts.Context = context.Background()
	}
	b := &builder{model: m, opts: opts, decode: &onnx.DecodeOptions{External: m.External(),
		Reserve: opts.Reserve, Context: opts.Context},
		limits: opts.Limits.OrDefault(), funcs: map[funcKey]*onnx.Function{},
		unsupported: map[string]*kit.Unsupported{}}
	count, err := m.CountNodes(b.limits.MaxDepth)
	if err != nil {
		return nil, err
	}
	b.maxNodes = b.limits.MaxNodes + 4*count
	if b.opsets, err = opsets(m.OpsetImports, m.IRVersion); err != nil {
		return nil, err
	}
	for _, f := range m.Functions {
		k := funcKey{kit.NormalDomain(f.Domain), f.Name, f.Overload}
		if b.funcs[k] != nil {
			return nil, fail.Errorf("function %s is defined twice", kit.QualifiedName(f.Domain, f.Name))
		}
		b.funcs[k] = f
	}
	if _, ok := b.opsets[kit.DomainNchwc]; ok {
		if b.block, err = nchwcBlock(m); err != nil {
			return nil, err
		}
	}
	g, err := b.graph(m.Graph, nil, true)
	if err != nil {
		return nil, err
	}
	if err := b.missing(); err != nil {
		return nil, err
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	if err := ir.Infer(b.opts.Context, g); err != nil {
		return nil, err
	}
	return g, checkOutputs(m.Graph, g)
}

// checkOutputs returns an error if an output of the main graph is declared with another type than
// that of its value. Shapes may differ, as in ONNX Runtime, and a type may be absent.
func checkOutputs(og *onnx.Graph, g *ir.Graph) error {
	for i, out := range og.Outputs {
		declared, err := valueType(out.Type)
		if err != nil || !declared.Known() {
			continue
		}
		if t := g.Values[g.Outputs[i]].Type.Base(); !declared.Base().Equal(t) {
			return fail.Errorf("output %q has type %s, but is declared with type %s", out.Name, t, declared.Base())
		}
	}
	return nil
}

// err returns the cause if the context has ended.
func (b *builder) err() error {
	if b.opts.Context == nil {
		return nil
	}
	return b.opts.Context.Err()
}

// CheckOperators returns an [ops.UnsupportedError] if a model uses operators that are not
// implemented at the imported versions.
//
// custom is as in [Options].
func CheckOperators(m *onnx.Model, custom func(domain, opType string, opset int) *kit.Def) error {
	b := &builder{model: m, opts: Options{Custom: custom}, limits: Limits{}.OrDefault(),
		unsupported: map[string]*kit.Unsupported{}}
	if _, err := m.CountNodes(b.limits.MaxDepth); err != nil {
		return err
	}
	imports, err := opsets(m.OpsetImports, m.IRVersion)
	if err != nil {
		return err
	}
	local := map[funcKey]bool{}
	for _, f := range m.Functions {
		local[funcKey{kit.NormalDomain(f.Domain), f.Name, f.Overload}] = true
	}
	var walk func(nodes []*onnx.Node, imports map[string]int)
	walk = func(nodes []*onnx.Node, imports map[string]int) {
		for _, n := range nodes {
			if !local[funcKey{kit.NormalDomain(n.Domain), n.OpType, n.Overload}] {
				b.operator(n, imports)
			}
			for _, a := range n.Attributes {
				for _, g := range a.Subgraphs() {
					walk(g.Nodes, imports)
				}
			}
		}
	}
	walk(m.Graph.Nodes, imports)
	for _, f := range m.Functions {
		if _, err := kit.Lookup(f.Domain, f.Name, imports[kit.NormalDomain(f.Domain)]); err == nil && f.Overload == "" {
			continue // the engine's operator runs
		}
		own := imports
		if len(f.OpsetImports) > 0 {
			if own, err = opsets(f.OpsetImports, m.IRVersion); err != nil {
				return fail.Errorf("function %s: %w", f.Name, err)
			}
		}
		walk(f.Nodes, own)
	}
	return b.missing()
}

// missing returns the errors that operator has recorded.
func (b *builder) missing() error {
	if len(b.unsupported) == 0 {
		return nil
	}
	e := &kit.UnsupportedError{}
	for _, k := range slices.Sorted(maps.Keys(b.unsupported)) {
		e.Ops = append(e.Ops, *b.unsupported[k])
	}
	return e
}

// opsets returns the imported opsets. Files of IR versions before 3 have no imports and use version
// 1.
func opsets(imports []onnx.OperatorSetID, irVersion int64) (map[string]int, error) {
	r := map[string]int{}
	if irVersion < 3 && len(imports) == 0 {
		r[""] = 1
	}
	for _, im := range imports {
		d := kit.NormalDomain(im.Domain)
		if im.Version < 1 || im.Version > math.MaxInt32 {
			return nil, fail.Errorf("model imports opset %d of domain %q, which does not exist",
				im.Version, domainName(d))
		}
		if top, ok := kit.MaxOpset[d]; ok && int(im.Version) > top {
			return nil, fail.Errorf("model imports opset %d of domain %q, the newest supported one is %d", im.Version,
				domainName(d), top)
		}
		r[d] = int(im.Version)
	}
	return r, nil
}

func domainName(d string) string {
	if d == "" {
		return "ai.onnx"
	}
	return d
}

type funcKey struct{ domain, name, overload string }

// builder converts one model.
type builder struct {
	model       *onnx.Model
	decode      *onnx.DecodeOptions
	opts        Options
	limits      Limits
	opsets      map[string]int
	funcs       map[funcKey]*onnx.Function
	scopes      onnx.Scopes
	nodes       int
	maxNodes    int
	unsupported map[string]*kit.Unsupported
	block       int // of the operators of kit.DomainNchwc, 0: unknown
	dense       int // bytes of all sparse initializers when dense
}

// scope is a scope for names: a graph, or the body of a function that is being inlined into one.
type scope struct {
	b       *builder
	g       *ir.Graph
	parent  *scope // for a subgraph
	names   map[string]ir.ValueID
	opsets  map[string]int
	attrs   map[string]*onnx.Attribute // attributes of the function call
	prefix  string                     // prefix of node names in a function
	calls   []funcKey                  // functions being inlined, outermost first
	nesting int
}

// lookup returns the value of a name. It adds a capture if the name belongs to an enclosing graph.
func (s *scope) lookup(name string) (ir.ValueID, bool) {
	if id, ok := s.names[name]; ok {
		return id, true
	}
	if s.parent == nil {
		return ir.None, false
	}
	outer, ok := s.parent.lookup(name)
	if !ok || outer == ir.None {
		return ir.None, ok // an optional input that the caller of a function omits
	}
	s.parent.g.Values[outer].Owned = false
	v := s.parent.g.Values[outer]
	var inner ir.ValueID
	if v.Const != nil && s.parent.g.Defaults[outer] == nil {
		inner = s.g.NewConst(v.Name, v.Const)
	} else {
		inner = s.g.NewValue(v.Name, v.Type)
		s.g.Captures = append(s.g.Captures, ir.Capture{Outer: outer, Inner: inner})
	}
	s.names[name] = inner
	return inner, true
}

func (s *scope) define(name string, id ir.ValueID) error {
	if _, ok := s.names[name]; ok {
		return fail.Errorf("value %q is defined twice", name)
	}
	s.names[name] = id
	return nil
}

// graph converts a graph. parent is nil for the main graph.
func (b *builder) graph(og *onnx.Graph, parent *scope, main bool) (*ir.Graph, error) {
	g := &ir.Graph{Name: og.Name, Defaults: map[ir.ValueID]tensor.Value{}}
	s := &scope{b: b, g: g, parent: parent, names: make(map[string]ir.ValueID, len(og.Nodes)+len(og.Initializers))}
	if parent != nil {
		s.opsets, s.attrs, s.prefix, s.calls, s.nesting = parent.opsets, parent.attrs, parent.prefix, parent.calls,
			parent.nesting+1
	} else {
		s.opsets = b.opsets
	}
	if s.nesting > b.limits.MaxDepth {
		return nil, fail.Errorf("subgraphs nest deeper than %d levels", b.limits.MaxDepth)
	}
	inits, owned, err := b.initializers(og, main)
	if err != nil {
		return nil, err
	}
	// Before IR version 4, initializers had to be inputs and could not be overridden.
	overridable := b.model.IRVersion >= 4
	for i, in := range og.Inputs {
		if i&0xfff == 0xfff && b.err() != nil {
			return nil, b.err()
		}
		if in == nil || in.Name == "" {
			return nil, fail.Errorf("graph %q has an input without a name", og.Name)
		}
		init := inits[in.Name]
		if init != nil && (main && !overridable) {
			continue
		}
		t, err := valueType(in.Type)
		if err != nil {
			return nil, fail.Errorf("input %q: %w", in.Name, err)
		}
		if main && !t.Known() {
			return nil, fail.Errorf("input %q of the main graph has no type", in.Name)
		}
		id := g.NewValue(in.Name, t)
		if err := s.define(in.Name, id); err != nil {
			return nil, err
		}
		g.Inputs = append(g.Inputs, id)
		if init != nil {
			if t.Known() && !t.Base().Equal(init.Type()) {
				return nil, fail.Errorf("initializer %q has type %s, but its input has type %s", in.Name,
					init.Type(), t.Base())
			}
			g.Defaults[id] = init
			delete(inits, in.Name)
		}
	}
	names := slices.Sorted(maps.Keys(inits))
	for i, name := range names {
		if i&0xfff == 0xfff && b.err() != nil {
			return nil, b.err()
		}
		id := g.NewConst(name, inits[name])
		g.Values[id].Owned = owned[name]
		if err := s.define(name, id); err != nil {
			return nil, err
		}
	}
	nodes, err := b.scopes.Sort(og)
	if err == nil {
		err = b.err()
	}
	if err != nil {
		return nil, err
	}
	g.Nodes, g.Values = slices.Grow(g.Nodes, len(nodes)), slices.Grow(g.Values, len(nodes))
	for _, n := range nodes {
		if err := s.node(n); err != nil {
			return nil, err
		}
	}
	for i, out := range og.Outputs {
		if i&0xfff == 0xfff && b.err() != nil {
			return nil, b.err()
		}
		if out == nil || out.Name == "" {
			return nil, fail.Errorf("graph %q has an output without a name", og.Name)
		}
		id, ok := s.lookup(out.Name)
		if !ok || id == ir.None {
			return nil, fail.Errorf("output %q of graph %q is not computed by any node", out.Name, og.Name)
		}
		g.Outputs = append(g.Outputs, id)
		if !main {
			t, err := valueType(out.Type)
			if err != nil {
				return nil, fail.Errorf("output %q of graph %q: %w", out.Name, og.Name, err)
			}
			g.Declared = append(g.Declared, t)
		}
	}
	return g, nil
}

// initializers returns the values of a graph's initializers, and the set of those that own their
// memory.
func (b *builder) initializers(og *onnx.Graph,
	main bool) (r map[string]tensor.Value, owned map[string]bool, err error) {
	r, owned = make(map[string]tensor.Value, len(og.Initializers)), map[string]bool{}
	for i, t := range og.Initializers {
		if i&0xfff == 0xfff && b.err() != nil {
			return nil, nil, b.err()
		}
		if t == nil || t.Name == "" {
			return nil, nil, fail.Errorf("graph %q has an initializer without a name", og.Name)
		}
		// ONNX Runtime takes the last of several initializers of one name,
		// which the checker refuses.
		if v := b.opts.Initializers[t.Name]; v != nil && main {
			r[t.Name] = v
			continue
		}
		v, err := t.Decode(b.decode)
		if err != nil {
			return nil, nil, err
		}
		r[t.Name] = v
		if b.opts.Release && main && t.RawData != nil {
			// Mapped memory is read-only.
			t.RawData, owned[t.Name] = nil, !b.model.Mapping().Holds(v.Bytes())
		}
	}
	for _, st := range og.SparseInitializers {
		if st == nil || st.Values == nil || st.Values.Name == "" {
			return nil, nil, fail.Errorf("graph %q has a sparse initializer without a name", og.Name)
		}
		if r[st.Values.Name] != nil {
			return nil, nil, fail.Errorf("initializer %q is defined twice", st.Values.Name)
		}
		sp, err := st.Decode(b.decode)
		if err != nil {
			return nil, nil, err
		}
		// Nodes read sparse initializers as dense tensors. The memory of the dense form must be in
		// proportion to the file.
		n, err := tensor.ByteLen(sp.Values.DType(), sp.Shape)
		if err != nil {
			return nil, nil, err
		}
		if left := maxDense - b.dense; n > left {
			return nil, nil,
				fail.Errorf("sparse initializer %q takes %d bytes when dense, want at most %d for all together, of "+
					"which %d are left", st.Values.Name, n, maxDense, left)
		}
		if b.opts.Reserve != nil {
			if err := b.opts.Reserve(int64(n)); err != nil {
				return nil, nil, err
			}
		}
		b.dense += n
		d, err := sp.ToDense(maxDense)
		if err != nil {
			return nil, nil, fail.Errorf("sparse initializer %q: %w", st.Values.Name, err)
		}
		r[st.Values.Name] = d
	}
	return r, owned, nil
}

const maxDense = 1 << 30

// valueType converts a declared type. For nil it returns the zero Type.
func valueType(t *onnx.Type) (ir.Type, error) {
	switch {
	case t == nil:
		return ir.Type{}, nil
	case t.Tensor != nil:
		return tensorType(tensor.KindTensor, t.Tensor)
	case t.SparseTensor != nil:
		return tensorType(tensor.KindSparse, t.SparseTensor)
	case t.Sequence != nil:
		of, err := valueType(t.Sequence.Elem)
		return ir.SequenceOf(of), err
	case t.Optional != nil:
		of, err := valueType(t.Optional.Elem)
		return ir.OptionalOf(of), err
	case t.Map != nil:
		of, err := valueType(t.Map.Value)
		if err != nil {
			return ir.Type{}, err
		}
		k := tensor.DType(t.Map.Key)
		if !k.IsInteger() && k != tensor.TypeString {
			return ir.Type{}, fail.Errorf("key type of a map is %s, want an integer type or string", k)
		}
		return ir.MapOf(k, of), nil
	case t.Opaque != nil:
		return ir.Type{}, errors.New("opaque types are not supported")
	}
	return ir.Type{}, nil
}

func tensorType(kind tensor.Kind, t *onnx.TensorType) (ir.Type, error) {
	if t.ElemType < 0 || t.ElemType > math.MaxUint8 || !tensor.DType(t.ElemType).Valid() {
		return ir.Type{}, fail.Errorf("element type %d does not exist", t.ElemType)
	}
	r := ir.Type{Kind: kind, Elem: tensor.DType(t.ElemType)}
	if t.Shape == nil {
		return r, nil
	}
	if len(t.Shape.Dims) > tensor.MaxRank {
		return r, fail.Errorf("rank %d exceeds the limit of %d", len(t.Shape.Dims), tensor.MaxRank)
	}
	r.Shape = make([]ir.Dim, len(t.Shape.Dims))
	for i, d := range t.Shape.Dims {
		switch d.Kind {
		case onnx.DimValue:
			if d.Value < 0 {
				// Some exporters write −1 for an unknown dimension.
				continue
			}
			r.Shape[i] = ir.Known(int(d.Value))
		case onnx.DimParam:
			r.Shape[i] = ir.Symbol(d.Param)
		}
	}
	return r, nil
}
