package onnx

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of ONNX's own checker.
const (
	maxFunctions     = 10000
	maxFunctionDepth = 100
)

const (
	defaultMaxErrors = 100
	maxGraphDepth    = 1000 // ends a graph built in Go that contains itself
)

// CheckOptions say how much [Check] checks. The zero value and nil check everything that needs no
// knowledge of operators.
type CheckOptions struct {
	// Schema returns the schema of an operator at an opset version of its domain, and whether there is
	// one. The default domain is "". Where it is nil, operators are not checked.
	Schema func(domain, opType string, opset int64) (Schema, bool)
	// CustomDomains makes an operator without schema an error in every domain, not only in ONNX's own.
	CustomDomains bool
	// MaxErrors limits how many errors are kept; further ones are counted. Default: 100.
	MaxErrors int
	// MaxInlinedNodes limits the nodes of the model after inlining its functions, which a model can make
	// double with each function. Default: no limit.
	MaxInlinedNodes int64
	// SkipExternalData leaves the files of external data alone.
	SkipExternalData bool
}

// Schema is what Check needs to know of an operator.
type Schema struct {
	Attributes             map[string]AttributeSchema
	MinInputs, MaxInputs   int // MaxInputs -1: no limit
	MinOutputs, MaxOutputs int // MaxOutputs -1: no limit
	AnyAttributes          bool
	Deprecated             bool
}

// AttributeSchema is the type of an attribute, and whether it must be given.
type AttributeSchema struct {
	Type     AttributeType
	Required bool
}

// CheckErrors are all errors that Check found. errors.As and errors.Is see each of them.
type CheckErrors struct {
	Errors  []*CheckError
	Omitted int // errors over CheckOptions.MaxErrors
}

// CheckError is one error in a model. Path says where, such as `graph.node[3](Add "sum").input[1]`.
type CheckError struct {
	Path string
	Err  error
}

func (e *CheckError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *CheckError) Unwrap() error { return e.Err }

func (e *CheckErrors) Error() string {
	if len(e.Errors) == 1 && e.Omitted == 0 {
		return "invalid model: " + e.Errors[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "invalid model: %d errors", len(e.Errors)+e.Omitted)
	for _, c := range e.Errors {
		b.WriteString("\n  ")
		b.WriteString(c.Error())
	}
	if e.Omitted > 0 {
		fmt.Fprintf(&b, "\n  and %d more", e.Omitted)
	}
	return b.String()
}

// Unwrap returns the errors.
func (e *CheckErrors) Unwrap() []error {
	list := make([]error, len(e.Errors))
	for i, c := range e.Errors {
		list[i] = c
	}
	return list
}

// Check checks a model as ONNX's own checker does (https://onnx.ai/onnx/api/checker.html), and lists all
// errors instead of the first: required fields, IR and opset versions, single static assignment and
// order of nodes in graphs and subgraphs, attributes, types, tensors and their data, functions and their
// calls. It goes further than that checker where that protects who runs the model: data must have its
// exact size, not just enough; functions may not refer to undeclared attributes; external data must be
// there. The graphs of training info are not checked.
//
// The result is nil or of type *[CheckErrors]. Time grows linearly with the model.
func Check(m *Model, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	c := &checker{opts: *opts, external: m.External()}
	if c.opts.MaxErrors <= 0 {
		c.opts.MaxErrors = defaultMaxErrors
	}
	c.model(m)
	if len(c.found.Errors) == 0 {
		return nil
	}
	return &c.found
}

type checker struct {
	opts      CheckOptions
	external  *External
	found     CheckErrors
	path      []step
	ir        int64
	opsets    map[string]int64
	functions map[functionID]*Function
	function  *Function       // whose body is checked
	declared  map[string]bool // attributes of that function
	scope     scope
	depth     int // of subgraphs
}

// step is one part of a path. It becomes text only when there is an error.
type step struct {
	field string
	index int // -1: not repeated
	label string
	name  string
}

func (c *checker) push(field string, index int) {
	c.path = append(c.path, step{field: field, index: index})
}

func (c *checker) pop() { c.path = c.path[:len(c.path)-1] }

func (c *checker) fail(format string, args ...any) { c.failWith(fmt.Errorf(format, args...)) }

func (c *checker) failWith(err error) {
	if len(c.found.Errors) >= c.opts.MaxErrors {
		c.found.Omitted++
		return
	}
	var b strings.Builder
	for i, s := range c.path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.field)
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
		if s.label != "" || s.name != "" {
			b.WriteByte('(')
			b.WriteString(printable(s.label))
			if s.name != "" {
				if s.label != "" {
					b.WriteByte(' ')
				}
				b.WriteString(strconv.Quote(s.name))
			}
			b.WriteByte(')')
		}
	}
	if b.Len() == 0 {
		b.WriteString("model")
	}
	c.found.Errors = append(c.found.Errors, &CheckError{b.String(), err})
}

