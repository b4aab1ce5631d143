package kit

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// RecurrentWeights holds constant float32 weights of a recurrent operator, packed so that a step
// reads them as one stream: the gates that are computed together are adjacent for some hidden
// units, [stage][panel][k][gate][unit].
type RecurrentWeights struct {
	w, r    []int // shapes of W and R
	in, H   int
	columns int              // total of all stages
	widest  int              // largest number of columns of a panel
	Unit    int              // hidden units per panel
	stages  []recurrentStage // in order; the gates of a stage are computed together
	input   [][]float32      // per direction, packed for [gemm.F32]: in×columns
	state   [][][]float32    // per direction and stage: panels of h×width
}

// recurrentStage is a range of gates.
type recurrentStage struct {
	gate, gates int
	column      int // of the first panel
	width       int // columns of a panel
}

// Pack packs W and R. It returns nil if they are not constant or not supported.
func (r *Recurrent) Pack(in []tensor.Value, stages ...int) (*RecurrentWeights, error) {
	w, ok := in[1].(*tensor.Tensor)
	u, ok2 := in[2].(*tensor.Tensor)
	if !ok || !ok2 || w.DType() != tensor.TypeFloat32 || u.DType() != tensor.TypeFloat32 || w.Rank() != 3 || u.Rank() != 3 || w.Len() == 0 || u.Len() == 0 {
		return nil, nil
	}
	dirs, h, g := len(r.Reverse), u.Dim(2), r.gates
	if w.Dim(0) != dirs || u.Dim(0) != dirs || w.Dim(1) != g*h || u.Dim(1) != g*h || r.hidden >= 0 && r.hidden != h {
		return nil, nil // Run reports the error
	}
	p := &RecurrentWeights{w: w.Shape(), r: u.Shape(), in: w.Dim(2), H: h}
	widest := 0
	for _, n := range stages {
		widest = max(widest, n)
	}
	// A panel has about 256 columns, so that there are several panels for the threads.
	const lanes = 16
	p.Unit = max(lanes, 256/widest&^(lanes-1))
	p.Unit = min(p.Unit, max(lanes, ((h+1)/2+lanes-1)&^(lanes-1)))
	panels := p.panels()
	gate := 0
	for _, n := range stages {
		p.stages = append(p.stages, recurrentStage{gate, n, p.columns, n * p.Unit})
		gate += n
		p.columns += panels * n * p.Unit
		p.widest = max(p.widest, n*p.Unit)
	}
	wd, rd := tensor.Of[float32](w), tensor.Of[float32](u)
	order := make([]float32, p.columns*p.in)
	for d := range dirs {
		clear(order)
		state := make([][]float32, len(stages))
		for i, s := range p.stages {
			state[i] = memory.Slice[float32](panels * h * s.width)
		}
		p.each(func(stage, from, to int) {
			copy(order[to*p.in:][:p.in], wd[(d*g*h+from)*p.in:])
			s := p.stages[stage]
			c := to - s.column
			dst := state[stage][c/s.width*h*s.width+c%s.width:]
			for k, v := range rd[(d*g*h+from)*h:][:h] {
				dst[k*s.width] = v
			}
		})
		b := memory.Slice[float32](gemm.PackedLen(p.in, p.columns))
		gemm.Pack(b, order, p.in, true, p.in, p.columns)
		p.input = append(p.input, b)
		p.state = append(p.state, state)
	}
	return p, nil
}

func (p *RecurrentWeights) panels() int { return (p.H + p.Unit - 1) / p.Unit }

// each calls fn with all rows of the gates in ONNX's order, and their columns.
func (p *RecurrentWeights) each(fn func(stage, row, column int)) {
	for i, s := range p.stages {
		for g := range s.gates {
			for u := range p.H {
				fn(i, (s.gate+g)*p.H+u, s.column+u/p.Unit*s.width+g*p.Unit+u%p.Unit)
			}
		}
	}
}

// recurrentSteps runs the steps of all directions with packed weights.
type recurrentSteps struct {
	*RecurrentRun[float32]
	p     *RecurrentWeights
	x     [][]float32 // per direction: products of the input plus biases, which become the gates
	h     [2][]float32
	cell  []float32       // LSTM
	other []float32       // GRU: the reset state, [direction][item][hidden]
	sums  []float32       // per unit of work, for products of several items
	cells []RecurrentCell // per unit of work
}

// RecurrentCell is one panel of one item in one step: the columns of a stage, and the states of the
// units of the panel.
type RecurrentCell struct {
	D, item    int
	U0, N      int       // hidden units
	Gates      []float32 // of this stage, at a distance of unit
	First      []float32 // of the first stage
	H, Next    []float32 // states of the units before and after the step
	Cell       []float32
	Other      []float32
	Recurrence []float32 // contribution of the state, if the stage keeps it separate
}

