package ops

import (
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// RegexFullMatch returns whether each string as a whole matches Pattern, in RE2 syntax
// (https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html).
type RegexFullMatch struct {
	Pattern string

	re *regexp.Regexp
}

var _ = kit.Register(kit.Def{Name: "RegexFullMatch", Since: []int{20},
	In: "X:string", Out: "Y:bool", Build: buildRegexFullMatch})

func buildRegexFullMatch(a *kit.Attrs, opset int) (kit.Operator, error) {
	p := a.String("pattern", "")
	if len(p) > kit.MaxPattern {
		return nil, fmt.Errorf("attribute pattern has %d bytes, want at most %d", len(p), kit.MaxPattern)
	}
	// Compile the pattern alone first, so that it cannot close the group around it.
	if _, err := regexp.Compile(p); err != nil {
		return nil, fmt.Errorf("attribute pattern: %w", err)
	}
	re, err := regexp.Compile(`\A(?:` + p + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("attribute pattern: %w", err)
	}
	return &RegexFullMatch{Pattern: p, re: re}, nil
}

// Infer implements ir.Operator.
func (op *RegexFullMatch) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, tensor.TypeBool, c.Shape(0))
	return nil
}

// Run implements ir.Operator.
func (op *RegexFullMatch) Run(c *ir.Call) error {
	x := c.Tensor(0)
	out, err := c.Output(0, tensor.TypeBool, x.Shape()...)
	if err != nil {
		return err
	}
	y := tensor.Of[bool](out)
	const long = 1 << 16
	for i, s := range tensor.Of[string](x) {
		if err := c.Err(); err != nil {
			return err
		}
		if len(s) < long {
			y[i] = op.re.MatchString(s)
			continue
		}
		y[i] = op.re.MatchReader(&stoppableReader{s: s, c: c})
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// stoppableReader reads a string until the run is cancelled.
type stoppableReader struct {
	s string
	n int
	c *ir.Call
}

// ReadRune implements io.RuneReader.
func (r *stoppableReader) ReadRune() (rune, int, error) {
	if r.n++; r.n&0xfff == 0 && r.c.Err() != nil || r.s == "" {
		return 0, 0, io.EOF
	}
	v, w := utf8.DecodeRuneInString(r.s)
	r.s = r.s[w:]
	return v, w, nil
}
