// Package matmul multiplies matrices: batches with broadcast, packed weights, 8-bit integers and
// transposed operands. It also computes inverses and determinants. MatMul, Gemm and their fused
// and quantized forms import it, and the packages window, attention and recurrent.
package matmul

import (
	"cmp"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// GemmAddSteps returns the strides between rows and columns of a tensor that broadcasts to m×n, or
// zeros for nil.
func GemmAddSteps(t *tensor.Tensor, m, n int) (rows, cols int, err error) {
	if t == nil {
		return 0, 0, nil
	}
	s := t.Shape()
	if len(s) > 2 {
		return 0, 0, fail.Errorf("C has rank %d, want at most 2", len(s))
	}
	for i, d := range s {
		if o := []int{m, n}[2-len(s)+i]; d != 1 && d != o {
			return 0, 0, fail.Errorf("C with shape %v cannot be broadcast to [%d %d]", s, m, n)
		}
	}
	st := kit.BroadcastStrides(s, []int{m, n})
	return st[0], st[1], nil
}

// GemmScale multiplies y, of type d or the integers with its bits, by alpha.
func GemmScale[T gemm.Number](y []T, alpha float32, d tensor.DType) {
	if alpha == 1 {
		return
	}
	if y, ok := any(y).([]float32); ok {
		vec.MulScalarF32(cpu.Active(), y, y, alpha)
		return
	}
	for i, v := range y {
		y[i] = GemmScaled(v, alpha, d)
	}
}

// GemmScaled returns v, of type d or the integer with its bits, times alpha. Factors of integers
// are applied in float64, and the result is truncated.
func GemmScaled[T gemm.Number](v T, alpha float32, d tensor.DType) T {
	switch d {
	case tensor.TypeUint32:
		return T(uint32(float64(alpha) * float64(uint32(v))))
	case tensor.TypeUint64:
		return T(uint64(float64(alpha) * float64(uint64(v))))
	}
	return T(float64(alpha) * float64(v))
}

// Data returns the elements of a tensor as a slice of T.
func Data[T gemm.Number](t *tensor.Tensor) []T { return memory.FromRaw[T](t.Bytes()) }

// Tensors is [Batches] for float32, float64 and integers of 32 and 64 bits.
func Tensors(c *ir.Call, s *Shape, y, a, b *tensor.Tensor) error {
	switch y.DType() {
	case tensor.TypeFloat32:
		return Batches(c, s, Data[float32](y), Data[float32](a), Data[float32](b))
	case tensor.TypeFloat64:
		return Batches(c, s, Data[float64](y), Data[float64](a), Data[float64](b))
	case tensor.TypeInt32, tensor.TypeUint32: // multiplication and addition wrap around in any order
		return Batches(c, s, Data[int32](y), Data[int32](a), Data[int32](b))
	}
	return Batches(c, s, Data[int64](y), Data[int64](a), Data[int64](b))
}

// Batches multiplies all batches of s.
func Batches[T gemm.Number](c *ir.Call, s *Shape, y, a, b []T) error {
	if len(y) == 0 {
		return nil
	}
	mk, kn, mn := s.M*s.K, s.K*s.N, s.M*s.N
	return eachProduct(c, s.Count(), 1, func(i int) gemm.Args[T] {
		ia, ib := s.At(i)
		return gemm.Args[T]{M: s.M, N: s.N, K: s.K, A: a[ia*mk:][:mk], LdA: s.K, B: b[ib*kn:][:kn], LdB: s.N,
			C: y[i*mn:][:mn], LdC: s.N}
	})
}

// eachProduct computes alpha times each of count GEMMs of one shape, whose results are dense.
// Threads share the GEMMs, or each of a few large ones.
func eachProduct[T gemm.Number](c *ir.Call, count int, alpha float32, args func(i int) gemm.Args[T]) error {
	first := args(0)
	mn, k := first.M*first.N, first.K
	if c.Generic || count < kit.WorkspaceCount(c, count)*2 && mn*k >= 1<<16 {
		for i := range count {
			if err := c.Err(); err != nil {
				return err
			}
			g := args(i)
			if err := One(c, &g); err != nil {
				return err
			}
			GemmScale(g.C[:mn], alpha, tensor.DTypeOf[T]())
		}
		return nil
	}
	const call = 512 // overhead of a call, in the unit of kit.GrainFor
	c.Parallel(count, kit.GrainFor(mn*max(1, k/4)+call), func(lo, hi int) {
		var g gemm.Args[T] // on the heap, once for all GEMMs
		for i := lo; i < hi && c.Err() == nil; i++ {
			g = args(i)
			GemmHere(c, &g)
			GemmScale(g.C[:mn], alpha, tensor.DTypeOf[T]())
		}
	})
	return c.Err()
}

// One computes one GEMM on all threads.
func One[T gemm.Number](c *ir.Call, g *gemm.Args[T]) error {
	if c.Generic && !g.Packed && g.Half == nil {
		return matMulPlain(c, g)
	}
	g.Threads = c.Threads()
	par := func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	if small(g) {
		par = nil
	}
	if err := gemmLong(c, g, func(g *gemm.Args[T]) { gemm.Parallel(par, cpu.Active(), g) }); err != nil {
		return err
	}
	return c.Err()
}

// longSum is the K from which on a GEMM is computed in parts, because one tile takes longer than
// the time between checks of the context.
const longSum = 1 << 20

// gemmLong calls product for g, or for parts of its sums if they are long. Each part adds the
// result of the previous one.
func gemmLong[T gemm.Number](c *ir.Call, g *gemm.Args[T], product func(g *gemm.Args[T])) error {
	if g.K < longSum || g.Packed || g.Half != nil {
		product(g)
		return nil
	}
	const step = longSum / 8
	sums, err := ir.ScratchOf[T](c, g.M*g.N)
	if err != nil {
		return err
	}
	part := *g
	part.Epilogue = gemm.Epilogue[T]{Alpha: g.Alpha, Add: g.Add, LdAdd: g.LdAdd}
	for k := 0; k < g.K; k += step {
		part.K = min(step, g.K-k)
		part.A, part.B = g.A[k:], g.B[k*g.LdB:]
		if g.TransA {
			part.A = g.A[k*g.LdA:]
		}
		if g.TransB {
			part.B = g.B[k:]
		}
		if k > 0 {
			for i := range g.M {
				copy(sums[i*g.N:][:g.N], g.C[i*g.LdC:])
			}
			part.Add, part.LdAdd = sums, g.N
		}
		if k+part.K == g.K {
			add, ld := part.Add, part.LdAdd
			part.Epilogue = g.Epilogue
			part.Add, part.LdAdd = add, ld
		}
		product(&part)
		c.Check()
	}
	return nil
}

// GemmHere computes a GEMM on the calling thread. If the context ends, the result is incomplete.
func GemmHere[T gemm.Number](c *ir.Call, g *gemm.Args[T]) {
	const work = 4 << 20 // multiplications between checks of the context
	var par gemm.Par
	if all := g.M * g.N * g.K; all > work {
		par = func(n int, fn func(lo, hi int)) {
			step := max(1, n/(all/work+1))
			for lo := 0; lo < n && c.Err() == nil; lo += step {
				fn(lo, min(n, lo+step))
			}
		}
	}
	level := cpu.Active()
	if c.Generic {
		level = cpu.Generic
	}
	gemm.Parallel(par, level, g)
}

// matMulPlain computes the GEMM by its definition, with the parts of the epilogue that Gemm uses.
// Floating-point sums are float64.
func matMulPlain[T gemm.Number](c *ir.Call, g *gemm.Args[T]) error {
	as, ap := g.LdA, 1
	if g.TransA {
		as, ap = 1, g.LdA
	}
	bp, bs := g.LdB, 1
	if g.TransB {
		bp, bs = 1, g.LdB
	}
	_, double := any(T(0)).(float32)
	plainProduct(c, g.M, g.N, g.K, func(i, j int) {
		var sum T
		if double {
			var d float64
			for lo, hi := range ir.Steps(c, g.K) {
				for p := lo; p < hi; p++ {
					d += float64(g.A[i*as+p*ap]) * float64(g.B[p*bp+j*bs])
				}
			}
			sum = T(d)
		} else {
			for lo, hi := range ir.Steps(c, g.K) {
				for p := lo; p < hi; p++ {
					sum += g.A[i*as+p*ap] * g.B[p*bp+j*bs]
				}
			}
		}
		g.C[i*g.LdC+j] = sum
	})
	return nil
}

// Packable reports whether packing a constant matrix is useful: it is computed in float32 and not
// empty.
func Packable(t *tensor.Tensor) bool {
	switch t.DType() {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		return t.Len() > 0
	}
	return false
}

// PackedReals is a matrix packed for [gemm.F32], as binary16 if that is exact: the time of a GEMM
// with few rows is the time to read the matrix.
type PackedReals struct {
	Data []float32
	Half []uint16
	BF16 []uint16 // from [gemm.PackBF16]; the others are nil then

	k, n   int
	column bool // Data is the only column as it is
	splits bool // [gemm.SplitsB] of the matrix
}

// Bytes returns the size of the packed matrix; 0 if p is nil.
func (p *PackedReals) Bytes() int64 {
	if p == nil {
		return 0
	}
	return int64(len(p.Data))*4 + int64(len(p.Half)+len(p.BF16))*2
}

// minBF16 is the number of elements from which on a matrix is worth rounding the operands.
const minBF16 = 1 << 13

// Rounded returns the matrix rounded to bfloat16; nil if GEMMs with it would not be faster.
func (p *PackedReals) Rounded() *PackedReals {
	if p == nil || p.BF16 != nil || p.column || p.k*p.n < minBF16 || p.k > gemm.MaxBF16K {
		return nil
	}
	level, data := cpu.Active(), p.Data
	if p.Half != nil {
		data = make([]float32, len(p.Half))
		vec.F16ToF32(level, data, p.Half)
	}
	b := memory.Slice[uint16](gemm.BF16Len(p.k, p.n))
	gemm.PackBF16(level, b, data, p.k, p.n)
	return &PackedReals{BF16: b, k: p.k, n: p.n}
}

// PackMatrix packs a K×N constant, or an N×K constant if trans is set. If own is set, it may pack
// in place, so that a large matrix never needs its memory twice.
func PackMatrix(b *tensor.Tensor, trans, own bool) (*PackedReals, error) {
	k, n := b.Dim(0), b.Dim(1)
	ld := n
	if trans {
		k, n = n, k
	}
	var src []float32
	if b.DType() == tensor.TypeFloat32 {
		src = tensor.MustData[float32](b)
	} else {
		src = make([]float32, b.Len())
		if err := kit.RealConvert(src, b); err != nil {
			return nil, fail.Errorf("packing: %w", err)
		}
	}
	p := &PackedReals{k: k, n: n, column: n == 1 && k >= gemm.LeastDot}
	if p.column {
		p.Data = memory.Slice[float32](k)
		copy(p.Data, src)
		return p, nil
	}
	size := gemm.PackedLen(k, n)
	if own && trans && size == len(src) && b.DType() == tensor.TypeFloat32 &&
		uintptr(unsafe.Pointer(unsafe.SliceData(src)))%64 == 0 {
		gemm.PackInPlace(src, k, n)
		p.Data = src
	} else {
		p.Data = memory.Slice[float32](size)
		gemm.Pack(p.Data, src, ld, trans, k, n)
	}
	level := cpu.Active()
	p.splits = cpu.UsesBF16(level) == cpu.BF16Tiles &&
		gemm.SplitsB(vec.ReduceMinF32(level, p.Data), vec.ReduceMaxF32(level, p.Data))
	// Test the first panel before allocating memory for all.
	var probe [gemm.PanelWidth]uint16
	if gemm.PackHalf(level, probe[:], p.Data[:min(size, len(probe))]) {
		if half := memory.Slice[uint16](size); gemm.PackHalf(level, half, p.Data) {
			p.Half, p.Data = half, nil
		}
	}
	return p, nil
}

// In sets the matrix as B of a GEMM.
func (p *PackedReals) In(g *gemm.Args[float32]) {
	g.B, g.Half, g.BF16, g.Packed, g.LdB = p.Data, p.Half, p.BF16, p.Data != nil && !p.column, 1
	g.Splits = p.splits
}

// stageRows prepares A of a GEMM once for all threads. It rounds or splits the rows if B is rounded
// or can be split, and copies them if they would displace each other from the cache.
func stageRows(c *ir.Call, g *gemm.Args[float32]) error {
	const unit = 16 // rows of a tile
	level, grain := cpu.Active(), max(1, 1<<14/(unit*max(g.K, 1)))
	split := c.Split && g.SplitPays(level)
	if g.BF16 == nil && !split {
		stride := g.CopyStride(level)
		if stride == 0 || small(g) {
			return nil
		}
		rows, err := ir.LaunchScratchOf[float32](c, g.M*stride)
		if err != nil {
			return err
		}
		from, ld := g.A, g.LdA
		c.Launch(g.M, grain*unit, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				copy(rows[r*stride:][:g.K], from[r*ld:])
			}
		})
		g.A, g.LdA = rows, stride
		return nil
	}
	if g.M < unit { // a few rows are rounded by each thread
		return nil
	}
	size := gemm.RoundedLen(g.M, g.K)
	if split {
		size = gemm.SplitLen(g.M, g.K)
	}
	rows, err := ir.LaunchScratchOf[uint16](c, size)
	if err != nil {
		return err
	}
	from := *g
	prepare := from.RoundRows
	if split {
		g.Split, prepare = rows, from.SplitRows
	} else {
		g.Rounded = rows
	}
	c.Launch((g.M+unit-1)/unit, grain, func(lo, hi int) { prepare(level, rows, lo*unit, min(from.M, hi*unit)) })
	return nil
}

