package ops

import (
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// MatMul multiplies matrices as numpy.matmul does: leading dimensions broadcast
// and vectors stand for a row on the left and a column on the right.
type MatMul struct{}

var _ = register(Def{Name: "MatMul", Since: []int{1, 9, 13}, In: "A:T, B:T", Out: "Y:T",
	Types: Types{"T": "@float int32 int64 uint32 uint64"},
	Build: simple(func(a *Attrs, opset int) Operator { return &MatMul{} })})

// Infer broadcasts the leading dimensions.
func (*MatMul) Infer(c *ir.InferContext) error {
	return inferMatMul(c, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run multiplies. float16 and bfloat16 are summed as float.
func (*MatMul) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(1)
	s, err := newMatMulShape(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	switch a.DType() {
	case tensor.TypeInt32:
		return matMulDirect[int32](c, s, a, b)
	case tensor.TypeInt64:
		return matMulDirect[int64](c, s, a, b)
	case tensor.TypeUint32:
		return matMulDirect[uint32](c, s, a, b)
	case tensor.TypeUint64:
		return matMulDirect[uint64](c, s, a, b)
	case tensor.TypeFloat64:
		return matMulDirect[float64](c, s, a, b)
	}
	x, err := realIn[float32](c, a)
	if err != nil {
		return err
	}
	w, err := realIn[float32](c, b)
	if err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, a.DType(), s.out...)
	if err != nil {
		return err
	}
	if err := matMulBatches(c, &s, y.data, x, w); err != nil {
		return err
	}
	y.store()
	return nil
}

func matMulDirect[T gemm.Number](c *ir.Call, s matMulShape, a, b *tensor.Tensor) error {
	y, err := c.Output(0, a.DType(), s.out...)
	if err != nil {
		return err
	}
	return matMulBatches(c, &s, matData[T](y), matData[T](a), matData[T](b))
}

// matData returns the elements of a tensor of Ts.
func matData[T gemm.Number](t *tensor.Tensor) []T { return tensor.FromRaw[T](t.Bytes()) }

// matMulBatches multiplies all batches of s.
func matMulBatches[T gemm.Number](c *ir.Call, s *matMulShape, y, a, b []T) error {
	if len(y) == 0 {
		return nil
	}
	mk, kn, mn := s.m*s.k, s.k*s.n, s.m*s.n
	count := s.count()
	args := func(i int) gemm.Args[T] {
		ia, ib := s.at(i)
		return gemm.Args[T]{M: s.m, N: s.n, K: s.k, A: a[ia*mk:][:mk], LdA: s.k, B: b[ib*kn:][:kn], LdB: s.n, C: y[i*mn:][:mn], LdC: s.n}
	}
	if c.Generic || count < slotCount(count)*2 && mn*s.k >= 1<<16 {
		for i := range count {
			if err := c.Err(); err != nil {
				return err
			}
			g := args(i)
			if err := matMulOne(c, &g); err != nil {
				return err
			}
		}
		return nil
	}
	c.Parallel(count, grainFor(mn*max(1, s.k/4)), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			g := args(i)
			gemmBlock(&g, g.Whole())
		}
	})
	return c.Err()
}

// matMulOne computes one product with all threads.
func matMulOne[T gemm.Number](c *ir.Call, g *gemm.Args[T]) error {
	if c.Generic && !g.Packed && g.Half == nil {
		return matMulPlain(c, g)
	}
	par := func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	if g.M*g.N*max(1, g.K) < 1<<16 {
		par = nil
	}
	if f, ok := any(g).(*gemm.Args[float32]); ok {
		gemm.Parallel(par, cpu.Active(), f)
	} else {
		gemm.ParallelGeneric(par, g)
	}
	return c.Err()
}

// gemmBlock computes one block on this thread.
func gemmBlock[T gemm.Number](g *gemm.Args[T], blk gemm.Block) {
	if f, ok := any(g).(*gemm.Args[float32]); ok {
		gemm.F32(cpu.Active(), f, blk, nil)
	} else {
		gemm.Generic(g, blk, nil)
	}
}

// matMulPlain is the product by its definition, with what of the epilogue Gemm
// needs. Sums of floats are kept as double.
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
	c.Parallel(g.M, grainFor(g.N*g.K), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			for j := range g.N {
				var sum T
				if double {
					var d float64
					for p := range g.K {
						d += float64(g.A[i*as+p*ap]) * float64(g.B[p*bp+j*bs])
					}
					sum = T(d)
				} else {
					for p := range g.K {
						sum += g.A[i*as+p*ap] * g.B[p*bp+j*bs]
					}
				}
				g.C[i*g.LdC+j] = sum
			}
		}
	})
	return c.Err()
}

