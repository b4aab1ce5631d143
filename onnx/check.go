package onnx

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/fail"
)

// The limits of ONNX's own checker.
const (
	maxFunctions     = 10000
	maxFunctionDepth = 100
)

const (
	defaultMaxErrors = 100
	maxGraphDepth    = 1000 // stops at graphs built in Go that contain themselves
)

// CheckOptions are the options of [Check]. With nil or the zero value, Check checks everything that
// needs no operator schemas.
type CheckOptions struct {
	// Schema returns the schema of an operator at an opset version of its domain, and whether it
	// exists. The default domain is "". If Schema is nil, operators are not checked.
	Schema func(domain, opType string, opset int64) (Schema, bool)
	// CustomDomains makes a missing schema an error in every domain, not only in ONNX's own.
	CustomDomains bool
	// MaxErrors limits the number of errors in the result; further errors are counted. Default:
	// 100.
	MaxErrors int
	// MaxInlinedNodes limits the number of nodes after inlining all functions. The number can
	// double with each function. Default: no limit.
	MaxInlinedNodes int64
	// SkipExternalData skips checks of external data files.
	SkipExternalData bool
}

// Schema is the part of an operator schema that Check uses.
type Schema struct {
	Attributes             map[string]AttributeSchema
	MinInputs, MaxInputs   int // MaxInputs -1: no limit
	MinOutputs, MaxOutputs int // MaxOutputs -1: no limit
	AnyAttributes          bool
	Deprecated             bool
}

// AttributeSchema is the type of an attribute and whether it is required.
type AttributeSchema struct {
	Type     AttributeType
	Required bool
}

// CheckErrors holds all errors that Check found. errors.Is and errors.As examine each of them.
type CheckErrors struct {
	Errors  []*CheckError
	Omitted int // errors over CheckOptions.MaxErrors
}

// CheckError is one error in a model. Path is its location, such as `graph.node[3](Add
// "sum").input[1]`.
type CheckError struct {
	Path string
	Err  error
}

// Error returns the path in the model and the cause.
func (e *CheckError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// Error lists the errors, one a line.
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

// Check checks a model like ONNX's own checker (https://onnx.ai/onnx/api/checker.html), but reports
// all errors instead of the first. It checks required fields, IR and opset versions, single static
// assignment and node order in graphs and subgraphs, attributes, types, tensors and their data, and
// functions and their calls. The graphs of training info are not checked.
//
// Check is stricter than ONNX's checker in three points, to protect those who run the model: tensor
// data must have its exact size, functions must not refer to undeclared attributes, and external
// data must exist.
//
// The error is nil or a *[CheckErrors]. The time is linear in the size of the model.
func Check(m *Model, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	c := &checker{opts: *opts}
	if c.opts.MaxErrors <= 0 {
		c.opts.MaxErrors = defaultMaxErrors
	}
	if m == nil {
		c.fail("The model is nil.")
	} else {
		c.external = m.External()
		c.model(m)
	}
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
	function  *Function       // function whose body is checked
	declared  map[string]bool // attributes that the function declares
	scope     scope
	depth     int // nesting depth of subgraphs
}

// step is one element of a path. It is formatted only for errors.
type step struct {
	field string
	index int // -1: not an element of a repeated field
	label string
	name  string
}

func (c *checker) push(field string, index int) {
	c.path = append(c.path, step{field: field, index: index})
}

func (c *checker) pop() { c.path = c.path[:len(c.path)-1] }

func (c *checker) fail(format string, args ...any) {
	if !c.full() {
		c.failWith(fail.Errorf(format, args...))
	}
}

// full counts an error without its text if there are enough already.
func (c *checker) full() bool {
	if len(c.found.Errors) < c.opts.MaxErrors {
		return false
	}
	c.found.Omitted++
	return true
}

func (c *checker) failWith(err error) {
	if c.full() {
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

// printable quotes a word unless it has plain characters only.
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

// imports returns the imported opset versions by domain; the default domain is "".
func (c *checker) imports(list []OperatorSetID) map[string]int64 {
	versions := make(map[string]int64, len(list))
	for i := range list {
		c.push("opset_import", i)
		domain, v := NormalizeDomain(list[i].Domain), list[i].Version
		c.utf8("domain", domain)
		if v < 1 || v > math.MaxInt32 {
			c.fail("Opset import version %d of domain %q is out of supported range, want 1 to %d", v,
				domain, math.MaxInt32)
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
			c.fail("Graph must be in single static assignment (SSA) form, however %q has been used multiple times.",
				name)
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

// calls checks the calls between functions: no recursion, call chains of at most maxFunctionDepth,
// and at most MaxInlinedNodes.
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
			c.fail("Cycle detected in model-local function references: %s. Model-local functions must not be "+
				"recursive.", strings.Join(names, " -> "))
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

// callGraph is the graph of calls between functions, including calls from subgraphs.
type callGraph struct {
	functions map[functionID]*Function
	done      map[*Function]*callInfo
	stack     []*Function
}

type callInfo struct {
	inPath bool
	depth  int   // number of functions in the longest call chain from here
	nodes  int64 // after inlining; saturates
}

func newCallGraph(functions map[functionID]*Function) *callGraph {
	return &callGraph{functions: functions, done: make(map[*Function]*callInfo, len(functions))}
}

// visit visits functions depth first, at most maxFunctions deep. It returns the first cycle found.
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

// count returns the number of nodes of a body after inlining, at most math.MaxInt64.
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

// eachNode calls fn for each node of a body and its subgraphs.
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

// InlinedNodes returns the number of nodes of the model after inlining all model-local functions,
// at most math.MaxInt64. It fails if a function is recursive.
func InlinedNodes(m *Model) (int64, error) {
	functions := make(map[functionID]*Function, len(m.Functions))
	for _, f := range m.Functions {
		if f != nil {
			functions[idOf(f)] = f
		}
	}
	if len(functions) > maxFunctions {
		return 0, fail.Errorf("model has %d local functions, the limit is %d", len(functions), maxFunctions)
	}
	g := newCallGraph(functions)
	for _, f := range functions {
		if cycle := g.visit(f); cycle != nil {
			return 0, fail.Errorf("function %s is recursive", idOf(cycle[0]))
		}
	}
	if m.Graph == nil {
		return 0, errors.New("model has no graph")
	}
	return g.count(m.Graph.Nodes), nil
}
