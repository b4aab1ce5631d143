// Package reduce combines elements along axes: reductions, softmax, normalizations and losses by
// class. Operators of these families import it, in all domains.
package reduce

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Reduction is the common part of the Reduce operators. The axes are input 1. Without axes, all
// dimensions are reduced, unless Noop is set.
type Reduction struct {
	KeepDims bool
	Noop     bool
	Costly   bool // elements cost more than their transposition: reduce only rows, and at least kit.ShortRow columns
}

// Read reads the attributes. Since opset axesInput the axes are an input, before they were
// an attribute.
func Read(a *kit.Attrs, opset, axesInput int) Reduction {
	r := Reduction{KeepDims: a.Bool("keepdims", true)}
	if opset >= axesInput {
		r.Noop = a.Bool("noop_with_empty_axes", false)
	} else if axes := a.Ints("axes"); len(axes) > 0 {
		a.SetInputInts(1, axes)
	}
	return r
}

// Mask returns, for each of rank dimensions, whether it is reduced.
func (r *Reduction) Mask(axes []int, rank int) ([]bool, error) {
	m := make([]bool, rank)
	return m, r.mask(m, axes)
}

// mask is Mask that sets elements of m, which is false.
func (r *Reduction) mask(m []bool, axes []int) error {
	if len(axes) == 0 {
		for i := range m {
			m[i] = !r.Noop
		}
	}
	for _, axis := range axes {
		a, err := kit.NormalAxis(axis, len(m))
		if err != nil {
			return err
		}
		if m[a] {
			return fail.Errorf("axis %d appears twice in %v", axis, axes)
		}
		m[a] = true
	}
	return nil
}

// InferWith infers one output of type elem.
func (r *Reduction) InferWith(c *ir.InferContext, elem tensor.DType) error {
	shape := c.Shape(0)
	c.SetOut(0, ir.UnrankedTensor(elem))
	if shape == nil {
		return nil
	}
	var axes []int
	if c.Has(1) {
		t := c.Const(1)
		if t == nil {
			// The number of axes may be known even if the axes are not.
			if r.KeepDims {
				c.SetOut(0, ir.TensorType(elem, ir.UnknownDims(len(shape))...))
			} else if s := c.Shape(1); len(s) == 1 {
				if n, ok := s[0].Value(); ok && n > 0 && n <= len(shape) {
					c.SetOut(0, ir.TensorType(elem, ir.UnknownDims(len(shape)-n)...))
				}
			}
			return nil
		}
		axes = kit.Ints(t)
	}
	m, err := r.Mask(axes, len(shape))
	if err != nil {
		return err
	}
	out := []ir.Dim{}
	for i, d := range shape {
		switch {
		case !m[i]:
			out = append(out, d)
		case r.KeepDims:
			out = append(out, ir.Known(1))
		}
	}
	c.SetOut(0, ir.TensorType(elem, out...))
	return nil
}

// InferFolded is infer for reductions of shape values with fn.
func (r *Reduction) InferFolded(c *ir.InferContext, first ir.Dim, fn func(a, b ir.Dim) ir.Dim) error {
	elem := c.Elem(0)
	if err := r.InferWith(c, elem); err != nil {
		return err
	}
	reduced := !r.Noop
	if c.Has(1) {
		t := c.Const(1)
		if t == nil {
			return nil
		}
		reduced = reduced || t.Len() > 0
	}
	if d := c.Contents(0); d != nil && reduced && len(c.Shape(0)) == 1 &&
		(elem == tensor.TypeInt64 || elem == tensor.TypeInt32) {
		acc := first
		for _, e := range d {
			acc = fn(acc, e)
		}
		kit.SetContents(c, elem, []ir.Dim{acc})
	}
	return nil
}

