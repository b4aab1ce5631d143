package recurrent

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Weights holds constant float32 weights of a recurrent operator, packed so that a step
// reads them as one stream: the gates that are computed together are adjacent for some hidden
// units. The columns of a panel, [gate][unit], are stored in blocks: [block][k][column].
type Weights struct {
	w, r    []int // shapes of W and R
	in, H   int
	columns int              // total of all stages
	widest  int              // largest number of columns of a panel
	lanes   int              // the hidden units of each panel are a multiple of it
	unit    int              // hidden units per panel; the last one has as many as it needs
	stages  []recurrentStage // in order; the gates of a stage are computed together
	input   [][]float32      // per direction, packed for [gemm.F32]: in×columns
	state   [][]float32      // per direction and stage: panels of h×width, in blocks of [stateBlock] columns
	// each panel of state is packed for [gemm.F32], with which items share the
	// weights that they read
	several bool
	bytes   *byteWeights  // replaces input and state, or nil
	steps   atomic.Uint32 // of all runs
}

// recurrentStage is a range of gates.
type recurrentStage struct {
	gate, gates int
	column      int // of the first panel
	width       int // columns of a panel but the last
}

// units returns the hidden units of a panel, rounded up.
func (p *Weights) units(panel int) int { return min(p.unit, p.round(p.H-panel*p.unit)) }

// round rounds up hidden units, so that the columns of a panel are a multiple of what vectors hold.
func (p *Weights) round(units int) int { return (units + p.lanes - 1) &^ (p.lanes - 1) }

const recurrentVector = 16 // elements of the longest vectors

// stateBlock returns the number of the first columns of a panel's rest that [gemm.Columns]
// reads as one stream.
func stateBlock(rest int) int {
	if rest < gemm.PanelWidth {
		return rest
	}
	return min(256, 1<<(bits.Len(uint(rest))-1))
}

// Pack packs W and R, for several items if the type of X tells so. It returns nil if they are
// not constant or not supported.
func (r *Layer) Pack(in []tensor.Value, types []ir.Type, stages ...int) (*Weights, error) {
	w, ok := in[1].(*tensor.Tensor)
	u, ok2 := in[2].(*tensor.Tensor)
	if !ok || !ok2 || w.DType() != tensor.TypeFloat32 || u.DType() != tensor.TypeFloat32 || w.Rank() != 3 ||
		u.Rank() != 3 || w.Len() == 0 || u.Len() == 0 {
		return nil, nil
	}
	dirs, h, g := len(r.Reverse), u.Dim(2), r.gates
	if w.Dim(0) != dirs || u.Dim(0) != dirs || w.Dim(1) != g*h || u.Dim(1) != g*h || r.hidden >= 0 && r.hidden != h {
		return nil, nil // Run reports the error
	}
	items := r.items(types)
	p := &Weights{w: w.Shape(), r: u.Shape(), in: w.Dim(2), H: h}
	p.divide(r.threads, items, 2, recurrentVector, stages)
	wd, rd := tensor.MustData[float32](w), tensor.MustData[float32](u)
	order := make([]float32, p.columns*p.in)
	for d := range dirs {
		clear(order)
		state := make([][]float32, len(stages))
		for i, s := range p.stages {
			state[i] = memory.Slice[float32](h * s.gates * p.round(h))
		}
		p.each(func(stage, from, to int) {
			copy(order[to*p.in:][:p.in], wd[(d*g*h+from)*p.in:])
			s := p.stages[stage]
			panel := (to - s.column) / s.width
			width := s.gates * p.units(panel)
			at, block, n := to-s.column-panel*s.width, 0, stateBlock(width)
			for block+n <= at {
				block += n
				n = stateBlock(width - block)
			}
			dst := state[stage][(panel*s.width+block)*h+at-block:]
			for k, v := range rd[(d*g*h+from)*h:][:h] {
				dst[k*n] = v
			}
		})
		b := memory.Slice[float32](gemm.PackedLen(p.in, p.columns))
		gemm.Pack(b, order, p.in, true, p.in, p.columns)
		p.input = append(p.input, b)
		p.state = append(p.state, state...)
	}
	if items > 1 {
		p.several = true
		serial := func(n int, fn func(lo, hi int)) { fn(0, n) }
		for i, old := range p.state {
			p.state[i] = memory.Slice[float32](p.severalLen(i))
			p.packSeveral(serial, p.state[i], old, i)
		}
	}
	return p, nil
}

