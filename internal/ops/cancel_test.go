package ops

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestLossOfManyEmptyImages has a batch of 2⁴⁴ images without pixels, which has no elements to
// loop over.
func TestLossOfManyEmptyImages(t *testing.T) {
	const n = 1 << 44
	x, target := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3, 0)),
		tensor.Must(tensor.Zeros(tensor.TypeInt64, n, 0))
	optest.Want(t, "NegativeLogLikelihoodLoss", 13, map[string]any{"reduction": "sum"},
		tensor.Scalar(float32(0)), x, target)
}

// TestManyEmptyBatches: a size of 2⁴⁴ beside one of 0 is charged to the memory limit where an
// operator needs a number for each.
func TestManyEmptyBatches(t *testing.T) {
	const n = 1 << 44
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 2, 0))
	optest.Fail(t, "TensorScatter", 24, map[string]any{"axis": 1}, "exceed the memory limit", x, x)
}

// TestRegexOfManyRepetitions: nested repetitions of a short pattern are rejected before they are
// expanded, since the product of their counts is the cost of each character.
func TestRegexOfManyRepetitions(t *testing.T) {
	x := optest.Tensor([]string{"aaab", "c"}, 2)
	optest.Want(t, "RegexFullMatch", 20, map[string]any{"pattern": "((a?){30}){30}b"},
		optest.Tensor([]bool{true, false}, 2), x)
	optest.Fail(t, "RegexFullMatch", 20, map[string]any{"pattern": "(" + strings.Repeat("a?", 200) + "){999}b"},
		"instructions with all repetitions, want at most 131072", x)
}

// countdown is a context that ends at a given call of Err and counts the calls.
type countdown struct {
	context.Context
	left, calls int
}

func (c *countdown) Err() error {
	c.calls++
	if c.left--; c.left <= 0 {
		return context.Canceled
	}
	return nil
}

// TestLongLinesStop: operators over one long line, many short strings or many samples check the
// context on the way, and stop when it ends.
func TestLongLinesStop(t *testing.T) {
	const n = 1 << 19
	line := tensor.Must(tensor.Zeros(tensor.TypeFloat64, 1, n))
	for _, c := range []struct {
		op     string
		opset  int
		in     []tensor.Value
		checks int // at least
		attrs  map[string]any
	}{
		{"TopK", 11, []tensor.Value{line, optest.Int64s(n - 3)}, 2 * n >> 12, nil},
		{"CumSum", 14, []tensor.Value{line, optest.Int64s(1)}, n >> 16, nil},
		{"CumProd", 26, []tensor.Value{line, optest.Int64s(1)}, n >> 12, nil},
		{"DFT", 17, []tensor.Value{tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 524_287, 1))}, n >> 12, nil},
		{"StringSplit", 20, []tensor.Value{optest.Tensor(slices.Repeat([]string{"a b"}, n))}, n >> 8, nil},
		{"RegexFullMatch", 20, []tensor.Value{optest.Tensor([]string{strings.Repeat("a", n)}, 1)}, n >> 12,
			map[string]any{"pattern": "((a?){30})*b"}},
		{"RoiAlign", 16, []tensor.Value{tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 1, 8, 8)),
			optest.Tensor([]float32{0, 0, 7, 7}, 1, 4), optest.Int64s(0)}, 256, map[string]any{"sampling_ratio": 1 << 12}},
	} {
		for _, generic := range []bool{false, true} {
			run := func(ctx *countdown) {
				b, err := optest.Build(c.op, c.opset, c.attrs, len(c.in), -1)
				if err != nil {
					t.Fatal(c.op, err)
				}
				call := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: ctx, Limit: optest.MemoryLimit}, Generic: generic,
					In: c.in, Out: make([]tensor.Value, b.NumOut)}
				_ = optest.RunCaught(b.Node.Op, call)
			}
			whole := &countdown{Context: t.Context(), left: 1 << 60}
			run(whole)
			if whole.calls < c.checks {
				t.Errorf("%s (generic: %t) checks the context %d times, want at least %d", c.op, generic,
					whole.calls, c.checks)
			}
			ended := &countdown{Context: t.Context(), left: 3}
			run(ended)
			if ended.calls > 60 {
				t.Errorf("%s (generic: %t) checks the context %d times although it ends at the third",
					c.op, generic, ended.calls)
			}
		}
	}
}
