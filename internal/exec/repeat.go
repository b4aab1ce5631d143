package exec

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// A run of a small graph costs more in looking at shapes than in arithmetic. When
// a state runs with the layout that it had in the run before, it therefore
// repeats: inputs are copied to their planned memory, and each step whose inputs
// and outputs lie in memory that stays where it is calls the function that its
// operator offered. The other steps run as always.
type repeater struct {
	learning bool // this run collects the functions
	learned  bool // it did so to its end
	ready    bool // this run uses them
	broken   bool // a shape turned out to depend on contents: never again
	last     *layout
	binding  uint64       // generation of the Bound that the functions are for, 0 for none
	fns      []func()     // per step, nil where there is none
	fixed    []bool       // per value: its memory stays where it is
	loose    []ir.ValueID // values that are not fixed
	steps    []int32      // steps without a function
	shapes   [][]int      // per value: what a step without a function gave
}

// repeatLimit is the size of a layout in bytes up to which repeating is worth its
// copies.
const repeatLimit = 256 << 10

func (r *repeater) keeps(id ir.ValueID) bool { return (r.ready || r.learning) && r.fixed[id] }

// prepareRepeat decides how this run goes; was is the layout of the last run if
// the arena is still that run's.
func (s *state) prepareRepeat(was *layout) {
	r := &s.repeat
	l := s.layout
	small := l != nil && (l.total <= repeatLimit || s.bound != nil) && s.run.observe == nil && was == l && !r.broken
	r.ready = small && r.learned && r.last == l && r.binding == s.bound.generation()
	r.learning = false
	if !r.ready {
		s.unlearn()
		if !small {
			return
		}
		r.learning, r.last, r.binding = true, l, s.bound.generation()
		if r.fns == nil {
			r.fns, r.fixed, r.shapes = make([]func(), len(s.plan.steps)), make([]bool, len(s.values)), make([][]int, len(s.values))
		}
		for _, c := range s.plan.consts {
			r.fixed[c.id] = true
		}
	}
	for _, id := range s.plan.pinned {
		if s.bound != nil {
			_, r.fixed[id] = s.values[id].(*tensor.Tensor)
			continue
		}
		s.pin(id)
	}
}

// unlearn forgets the functions and the values that were kept for them, but for
// those that the caller of this run has just set.
func (s *state) unlearn() {
	r := &s.repeat
	if r.last == nil {
		return
	}
	given := map[ir.ValueID]bool{}
	for _, id := range s.plan.inputs {
		given[id] = true
	}
	for _, c := range s.plan.caps {
		given[c.Inner] = true
	}
	for _, id := range s.plan.dynamic {
		if r.fixed[id] && !given[id] {
			s.values[id], s.alloc[id], s.owned[id] = nil, nil, false
		}
	}
	clear(r.fns)
	clear(r.fixed)
	r.loose, r.steps, r.last, r.learned = nil, nil, nil, false
}

// pin copies an input to its planned memory.
func (s *state) pin(id ir.ValueID) {
	x, ok := s.values[id].(*tensor.Tensor)
	g := s.plan.group[id]
	if !ok || g < 0 || s.layout.offset[g] < 0 || len(x.Bytes()) > s.layout.size[g] {
		return
	}
	t := &s.headers[id]
	at := s.layout.offset[g]
	t.Reset(x.DType(), s.arena[at:at+len(x.Bytes()):at+len(x.Bytes())], x.Shape())
	copy(t.Bytes(), x.Bytes())
	s.values[id] = t
	s.repeat.fixed[id] = true
}

// learn looks at a step that has just run: whether it can be repeated.
func (s *state) learn(i int) {
	r := &s.repeat
	st, c := &s.plan.steps[i], &s.calls[i]
	parts := c.Replays()
	fn, reads := c.Repeats()
	c.Start(false)
	replays := fn == nil && parts != nil
	if replays {
		fn = func() { s.replay(parts) }
	}
	isConst := func(id ir.ValueID) bool { return r.fixed[id] && s.plan.graph.Values[id].Const != nil }
	declares := make(map[tensor.Value]bool, len(reads))
	for _, t := range reads {
		declares[t] = true
	}
	ok := len(st.subs) == 0
	for k, id := range st.in {
		if id == ir.None || isConst(id) {
			continue
		}
		ok = ok && r.fixed[id] && (replays || declares[c.In[k]] || st.view && k == st.op.(ir.View).ViewOf())
	}
	for k, id := range st.out {
		if id == ir.None {
			continue
		}
		t, isTensor := s.values[id].(*tensor.Tensor)
		planned := isTensor && t == &s.headers[id] && s.charged[id] == 0 && (s.placed(id, t) || s.plan.group[id] >= 0 && s.layout.offset[s.plan.group[id]] >= 0)
		view := ok && isTensor && st.view && k == 0 && fn == nil && !s.owned[id] && s.charged[id] == 0
		if view {
			fn = func() {}
		}
		ok = ok && (planned || view)
		r.fixed[id] = planned || view
	}
	r.fns[i] = nil
	if ok && fn != nil {
		r.fns[i] = fn
	} else {
		for _, id := range st.out {
			if id != ir.None && r.fixed[id] {
				r.shapes[id] = append(r.shapes[id][:0], s.values[id].(*tensor.Tensor).Shape()...)
			}
		}
	}
	s.learned(i)
}

// learned ends the learning with the last step.
func (s *state) learned(i int) {
	r := &s.repeat
	if i == len(s.plan.steps)-1 {
		r.loose, r.steps = r.loose[:0], r.steps[:0]
		for _, id := range s.plan.dynamic {
			if !r.fixed[id] {
				r.loose = append(r.loose, id)
			}
		}
		for k, fn := range r.fns {
			if fn == nil {
				r.steps = append(r.steps, int32(k))
			}
		}
		r.learned = true
	}
}

// replay makes calls of Parallel again.
func (s *state) replay(parts []ir.Part) {
	for i := range parts {
		if i&15 == 15 && s.run.err() != nil {
			return
		}
		p := &parts[i]
		s.Parallel(p.N, p.Grain, p.Fn)
	}
}

// repeatAll runs all steps, repeating those that can be.
func (s *state) repeatAll(at *int) error {
	check := 64 // steps between two looks at the context
	if s.layout.total > repeatLimit {
		check = 1
	}
	for i, fn := range s.repeat.fns {
		if fn != nil && i%check != 0 {
			fn()
			continue
		}
		*at = i
		if err := s.run.err(); err != nil {
			return err
		}
		if fn != nil {
			fn()
			continue
		}
		if err := s.step(i); err != nil {
			return err
		}
		if !s.asLearned(i) {
			// The steps after this one rely on shapes that no longer hold.
			s.repeat.broken = true
			for k := i + 1; k < len(s.plan.steps); k++ {
				*at = k
				if err := s.step(k); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return nil
}

// asLearned reports whether the results of a step without a function lie where
// they lay when the others were learned, with the same shapes.
func (s *state) asLearned(i int) bool {
	for _, id := range s.plan.steps[i].out {
		if id == ir.None || !s.repeat.fixed[id] {
			continue
		}
		t, ok := s.values[id].(*tensor.Tensor)
		if !ok || t != &s.headers[id] || s.charged[id] != 0 || !slices.Equal(t.Shape(), s.repeat.shapes[id]) {
			return false
		}
	}
	return true
}