// items returns the number of items of a batch if the type of X tells it, else 1.
func (r *Layer) items(types []ir.Type) int {
	if x := types[0].Shape; len(x) == 3 {
		batch := x[1]
		if r.batchFirst {
			batch = x[0]
		}
		if n, ok := batch.Value(); ok {
			return n
		}
	}
	return 1
}

// divide sets the stages, and divides their columns into panels for steps of that many items. An
// elementary operation computes each terms of a product. The columns of a panel are a multiple of
// vector.
func (p *Weights) divide(threads, items, each, vector int, stages []int) {
	h, widest := p.H, 0
	for _, n := range stages {
		widest = max(widest, n)
		p.lanes = max(p.lanes, vector/(n&-n))
	}
	// A panel has about 256 columns, so that there are several panels for the threads. For two,
	// panels that are twice as wide suffice; each begins with a wait for its first weights.
	most := 256
	if threads <= 2 {
		most = 512
	}
	panels := (h*widest + most - 1) / most
	if threads != 1 && kit.GrainFor(items*h*widest*h/each) == 1 {
		panels += panels & 1 // as many for each of two threads, if a step is long enough for them
	}
	p.unit = max(recurrentVector, p.round((h+panels-1)/panels))
	gate := 0
	for _, n := range stages {
		p.stages = append(p.stages, recurrentStage{gate, n, p.columns, n * p.unit})
		gate += n
		p.columns += n * p.round(h)
		p.widest = max(p.widest, n*p.unit)
	}
}

// sharedWeights is the number of bytes of a state's weights up to which the directions run step by
// step together. Larger ones would leave a core's L2 cache, of 512 KiB and more, before the next
// step of their direction.
const sharedWeights = 512 << 10

// severalLen returns the number of elements of p.state[i] packed for several items.
func (p *Weights) severalLen(i int) int {
	return p.panels() * gemm.PackedLen(p.H, p.stages[i%len(p.stages)].width)
}

// packSeveral packs p.state[i] for several items.
func (p *Weights) packSeveral(par gemm.Par, dst, state []float32, i int) {
	t := &p.stages[i%len(p.stages)]
	size := gemm.PackedLen(p.H, t.width)
	par(p.panels(), func(lo, hi int) {
		for k := lo; k < hi; k++ {
			width := t.gates * p.units(k)
			for at, n := 0, 0; at < width; at += n {
				n = stateBlock(width - at)
				gemm.Pack(dst[k*size+gemm.PackedLen(p.H, at):][:gemm.PackedLen(p.H, n)],
					state[(k*t.width+at)*p.H:][:p.H*n], n, false, p.H, n)
			}
		}
	})
}

func (p *Weights) panels() int { return (p.H + p.unit - 1) / p.unit }

// each calls fn with all rows of the gates in ONNX's order, and their columns.
func (p *Weights) each(fn func(stage, row, column int)) {
	p.eachRange(func(stage, row, column, n int) {
		for i := range n {
			fn(stage, row+i, column+i)
		}
	})
}

// eachRange is each for ranges of n adjacent rows of a gate that become adjacent columns.
func (p *Weights) eachRange(fn func(stage, row, column, n int)) {
	for i, s := range p.stages {
		for g := range s.gates {
			for u := 0; u < p.H; u += p.unit {
				block := u / p.unit
				fn(i, (s.gate+g)*p.H+u, s.column+block*s.width+g*p.units(block), min(p.unit, p.H-u))
			}
		}
	}
}