// printable quotes a word that is not plain.
func printable(s string) string {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.') {
			return strconv.Quote(s)
		}
	}
	return s
}

func (c *checker) utf8(what, s string) {
	if !utf8.ValidString(s) {
		c.fail("%s %q is not valid UTF-8", what, s)
	}
}

func (c *checker) model(m *Model) {
	c.ir = m.IRVersion
	switch {
	case m.IRVersion <= 0:
		c.fail("The model does not have an ir_version set properly.")
	case m.IRVersion > LatestIRVersion:
		c.fail("Your model ir_version %d is higher than the checker's (%d).", m.IRVersion, LatestIRVersion)
	}
	if key, ok := duplicateKey(m.MetadataProps); ok {
		c.fail("Your model has duplicate keys in metadata_props: %q.", key)
	}
	c.opsets = c.imports(m.OpsetImports)
	switch {
	case m.IRVersion >= 3 && len(m.OpsetImports) == 0:
		c.fail("model with IR version >= 3 must specify opset_import for ONNX")
	case m.IRVersion > 0 && m.IRVersion < 3 && len(m.OpsetImports) > 0:
		c.fail("model with IR version < 3 cannot have opset_import specified")
	case m.IRVersion < 3 && len(m.OpsetImports) == 0:
		c.opsets[""] = 1
	}
	c.functionIDs(m)
	if m.Graph == nil {
		c.fail("Field 'graph' of 'model' is required but missing.")
	} else {
		c.push("graph", -1)
		c.scope = newScope()
		c.graph(m.Graph, true)
		c.pop()
	}
	for i, f := range m.Functions {
		if f == nil || i >= maxFunctions {
			continue
		}
		c.path = append(c.path[:0], step{"functions", i, f.Name, ""})
		c.functionBody(f)
	}
	c.path = c.path[:0]
	c.calls(m)
}

func duplicateKey(list []StringStringEntry) (string, bool) {
	seen := make(map[string]bool, len(list))
	for i := range list {
		if seen[list[i].Key] {
			return list[i].Key, true
		}
		seen[list[i].Key] = true
	}
	return "", false
}

// imports returns the opset versions by domain, the default one by "".
func (c *checker) imports(list []OperatorSetID) map[string]int64 {
	versions := make(map[string]int64, len(list))
	for i := range list {
		c.push("opset_import", i)
		domain, v := NormalizeDomain(list[i].Domain), list[i].Version
		c.utf8("domain", domain)
		if v < 1 || v > math.MaxInt32 {
			c.fail("Opset import version %d of domain %q is out of supported range, want 1 to %d", v, domain, math.MaxInt32)
		}
		if old, ok := versions[domain]; ok && old != v {
			c.fail("domain %q is imported at versions %d and %d", domain, old, v)
		}
		versions[domain] = v
		c.pop()
	}
	return versions
}

type functionID struct{ domain, name, overload string }

