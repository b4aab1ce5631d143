package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// VarlenNGramHashMapping is [NGramHashMapping] for concatenated sequences of different
// lengths. Sequence b is input_ids[ends[b]:ends[b+1]], where ends is the input
// cumulative_sequence_length. Segments and the past are per sequence. state_update holds
// the state after each of a sequence's first tokens
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.VarlenNGramHashMapping).
type VarlenNGramHashMapping struct {
	NGramHashMapping
	States int // number of states per sequence in state_update
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "VarlenNGramHashMapping", Since: kit.Versions{1},
	Class: kit.ClassOther,
	In: "input_ids:M, multipliers:M, vocab_sizes:M, cumulative_sequence_length:int32, past_ids:M?, head_offsets:M?, " +
		"eos_token_id:M?, " +
		"segment_ids:int32?, past_segment_ids:int32?, capture_count:int32?",
	Out: "hash_ids:M, present_ids:M?, present_segment_ids:int32?, state_update:M?", Types: "M: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &VarlenNGramHashMapping{*readNGramHashes(a), a.Int("state_update_capacity", 0)}
		if op.States < 0 || op.States > 8 {
			a.Errorf("state_update_capacity is %d, want 0 to 8", op.States)
		}
		return op
	}})

// Infer sets the shapes.
func (op *VarlenNGramHashMapping) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 1, "input_ids"); err != nil {
		return err
	}
	if err := kit.CheckRank(c, 3, 1, "cumulative_sequence_length"); err != nil {
		return err
	}
	n, batch, past := ir.Unknown, ir.Unknown, ir.Known(op.Most-1)
	if s := c.Shape(0); s != nil {
		n = s[0]
	}
	if s := c.Shape(3); s != nil {
		if v, ok := s[0].Value(); ok && v > 0 {
			batch = ir.Known(v - 1)
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), n, ir.Known((op.Most-1)*op.Heads)))
	c.SetOut(1, ir.TensorType(c.Elem(0), batch, past))
	c.SetOut(2, ir.TensorType(tensor.TypeInt32, batch, past))
	c.SetOut(3, ir.TensorType(c.Elem(0), batch, ir.Known(op.States), past))
	return nil
}

// check checks the shapes of the inputs and the lengths of the sequences.
func (op *VarlenNGramHashMapping) check(c *ir.Call) error {
	tokens, past, outs := c.Tensor(0).Len(), op.Most-1, (op.Most-1)*op.Heads
	ends := tensor.MustData[int32](c.Tensor(3))
	batch := len(ends) - 1
	if c.Tensor(0).Rank() != 1 || c.Tensor(3).Rank() != 1 || batch < 1 {
		return fail.Errorf("input_ids and cumulative_sequence_length have shapes %v and %v, want rank 1 and at "+
			"least two lengths", c.Tensor(0).Shape(), c.Tensor(3).Shape())
	}
	for b, e := range ends[1:] {
		if ends[0] != 0 || e <= ends[b] || int(e) > tokens || b == batch-1 && int(e) != tokens {
			return fail.Errorf("cumulative_sequence_length[%d] is %d after %d, want a strict increase from 0 to %d",
				b+1, e, ends[b], tokens)
		}
	}
	for i, want := range [][]int{2: {outs}, 4: {batch, past}, 5: {outs}, 7: {tokens}, 8: {batch, past}, 9: {batch}} {
		if v := c.Tensor(i); want != nil && v != nil && !slices.Equal(v.Shape(), want) {
			return fail.Errorf("input %d has shape %v, want %v", i, v.Shape(), want)
		}
	}
	if (c.Has(8) || c.Wants(2)) && !c.Has(7) {
		return fail.Errorf("segment_ids is missing; past_segment_ids and present_segment_ids require it")
	}
	if c.Has(9) != (op.States > 0) || c.Wants(3) && op.States == 0 {
		return fail.Errorf("state_update_capacity is %d: capture_count must be given exactly if it is positive, and "+
			"state_update requires it to be positive", op.States)
	}
	return nil
}

// Run computes in the type of the tokens, so that products wrap around.
func (op *VarlenNGramHashMapping) Run(c *ir.Call) error {
	past, outs := op.Most-1, (op.Most-1)*op.Heads
	ends := tensor.MustData[int32](c.Tensor(3))
	batch := len(ends) - 1
	if err := op.check(c); err != nil {
		return err
	}
	w := wideInts{c: c}
	tokens, before, eos := w.in(0), w.in(4), w.in(6)
	h := gramHashes{op.Most, op.Heads, w.narrow(), int64(op.Pad), w.in(1), w.in(2), w.in(5)}
	if w.err != nil {
		return w.err
	}
	if len(h.mult) < op.Most || slices.Min(h.sizes) < 1 {
		return fail.Errorf("multipliers has shape %v, want at least %d elements, and vocab_sizes is %v, want "+
			"positive numbers", c.Tensor(1).Shape(), op.Most, h.sizes)
	}
	end, resets := int64(0), false
	if e := c.Tensor(6); e != nil {
		if e.Len() != 1 {
			return fail.Errorf("eos_token_id has shape %v, want one element", e.Shape())
		}
		end, resets = eos[0], op.Reset
		h.blank = end
	}
	dst, present, update := w.out(0, len(tokens), outs), w.out(1, batch, past), w.out(3, batch, op.States, past)
	if w.err != nil {
		return w.err
	}
	var presentSegments []int32
	if c.Wants(2) {
		t, err := c.Output(2, tensor.TypeInt32, batch, past)
		if err != nil {
			return err
		}
		presentSegments = tensor.MustData[int32](t)
	}
	kit.RepeatOf(update, int64(op.Pad))
	longest := 0
	for b := range batch {
		longest = max(longest, int(ends[b+1]-ends[b]))
	}
	line := w.scratch(past + longest) // the past and the new tokens of a sequence
	if w.err != nil {
		return w.err
	}
	segments, err := ir.ScratchOf[int32](c, past+longest)
	if err != nil {
		return err
	}
	for b := range batch {
		lo, n := int(ends[b]), int(ends[b+1]-ends[b])
		kit.RepeatOf(line[:past], h.blank)
		if before != nil {
			copy(line, before[b*past:][:past])
		}
		copy(line[past:], tokens[lo:][:n])
		if s := c.Tensor(7); s != nil {
			ids := tensor.MustData[int32](s)[lo:][:n]
			copy(segments[past:], ids)
			kit.RepeatOf(segments[:past], ids[0])
			if p := c.Tensor(8); p != nil {
				copy(segments, tensor.MustData[int32](p)[b*past:][:past])
			}
		}
		since := 0 // index of the first token that is not ignored
		for at := 1; at < past+n; at++ {
			if at%ir.GrainWatch == 0 && c.Err() != nil {
				return c.Err()
			}
			if resets && line[at-1] == end || c.Has(7) && segments[at] != segments[at-1] {
				since = at
			}
			if at >= past {
				h.hash(dst[(lo+at-past)*outs:][:outs], line, at, since)
			}
		}
		if present != nil {
			copy(present[b*past:][:past], line[n:])
		}
		if presentSegments != nil {
			copy(presentSegments[b*past:][:past], segments[n:])
		}
		if update != nil {
			taken := min(max(int(tensor.MustData[int32](c.Tensor(9))[b]), 0), n, op.States)
			for k := range taken {
				copy(update[(b*op.States+k)*past:][:past], line[k+1:])
			}
		}
	}
	w.store()
	return nil
}