// recurrentSteps runs the steps of all directions with packed weights.
type recurrentSteps struct {
	*Run[float32]
	p       *Weights
	x       [][]float32  // per direction: products of the input plus biases, which become the gates
	h       [2][]float32 // before and after the step, [direction][item][hidden]
	second  []float32    // LSTM: the cell state, GRU: the reset state; of the same shape
	sums    []float32    // per unit of work, for products of several items
	state   [][]float32  // the weights' state
	even    bool         // several items have the same length
	several bool         // state is packed for several items
	bytes   *byteSteps   // replaces state, or nil
	turned  bool         // the run begins with an odd step of all runs; those read the weights backwards
	work    []recurrentWork
}

// recurrentWork holds what a unit of work, a panel of a direction, passes to others.
type recurrentWork struct {
	product gemm.Args[float32]
	bytes   quant.Args
	rows    quant.Rows
	cell    Cell
}

// Cell is one panel of some items in one step: the gates of a stage, and the states of the
// units of the panel.
type Cell struct {
	vec.Cells
	D, U0         int       // direction, first hidden unit
	First         []float32 // gates of the first stage, at the distances of Gates
	Recurrence    []float32 // contribution of the state, if the stage keeps it separate
	RecurrentStep int       // distance of its rows
}

// Update updates the states of a cell, and in the last stage copies Next to Y. It returns
// false, with nothing done, if it can update only one row.
type Update func(c *Cell) bool

// Run computes all steps. stage[i] updates the cells of stage i, which reads the state or, from the
// second stage on, the second state if useSecond is set. If apart is set, the products of the last
// stage with the state, which include the recurrent bias, are kept separate from the gates.
func (p *Weights) Run(r *Run[float32], split int, useSecond, apart bool, stage ...Update) error {
	dirs, h, batch, columns := len(r.Reverse), p.H, r.Batch, p.columns
	n := uint32(r.steps)
	s := &recurrentSteps{Run: r, p: p, turned: (p.steps.Add(n)-n)&1 != 0,
		work: make([]recurrentWork, dirs*p.panels())}
	var err error
	scratch := func(n int) []float32 {
		var b []float32
		if err == nil {
			b, err = ir.ScratchOf[float32](r.C, n)
		}
		return b
	}
	panels := p.panels()
	bias, keep := scratch(columns), scratch(columns)
	s.h[0], s.h[1] = scratch(dirs*batch*h), scratch(dirs*batch*h)
	s.second = scratch(dirs * batch * h)
	s.sums = scratch(dirs * panels * batch * p.widest)
	s.x = make([][]float32, dirs)
	for d := range dirs {
		s.x[d] = scratch(r.seq * batch * columns)
	}
	if s.several = p.several || batch > 1 || p.bytes != nil; s.several && batch > 0 {
		s.even = slices.Min(r.lens) == slices.Max(r.lens)
	}
	repack := p.bytes == nil && s.several != p.several
	if s.state = p.state; repack {
		s.state = make([][]float32, len(p.state))
		for i := range s.state {
			s.state[i] = scratch(p.severalLen(i))
		}
	}
	if err != nil {
		return err
	}
	if p.bytes != nil {
		if s.bytes, err = s.newByteSteps(); err != nil {
			return err
		}
	}
	if repack {
		for i, old := range p.state {
			p.packSeveral(r.C.Par(), s.state[i], old, i)
		}
	}
	biases := make([][]float32, dirs)
	for d := range dirs {
		clear(bias)
		clear(keep)
		if r.B != nil {
			b := r.B[d*2*r.gates*h:][:2*r.gates*h]
			p.eachRange(func(_, from, to, n int) {
				w, u := b[from:][:n], b[r.gates*h+from:][:n]
				copy(bias[to:], w)
				if from >= split*h {
					copy(keep[to:], u)
					return
				}
				for i, v := range u {
					bias[to+i] += v
				}
			})
		}
		if apart {
			biases[d] = slices.Clone(keep)
		}
		if s.bytes != nil {
			copy(s.bytes.bias[d], bias)
			s.bytes.multiplyInput(s, d)
			continue
		}
		matmul.FastMul(r.C, &gemm.Args[float32]{M: r.seq * batch, N: columns, K: p.in, A: r.x, LdA: p.in, B: p.input[d],
			Packed: true, C: s.x[d], LdC: columns,
			Epilogue: gemm.Epilogue[float32]{BiasCol: bias}})
	}
	for k, state := range [][]float32{s.h[0], s.second} {
		clear(state)
		if k >= len(r.final) {
			continue
		}
		for d := range dirs {
			for i := range batch {
				if r.initial[k] != nil {
					copy(state[(d*batch+i)*h:][:h], r.initial[k][r.stateRow(d, i):])
				}
				if r.lens[i] == 0 {
					clear(r.final[k].Data[r.stateRow(d, i):][:h]) // no step writes it
				}
			}
		}
	}
	copy(s.h[1], s.h[0])
	step, d := 0, 0
	work := make([]func(lo, hi int), len(p.stages))
	for i := range p.stages {
		work[i] = func(lo, hi int) {
			for k := range hi - lo {
				u, back := lo+k, (step&1 != 0) != s.turned
				if back {
					// Start with the panels and blocks that the last step or run left in the cache.
					// Within a block, the order stays: sums must not depend on how a sequence
					// is cut into runs.
					u = hi - 1 - k
				}
				s.panel(step, i, d+u/panels, u%panels, useSecond, apart && i == len(p.stages)-1, back, biases, stage[i])
			}
		}
	}
	together := dirs // directions, whose work the threads share in each step
	size, terms := 4, 1
	if s.bytes != nil {
		size, terms = 1, byteTerms
	}
	if dirs*h*columns*size > sharedWeights {
		together = 1
	}
	for ; d < dirs; d += together {
		for step = range r.steps {
			if err := r.C.Err(); err != nil {
				return err
			}
			if s.bytes != nil {
				s.bytes.quantizeStates(s, step, d, together)
			}
			for i, t := range p.stages {
				r.C.Parallel(together*panels, kit.GrainFor(h*t.width*batch/terms), work[i])
			}
			s.h[0], s.h[1] = s.h[1], s.h[0]
		}
	}
	return nil
}