func (id functionID) String() string {
	s := id.name
	if id.domain != "" {
		s = id.domain + ":" + s
	}
	if id.overload != "" {
		s += ":" + id.overload
	}
	return strconv.Quote(s)
}

func idOf(f *Function) functionID {
	return functionID{NormalizeDomain(f.Domain), f.Name, f.Overload}
}

func calleeOf(n *Node) functionID {
	return functionID{NormalizeDomain(n.Domain), n.OpType, n.Overload}
}

func (c *checker) functionIDs(m *Model) {
	c.functions = make(map[functionID]*Function, min(len(m.Functions), maxFunctions))
	if len(m.Functions) > maxFunctions {
		c.fail("Model contains %d local functions, exceeding the limit of %d.", len(m.Functions), maxFunctions)
	}
	for i, f := range m.Functions {
		c.push("functions", i)
		if f == nil {
			c.fail("function is nil")
		} else if i < maxFunctions {
			if c.functions[idOf(f)] != nil {
				c.fail("Model contains multiple local functions with the same implementation id %s.", idOf(f))
			}
			c.functions[idOf(f)] = f
		}
		c.pop()
	}
}

func (c *checker) functionBody(f *Function) {
	if f.Name == "" {
		c.fail("Field 'name' of 'function' is required to be non-empty.")
	}
	c.utf8("name", f.Name)
	c.utf8("domain", f.Domain)
	model := c.opsets
	c.opsets = c.imports(f.OpsetImports)
	c.scope = newScope()
	c.scope.enter()
	for i, name := range f.Inputs {
		if name == "" {
			continue
		}
		if c.scope.inThis(name) {
			c.push("input", i)
			c.fail("Graph must be in single static assignment (SSA) form, however %q has been used multiple times.", name)
			c.pop()
		}
		c.scope.add(name)
	}
	c.duplicates("outputs", f.Outputs)
	c.function, c.declared = f, make(map[string]bool, len(f.Attributes)+len(f.AttributeProtos))
	for _, name := range f.Attributes {
		if c.declared[name] {
			c.fail("function should not have duplicate attributes specified: %q", name)
		}
		c.declared[name] = true
	}
	for i, a := range f.AttributeProtos {
		c.push("attribute_proto", i)
		if a == nil {
			c.fail("attribute is nil")
		} else {
			if c.declared[a.Name] {
				c.fail("function should not have duplicate attributes specified: %q", a.Name)
			}
			c.declared[a.Name] = true
			c.attribute(a)
		}
		c.pop()
	}
	c.nodes(f.Nodes, nil)
	for i, name := range f.Outputs {
		if !c.scope.inThis(name) {
			c.push("output", i)
			c.fail("Function output %q is not an output of any node nor an input of the function.", name)
			c.pop()
		}
	}
	c.scope.leave()
	c.function, c.declared, c.opsets = nil, nil, model
}

func (c *checker) duplicates(what string, names []string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			c.fail("function should not have duplicate %s specified: %q", what, name)
		}
		seen[name] = true
	}
}

// calls checks the calls between functions: no recursion, no chain over maxFunctionDepth, and
// MaxInlinedNodes.
func (c *checker) calls(m *Model) {
	if len(c.functions) == 0 {
		return
	}
	g := newCallGraph(c.functions)
	for i, f := range m.Functions {
		if f == nil || c.functions[idOf(f)] != f {
			continue
		}
		if cycle := g.visit(f); cycle != nil {
			names := make([]string, len(cycle))
			for j, f := range cycle {
				names[j] = idOf(f).String()
			}
			c.push("functions", i)
			c.fail("Cycle detected in model-local function references: %s. Model-local functions must not be recursive.", strings.Join(names, " -> "))
			c.pop()
			return
		}
	}
	for i, f := range m.Functions {
		if d := g.done[f]; d != nil && d.depth > maxFunctionDepth {
			c.push("functions", i)
			c.fail("Function call chain depth %d exceeds limit (%d).", d.depth, maxFunctionDepth)
			c.pop()
			return
		}
	}
	if limit := c.opts.MaxInlinedNodes; limit > 0 && m.Graph != nil {
		if n := g.count(m.Graph.Nodes); n > limit {
			c.fail("the model has %d nodes or more after inlining its functions, the limit is %d", n, limit)
		}
	}
}