// matMulPacked is a MatMul of float whose right side is one constant matrix.
type matMulPacked struct {
	MatMul
	b    []int // shape of the constant
	data *packedReals
}

// Prepare packs a constant matrix on the right.
func (m *MatMul) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	b, ok := in[1].(*tensor.Tensor)
	if !ok || b.Rank() != 2 || !packable(b) {
		return nil, nil, nil
	}
	data, err := packMatrix(b, false, false)
	if err != nil {
		return nil, nil, err
	}
	return &matMulPacked{b: b.Shape(), data: data}, []int{1}, nil
}

// packable reports whether a constant matrix is worth packing: it is computed as
// float and not empty.
func packable(t *tensor.Tensor) bool {
	switch t.DType() {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		return t.Len() > 0
	}
	return false
}

// packedReals is a matrix packed for [gemm.F32], as binary16 where that loses
// nothing: products of few rows take the time that reading it takes.
type packedReals struct {
	data []float32
	half []uint16
}

// packMatrix packs a K×N constant, with trans an N×K one. With own it may do so in
// b's memory: a large matrix then never takes its memory twice.
func packMatrix(b *tensor.Tensor, trans, own bool) (*packedReals, error) {
	k, n := b.Dim(0), b.Dim(1)
	ld := n
	if trans {
		k, n = n, k
	}
	var src []float32
	if b.DType() == tensor.TypeFloat32 {
		src = tensor.Of[float32](b)
	} else {
		src = make([]float32, b.Len())
		if err := realConvert(src, b); err != nil {
			return nil, fmt.Errorf("packing: %w", err)
		}
	}
	size := gemm.PackedLen(k, n)
	p := &packedReals{}
	if own && trans && size == len(src) && b.DType() == tensor.TypeFloat32 && uintptr(unsafe.Pointer(unsafe.SliceData(src)))%64 == 0 {
		gemm.PackInPlace(src, k, n)
		p.data = src
	} else {
		p.data = tensor.FromRaw[float32](tensor.AlignedBytes(4 * size))
		gemm.Pack(p.data, src, ld, trans, k, n)
	}
	// A first panel of other numbers spares the memory to find out.
	var probe [gemm.PanelWidth]uint16
	level := cpu.Active()
	if gemm.PackHalf(level, probe[:], p.data[:min(size, len(probe))]) {
		if half := tensor.FromRaw[uint16](tensor.AlignedBytes(2 * size)); gemm.PackHalf(level, half, p.data) {
			p.half, p.data = half, nil
		}
	}
	return p, nil
}

// in makes the matrix the right side of a product.
func (p *packedReals) in(g *gemm.Args[float32]) {
	g.B, g.Half, g.Packed = p.data, p.half, p.half == nil
}

// Run multiplies by the packed matrix.
func (m *matMulPacked) Run(c *ir.Call) error {
	a := c.Tensor(0)
	s, err := newMatMulShape(a.Shape(), m.b)
	if err != nil {
		return err
	}
	x, err := realIn[float32](c, a)
	if err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, a.DType(), s.out...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	g := gemm.Args[float32]{M: s.m, N: s.n, K: s.k, A: x, LdA: s.k, C: y.data, LdC: s.n}
	m.data.in(&g)
	if c.Capturing && launchGemm(c, &g) {
		return nil
	}
	if err := gemmParallel(c, &g); err != nil {
		return err
	}
	y.store()
	return nil
}

// launchGemm launches a product over float; it reports false if an input has been widened.
func launchGemm(c *ir.Call, args *gemm.Args[float32]) bool {
	for i := range c.In {
		if t := c.Tensor(i); t != nil && t.DType() != tensor.TypeFloat32 {
			return false
		}
	}
	g := *args
	if g.M*g.N*max(1, g.K) < 1<<16 {
		c.Launch(1, 1, func(int, int) { gemm.Parallel(nil, cpu.Active(), &g) })
	} else {
		gemm.Parallel(c.Launcher(), cpu.Active(), &g)
	}
	return true
}

// gemmParallel is the kernel on all threads, whatever engine asks.
func gemmParallel(c *ir.Call, g *gemm.Args[float32]) error {
	var par gemm.Par
	if g.M*g.N*max(1, g.K) >= 1<<16 {
		par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	}
	gemm.Parallel(par, cpu.Active(), g)
	return c.Err()
}
