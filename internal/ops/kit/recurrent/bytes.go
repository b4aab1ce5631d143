package recurrent

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Bytes are weights W or R, 8-bit integers [directions rows columns]. Element v represents
// (v - zero)·scale.
type Bytes struct {
	Values *tensor.Tensor
	scale  []float32 // one per direction, or one per column of each direction
	zero   []int32   // likewise
}

// NewBytes checks the shapes of weights and their parameters.
func NewBytes(name string, values, scale, zero *tensor.Tensor, dirs int) (*Bytes, error) {
	n := scale.Len()
	if values.Rank() != 3 || values.Dim(0) != dirs || n != zero.Len() || n != dirs && n != dirs*values.Dim(2) ||
		zero.DType() != values.DType() {
		const want = "[%d rows columns] and one scale per direction or per column"
		return nil, fail.Errorf("%s has shape %v with scales %v and zero points %v, want "+want,
			name, values.Shape(), scale.Shape(), zero.Shape(), dirs)
	}
	b := &Bytes{Values: values, scale: tensor.MustData[float32](scale), zero: make([]int32, zero.Len())}
	for i, v := range zero.Bytes() {
		if b.zero[i] = int32(v); zero.DType() == tensor.TypeInt8 {
			b.zero[i] = int32(int8(v))
		}
	}
	return b, nil
}

// Widen returns the values minus their zero points.
func (b *Bytes) Widen(c *ir.Call) ([]int32, error) {
	r, err := matmul.BytesLess(c, b.Values, nil, 1)
	rows, columns := b.Values.Dim(1), b.Values.Dim(2)
	for i := range r {
		r[i] -= b.Zero(i/(rows*columns), i%columns)
	}
	return r, err
}

// Scale returns the scale of a column of direction d, and Zero its zero point.
func (b *Bytes) Scale(d, column int) float32 { return b.scale[b.at(d, column)] }

// Zero returns the zero point of a column of direction d.
func (b *Bytes) Zero(d, column int) int32 { return b.zero[b.at(d, column)] }

func (b *Bytes) at(d, column int) int {
	per := len(b.scale) / b.Values.Dim(0)
	return d*per + column%per
}

// Quantize quantizes src to dst, with a scale and a zero point for its range.
type Quantize func(c *ir.Call, dst []uint8, src []float32) (scale float32, zero uint8)

// byteTerms is the number of terms of 8-bit products that take the time of one of float32.
const byteTerms = 4

// byteWeights are packed 8-bit weights of one stage.
type byteWeights struct {
	level    cpu.Level
	quantize Quantize
	input    []byteMatrix // per direction
	state    []byteMatrix // per direction and panel
}

// byteMatrix is a packed matrix. Columns that pad panels have the scale 0.
type byteMatrix struct {
	data  *quant.Packed
	scale []float32 // one per column
	zero  []int32   // one, or one per column
	less  []int32   // [quant.Packed.Less], if there is one zero point
}

// PackBytes packs W and R, for the number of items in the type of X. It returns nil if their shapes
// do not match.
func (r *Layer) PackBytes(par gemm.Par, w, u *Bytes, types []ir.Type, quantize Quantize) *Weights {
	dirs, h, g, in := len(r.Reverse), u.Values.Dim(1), r.gates, w.Values.Dim(1)
	if w.Values.Len() == 0 || u.Values.Len() == 0 || w.Values.Dim(2) != g*h || u.Values.Dim(2) != g*h ||
		r.hidden >= 0 && r.hidden != h {
		return nil
	}
	p := &Weights{w: w.Values.Shape(), r: u.Values.Shape(), in: in, H: h}
	p.bytes = &byteWeights{level: cpu.Active(), quantize: quantize}
	p.divide(r.threads, r.items(types), 2*byteTerms, quant.PanelWidth, []int{g})
	columns := make([]int, g*h)
	p.each(func(_, from, to int) { columns[from] = to })
	for d := range dirs {
		p.bytes.input = append(p.bytes.input, p.packBytes(par, w, d, columns, p.columns)...)
		p.bytes.state = append(p.bytes.state, p.packBytes(par, u, d, columns, p.stages[0].width)...)
	}
	return p
}

// packBytes packs the matrix of direction d in panels of that width. Column i becomes column
// columns[i].
func (p *Weights) packBytes(par gemm.Par, b *Bytes, d int, columns []int, width int) []byteMatrix {
	if b.Values.DType() == tensor.TypeInt8 {
		return packBytesOf[int8](p, par, b, d, columns, width)
	}
	return packBytesOf[uint8](p, par, b, d, columns, width)
}

