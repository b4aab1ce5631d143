package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/tensor"
)

// AttnLSTM is an [ops.LSTM] with Bahdanau attention to a memory M [batch steps depth].
// Each step's input is concatenated with the attention ATTN of the step before, which is
// initially 0:
//
//	ALIGN = softmax over the steps of M (Σ V ∘ tanh(M·MW + Ht·QW))
//	CONTEXT = ALIGN · M
//	ATTN = (Ht, CONTEXT)·AW if AW is given, else CONTEXT
//
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM).
type AttnLSTM struct{ of ops.LSTM }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "AttnLSTM", Since: kit.Versions{1},
	Class: kit.ClassLinear,
	In:    recurrent.Inputs + ", initial_c:T?, P:T?, QW:T, MW:T, V:T, M:T, memory_seq_lens:int32?, AW:T?",
	Out:   "Y:T?, Y_h:T?, Y_c:T?",
	Types: "T: float double",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		// opset 7: no attribute layout
		return &AttnLSTM{ops.LSTM{Layer: recurrent.Build(a, 7, 4, "Sigmoid", "Tanh", "Tanh"),
			InputForget: a.Bool("input_forget", false)}}
	}})

// Infer sets the shapes of Y, Y_h and Y_c.
func (op *AttnLSTM) Infer(c *ir.InferContext) error { return op.of.Infer(c) }

// Run computes the directions one after the other.
func (op *AttnLSTM) Run(c *ir.Call) error {
	return recurrent.RunAs(c, func() error { return runAttnLSTM[float32](op, c) },
		func() error { return runAttnLSTM[float64](op, c) })
}

// attnSizes are the sizes of the inputs of an AttnLSTM.
type attnSizes struct {
	batch, in                         int
	hidden, depth, width, size, steps int   // width is the size of a key, size that of the attention vector
	lens                              []int // of the memory, per batch item
}

// sizes checks the shapes of the inputs that an LSTM does not have.
func (op *AttnLSTM) sizes(c *ir.Call) (*attnSizes, error) {
	for i, rank := range map[int]int{0: 3, 2: 3, 8: 3, 9: 3, 10: 2, 11: 3, 13: 3} {
		if t := c.Tensor(i); t != nil && t.Rank() != rank {
			return nil, fail.Errorf("input %d has shape %v, want rank %d", i, t.Shape(), rank)
		}
	}
	s := &attnSizes{batch: c.Tensor(0).Dim(1), in: c.Tensor(0).Dim(2), hidden: c.Tensor(2).Dim(2),
		steps: c.Tensor(11).Dim(1), depth: c.Tensor(9).Dim(1), width: c.Tensor(9).Dim(2), lens: kit.Ints(c.Tensor(12))}
	s.size = s.depth
	if aw := c.Tensor(13); aw != nil {
		s.size = aw.Dim(2)
	}
	dirs := len(op.of.Reverse)
	for i, want := range map[int][]int{8: {dirs, s.hidden, s.width}, 9: {dirs, s.depth, s.width}, 10: {dirs, s.width},
		11: {s.batch, s.steps, s.depth}, 12: {s.batch}, 13: {dirs, s.depth + s.hidden, s.size}} {
		if t := c.Tensor(i); t != nil && !slices.Equal(t.Shape(), want) {
			return nil, fail.Errorf("input %d has shape %v, want %v", i, t.Shape(), want)
		}
	}
	if s.lens == nil {
		var err error
		if s.lens, err = kit.MakeInts(c, s.batch); err != nil {
			return nil, err
		}
		kit.RepeatOf(s.lens, s.steps)
	}
	for i, n := range s.lens {
		if n < 1 || n > s.steps {
			return nil, fail.Errorf("memory_seq_lens[%d] is %d, want 1 to %d", i, n, s.steps)
		}
	}
	return s, nil
}

// bahdanau holds the attention inputs and scratch memory for one direction of an
// AttnLSTM.
type bahdanau[T kit.RealFloat] struct {
	attnSizes
	c                   *ir.Call
	qw, v, memory, keys []T
	query, scores       []T // [batch width], [batch steps]
}