// Reducer reduces elements of type T in accumulators of type A.
type Reducer[T, A any] struct {
	Init A
	Row  func(acc A, x []T) A // reduces all elements to one accumulator
	Cols func(acc []A, x []T) // reduces each element to its own accumulator
	// combines n pieces of x, of stride step, and dst unless fresh; or nil
	Stack func(dst, x []T, n, step int, fresh bool)
	// combines pieces in their own type, before cols widens groups of FoldedPieces; or nil
	Add   func(acc, x []T)
	Load  func(dst, x []T)              // converts the first piece of a group for add; nil for a copy
	Total func(acc []A, x []T)          // reduces the results of add; nil for cols
	Merge func(a, b A) A                // combines the accumulators of two parts
	Join  func(acc, x []A)              // Merge for each of some accumulators; or nil
	Done  func(dst []T, acc []A, n int) // computes results, of n elements each
	// rows computes the results for the rows from first on of a matrix with rows of n elements (see
	// vec.SumRowsF32), or is nil.
	Rows func(dst, x []T, n, first int)
	// Columns computes the results of columns of at least kit.ShortRow adjacent elements: dst[i] is
	// that of the n elements of x from i on, which are step elements apart. It may be nil.
	Columns func(dst, x []T, n, step int)
}

// reduceKernel runs the reducer of an element type.
type reduceKernel func(c *ir.Call, p *Plan, out, x *tensor.Tensor) error

// Table maps element types to their kernels.
type Table map[tensor.DType]reduceKernel

// With returns the kernel of a reducer.
func With[T tensor.Element, A any](r *Reducer[T, A]) reduceKernel {
	return func(c *ir.Call, p *Plan, out, x *tensor.Tensor) error {
		return Run(c, p, tensor.MustData[T](out), tensor.MustData[T](x), r)
	}
}

// Either uses the fast reducer unless the call asks for generic kernels.
func Either[T tensor.Element, A any](plain, fast *Reducer[T, A]) reduceKernel {
	return func(c *ir.Call, p *Plan, out, x *tensor.Tensor) error {
		r := fast
		if c.Generic {
			r = plain
		}
		return Run(c, p, tensor.MustData[T](out), tensor.MustData[T](x), r)
	}
}

// Bits runs the kernel of a type of the same size, for results with the same bits: k for int32
// adds and multiplies uint32, too.
func Bits(as tensor.DType, k reduceKernel) reduceKernel {
	return func(c *ir.Call, p *Plan, out, x *tensor.Tensor) error {
		return k(c, p, kit.BitsAs(as, out), kit.BitsAs(as, x))
	}
}

// reinterpret returns r as a reducer of another type of the same size, which computes with the same
// bits: uint64 and int8 have no code of their own.
func reinterpret[T, S kit.RealNumber](r *Reducer[S, S]) *Reducer[T, T] {
	bits := func(x []T) []S { return memory.FromRaw[S](memory.AsBytes(x)) }
	as := &Reducer[T, T]{
		Init:  T(r.Init),
		Row:   func(acc T, x []T) T { return T(r.Row(S(acc), bits(x))) },
		Cols:  func(acc, x []T) { r.Cols(bits(acc), bits(x)) },
		Merge: func(a, b T) T { return T(r.Merge(S(a), S(b))) },
		Done:  func(dst, acc []T, n int) { r.Done(bits(dst), bits(acc), n) },
	}
	if r.Join != nil {
		as.Join = func(acc, x []T) { r.Join(bits(acc), bits(x)) }
	}
	return as
}

// Unsigned returns the kernel of a reducer of uint64.
func Unsigned(r *Reducer[uint64, uint64]) reduceKernel {
	return Bits(tensor.TypeInt64, With(reinterpret[int64](r)))
}

// Signed returns the kernel of reducers of int8, as [Either].
func Signed(plain, fast *Reducer[int8, int8]) reduceKernel {
	return Bits(tensor.TypeUint8, Either(reinterpret[uint8](plain), reinterpret[uint8](fast)))
}