// Run computes all steps. stage[i] updates the cells of stage i, which reads the state or, from the
// second stage on, other if it is not nil. If apart is set, the products of the last stage with the
// state, which include the recurrent bias, are kept separate from the gates.
func (p *RecurrentWeights) Run(r *RecurrentRun[float32], split int, useOther, apart bool, stage ...func(c *RecurrentCell)) error {
	dirs, h, batch, columns := len(r.Reverse), p.H, r.Batch, p.columns
	s := &recurrentSteps{RecurrentRun: r, p: p, cells: make([]RecurrentCell, dirs*p.panels())}
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
	s.cell, s.other = scratch(dirs*batch*h), scratch(dirs*batch*h)
	s.sums = scratch(dirs * panels * batch * p.widest)
	for range dirs {
		s.x = append(s.x, scratch(r.seq*batch*columns))
	}
	if err != nil {
		return err
	}
	biases := make([][]float32, dirs)
	for d := range dirs {
		clear(bias)
		clear(keep)
		if r.B != nil {
			b := r.B[d*2*r.gates*h:][:2*r.gates*h]
			p.each(func(_, from, to int) {
				bias[to] = b[from]
				if from < split*h {
					bias[to] += b[r.gates*h+from]
				} else {
					keep[to] = b[r.gates*h+from]
				}
			})
		}
		if apart {
			biases[d] = slices.Clone(keep)
		}
		fastMul(r.C, &gemm.Args[float32]{M: r.seq * batch, N: columns, K: p.in, A: r.x, LdA: p.in, B: p.input[d], Packed: true, C: s.x[d], LdC: columns,
			Epilogue: gemm.Epilogue[float32]{BiasCol: bias}})
	}
	for k, state := range [][]float32{s.h[0], s.cell} {
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
	clear(s.other) // the values of finished items are read, but their products are not used
	step := 0
	work := make([]func(lo, hi int), len(p.stages))
	for i := range p.stages {
		work[i] = func(lo, hi int) {
			for k := range hi - lo {
				u := lo + k
				if step&1 != 0 {
					u = hi - 1 - k // start with the panels that the last step left in the cache
				}
				s.panel(step, i, u/panels, u%panels, useOther, apart && i == len(p.stages)-1, biases, stage[i])
			}
		}
	}
	for step = range r.steps {
		if err := r.C.Err(); err != nil {
			return err
		}
		for i, t := range p.stages {
			r.C.Parallel(dirs*panels, GrainFor(h*t.width*batch), work[i])
		}
		s.h[0], s.h[1] = s.h[1], s.h[0]
	}
	return nil
}

// stateRow returns the offset of an item's state in the tensors of states.
func (r *RecurrentRun[T]) stateRow(d, i int) int {
	if r.batchFirst {
		return (i*len(r.Reverse) + d) * r.Hidden
	}
	return (d*r.Batch + i) * r.Hidden
}

// panel computes a panel of one direction and stage for all unfinished items.
func (s *recurrentSteps) panel(step, stage, d, panel int, useOther, apart bool, biases [][]float32, update func(c *RecurrentCell)) {
	p, h, batch, dirs := s.p, s.p.H, s.Batch, len(s.Reverse)
	t := &p.stages[stage]
	weights := p.state[d][stage][panel*h*t.width:][:h*t.width]
	from := s.h[0]
	if stage > 0 && useOther {
		from = s.other
	}
	from = from[d*batch*h:][:batch*h]
	column := t.column + panel*t.width
	sums := s.sums[(d*p.panels()+panel)*batch*p.widest:]
	// Each of few items reads the weights as one stream. More items share the weights that they
	// read.
	const few = 2
	if batch > few {
		a := gemm.Args[float32]{M: batch, N: t.width, K: h, A: from, LdA: h, B: weights, LdB: t.width, C: sums, LdC: t.width}
		if apart {
			a.BiasCol = biases[d][column:][:t.width]
		}
		gemm.F32(cpu.Active(), &a, a.Whole(), nil)
	}
	c := &s.cells[d*p.panels()+panel]
	c.D, c.U0, c.N = d, panel*p.Unit, min(p.Unit, h-panel*p.Unit)
	for i, n := range s.lens {
		if step >= n {
			continue
		}
		at := step
		if s.Reverse[d] {
			at = n - 1 - step
		}
		row, y := at*batch+i, ((at*dirs+d)*batch+i)*h
		if s.batchFirst {
			row, y = i*s.seq+at, ((i*s.seq+at)*dirs+d)*h
		}
		x := s.x[d][row*p.columns:][:p.columns]
		c.item, c.Gates, c.First = i, x[column:][:t.width], x[panel*p.stages[0].width:][:p.stages[0].width]
		switch {
		case apart && batch > few:
			c.Recurrence = sums[i*t.width:][:t.width]
		case apart:
			c.Recurrence = sums[i*t.width:][:t.width]
			copy(c.Recurrence, biases[d][column:])
			gemm.Columns(cpu.Active(), c.Recurrence, from[i*h:][:h], weights, t.width)
		case batch > few:
			vec.AddF32(cpu.Active(), c.Gates, c.Gates, sums[i*t.width:][:t.width])
		default:
			gemm.Columns(cpu.Active(), c.Gates, from[i*h:][:h], weights, t.width)
		}
		at0 := (d*batch+i)*h + c.U0
		c.H, c.Next, c.Cell, c.Other = s.h[0][at0:][:c.N], s.h[1][at0:][:c.N], s.cell[at0:][:c.N], s.other[at0:][:c.N]
		update(c)
		if stage < len(p.stages)-1 {
			continue
		}
		if s.y.Data != nil {
			copy(s.y.Data[y+c.U0:][:c.N], c.Next)
		}
		if step == n-1 {
			for k, f := range s.final {
				v := c.Next
				if k == 1 {
					v = c.Cell
				}
				copy(f.Data[s.stateRow(d, i)+c.U0:][:c.N], v)
			}
		}
	}
}
