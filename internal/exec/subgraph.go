package exec

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// repeated is a subgraph that a call runs repeatedly. Two states alternate, so that the results of
// one iteration are the inputs of the next without a copy.
type repeated struct {
	step, graph int
	states      [2]*state
	out         [2][]tensor.Value
	next        int
}

// RunGraph implements ir.Env.
func (s *state) RunGraph(c *ir.Call, k int, in []tensor.Value) ([]tensor.Value, error) {
	sp, err := s.subgraph(c, k, in)
	if err != nil {
		return nil, err
	}
	sub := sp.state(s.run.team)
	sub.run = s.run
	defer sub.finish()
	out := make([]tensor.Value, len(sp.outputs))
	if err := s.runSubgraph(c, sub, in, out); err != nil {
		return nil, err
	}
	for i, v := range out {
		if t, ok := v.(*tensor.Tensor); ok && overlapping(t.Bytes(), sub.arena) {
			out[i] = t.Clone() // the next run uses the arena
		}
	}
	return out, nil
}

// RunBody implements ir.Env.
func (s *state) RunBody(c *ir.Call, k int, in []tensor.Value) ([]tensor.Value, error) {
	sp, err := s.subgraph(c, k, in)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(s.repeated, func(b repeated) bool { return b.step == c.Index && b.graph == k })
	first := at < 0
	if first {
		at = len(s.repeated)
		b := repeated{step: c.Index, graph: k}
		for i := range b.states {
			b.states[i], b.out[i] = sp.state(s.run.team), make([]tensor.Value, len(sp.outputs))
		}
		s.repeated = append(s.repeated, b)
	}
	b := &s.repeated[at]
	sub, last, out := b.states[b.next], b.states[1-b.next], b.out[b.next]
	b.next = 1 - b.next
	if sub.run != nil {
		sub.reset()
	}
	sub.run = s.run
	given := in
	give := func(i int, v tensor.Value) {
		if &given[0] == &in[0] {
			given = slices.Clone(in)
		}
		given[i] = v
	}
	for i, v := range in {
		switch v := v.(type) {
		case *tensor.Tensor:
			// The next iteration but one overwrites values that a sequence may keep.
			if sp.keepsInput[i] && last.holds(v) {
				give(i, v.Clone())
			}
		case *tensor.Sequence:
			if first && sp.grown != nil && sp.grown[i] { // other values may have its memory
				give(i, &tensor.Sequence{Elem: v.Elem, Items: slices.Clip(v.Items)})
			}
		}
	}
	if err := s.runSubgraph(c, sub, given, out); err != nil {
		return nil, err
	}
	for i, v := range out {
		if t, ok := v.(*tensor.Tensor); ok && last.holds(t) {
			out[i] = t.Clone() // an input that is returned
		}
	}
	return out, nil
}

// subgraph returns the plan of subgraph k of a call, which must have as many inputs as given.
func (s *state) subgraph(c *ir.Call, k int, in []tensor.Value) (*Plan, error) {
	st := &s.plan.steps[c.Index]
	if k < 0 || k >= len(st.subs) {
		return nil, fail.Errorf("subgraph %d does not exist", k)
	}
	sp := st.subs[k]
	if len(in) != len(sp.inputs) {
		return nil, fail.Errorf("subgraph %q has %d inputs, got %d", sp.graph.Name, len(sp.inputs), len(in))
	}
	return sp, nil
}

// runSubgraph runs a state of a subgraph and stores its results in out.
func (s *state) runSubgraph(c *ir.Call, sub *state, in, out []tensor.Value) error {
	sp := sub.plan
	for i, id := range sp.inputs {
		v := in[i]
		if v == nil {
			v = sp.graph.Defaults[id]
		}
		if v == nil {
			return fail.Errorf("input %q of subgraph %q is missing", sp.graph.Values[id].Name, sp.graph.Name)
		}
		if err := sp.checkKind(id, v); err != nil {
			return err
		}
		sub.values[id] = v
	}
	for _, cp := range sp.caps {
		sub.values[cp.Inner] = s.values[cp.Outer]
	}
	if err := sub.exec(); err != nil {
		return err
	}
	for i, id := range sp.outputs {
		out[i] = sub.values[id]
		if err := s.Reserve(c, s.run.sizes.of(out[i])); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether the memory of a tensor, or its header, is reused by the next run.
func (s *state) holds(t *tensor.Tensor) bool {
	b := t.Bytes()
	return len(b) == 0 || overlapping(b, s.arena) ||
		slices.ContainsFunc(s.blocks.chunks, func(chunk []byte) bool { return overlapping(b, chunk) })
}

// endRepeated ends the states of the subgraphs that a step has run repeatedly.
func (s *state) endRepeated(step int) {
	if len(s.repeated) == 0 {
		return
	}
	s.repeated = slices.DeleteFunc(s.repeated, func(b repeated) bool {
		if b.step != step {
			return false
		}
		for _, sub := range b.states {
			if sub.run == nil {
				sub.run = s.run
			}
			sub.finish()
		}
		return true
	})
}