// RunWith reduces input 0 to output 0. Half-precision types are computed in float32, and integers
// without a kernel in int64, where it has one and holds them all, or in float64.
func (r *Reduction) RunWith(c *ir.Call, t Table) error {
	x := c.Tensor(0)
	p, err := r.Plan(c, x.Shape(), kit.RunInts(c, c.Tensor(1)))
	if err != nil {
		return err
	}
	out, err := c.Output(0, x.DType(), p.OutShape...)
	if err != nil {
		return err
	}
	d := x.DType()
	if t[d] == nil {
		switch d {
		case tensor.TypeFloat16, tensor.TypeBFloat16:
			d = tensor.TypeFloat32
		case tensor.TypeInt32, tensor.TypeUint32:
			if d = tensor.TypeInt64; t[d] == nil {
				d = tensor.TypeFloat64
			}
		case tensor.TypeInt64, tensor.TypeUint64:
			d = tensor.TypeFloat64
		}
	}
	if t[d] == nil {
		return fail.Errorf("elements of type %s are not supported", d)
	}
	to := out
	if d != x.DType() {
		if x, err = kit.ToScratch(c, x, d); err != nil {
			return err
		}
		if to, err = kit.ScratchTensor(c, d, out.Shape()); err != nil {
			return err
		}
	}
	if err := t.reduce(c, p, to, x); err != nil || to == out {
		return err
	}
	return kit.ConvertInto(c, out, to, tensor.ConvertOptions{})
}

// Reduce reduces x along the axes to y, both of a type of the table.
func (t Table) Reduce(c *ir.Call, axes []int, y, x *tensor.Tensor) error {
	p, err := (&Reduction{}).Plan(c, x.Shape(), axes)
	if err != nil {
		return err
	}
	return t.reduce(c, p, y, x)
}

func (t Table) reduce(c *ir.Call, p *Plan, y, x *tensor.Tensor) error {
	d := x.DType()
	const most = 1 << 24 // elements: gather takes as much memory again
	if !c.Generic && x.Len() > 0 {
		if !p.costly {
			p.regroup()
		}
		columns := p.narrow() && d != tensor.TypeFloat32 // which has kernels for short rows
		if x.Len() <= most && (columns || p.scattered() || p.costly && !p.regular()) {
			var err error
			if p, x, err = p.gather(c, x, columns || !p.rows && (!p.costly || p.inner >= kit.ShortRow)); err != nil {
				return err
			}
		}
	}
	return t[d](c, p, y, x)
}

const (
	Block        = 512 // accumulators that are processed together
	FoldedPieces = 32  // pieces that are added without widening
	// stackedColumns is the length up to which all pieces are added in registers: of longer ones,
	// reading a part of each piece would lose to reading some of them in the order of memory.
	stackedColumns = 256
	stackedPieces  = 8
	Chunk          = 1 << 16 // elements of a long row that are reduced separately
)

// Run reduces x to dst by a plan, in parallel.
func Run[T, A any](c *ir.Call, p *Plan, dst, x []T, r *Reducer[T, A]) error {
	if len(dst) == 0 {
		return nil
	}
	if p.N == 0 {
		for i := range dst {
			acc := [1]A{r.Init}
			r.Done(dst[i:i+1], acc[:], 0)
		}
		return nil
	}
	if p.rows {
		return reduceRows(c, p, dst, x, r)
	}
	return reduceCols(c, p, dst, x, r)
}

