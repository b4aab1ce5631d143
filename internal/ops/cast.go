package ops

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// castTypes are the element types between which CastLike converts; Cast also has
// the 6-bit ones.
const castTypes = "@number string bool @float8 @packed float8e8m0"

// Cast converts elements to another type
// (https://onnx.ai/onnx/operators/onnx__Cast.html).
type Cast struct {
	To      tensor.DType
	Options tensor.ConvertOptions
}

var _ = register(Def{Name: "Cast", Since: []int{1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, In: "input:T1", Out: "output:T2",
	Types: Types{"T1": castTypes + " @float6", "T2": castTypes + " @float6"},
	Build: func(a *Attrs, opset int) (Operator, error) {
		o := &Cast{}
		a.Require("to")
		if opset < 6 { // the name of the type
			d, err := tensor.ParseDType(strings.ToLower(a.String("to", "")))
			if err != nil {
				return nil, fmt.Errorf("attribute to: %w", err)
			}
			o.To = d
		} else if o.To = a.DType("to", tensor.Undefined); o.To == tensor.Undefined && a.Has("to") {
			a.Errorf("attribute to is 0, which is no element type")
		}
		o.Options = readConvertOptions(a, opset)
		return o, nil
	}})

// readConvertOptions reads the attributes that Cast and CastLike share.
func readConvertOptions(a *Attrs, opset int) tensor.ConvertOptions {
	o := tensor.ConvertOptions{Saturate: true}
	if opset >= 19 {
		o.Saturate = a.Bool("saturate", true)
	}
	if opset >= 24 {
		switch a.Enum("round_mode", "up", "up", "down", "nearest") {
		case "up":
			o.RoundMode = tensor.RoundUp
		case "down":
			o.RoundMode = tensor.RoundDown
		case "nearest":
			o.RoundMode = tensor.RoundNearest
		}
	}
	return o
}

// Infer implements [ir.Operator].
func (o *Cast) Infer(c *ir.InferContext) error { inferCast(c, o.To); return nil }

func inferCast(c *ir.InferContext, to tensor.DType) {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: to, Shape: c.Shape(0)})
	if to == tensor.TypeInt64 || to == tensor.TypeInt32 {
		if from := c.Elem(0); from == tensor.TypeInt64 || from == tensor.TypeInt32 {
			setContents(c, to, append([]ir.Dim{}, c.Contents(0)...))
		}
	}
}

// Run implements [ir.Operator].
func (o *Cast) Run(c *ir.Call) error { return runCast(c, o.To, o.Options) }

func runCast(c *ir.Call, to tensor.DType, opts tensor.ConvertOptions) error {
	x := c.Tensor(0)
	out, err := c.Output(0, to, x.Shape()...)
	if err != nil {
		return err
	}
	if c.Capturing && x.Len() <= grainCostly && x.DType() != tensor.TypeString && to != tensor.TypeString {
		if f := castOf(c, to, x.DType()); f != nil {
			c.Launch(1, 1, func(int, int) { f(out.Bytes(), x.Bytes()) })
		} else {
			c.Launch(1, 1, func(int, int) { _ = tensor.ConvertInto(out, x, opts) }) // between numbers nothing fails
		}
		return nil
	}
	return convertInto(c, out, x, opts)
}