// small reports whether a GEMM takes less time than its distribution to threads.
func small[T gemm.Number](g *gemm.Args[T]) bool { return g.M*g.N*max(1, g.K) < 1<<16 }

// LaunchGemm launches a float32 GEMM; it reports false if an input has been widened.
func LaunchGemm(c *ir.Call, args *gemm.Args[float32]) (bool, error) {
	for i := range c.In {
		if t := c.Tensor(i); t != nil && t.DType() != tensor.TypeFloat32 {
			return false, nil
		}
	}
	g := *args
	return true, LaunchProduct(c, &g)
}

// fewColumns launches the GEMM of a transposed matrix with few columns as Bᵀ·Aᵀ, whose rows fill
// the panels of the kernel, and transposes the result. It reports false for other GEMMs.
func fewColumns(c *ir.Call, g *gemm.Args[float32]) (bool, error) {
	if !g.TransA || g.N > gemm.PanelWidth/2 || g.M < gemm.PanelWidth || g.B == nil || g.Packed ||
		g.Add != nil || g.Then != nil {
		return false, nil
	}
	t, err := ir.LaunchScratchOf[float32](c, g.M*g.N)
	if err != nil {
		return false, err
	}
	ep := g.Epilogue
	ep.BiasCol, ep.BiasRow = ep.BiasRow, ep.BiasCol
	if err := LaunchProduct(c, &gemm.Args[float32]{M: g.N, N: g.M, K: g.K, A: g.B, LdA: g.LdB, TransA: !g.TransB,
		B: g.A, LdB: g.LdA, C: t, LdC: g.M, Epilogue: ep}); err != nil {
		return false, err
	}
	to, ld, m, n := g.C, g.LdC, g.M, g.N
	c.Launch(m, kit.GrainFor(n), func(lo, hi int) {
		vec.TransposeF32(cpu.Active(), to[lo*ld:], ld, t[lo:], m, n, hi-lo)
	})
	return true, nil
}