// callGraph knows which functions call which, also from subgraphs.
type callGraph struct {
	functions map[functionID]*Function
	done      map[*Function]*callInfo
	stack     []*Function
}

type callInfo struct {
	inPath bool
	depth  int   // functions in the longest chain of calls that begins here
	nodes  int64 // after inlining; saturates
}

func newCallGraph(functions map[functionID]*Function) *callGraph {
	return &callGraph{functions: functions, done: make(map[*Function]*callInfo, len(functions))}
}

// visit follows calls depth first, at most maxFunctions deep, and returns a cycle where it meets one.
func (g *callGraph) visit(f *Function) (cycle []*Function) {
	if info := g.done[f]; info != nil {
		if !info.inPath {
			return nil
		}
		for i, s := range g.stack {
			if s == f {
				return append(g.stack[i:len(g.stack):len(g.stack)], f)
			}
		}
	}
	info := &callInfo{inPath: true}
	g.done[f] = info
	g.stack = append(g.stack, f)
	eachNode(f.Nodes, func(n *Node) {
		if cycle != nil {
			return
		}
		if callee := g.functions[calleeOf(n)]; callee != nil {
			if cycle = g.visit(callee); cycle == nil {
				info.depth = max(info.depth, g.done[callee].depth)
			}
		}
	})
	if cycle != nil {
		return cycle
	}
	info.depth++
	info.nodes = g.count(f.Nodes)
	info.inPath = false
	g.stack = g.stack[:len(g.stack)-1]
	return nil
}

// count returns how many nodes a body has after inlining, at most MaxInt64.
func (g *callGraph) count(nodes []*Node) int64 {
	total := int64(0)
	eachNode(nodes, func(n *Node) {
		k := int64(1)
		if callee := g.functions[calleeOf(n)]; callee != nil && g.done[callee] != nil {
			k = max(1, g.done[callee].nodes)
		}
		if total += k; total < 0 {
			total = math.MaxInt64
		}
	})
	return total
}

// eachNode calls fn for the nodes of a body and of all its subgraphs.
func eachNode(nodes []*Node, fn func(*Node)) { eachNodeTo(nodes, fn, maxGraphDepth) }

func eachNodeTo(nodes []*Node, fn func(*Node), depth int) {
	if depth == 0 {
		return
	}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		fn(n)
		for _, a := range n.Attributes {
			if a == nil {
				continue
			}
			if a.G != nil {
				eachNodeTo(a.G.Nodes, fn, depth-1)
			}
			for _, g := range a.Graphs {
				if g != nil {
					eachNodeTo(g.Nodes, fn, depth-1)
				}
			}
		}
	}
}

// InlinedNodes returns how many nodes the model has once every call of a model-local function is
// replaced by the function's nodes; math.MaxInt64 stands for that many or more. Recursive functions are
// an error.
func InlinedNodes(m *Model) (int64, error) {
	functions := make(map[functionID]*Function, len(m.Functions))
	for _, f := range m.Functions {
		if f != nil {
			functions[idOf(f)] = f
		}
	}
	if len(functions) > maxFunctions {
		return 0, fmt.Errorf("model has %d local functions, the limit is %d", len(functions), maxFunctions)
	}
	g := newCallGraph(functions)
	for _, f := range functions {
		if cycle := g.visit(f); cycle != nil {
			return 0, fmt.Errorf("function %s is recursive", idOf(cycle[0]))
		}
	}
	if m.Graph == nil {
		return 0, errors.New("model has no graph")
	}
	return g.count(m.Graph.Nodes), nil
}
