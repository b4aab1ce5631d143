// Package kit is shared by operators of all families: the registry, attributes, shapes, inference,
// conversion of elements, activation functions and grain sizes. The loops of a family are in a
// package below kit. An operator, with the code that it alone uses, is a file in the package of its
// domain.
package kit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Operator is the interface of operators.
type Operator = ir.Operator

// The domains of operators.
const (
	DomainML              = "ai.onnx.ml"
	DomainPreview         = "ai.onnx.preview"
	DomainPreviewTraining = "ai.onnx.preview.training"
	DomainMicrosoft       = "com.microsoft"
	DomainNchwc           = "com.microsoft.nchwc"

	// DomainInternal is the domain of operators that no model file contains: gradient
	// rules and passes add them to graphs.
	DomainInternal = gradient.Domain
)

// MaxOpset is the newest implemented version of each domain, that of ONNX 1.23.0 for ai.onnx.
// Models that package onnx builds import onnx.LatestOpset, which is lower.
var MaxOpset = map[string]int{"": 28, DomainML: 5, DomainPreview: 1, DomainPreviewTraining: 1,
	DomainMicrosoft: 1, DomainNchwc: 1}

// Def registers an operator.
type Def struct {
	Domain string // "" for ai.onnx
	Name   string
	Since  Versions // versions in which the specification changed the operator
	Until  int      // last version before the one that deprecates the operator; 0 if not deprecated

	// Successor is the operator that replaces a deprecated one.
	Successor string

	// In, Out and Types are the signature of the newest form, in the syntax of ir.ParseSignature.
	// Types lists the type variables, each with the types that it allows: "T: @float int32; I:
	// int64".
	In, Out, Types string

	// Elementwise holds if outputs have the broadcast shape of the inputs, and each of
	// their elements depends only on the inputs' elements at its index.
	Elementwise bool

	// Vector returns the float32 kernel that computes output 0 from input 0, or nil if
	// op has none. in holds the constant inputs of the node, nil for other inputs.
	// Passes apply it to rows and in the blocked layout.
	Vector func(op Operator, in []*tensor.Tensor) VecUnary

	// Selects reports whether each element of output 0 is one of input 0's elements,
	// or of a constant that Pad writes. Such an operator gives the same result before a
	// QuantizeLinear as after it, if the parameters are those of its input.
	Selects func(op Operator) bool

	// Class is the kind of the operator's computation, if [Def.Kind] does not derive the right one.
	Class Class

	// MACs returns the number of multiplications with addition of a node. Those of an operator
	// without MACs are not counted.
	MACs func(s Shapes) float64

	// Work is the number of operations per element of the first output of a normalization; 0 means
	// 1.
	Work int

	// KeepOutputs reports whether a node with op keeps its unused optional outputs: their presence
	// changes the results, or the specification requires them for its attributes. It is nil if
	// optional outputs may always be dropped. See [DropsOutput].
	KeepOutputs func(op Operator) bool

	// Build returns the newest form of the operator for the attributes of a node. It must read all
	// attributes that the given version defines; the others are reported as unknown. Errors are
	// recorded in a; see Attrs.Errorf and Attrs.Fail.
	Build func(a *Attrs, opset int) Operator

	// Gradient says how the operator is differentiated, nil if it is not.
	Gradient *gradient.Gradient

	sig func() *ir.Signature
}

// Vectorize returns the trait Vector of an operator T whose kernel depends on no
// attribute and no constant.
func Vectorize[T Operator](kernel VecUnary) func(Operator, []*tensor.Tensor) VecUnary {
	return func(op Operator, _ []*tensor.Tensor) VecUnary {
		if _, ok := op.(T); !ok {
			return nil
		}
		return kernel
	}
}

// Always is the trait Selects or KeepOutputs of an operator for which it holds with any attributes.
func Always(Operator) bool { return true }

// Versions lists versions of an operator, ascending; the rest is 0. It is an array of bytes, as the
// types of a [Def] are one string, because the compiler makes constants of these. Slices and maps
// would be filled by code at program start, 500 bytes of it per operator.
type Versions [16]uint8

// List returns the versions.
func (v Versions) List() []int {
	r := make([]int, 0, len(v))
	for _, n := range v {
		if n != 0 {
			r = append(r, int(n))
		}
	}
	return r
}

type key struct{ domain, name string }

var registry = map[key]*Def{}

// Register adds an operator to the registry. It panics if the definition is incomplete or the name
// is taken.
func Register(d *Def) *Def {
	k := key{d.Domain, d.Name}
	if registry[k] != nil {
		panic("ops: " + d.Name + " is registered twice")
	}
	if d.Build == nil || d.Since[0] == 0 || !slices.IsSorted(d.Since.List()) || (d.Until == 0) != (d.Successor == "") {
		panic("ops: bad registration of " + d.Name)
	}
	d.sig = sync.OnceValue(func() *ir.Signature {
		s, err := ir.ParseSignature(d.In, d.Out, typeVariables(d.Types))
		if err != nil {
			panic(fmt.Sprintf("ops: signature of %s: %v", d.Name, err))
		}
		return s
	})
	registry[k] = d
	return d
}

