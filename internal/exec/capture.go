package exec

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// For small graphs, examining shapes costs more than arithmetic. If a run has the same layout as
// the previous one, it is therefore captured: inputs are copied to their planned memory, and the
// kernel launches of each step with fixed input and output memory are recorded. Later runs replay
// these launches. The operators of other steps, called eager, run each time.
type capture struct {
	capturing bool // this run is being captured
	captured  bool // program holds a complete run
	replaying bool // this run is a replay
	disabled  bool // a shape depends on contents, so runs cannot be replayed
	layout    *layout
	binding   uint64 // generation of the captured Bound; 0: none
	threads   int    // for which launches are divided
	program   []instruction
	fixed     []bool       // per value: its memory is fixed
	byShape   []bool       // per value: it depends on shapes alone, and the capture has computed it
	unfixed   []ir.ValueID // values that are not fixed
	eager     []int32      // steps without captured launches
	shapes    [][]int      // per value: shape of the result of an eager step
}

// instruction is a captured launch, or an eager step if it has no kernel.
type instruction struct {
	ir.Launch
	step int32
	skip bool // the results depend on shapes alone; only checkReplay has such instructions

	joined int // instructions from this one on that one section can run; 0 or 1: it runs alone
	most   int // largest number of pieces of them
}

// byShapeLimit is the size in bytes up to which results that depend on shapes alone are kept.
const byShapeLimit = 1 << 10

// keeps reports whether a value must outlive its last use because launches refer to its memory.
func (r *capture) keeps(id ir.ValueID) bool { return (r.replaying || r.capturing) && r.fixed[id] }

// prepareCapture decides whether this run is captured, replayed or neither. was is the layout of
// the last run if the arena is still in that state.
func (s *state) prepareCapture(was *layout) {
	r := &s.capture
	l := s.layout
	worth := l != nil && s.run.observe == nil && was == l && !r.disabled
	if s.bound != nil {
		worth = worth && !s.bound.grows
	}
	r.replaying = worth && r.captured && r.layout == l && r.binding == s.bound.generation() &&
		r.threads == s.Threads()
	r.capturing = false
	if !r.replaying {
		s.invalidate()
		if !worth {
			return
		}
		r.capturing, r.layout, r.binding, r.threads = true, l, s.bound.generation(), s.Threads()
		if r.fixed == nil {
			n := len(s.values)
			r.fixed, r.byShape, r.shapes = make([]bool, n), make([]bool, n), make([][]int, n)
		}
		copy(r.fixed, s.plan.constant)
	}
	for _, id := range s.plan.staged {
		if s.bound != nil {
			_, r.fixed[id] = s.values[id].(*tensor.Tensor)
			continue
		}
		s.stage(id)
	}
}