// reduceRows reduces contiguous pieces. A long row is divided into chunks of fixed length, so that
// the result does not depend on the number of threads.
func reduceRows[T, A any](c *ir.Call, p *Plan, dst, x []T, r *Reducer[T, A]) error {
	pieces := kit.Product(p.reduced)
	chunks := (p.inner + Chunk - 1) / Chunk
	if pieces == 1 && chunks > 1 {
		for i := range dst {
			row := x[PlanOffset(i, p.kept, p.keptAt):][:p.inner]
			parts := make([]A, chunks)
			c.Parallel(chunks, 1, func(lo, hi int) {
				for k := lo; k < hi; k++ {
					parts[k] = r.Row(r.Init, row[k*Chunk:min(p.inner, (k+1)*Chunk)])
				}
			})
			acc := [1]A{parts[0]}
			for _, a := range parts[1:] {
				acc[0] = r.Merge(acc[0], a)
			}
			r.Done(dst[i:i+1], acc[:], p.N)
			if err := c.Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if r.Rows != nil && pieces == 1 && p.inner <= vec.MostRowsF32 && len(p.kept) == 1 && len(dst) >= vec.LeastRowsF32 {
		kit.ParallelSpans(c, len(dst), p.N, func(lo, hi int) { r.Rows(dst[lo:hi], x, p.inner, lo) })
		return nil
	}
	kit.ParallelSpans(c, len(dst), p.N, ir.Do(c, rowsSection[T, A]{p: p, dst: dst, x: x, r: r, pieces: pieces}))
	return nil
}

// rowsSection reduces contiguous pieces.
type rowsSection[T, A any] struct {
	p      *Plan
	dst, x []T
	r      *Reducer[T, A]
	pieces int  // of each result
	one    [1]A // accumulator of the only result
}

// Do computes the results [lo, hi).
func (s *rowsSection[T, A]) Do(lo, hi int) {
	p, r, acc := s.p, s.r, s.one[:]
	if len(s.dst) > 1 {
		acc = make([]A, min(hi-lo, Block))
	}
	for ; lo < hi; lo += len(acc) {
		acc = acc[:min(hi-lo, len(acc))]
		for k := range acc {
			base := 0
			if len(p.kept) == 1 {
				base = (lo + k) * p.keptAt[0]
			} else {
				base = PlanOffset(lo+k, p.kept, p.keptAt)
			}
			if s.pieces == 1 {
				acc[k] = r.Row(r.Init, s.x[base:base+p.inner])
				continue
			}
			a := r.Init
			for piece := range s.pieces {
				at := base + PlanOffset(piece, p.reduced, p.reduceAt)
				a = r.Row(a, s.x[at:at+p.inner])
			}
			acc[k] = a
		}
		r.Done(s.dst[lo:lo+len(acc)], acc, p.N)
	}
}

// reduceCols combines pieces elementwise, a block of columns at a time.
func reduceCols[T, A any](c *ir.Call, p *Plan, dst, x []T, r *Reducer[T, A]) error {
	pieces := kit.Product(p.reduced)
	block := Block / p.group * p.group
	blocks := (p.inner + block - 1) / block
	if r.Columns != nil && len(p.reduced) == 1 && pieces > 0 && p.inner >= kit.ShortRow {
		kit.ParallelSpans(c, kit.Product(p.kept)*blocks, p.N*min(p.inner, block), func(first, end int) {
			var columns [Block]T
			for i := first; i < end && c.Err() == nil; i++ {
				outer, lo := i/blocks, i%blocks*block
				m := min(block, p.inner-lo)
				y := dst[(outer*p.inner+lo)/p.group:][:m/p.group]
				if p.group == 1 {
					r.Columns(y, x[PlanOffset(outer, p.kept, p.keptAt)+lo:], pieces, p.reduceAt[0])
					continue
				}
				r.Columns(columns[:m], x[PlanOffset(outer, p.kept, p.keptAt)+lo:], pieces, p.reduceAt[0])
				for k := range y {
					acc := [1]A{r.Row(r.Init, columns[k*p.group:][:p.group])}
					r.Done(y[k:k+1], acc[:], p.N)
				}
			}
		})
		return c.Err()
	}
	if g := Block / p.inner; g >= 4 && pieces >= 4 && len(p.reduced) == 1 && p.reduceAt[0] == p.inner &&
		(r.Stack == nil || p.inner < kit.ShortRow) {
		return reduceNarrow(c, p, dst, x, r, min(g, pieces/2))
	}
	if r.Stack != nil { // longer parts of a piece are prefetched better
		block *= 2
		blocks = (p.inner + block - 1) / block
	}
	kit.ParallelSpans(c, kit.Product(p.kept)*blocks, p.N*min(p.inner, block), func(first, end int) {
		buf := make([]A, min(p.inner, block))
		var part []T
		if r.Add != nil {
			part = make([]T, len(buf))
		}
		for i := first; i < end; i++ {
			outer, lo := i/blocks, i%blocks*block
			m := min(block, p.inner-lo)
			base := PlanOffset(outer, p.kept, p.keptAt) + lo
			acc := buf[:m]
			acc[0] = r.Init
			for n := 1; n < len(acc); n *= 2 {
				copy(acc[n:], acc[:n])
			}
			if len(p.reduced) == 1 {
				stride := p.reduceAt[0]
				r.fold(acc, part, pieces, x[base:], stride, nil)
			} else {
				r.fold(acc, part, pieces, x[base:], 0, func(k int) int { return PlanOffset(k, p.reduced, p.reduceAt) })
			}
			r.finish(p, dst[(outer*p.inner+lo)/p.group:], acc)
		}
	})
	return nil
}

// finish computes results from the accumulators of whole groups.
func (r *Reducer[T, A]) finish(p *Plan, dst []T, acc []A) {
	if n := p.group; n > 1 {
		groups := len(acc) / n
		for k := range groups {
			a := acc[k*n]
			for _, v := range acc[k*n+1 : (k+1)*n] {
				a = r.Merge(a, v)
			}
			acc[k] = a
		}
		acc = acc[:groups]
	}
	r.Done(dst[:len(acc)], acc, p.N)
}

// fold combines pieces of x in acc, which begin at the offsets of at, or step elements apart if at
// is nil. part is as long as acc, unless add is nil.
func (r *Reducer[T, A]) fold(acc []A, part []T, pieces int, x []T, step int, at func(k int) int) {
	part = part[:min(len(part), len(acc))]
	left := 0 // pieces of the group that part does not hold yet
	for k := 0; k < pieces; k++ {
		from := k * step
		if at != nil {
			from = at(k)
		}
		piece := x[from:][:len(acc)]
		stacked := r.Stack != nil && at == nil
		switch {
		case r.Add == nil || len(acc) < kit.ShortRow || left == 0 && k+1 == pieces && r.Load == nil:
			r.Cols(acc, piece)
			continue
		case left > 0 && !stacked:
			r.Add(part, piece)
		default:
			fresh := left == 0
			if fresh {
				left = min(pieces-k, FoldedPieces)
			}
			switch {
			case stacked:
				n := left
				if len(acc) > stackedColumns {
					n = min(n, stackedPieces)
				}
				r.Stack(part, x[from:], n, step, fresh)
				k, left = k+n-1, left-n+1
			case r.Load == nil:
				copy(part, piece)
			default:
				r.Load(part, piece)
			}
		}
		if left--; left > 0 {
			continue
		}
		if r.Total == nil {
			r.Cols(acc, part)
		} else {
			r.Total(acc, part)
		}
	}
}

// reduceNarrow is reduceCols for adjacent short pieces: g of them are combined as one piece, and
// the parts of the result at the end.
func reduceNarrow[T, A any](c *ir.Call, p *Plan, dst, x []T, r *Reducer[T, A], g int) error {
	pieces := p.reduced[0]
	wide := g * p.inner
	kit.ParallelSpans(c, kit.Product(p.kept), p.N*p.inner, func(lo, hi int) {
		acc := make([]A, wide)
		var part []T
		if r.Add != nil {
			part = make([]T, wide)
		}
		for i := lo; i < hi; i++ {
			from := x[PlanOffset(i, p.kept, p.keptAt):][:pieces*p.inner]
			for k := range acc {
				acc[k] = r.Init
			}
			whole := len(from) / wide
			r.fold(acc, part, whole, from, wide, nil)
			if rest := from[whole*wide:]; len(rest) > 0 {
				r.Cols(acc[:len(rest)], rest)
			}
			for n := g; n > 1; n = (n + 1) / 2 { // combine halves
				half := (n + 1) / 2 * p.inner
				x := acc[half : n*p.inner]
				if r.Join != nil {
					r.Join(acc[:len(x)], x)
					continue
				}
				for k, v := range x {
					acc[k] = r.Merge(acc[k], v)
				}
			}
			r.finish(p, dst[i*p.inner/p.group:], acc[:p.inner])
		}
	})
	return nil
}