func packBytesOf[T quant.Byte](p *Weights, par gemm.Par, b *Bytes, d int, columns []int, width int) []byteMatrix {
	var list []byteMatrix
	k, n := b.Values.Dim(1), len(columns)
	src, dst := tensor.MustData[T](b.Values)[d*k*n:][:k*n], make([]T, k*p.columns)
	scale, zero := make([]float32, p.columns), make([]int32, p.columns)
	equal := true
	for i, to := range columns {
		scale[to], zero[to] = b.Scale(d, i), b.Zero(d, i)
		equal = equal && zero[to] == zero[columns[0]]
	}
	for i := range k {
		row := dst[i*p.columns:][:p.columns]
		for j, v := range src[i*n:][:n] {
			row[columns[j]] = v
		}
	}
	for at := 0; at < p.columns; at += width {
		w := min(width, p.columns-at)
		data := quant.PackRows(par, p.bytes.level, dst[at:], p.columns, false, k, w)
		m := byteMatrix{data: data, scale: scale[at:][:w], zero: zero[at:][:w]}
		if equal {
			m.zero = zero[columns[0]:][:1]
			m.less = m.data.Less(m.zero[0])
		}
		list = append(list, m)
	}
	return list
}

// byteSteps holds the quantized states of a run.
type byteSteps struct {
	*byteWeights
	q       []uint8      // hidden states, [direction][item][hidden]
	scale   [2]float32   // of q, per direction
	zero    [2]int32     // likewise
	zeros   [2]bool      // all of q are 0, per direction; tested before the first step
	x       []uint8      // X of all steps
	xScale  float32      // of x
	xZero   [1]int32     // likewise
	sums    []int32      // of the input of a direction; then per unit of work, as recurrentSteps.sums
	factors []float32    // per direction and column
	bias    [2][]float32 // per direction
	none    []float32    // zeros, one per column
}

// fewRows is the number of rows of X up to which [quant.AddRows] multiplies them.
const fewRows = 8

// newByteSteps allocates the memory of a run and quantizes X.
func (s *recurrentSteps) newByteSteps() (*byteSteps, error) {
	p, dirs := s.p, len(s.Reverse)
	rows := s.steps * s.Batch
	b := &byteSteps{byteWeights: p.bytes}
	var err error
	for _, m := range []struct {
		dst *[]uint8
		n   int
	}{{&b.q, dirs*s.Batch*p.H + b.state[0].data.RowLen()}, {&b.x, rows*p.in + b.input[0].data.RowLen()}} {
		if *m.dst, err = ir.ScratchOf[uint8](s.C, m.n); err != nil {
			return nil, err
		}
	}
	if b.sums, err = ir.ScratchOf[int32](s.C, max(rows*p.columns, len(s.sums))); err != nil {
		return nil, err
	}
	if b.none, err = ir.ScratchOf[float32](s.C, p.columns); err != nil {
		return nil, err
	}
	clear(b.none)
	if b.factors, err = ir.ScratchOf[float32](s.C, dirs*p.columns); err != nil {
		return nil, err
	}
	for d := range dirs {
		if b.bias[d], err = ir.ScratchOf[float32](s.C, p.columns); err != nil {
			return nil, err
		}
	}
	scale, zero := b.quantize(s.C, b.x[:rows*p.in], s.Run.x[:rows*p.in])
	b.xScale, b.xZero[0] = scale, int32(zero)
	return b, nil
}

// multiplyInput computes the products of X and W of direction d.
func (b *byteSteps) multiplyInput(s *recurrentSteps, d int) {
	m, rows, n := &b.input[d], s.steps*s.Batch, s.p.columns
	if m.less != nil && (rows <= fewRows || m.data.ManyRows(b.level)) {
		g := quant.Rows{M: rows, X: b.x, LdX: s.p.in, XZero: b.xZero[0], B: m.data, BZero: m.zero[0], Less: m.less,
			Scale: m.scale, Factor: b.xScale, Bias: b.none, Y: s.x[d], LdY: n, Store: true}
		if quant.AddRows(b.level, &g, 0, 0) {
			work := s.p.in * n / byteTerms
			if rows <= fewRows { // threads share the columns, so that each reads a part of the weights
				s.C.Parallel(n/quant.PanelWidth, kit.GrainFor(rows*work*quant.PanelWidth/n), func(lo, hi int) {
					if !s.turned {
						quant.AddRows(b.level, &g, lo, hi)
						return
					}
					const part = 4 // panels
					for ; hi > lo; hi -= part {
						quant.AddRows(b.level, &g, max(lo, hi-part), hi)
					}
				})
				return
			}
			s.C.Parallel((rows+quant.TileRows-1)/quant.TileRows, kit.GrainFor(work*quant.TileRows), func(lo, hi int) {
				part, first := g, lo*quant.TileRows
				part.M, part.X, part.Y = min(rows, hi*quant.TileRows)-first, g.X[first*g.LdX:], g.Y[first*g.LdY:]
				quant.AddRows(b.level, &part, 0, n/quant.PanelWidth)
			})
			return
		}
	}
	quant.Parallel(s.C.Par(), b.level, &quant.Args{M: rows, A: b.x[:rows*s.p.in], LdA: s.p.in, AZero: b.xZero[:],
		B: m.data, BZero: m.zero, C: b.sums, LdC: n})
	factors := b.factors[d*n:][:n]
	vec.MulScalarF32(b.level, factors, m.scale, b.xScale)
	kit.ParallelEach(s.C, rows, n, func(i int) { reals(b.level, s.x[d][i*n:][:n], b.sums[i*n:][:n], factors) })
}