// stateRow returns the offset of an item's state in the tensors of states.
func (r *Run[T]) stateRow(d, i int) int {
	if r.batchFirst {
		return (i*len(r.Reverse) + d) * r.Hidden
	}
	return (d*r.Batch + i) * r.Hidden
}

// rows returns the row of s.x for a step of an item, and the offset of its state in the output.
func (s *recurrentSteps) rows(step, d, i int) (row, y int) {
	dirs := len(s.Reverse)
	if s.Reverse[d] {
		step = s.lens[i] - 1 - step
	}
	if s.batchFirst {
		return i*s.seq + step, ((i*s.seq+step)*dirs + d) * s.p.H
	}
	return step*s.Batch + i, ((step*dirs+d)*s.Batch + i) * s.p.H
}

// columns adds the products of x and a panel of the state's weights to dst, with the blocks in
// reverse if back is set.
func columns(dst, x, panel []float32, back bool) {
	n := stateBlock(len(dst))
	rest := func() {
		if n < len(dst) {
			columns(dst[n:], x, panel[n*len(x):], back)
		}
	}
	if back {
		rest()
	}
	gemm.Columns(cpu.Active(), dst[:n], x, panel[:n*len(x)], n)
	if !back {
		rest()
	}
}

// panel computes a panel of one direction and stage for all unfinished items.
func (s *recurrentSteps) panel(step, stage, d, panel int, useSecond, apart, back bool, biases [][]float32,
	update Update) {
	p, h, batch := s.p, s.p.H, s.Batch
	t := &p.stages[stage]
	unit := p.units(panel)
	width := t.gates * unit
	var state []float32
	if s.bytes == nil {
		state = s.state[d*len(p.stages)+stage]
	}
	from := s.h[0]
	if stage > 0 && useSecond {
		from = s.second
	}
	from = from[d*batch*h:][:batch*h]
	column, first := t.column+panel*t.width, panel*p.stages[0].width
	sums := s.sums[s.sumsAt(d, panel):]
	gateStep, yStep := p.columns, h // of items in one step
	if s.batchFirst {
		gateStep, yStep = p.columns*s.seq, s.seq*len(s.Reverse)*h
	}
	// Products of up to 512 terms are added to the gates in place (see [gemm.Epilogue]).
	added := s.several && !apart && s.even && h <= 512 && cpu.Active() != cpu.Generic
	w := &s.work[d*p.panels()+panel]
	switch {
	case s.bytes != nil:
		var gates []float32
		if added = s.even; added {
			row, _ := s.rows(step, d, 0)
			gates = s.x[d][row*p.columns+column:]
		}
		if added && s.bytes.addRows(s, &w.rows, d, panel, gates, gateStep) {
			break
		}
		s.bytes.multiplyState(s, &w.bytes, d, panel)
		for i := 0; i < batch && added; i++ {
			s.bytes.addState(s, d, panel, i, gates[i*gateStep:][:width])
		}
	case s.several:
		size := gemm.PackedLen(h, t.width)
		a := &w.product
		*a = gemm.Args[float32]{M: batch, N: width, K: h, A: from, LdA: h,
			B: state[panel*size:][:gemm.PackedLen(h, width)], Packed: true, C: sums, LdC: width}
		if apart {
			a.BiasCol = biases[d][column:][:width]
		}
		if added {
			row, _ := s.rows(step, d, 0)
			a.C, a.LdC = s.x[d][row*p.columns+column:], gateStep
			a.Add, a.LdAdd = a.C, a.LdC
		}
		gemm.F32(cpu.Active(), a, a.Whole())
	}
	c := &w.cell
	c.D, c.U0, c.N, c.Unit = d, panel*p.unit, min(p.unit, h-panel*p.unit), unit
	c.Step, c.GateStep, c.YStep, c.RecurrentStep = h, gateStep, yStep, width
	// begin sets the slices of the cell to the item i of row and y, and adds the
	// products of the state.
	begin := func(i, row, y int) {
		x := s.x[d][row*p.columns:]
		c.Gates, c.First = x[column:], x[first:]
		switch {
		case added:
		case apart && s.several:
			c.Recurrence = sums[i*width:]
		case apart:
			c.Recurrence = sums[i*width:][:width]
			copy(c.Recurrence, biases[d][column:])
			columns(c.Recurrence, from[i*h:][:h], state[panel*h*t.width:], back)
		case s.bytes != nil:
			s.bytes.addState(s, d, panel, i, c.Gates[:width])
		case s.several:
			vec.AddF32(cpu.Active(), c.Gates[:width], c.Gates[:width], sums[i*width:][:width])
		default:
			columns(c.Gates[:width], from[i*h:][:h], state[panel*h*t.width:], back)
		}
		at := (d*batch+i)*h + c.U0
		c.Hidden, c.Next, c.Second, c.Y = s.h[0][at:], s.h[1][at:], s.second[at:], nil
		if s.y.Data != nil && stage == len(p.stages)-1 {
			c.Y = s.y.Data[y+c.U0:]
		}
	}
	if (added || apart) && s.several && s.even && step < s.lens[0] {
		c.Rows = batch
		row, y := s.rows(step, d, 0)
		if begin(0, row, y); update(c) {
			for i := 0; i < batch && stage == len(p.stages)-1 && step == s.lens[0]-1; i++ {
				s.finish(c, i, i*h)
			}
			return
		}
	}
	c.Rows = 1
	for i, n := range s.lens {
		if step >= n {
			continue
		}
		row, y := s.rows(step, d, i)
		begin(i, row, y)
		update(c)
		if stage == len(p.stages)-1 && step == n-1 {
			s.finish(c, i, 0)
		}
	}
}

// sumsAt returns the offset of the sums of a unit of work.
func (s *recurrentSteps) sumsAt(d, panel int) int {
	return (d*s.p.panels() + panel) * s.Batch * s.p.widest
}

// finish stores the final states of item i, which begin at that element of the cell.
func (s *recurrentSteps) finish(c *Cell, i, at int) {
	for k, f := range s.final {
		v := c.Next
		if k == 1 {
			v = c.Second
		}
		copy(f.Data[s.stateRow(c.D, i)+c.U0:][:c.N], v[at:])
	}
}
