package kit

import (
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Class is the kind of computation of an operator. Tools color graphs and count operations by it.
type Class uint8

// The classes of operators.
const (
	ClassDerived       Class = iota // of a [Def]: other fields determine the class, see [Def.Kind]
	ClassLinear                     // convolutions, matrix products, recurrent layers, attention
	ClassActivation                 // elementwise functions of one floating-point input
	ClassNormalization              // normalizations and Softmax
	ClassReduction                  // reductions and pooling
	ClassShape                      // operators that move elements or compute shapes
	ClassArithmetic                 // other elementwise operators, comparisons, logic
	ClassControl                    // control flow, sequences, optionals
	ClassOther
)

// families lists parts of names that ONNX gives to the operators of a class. A name in ^ and $
// begins or ends with the part.
var families = []struct {
	class Class
	parts string
}{
	{ClassLinear, "Conv MatMul Gemm Attention$"},
	{ClassNormalization, "Norm$ Normalization$ Softmax$"},
	{ClassReduction, "Pool$ ^Reduce ^QLinearReduce ^Arg ^Cum"},
	{ClassActivation, "Gelu$"},
}

// Kind returns the class of an operator: Class, if it is set, else the first that applies of
//
//   - ClassLinear if MACs is set;
//   - ClassControl if the first input or output is a sequence, an optional, or anything;
//   - ClassActivation for Elementwise with one input of floating-point numbers, ClassShape for one
//     of anything, ClassArithmetic for other Elementwise operators;
//   - the class of the operator's family, by its name: Reduce…, …Pool, …Normalization;
//   - ClassShape if Selects is set, or the first output may hold strings as well as numbers;
//   - ClassOther for strings alone, and for the domains ai.onnx.ml and [DomainInternal].
//
// It returns ClassDerived if nothing applies.
func (d *Def) Kind() Class {
	s := d.Signature()
	in, out := firstParam(s.In), firstParam(s.Out)
	strs, numbers := false, false // types of the first output
	for _, t := range s.Types(out.Pattern) {
		strs, numbers = strs || t.Elem == tensor.TypeString, numbers || t.Elem == tensor.TypeInt64
	}
	control := func(p ir.Param) bool { return p.Pattern == "any" || strings.Contains(p.Pattern, "(") }
	switch {
	case d.Class != ClassDerived:
		return d.Class
	case d.MACs != nil:
		return ClassLinear
	case d.Domain == DomainML || d.Domain == DomainInternal:
		return ClassOther
	case d.Elementwise && in.Pattern == "any":
		return ClassShape
	case control(in) || control(out):
		return ClassControl
	case d.Elementwise && in.Pattern == out.Pattern && !in.Variadic && (len(s.In) == 1 || s.In[1].Optional) &&
		holdsFloats(s, in):
		return ClassActivation
	case d.Elementwise:
		return ClassArithmetic
	}
	for _, f := range families {
		for part := range strings.FieldsSeq(f.parts) {
			prefix, begins := strings.CutPrefix(part, "^")
			suffix, ends := strings.CutSuffix(part, "$")
			if begins && strings.HasPrefix(d.Name, prefix) || ends && strings.HasSuffix(d.Name, suffix) || !begins &&
				!ends && strings.Contains(d.Name, part) {
				return f.class
			}
		}
	}
	switch {
	case d.Selects != nil || strs && numbers:
		return ClassShape
	case strs || in.Pattern == "string":
		return ClassOther
	}
	return ClassDerived
}

func firstParam(ps []ir.Param) ir.Param {
	if len(ps) == 0 {
		return ir.Param{}
	}
	return ps[0]
}

func holdsFloats(s *ir.Signature, p ir.Param) bool {
	for _, t := range s.Types(p.Pattern) {
		if t.Elem == tensor.TypeFloat32 {
			return true
		}
	}
	return false
}

// Shapes holds the shapes of a node's inputs and of its first output. In returns nil for an omitted
// input; a shape of unknown rank is nil.
type Shapes struct {
	In  func(i int) []int64
	Out []int64
}

// Cost returns the numbers of multiply-adds and of operations of a node. Operations are two per
// multiply-add, one per element of reduced inputs and of elementwise results, Work per normalized
// element, and 0 for operators of other classes.
func (d *Def) Cost(s Shapes) (macs, operations float64) {
	switch d.Kind() {
	case ClassLinear:
		if d.MACs != nil {
			macs = d.MACs(s)
		}
		return macs, 2 * macs
	case ClassActivation, ClassArithmetic:
		return 0, elements(s.Out)
	case ClassReduction:
		return 0, elements(s.In(0))
	case ClassNormalization:
		return 0, float64(max(d.Work, 1)) * elements(s.Out)
	}
	return 0, 0
}

// elements returns the number of elements of a shape, and 0 if the rank is unknown. Larger numbers
// than 2⁶² become 2⁶², so that products of a few of them are finite.
func elements(shape []int64) float64 {
	if shape == nil {
		return 0
	}
	n := 1.0
	for _, d := range shape {
		n = min(n*float64(d), 1<<62)
	}
	return n
}

func lastDim(shape []int64) float64 {
	if len(shape) == 0 {
		return 0
	}
	return float64(shape[len(shape)-1])
}

// ConvMACs is MACs of a convolution with weights [M, C/group, …] as input 1: each element of the
// output reads the weights of its channel.
func ConvMACs(s Shapes) float64 { return elements(s.Out) * perChannel(s.In(1)) }

// QLinearConvMACs is ConvMACs with the weights as input 3.
func QLinearConvMACs(s Shapes) float64 { return elements(s.Out) * perChannel(s.In(3)) }

// ConvTransposeMACs is ConvMACs with weights [C, M/group, …]: each element of the input is
// multiplied by the weights of its channel.
func ConvTransposeMACs(s Shapes) float64 { return elements(s.In(0)) * perChannel(s.In(1)) }

func perChannel(w []int64) float64 {
	if len(w) == 0 || w[0] <= 0 {
		return 0
	}
	return elements(w) / float64(w[0])
}

// MatMulMACs is MACs of a MatMul whose inner dimension is the last of input 0.
func MatMulMACs(s Shapes) float64 { return elements(s.Out) * lastDim(s.In(0)) }

// GemmMACs is MACs of a GEMM whose first matrix may be transposed.
func GemmMACs(s Shapes) float64 {
	if len(s.Out) != 2 || s.Out[0] <= 0 {
		return 0
	}
	return elements(s.In(0)) * float64(s.Out[1])
}

// FusedMatMulMACs is MACs of a MatMul whose second matrix may be transposed.
func FusedMatMulMACs(s Shapes) float64 {
	b := s.In(1)
	if len(b) < 2 || lastDim(s.Out) <= 0 {
		return 0
	}
	return elements(s.Out) * elements(b[len(b)-2:]) / lastDim(s.Out)
}

// RecurrentMACs is MACs of a recurrent layer: each step of each sequence is multiplied by W and R,
// inputs 1 and 2.
func RecurrentMACs(s Shapes) float64 {
	x := s.In(0) // [time, batch, features] or [batch, time, features]
	if len(x) != 3 {
		return 0
	}
	return elements(x[:2]) * (elements(s.In(1)) + elements(s.In(2)))
}

// AttentionMACs is MACs of the scores and the values of attention with query and key as inputs 0
// and 1: [batch, sequence, hidden] or [batch, heads, sequence, size].
func AttentionMACs(s Shapes) float64 {
	q, k := s.In(0), s.In(1)
	if len(q) != len(k) || len(q) != 3 && len(q) != 4 {
		return 0
	}
	return 2 * float64(k[len(k)-2]) * elements(q)
}

// ProjectionMACs is MACs of attention that multiplies its input by packed weights, input 1; scores
// and values are not counted.
func ProjectionMACs(s Shapes) float64 { return elements(s.In(0)) * lastDim(s.In(1)) }