// invalidate discards the captured launches and the values kept for them, except the inputs of this
// run.
func (s *state) invalidate() {
	r := &s.capture
	if r.layout == nil {
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
	clear(r.program)
	clear(r.fixed)
	clear(r.byShape)
	r.program, r.unfixed, r.eager, r.layout, r.captured = r.program[:0], nil, nil, nil, false
}

// stage copies an input to its planned memory.
func (s *state) stage(id ir.ValueID) {
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
	s.capture.fixed[id] = true
}

// captureStep records the launches of a step that has just run, or marks the step as eager if they
// cannot be replayed.
func (s *state) captureStep(i int) {
	r := &s.capture
	if s.keepByShape(i) {
		return
	}
	st, c := &s.plan.steps[i], &s.calls[i]
	launches := c.Pending()
	dependsOn, ok := c.Captured()
	for _, k := range dependsOn {
		ok = ok && (st.in[k] == ir.None || s.plan.constant[st.in[k]] || r.byShape[st.in[k]])
	}
	for _, id := range st.in {
		ok = ok && (id == ir.None || r.fixed[id])
	}
	view := false
	for k, id := range st.out {
		if id == ir.None {
			continue
		}
		t, isTensor := s.values[id].(*tensor.Tensor)
		planned := isTensor && t == &s.headers[id] && s.charged[id].n == 0 &&
			(s.placed(id, t) || s.plan.group[id] >= 0 && s.layout.offset[s.plan.group[id]] >= 0)
		isView := ok && isTensor && st.view && k == 0 && len(launches) == 0 && !s.owned[id] &&
			s.charged[id].n == 0 && !planned
		view = view || isView
		ok = ok && (planned || isView)
		r.fixed[id] = planned || isView
	}
	if ok && (len(launches) > 0 || view) {
		for k, l := range launches {
			if l.Aside && k+1 < len(launches) {
				if next := launches[k+1]; pieces(l.N, l.Grain) <= pieces(next.N, next.Grain) {
					launches[k+1] = l.With(next)
					continue
				}
			}
			r.program = append(r.program, instruction{Launch: l, step: int32(i)})
		}
	} else {
		r.program = append(r.program, instruction{step: int32(i)})
		r.eager = append(r.eager, int32(i))
		for _, id := range st.out {
			if id != ir.None && r.fixed[id] {
				r.shapes[id] = append(r.shapes[id][:0], s.values[id].(*tensor.Tensor).Shape()...)
			}
		}
	}
}

// keepByShape reports whether the small results of a step depend on shapes alone. It copies them
// out of the memory that later steps use, so that replays need not compute them.
func (s *state) keepByShape(i int) bool {
	r, p := &s.capture, s.plan
	st := &p.steps[i]
	if _, random := st.op.(ir.Nondeterministic); random || len(st.subs) > 0 {
		return false
	}
	_, shapes := st.op.(ir.ShapeReader)
	for _, id := range st.in {
		if id != ir.None && !p.constant[id] && !r.byShape[id] &&
			!(shapes && (r.fixed[id] || p.signed[id])) {
			return false
		}
	}
	for _, id := range st.out {
		if id == ir.None {
			continue
		}
		t, ok := s.values[id].(*tensor.Tensor)
		if !ok || t.DType() == tensor.TypeString || len(t.Bytes()) > byShapeLimit || p.isOutput[id] {
			return false
		}
	}
	for _, id := range st.out {
		if id != ir.None {
			s.values[id] = s.values[id].(*tensor.Tensor).Clone()
			s.run.account.release(&s.charged[id])
			s.owned[id] = false
			r.fixed[id], r.byShape[id] = true, true
		}
	}
	if checkReplay {
		r.program = append(r.program, instruction{step: int32(i), skip: true})
	}
	return true
}

// finishCapture ends a capture after all steps have run.
func (s *state) finishCapture() {
	r := &s.capture
	for _, id := range s.plan.dynamic {
		if !r.fixed[id] {
			r.unfixed = append(r.unfixed, id)
		}
	}
	r.join()
	r.captured = true
}

// join determines which launches one section can run.
func (r *capture) join() {
	for i := len(r.program) - 1; i >= 0; i-- {
		l := &r.program[i]
		if l.Kernel == nil {
			continue
		}
		if i+1 < len(r.program) {
			l.joined, l.most = r.program[i+1].joined, r.program[i+1].most
		}
		if n := pieces(l.N, l.Grain); n > 1 || l.joined > 0 { // a section ends with a parallel launch
			l.joined, l.most = l.joined+1, max(l.most, n)
		}
	}
}

// replay runs the captured launches and the eager steps. at is the current step.
func (s *state) replay(at *int) error {
	mask := 63 // the context is checked every 64 instructions; a division would cost as much as a small kernel
	if s.layout.total > keptLimit {
		mask = 0
	}
	program, verify := s.capture.program, checkReplay
	pool := s.plan.opts.Pool
	joins := !verify && Sections == nil && pool != nil && s.Threads() > 2 && !pool.parks
	for k := 0; k < len(program); k++ {
		l := &program[k]
		*at = int(l.step)
		if l.skip {
			if err := s.checkReplay(*at); err != nil {
				return err
			}
			continue
		}
		if k&mask == 0 || l.Kernel == nil {
			if err := s.run.err(); err != nil {
				return err
			}
		}
		if l.Kernel != nil {
			if joins && l.joined > 1 {
				k += s.section(l.Launch, program[k:k+l.joined], at) - 1
				continue
			}
			if !verify && l.N <= l.Grain {
				l.Kernel(0, l.N)
				continue
			}
			if Sections != nil && k > 0 {
				Sections(*at, s.plan.steps[*at].op, l.Launch, program[k-1].joined > 1 && s.Threads() > 2)
				continue
			}
			if verify && (k == 0 || program[k-1].step != l.step) {
				for _, id := range s.plan.steps[l.step].out {
					if id != ir.None {
						noise(s.values[id])
					}
				}
			}
			if l.N <= l.Grain {
				l.Kernel(0, l.N)
			} else {
				s.Parallel(l.N, l.Grain, l.Kernel)
			}
			if verify && (k+1 == len(program) || program[k+1].step != l.step) {
				if err := s.checkReplay(int(l.step)); err != nil {
					return err
				}
			}
			continue
		}
		if err := s.step(*at); err != nil {
			return err
		}
		if !s.asCaptured(*at) {
			// The launches after this step depend on shapes that have changed.
			s.capture.disabled = true
			for *at++; *at < len(s.plan.steps); *at++ {
				if err := s.step(*at); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return nil
}

// asCaptured reports whether the results of an eager step have the same memory and shapes as during
// capture.
func (s *state) asCaptured(i int) bool {
	for _, id := range s.plan.steps[i].out {
		if id == ir.None || !s.capture.fixed[id] {
			continue
		}
		t, ok := s.values[id].(*tensor.Tensor)
		if !ok || t != &s.headers[id] || s.charged[id].n != 0 || !slices.Equal(t.Shape(), s.capture.shapes[id]) {
			return false
		}
	}
	return true
}