// reals converts sums to float32 and multiplies them by a factor per column.
func reals(l cpu.Level, dst []float32, sums []int32, factors []float32) {
	vec.I32ToF32(l, dst, sums)
	vec.MulF32(l, dst, dst, factors)
}

// quantizeStates quantizes the hidden states of directions [d, d+n) before a step.
func (b *byteSteps) quantizeStates(s *recurrentSteps, step, d, n int) {
	h, size := s.p.H, s.Batch*s.p.H
	for ; n > 0; n, d = n-1, d+1 {
		from, to := s.h[0][d*size:][:size], s.h[1][d*size:][:size]
		for i, steps := range s.lens {
			switch {
			case s.dropped(step, steps):
				clear(from[i*h:][:h])
				clear(to[i*h:][:h])
			case step == steps:
				copy(to[i*h:][:h], from[i*h:])
			}
		}
		scale, zero := b.quantize(s.C, b.q[d*size:][:size], from)
		b.scale[d], b.zero[d] = scale, int32(zero)
		b.zeros[d] = step == 0 && size <= 1<<16 && zero == 0 && quant.SumU8(b.level, b.q[d*size:][:size]) == 0
	}
}

// multiplyState computes the products of the hidden states and a panel of R of direction d.
func (b *byteSteps) multiplyState(s *recurrentSteps, g *quant.Args, d, panel int) {
	m, h, size := b.matrix(s, d, panel), s.p.H, s.Batch*s.p.H
	*g = quant.Args{M: s.Batch, A: b.q[d*size:][:size], LdA: h, AZero: b.zero[d:][:1], B: m.data, BZero: m.zero,
		C: b.sums[s.sumsAt(d, panel):], LdC: len(m.scale)}
	quant.Compute(b.level, g, gemm.Block{Row1: s.Batch, Panel1: gemm.Panels(m.data.N)})
	vec.MulScalarF32(b.level, b.panelFactors(s, d, panel), m.scale, b.scale[d])
}

// addState adds the products of item i with a panel of R, and then the biases, to its gates.
func (b *byteSteps) addState(s *recurrentSteps, d, panel, i int, gates []float32) {
	n := len(gates)
	at := s.sumsAt(d, panel) + i*n
	sums := s.sums[at:][:n]
	reals(b.level, sums, b.sums[at:][:n], b.panelFactors(s, d, panel))
	vec.AddF32(b.level, gates, gates, sums)
	vec.AddF32(b.level, gates, gates, b.bias[d][panel*s.p.stages[0].width:][:n])
}

// addRows is multiplyState and addState for all items, whose gates begin step elements apart. It
// returns false if there is no kernel.
func (b *byteSteps) addRows(s *recurrentSteps, g *quant.Rows, d, panel int, gates []float32, step int) bool {
	m, size := b.matrix(s, d, panel), s.Batch*s.p.H
	bias := b.bias[d][panel*s.p.stages[0].width:][:len(m.scale)]
	if b.zeros[d] {
		for i := range s.Batch {
			row := gates[i*step:][:len(bias)]
			vec.AddF32(b.level, row, row, bias)
		}
		return true
	}
	if m.less == nil {
		return false
	}
	*g = quant.Rows{M: s.Batch, X: b.q[d*size:], LdX: s.p.H, XZero: b.zero[d], B: m.data,
		BZero: m.zero[0], Less: m.less,
		Scale: m.scale, Factor: b.scale[d], Bias: bias, Y: gates, LdY: step}
	return quant.AddRows(b.level, g, 0, gemm.Panels(m.data.N))
}

func (b *byteSteps) matrix(s *recurrentSteps, d, panel int) *byteMatrix {
	return &b.state[d*s.p.panels()+panel]
}

func (b *byteSteps) panelFactors(s *recurrentSteps, d, panel int) []float32 {
	return b.factors[d*s.p.columns+panel*s.p.stages[0].width:][:len(b.matrix(s, d, panel).scale)]
}
