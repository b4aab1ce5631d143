package msft

import (
	"slices"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/regex"
	"github.com/onward-ml/onward/tensor"
)

// Tokenizer splits strings at matches of separators, into matches of an expression, or
// into characters. The tokens of a string are the last dimension of the output, padded
// with Pad. With Mark they are enclosed in the characters U+0002 and U+0003. Without strings, the
// output is [0] for an input of rank 1, and [N, 0] for one of rank 2
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Tokenizer).
type Tokenizer struct {
	Mark     bool
	Pad      string
	MinChars int // shorter tokens are dropped

	chars      bool
	separators []*regex.Regexp // applied in order
	token      *regex.Regexp
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Tokenizer", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: string",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("mark", "pad_value", "mincharnum")
		op := &Tokenizer{Mark: a.Bool("mark", false), Pad: a.String("pad_value", ""), MinChars: a.Int("mincharnum", 1)}
		if op.MinChars < 1 {
			a.Errorf("attribute mincharnum is %d, want at least 1", op.MinChars)
		}
		separators, token := a.Strings("separators"), a.String("tokenexp", "")
		switch {
		case (len(separators) > 0) == (token != ""):
			a.Errorf("want exactly one of the attributes separators and tokenexp")
		case token == "." || len(separators) == 1 && separators[0] == "":
			op.chars = true
			if op.MinChars > 1 {
				a.Errorf("attribute mincharnum is %d, want 1 for single characters", op.MinChars)
			}
			return op
		}
		total := len(token)
		for _, s := range separators {
			total += len(s)
			if s == "" {
				a.Errorf("separators must not be empty if there is more than one")
			}
		}
		if total > regex.MaxPattern {
			return a.Fail(fail.Errorf("the patterns have %d bytes, want at most %d", total, regex.MaxPattern))
		}
		for _, s := range separators {
			re, err := regex.Compile(s, false)
			if err != nil {
				return a.Fail(fail.Errorf("attribute separators: %w", err))
			}
			op.separators = append(op.separators, re)
		}
		if token != "" {
			var err error
			if op.token, err = regex.Compile(token, false); err != nil {
				return a.Fail(fail.Errorf("attribute tokenexp: %w", err))
			}
		}
		return op
	}})

// Infer adds a dimension for the tokens.
func (op *Tokenizer) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	kit.SetShape(c, 0, tensor.TypeString, nil)
	if s == nil {
		return nil
	}
	if len(s) != 1 && len(s) != 2 {
		return fail.Errorf("input has rank %d, want 1 or 2", len(s))
	}
	full := true // known to have strings
	for _, d := range s {
		n, ok := d.Value()
		if ok && n == 0 {
			kit.SetShape(c, 0, tensor.TypeString, append(slices.Clone(s[:len(s)-1]), ir.Known(0)))
			return nil
		}
		full = full && ok
	}
	if full { // otherwise the rank of the output depends on the number of strings
		kit.SetShape(c, 0, tensor.TypeString, append(slices.Clone(s), ir.Unknown))
	}
	return nil
}

// Run implements [ir.Operator].
func (op *Tokenizer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 1 && x.Rank() != 2 {
		return fail.Errorf("input has shape %v, want one or two dimensions", x.Shape())
	}
	in := tensor.MustData[string](x)
	if len(in) == 0 {
		shape := slices.Clone(x.Shape())
		shape[len(shape)-1] = 0
		_, err := c.Output(0, tensor.TypeString, shape...)
		return err
	}
	// The tokens are in several slices, since clearing one large slice cannot be interrupted.
	const piece = 1 << 14
	rows := make([][][]string, (len(in)+piece-1)/piece)
	most := 0
	var words tokenBuffer
	var room []string // for the tokens of the next strings
	for i, s := range in {
		if i%piece == 0 {
			if err := c.Reserve(24 * piece); err != nil {
				return err
			}
			rows[i/piece] = make([][]string, min(piece, len(in)-i))
		}
		if !utf8.ValidString(s) {
			return fail.Errorf("string %d is not valid UTF-8", i)
		}
		// Every byte may become a token, whose string header has two words.
		if err := c.Reserve(16 * int64(len(s))); err != nil {
			return err
		}
		if err := op.tokens(c, &words, s); err != nil {
			return fail.Errorf("string %d: %w", i, err)
		}
		n := len(words.done)
		if n > len(room) {
			room = make([]string, max(n, min(piece, 8*(i+1)))) // grows with the number of strings
		}
		copy(room, words.done)
		rows[i/piece][i%piece], room = room[:n:n], room[n:]
		most = max(most, n)
	}
	marks := 0
	if op.Mark && most > 0 {
		marks = 2
	}
	most += marks
	out, err := c.Output(0, tensor.TypeString, append(slices.Clone(x.Shape()), most)...)
	if err != nil {
		return err
	}
	y := tensor.MustData[string](out)
	c.Serial(len(in), kit.GrainFor(8*most), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := y[i*most:][:most:most]
			k := 0
			if marks > 0 {
				row[0] = "\x02"
				k = 1
			}
			k += copy(row[k:], rows[i/piece][i%piece])
			if marks > 0 {
				row[k] = "\x03"
				k++
			}
			for ; k < most; k++ {
				row[k] = op.Pad
			}
		}
	})
	return kit.CopyStrings(c, y)
}

// tokenBuffer holds the tokens of a string, and those before the last separators were applied.
type tokenBuffer struct{ done, before []string }

// tokens sets b.done to the tokens of one string.
func (op *Tokenizer) tokens(c *ir.Call, b *tokenBuffer, s string) error {
	b.done = b.done[:0]
	m := ir.Meter{C: c}
	switch {
	case op.chars:
		for s != "" {
			m.Check(tokenCost)
			_, w := utf8.DecodeRuneInString(s)
			b.done = append(b.done, s[:w])
			s = s[w:]
		}
	case op.token != nil:
		return op.token.FindAll(c, s, func(from, to int) {
			m.Check(tokenCost + to - from)
			op.keep(b, s[from:to])
		})
	default:
		b.done = append(b.done, s)
		for _, re := range op.separators {
			b.done, b.before = b.before[:0], b.done
			for _, t := range b.before {
				if err := op.cut(&m, b, t, re); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tokenCost is the cost of a token in elementary operations.
const tokenCost = 64

// keep appends t to the tokens if it is long enough.
func (op *Tokenizer) keep(b *tokenBuffer, t string) {
	if len(t) >= op.MinChars && (op.MinChars == 1 || utf8.RuneCountInString(t) >= op.MinChars) {
		b.done = append(b.done, t)
	}
}

// cut appends the parts of s between the matches of re. After an empty match, the next
// character is skipped.
func (op *Tokenizer) cut(m *ir.Meter, b *tokenBuffer, s string, re *regex.Regexp) error {
	start := 0
	err := re.FindAll(m.C, s, func(from, to int) {
		if from < start {
			return
		}
		m.Check(tokenCost + to - start)
		op.keep(b, s[start:from])
		if start = to; from == to {
			_, w := utf8.DecodeRuneInString(s[start:])
			start += w
		}
	})
	if err == nil {
		op.keep(b, s[start:])
	}
	return err
}