// LaunchProduct launches a GEMM. The kernels keep g.
func LaunchProduct(c *ir.Call, g *gemm.Args[float32]) error {
	g.Threads = c.Threads()
	if done, err := fewColumns(c, g); done || err != nil {
		return err
	}
	if err := stageRows(c, g); err != nil {
		return err
	}
	if small(g) {
		c.Launch(1, 1, func(int, int) { gemm.Parallel(nil, cpu.Active(), g) })
	} else if g.ByPanels() {
		c.Launch(gemm.Panels(g.N), 1, ir.Do(c, panels{g}))
	} else {
		gemm.Parallel(c.Launcher(), cpu.Active(), g)
	}
	return nil
}

// panels are those of a GEMM of a few rows.
type panels struct{ g *gemm.Args[float32] }

// Do implements [ir.Section].
func (p *panels) Do(lo, hi int) {
	gemm.F32(cpu.Active(), p.g, gemm.Block{Row1: p.g.M, Panel0: lo, Panel1: hi})
}

// GemmParallel runs the kernel on all threads.
func GemmParallel(c *ir.Call, g *gemm.Args[float32]) error {
	g.Threads = c.Threads()
	if done, err := fewColumns(c, g); done || err != nil {
		c.Sync()
		return cmp.Or(err, c.Err())
	}
	if err := stageRows(c, g); err != nil {
		return err
	}
	var par gemm.Par
	if !small(g) {
		par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	} else if g.Rounded != nil {
		c.Sync()
	}
	gemm.Parallel(par, cpu.Active(), g)
	return c.Err()
}