func runAttnLSTM[T kit.RealFloat](op *AttnLSTM, c *ir.Call) error {
	sizes, err := op.sizes(c)
	if err != nil {
		return err
	}
	m := bahdanau[T]{attnSizes: *sizes, c: c}
	batch, in, h, depth, width, size, steps := m.batch, m.in, m.hidden, m.depth, m.width, m.size, m.steps
	m.memory = tensor.MustData[T](c.Tensor(11))
	qw, mw, v, w := tensor.MustData[T](c.Tensor(8)), tensor.MustData[T](c.Tensor(9)), tensor.MustData[T](c.Tensor(10)),
		tensor.MustData[T](c.Tensor(1))
	var aw []T
	if t := c.Tensor(13); t != nil {
		aw = tensor.MustData[T](t)
	}
	var context, state, product []T
	for _, b := range []struct {
		of    *[]T
		shape []int
	}{{&m.keys, []int{batch, steps, width}}, {&m.query, []int{batch, width}}, {&m.scores, []int{batch, steps}},
		{&context, []int{batch, depth}},
		{&state, []int{batch, size}}, {&product, []int{batch, max(4*h, size)}}} {
		n, err := tensor.Elements(b.shape)
		if err != nil {
			return err
		}
		if *b.of, err = ir.ScratchOf[T](c, n); err != nil {
			return err
		}
	}
	if aw == nil {
		state = context
	}
	of := op.of
	of.More = size
	current := -1 // the direction that m holds the weights of
	return ops.RunLSTM(&of, c, nil, ops.LSTMHooks[T]{
		Before: func(d int, gates []T) error {
			if d != current {
				current = d
				clear(state)
				m.qw, m.v = qw[d*h*width:][:h*width], v[d*width:][:width]
				matmul.MulPlain(c, batch*steps, width, depth, m.memory, mw[d*depth*width:][:depth*width], nil, m.keys)
			}
			wide := in + size
			matmul.MulTransposed(c, batch, 4*h, size, state, size, w[d*4*h*wide:][:4*h*wide][min(in, 4*h*wide):],
				wide, nil, product, 4*h)
			addTo(gates, product)
			return nil
		},
		After: func(d int, hidden []T) error {
			m.attend(hidden, context)
			if aw != nil {
				part := aw[d*(depth+h)*size:][:(depth+h)*size]
				matmul.MulPlain(c, batch, size, h, hidden, part[:h*size], nil, state)
				matmul.MulPlain(c, batch, size, depth, context, part[h*size:], nil, product)
				addTo(state, product)
			}
			return c.Err()
		},
	})
}

// attend writes the mean of the memory, weighted by the alignment with the hidden state,
// to context.
func (m *bahdanau[T]) attend(hidden, context []T) {
	batch := len(m.lens)
	matmul.MulPlain(m.c, batch, m.width, m.hidden, hidden, m.qw, nil, m.query)
	m.c.Parallel(batch, kit.GrainFor(m.steps*(m.width*8+m.depth)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			out := context[b*m.depth:][:m.depth]
			clear(out)
			query, scores := m.query[b*m.width:][:m.width], m.scores[b*m.steps:][:m.lens[b]]
			most := math.Inf(-1)
			for s := range scores {
				sum, keys := 0.0, m.keys[(b*m.steps+s)*m.width:][:m.width]
				for i, q := range query {
					sum += float64(m.v[i]) * math.Tanh(float64(keys[i]+q))
				}
				scores[s], most = T(sum), max(most, sum)
			}
			total := 0.0
			for s, v := range scores {
				e := math.Exp(float64(v) - most)
				scores[s] = T(e)
				total += e
			}
			for s, v := range scores {
				share := v / T(total)
				for i, x := range m.memory[(b*m.steps+s)*m.depth:][:m.depth] {
					out[i] += share * x
				}
			}
		}
	})
}
