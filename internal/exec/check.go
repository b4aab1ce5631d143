package exec

import (
	"os"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// checkReplay enables checks of captured launches; ONWARD_CHECK_REPLAY=1 sets it. Each call that
// can be captured runs twice. In the second run its inputs hold noise until Run has returned, and
// its outputs hold noise before the kernels run. Each replay of a step is followed by a plain run.
// All results must be bit-identical.
var checkReplay = os.Getenv("ONWARD_CHECK_REPLAY") != ""

// noise fills a tensor with bytes that are implausible numbers in every type.
func noise(v tensor.Value) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString {
		return
	}
	for i, b := 0, t.Bytes(); i < len(b); i++ {
		b[i] = 0xc3 ^ byte(i*7)
	}
}

// checkCapture runs the call of step i again and compares: its results must come from its kernels
// alone, and its launches must not depend on contents.
func (s *state) checkCapture(i int) error {
	st, c := &s.plan.steps[i], &s.calls[i]
	dependsOn, ok := c.Captured()
	if !ok || len(c.Pending()) == 0 {
		return nil
	}
	dependsOn = slices.Clone(dependsOn)
	want, ok := tensorsOf(c.Out)
	if !ok {
		return nil
	}
	given := slices.Clone(c.In)
	in, ok := tensorsOf(c.In)
	if !ok {
		return nil
	}
	for k, t := range in {
		if t == nil || slices.Contains(dependsOn, k) || s.plan.constant[st.in[k]] {
			continue
		}
		noise(t)
		c.In[k] = t
	}
	if err := s.again(i, c.Capturing); err != nil {
		return fail.Errorf("launches depend on the contents of an input: %w", err)
	}
	for _, v := range c.Out {
		noise(v)
	}
	for k, t := range in {
		if c.In[k] == tensor.Value(t) && t != nil {
			copy(t.Bytes(), given[k].(*tensor.Tensor).Bytes())
		}
	}
	if err := s.launch(c); err != nil {
		return err
	}
	if err := compare(c.Out, want, "its kernels alone do not compute the results"); err != nil {
		return err
	}
	// The recorded launches must be those for the call's own inputs.
	copy(c.In, given)
	if err := s.again(i, c.Capturing); err != nil {
		return err
	}
	return s.launch(c)
}

// again runs the operator of step i once more, with the reservations of one call.
func (s *state) again(i int, capturing bool) error {
	c := &s.calls[i]
	s.undo(i)
	clear(c.Out)
	c.Start(capturing)
	return s.plan.steps[i].op.Run(c)
}

// undo gives back what the call of step i has allocated and reserved.
func (s *state) undo(i int) {
	for _, id := range s.plan.steps[i].out {
		if id != ir.None {
			s.release(id)
		}
	}
	s.run.account.release(&s.held[i])
	s.used, s.want = 0, 0
}

// checkReplay compares the results of a replay of step i with those of a plain run.
func (s *state) checkReplay(i int) error {
	st, c := &s.plan.steps[i], &s.calls[i]
	var replayed []*tensor.Tensor
	for k, id := range st.in {
		if id != ir.None {
			c.In[k] = s.values[id]
		}
	}
	for k, id := range st.out {
		c.Out[k] = nil
		if id != ir.None {
			c.Out[k] = s.values[id]
		}
	}
	replayed, _ = tensorsOf(c.Out)
	err := s.again(i, false)
	if err == nil {
		err = s.launch(c)
	}
	if err == nil {
		err = compare(c.Out, replayed, "a replay differs from a plain run")
	}
	s.undo(i) // a replay reserves nothing
	if err != nil {
		return s.plan.nodeError(i, c.In, err)
	}
	return nil
}

// tensorsOf copies numeric tensors. It returns false if there are other values.
func tensorsOf(v []tensor.Value) ([]*tensor.Tensor, bool) {
	r := make([]*tensor.Tensor, len(v))
	for k, x := range v {
		t, ok := x.(*tensor.Tensor)
		if x != nil && (!ok || t.DType() == tensor.TypeString) {
			return nil, false
		}
		if x != nil {
			r[k] = t.Clone()
		}
	}
	return r, true
}

func compare(got []tensor.Value, want []*tensor.Tensor, what string) error {
	for k, w := range want {
		if w == nil {
			continue
		}
		t, ok := got[k].(*tensor.Tensor)
		if !ok || t.DType() != w.DType() || !slices.Equal(t.Shape(), w.Shape()) {
			return fail.Errorf("%s: output %d is %s, want %v", what, k, got[k], w)
		}
		for i, b := range t.Bytes() {
			if b != w.Bytes()[i] {
				return fail.Errorf("%s: output %d of shape %v differs at byte %d of %d", what, k, t.Shape(),
					i, len(w.Bytes()))
			}
		}
	}
	return nil
}
