package ops

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// StringSplit splits each string at a delimiter, at most MaxSplit times. An empty delimiter means
// runs of white space, which are also removed at both ends. The parts are along a new last axis,
// padded with empty strings; the second output is their number
// (https://onnx.ai/onnx/operators/onnx__StringSplit.html).
type StringSplit struct {
	Delimiter string
	MaxSplit  int // negative: no limit
}

var _ = kit.Register(&kit.Def{Name: "StringSplit", Since: kit.Versions{20},
	In: "X:string", Out: "Y:string, Z:int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &StringSplit{Delimiter: a.String("delimiter", ""), MaxSplit: a.Int("maxsplit", -1)}
	}})

// Infer implements ir.Operator.
func (op *StringSplit) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	kit.SetShape(c, 0, tensor.TypeString, nil)
	kit.SetShape(c, 1, kit.TensorInt64, in)
	if in != nil {
		kit.SetShape(c, 0, tensor.TypeString, append(slices.Clone(in), ir.Unknown))
	}
	return nil
}

// next splits off the first part. splits is the number of splits so far.
func (op *StringSplit) next(s string, splits int) (part, rest string, more bool) {
	last := op.MaxSplit >= 0 && splits >= op.MaxSplit
	if op.Delimiter != "" {
		if last {
			return s, "", false
		}
		return strings.Cut(s, op.Delimiter)
	}
	// s starts with a part, not with white space.
	if last {
		return s, "", false
	}
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, "", false
	}
	_, w := utf8.DecodeRuneInString(s[i:])
	rest = strings.TrimLeftFunc(s[i+w:], unicode.IsSpace)
	return s[:i], rest, rest != ""
}

// partCost is the cost of a part in elementary operations: its string is new to the caches and to
// the garbage collector.
const partCost = 512

// each calls fn with every part of s, and returns the number of calls.
func (op *StringSplit) each(s string, fn func(k int, part string)) int {
	if op.Delimiter == "" {
		if s = strings.TrimLeftFunc(s, unicode.IsSpace); s == "" {
			return 0
		}
	}
	for k := 0; ; k++ {
		part, rest, more := op.next(s, k)
		if fn(k, part); !more {
			return k + 1
		}
		s = rest
	}
}

// Run implements ir.Operator.
func (op *StringSplit) Run(c *ir.Call) error {
	x := c.Tensor(0)
	in := tensor.MustData[string](x)
	counts, err := ir.ScratchOf[int](c, len(in))
	if err != nil {
		return err
	}
	most, m := 0, ir.Meter{C: c}
	for i, s := range in {
		counts[i] = op.each(s, func(int, string) { m.Check(partCost) })
		most = max(most, counts[i])
	}
	out, err := c.Output(0, tensor.TypeString, append(slices.Clone(x.Shape()), most)...)
	if err != nil {
		return err
	}
	y := tensor.MustData[string](out)
	ir.Clear(c, y)
	for i, s := range in {
		row := y[i*most : (i+1)*most]
		op.each(s, func(k int, part string) {
			row[k] = part
			m.Check(partCost)
		})
	}
	if err := kit.CopyStrings(c, y); err != nil {
		return err
	}
	if !c.Wants(1) {
		return nil
	}
	return kit.OutInt64s(c, 1, counts, x.Shape()...)
}