// typeVariables parses Types of a [Def].
func typeVariables(list string) map[string]string {
	m := map[string]string{}
	for variable := range strings.SplitSeq(list, ";") {
		name, types, _ := strings.Cut(variable, ":")
		m[strings.TrimSpace(name)] = types
	}
	return m
}

// NewDef returns an operator without registering it.
func NewDef(domain, name string, sig *ir.Signature, build func(a *Attrs, opset int) Operator) *Def {
	return &Def{Domain: domain, Name: name, Since: Versions{1}, Build: build, sig: func() *ir.Signature { return sig }}
}

// Signature returns the inputs, outputs and types of the newest form.
func (d *Def) Signature() *ir.Signature { return d.sig() }

// DropsOutput reports whether output i of a node may be omitted if it is unused. Required outputs
// and those of variadic parameters may not. A node that a pass has made has no signature: all its
// outputs may be omitted.
func DropsOutput(n *ir.Node, i int) bool {
	if n.Sig == nil {
		return true
	}
	d := Registered(n.Domain, n.OpType)
	return n.Sig.OptionalOut(i) && (d == nil || d.KeepOutputs == nil || !d.KeepOutputs(n.Op))
}

// SinceVersion returns the version of the operator that applies to a model that imports opset, and
// whether it exists.
func (d *Def) SinceVersion(opset int) (int, bool) {
	if d.Until != 0 && opset > d.Until {
		return 0, false
	}
	since := 0
	for _, v := range d.Since {
		if v != 0 && int(v) <= opset {
			since = int(v)
		}
	}
	return since, since != 0
}

// Registered returns the operator of a domain in its newest form, nil if there is
// none of that name.
func Registered(domain, name string) *Def { return registry[key{NormalDomain(domain), name}] }

// Lookup finds an operator for a model that imports the given version of the domain. The error
// distinguishes an unknown operator, domain or version.
func Lookup(domain, name string, opset int) (*Def, error) {
	domain = NormalDomain(domain)
	d := Registered(domain, name)
	if d == nil && MaxOpset[domain] > 0 && !linked(domain) {
		panic(fmt.Sprintf("ops: no operator of domain %q is linked; import internal/ops/all", domain))
	}
	if d == nil {
		return nil, fail.Errorf("operator %s is not implemented", QualifiedName(domain, name))
	}
	if _, ok := d.SinceVersion(opset); !ok {
		if d.Until != 0 && opset > d.Until {
			return nil,
				fail.Errorf("operator %s is deprecated since opset %d, use %s instead; the model imports opset %d",
					QualifiedName(domain, name), d.Until+1, d.Successor, opset)
		}
		return nil, fail.Errorf("operator %s exists since opset %d, the model imports opset %d",
			QualifiedName(domain, name), d.Since[0], opset)
	}
	return d, nil
}

// linked reports whether an operator of the domain is registered.
func linked(domain string) bool {
	for k := range registry {
		if k.domain == domain {
			return true
		}
	}
	return false
}

// NormalDomain converts the alias of the default domain to "".
func NormalDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// QualifiedName returns the name of an operator with its domain: "Add", "ai.onnx.ml.ZipMap".
func QualifiedName(domain, name string) string {
	if domain = NormalDomain(domain); domain == "" {
		return name
	}
	return domain + "." + name
}

// All returns every registered operator, sorted by domain and name.
func All() []*Def {
	r := make([]*Def, 0, len(registry))
	for _, d := range registry {
		r = append(r, d)
	}
	slices.SortFunc(r, func(a, b *Def) int {
		if a.Domain != b.Domain {
			if a.Domain < b.Domain {
				return -1
			}
			return 1
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return r
}

// Unsupported is an operator that a model uses and the engine lacks, or, when a graph
// is exported, an operator of the engine that ONNX lacks.
type Unsupported struct {
	Domain, OpType string
	Opset          int
	Nodes          int    // how many nodes use it
	First          string // the first of them
	Reason         string
}

// UnsupportedError lists all unsupported operators of a model.
type UnsupportedError struct{ Ops []Unsupported }

// Error lists the operators, one a line.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the model uses %d operator(s) that are not supported:", len(e.Ops))
	for _, u := range e.Ops {
		fmt.Fprintf(&b, "\n  %s; used by %d node(s), first %q", strings.ReplaceAll(u.Reason, "\n", `\n`),
			u.Nodes, u.First)
	}
	return b.String()
}
