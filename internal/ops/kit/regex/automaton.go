package regex

import "regexp/syntax"

const (
	// maxAutomatonInstructions limits the time of a new transition and the memory of a state.
	maxAutomatonInstructions = 1 << 10
	// maxAutomatonStates limits the memory of an automaton to about 2.5 MB.
	maxAutomatonStates = 1 << 9
)

// automaton is a deterministic automaton over ASCII for the whole string, whose states are built
// when they are reached first (https://swtch.com/~rsc/regexp/regexp3.html). It is not safe for
// concurrent use.
type automaton struct {
	prog   *syntax.Prog
	start  *automatonState
	states map[string]*automatonState
	seen   []bool // instructions in the current closure
	outs   []bool // instructions that follow a character
	stack  []uint32
}

// automatonState is the set of instructions that may follow a prefix of the string.
type automatonState struct {
	next    [128]*automatonState
	after   []uint32 // instructions before empty-width assertions are decided, sorted
	before  rune     // represents the characters that assertions treat as the last one; -1 at the beginning
	matches bool     // if the string ends here
}

// newAutomaton returns nil if the program is too large.
func newAutomaton(prog *syntax.Prog) *automaton {
	if len(prog.Inst) > maxAutomatonInstructions {
		return nil
	}
	a := &automaton{prog: prog, states: map[string]*automatonState{}, seen: make([]bool, len(prog.Inst)),
		outs: make([]bool, len(prog.Inst))}
	a.start = a.state([]uint32{uint32(prog.Start)}, -1)
	return a
}

// match reports whether the whole string matches. ok is false if that takes another engine: the
// string is not ASCII or reaches too many states.
func (a *automaton) match(s string) (matches, ok bool) {
	at := a.start
	for i := range len(s) {
		b := s[i]
		if b >= 128 {
			return false, false
		}
		next := at.next[b]
		if next == nil {
			if next = a.step(at, rune(b)); next == nil {
				return false, false
			}
			at.next[b] = next
		}
		at = next
	}
	return at.matches, true
}

// step returns the state after a character, or nil if there are too many.
func (a *automaton) step(at *automatonState, r rune) *automatonState {
	clear(a.outs)
	a.closure(at, r, func(i *syntax.Inst) {
		if i.Op != syntax.InstMatch && i.MatchRune(r) {
			a.outs[i.Out] = true
		}
	})
	var after []uint32
	for pc, out := range a.outs {
		if out {
			after = append(after, uint32(pc))
		}
	}
	before := ' '
	switch {
	case r == '\n':
		before = r
	case syntax.IsWordChar(r):
		before = 'a'
	}
	return a.state(after, before)
}

// state returns the state after a sorted list of instructions, or nil if there are too many states.
func (a *automaton) state(after []uint32, before rune) *automatonState {
	key := []byte{byte(before)}
	for _, pc := range after {
		key = append(key, byte(pc), byte(pc>>8))
	}
	s := a.states[string(key)]
	if s == nil && len(a.states) < maxAutomatonStates {
		s = &automatonState{after: after, before: before}
		a.closure(s, -1, func(i *syntax.Inst) { s.matches = s.matches || i.Op == syntax.InstMatch })
		a.states[string(key)] = s
	}
	return s
}

// closure calls each for the matching instructions that a state reaches without a character if r,
// or -1 for the end, is next.
func (a *automaton) closure(at *automatonState, r rune, each func(i *syntax.Inst)) {
	holds := syntax.EmptyOpContext(at.before, r)
	clear(a.seen)
	a.stack = append(a.stack[:0], at.after...)
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if a.seen[pc] {
			continue
		}
		a.seen[pc] = true
		switch i := &a.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			a.stack = append(a.stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^holds == 0 {
				a.stack = append(a.stack, i.Out)
			}
		case syntax.InstFail:
		default:
			each(i)
		}
	}
}
