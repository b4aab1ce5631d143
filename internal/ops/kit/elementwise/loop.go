// Package elementwise runs functions of elements over tensors that broadcast: loops by element
// type, with vector kernels, in one thread or many, and as captured launches. Elementwise
// operators of all domains import it.
package elementwise

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// WidenBlock is the number of elements of 16 bits that are computed in float32 at a time.
const WidenBlock = 1024

// Loop computes elements of an operator's output from the corresponding elements of its
// inputs, given as bytes.
type Loop struct {
	In, Out tensor.DType
	Arity   int
	// scalars reports whether run accepts an input of one element, which it repeats.
	scalars bool
	Run     func(dst []byte, in *[3][]byte)
	// fast is run with vector kernels, or nil. It accepts inputs of one element if fastScalars is
	// set.
	Fast        func(dst []byte, in *[3][]byte)
	FastScalars bool
	// bind returns Fast for operands at fixed addresses, so that captured launches do not examine
	// them again. It may be nil.
	bind func(dst []byte, in *[3][]byte) func(lo, hi int)
}

// forCall returns the loop for a call, in run.
func (l Loop) forCall(c *ir.Call) Loop {
	if l.Fast != nil && !c.Generic {
		l.Run, l.scalars = l.Fast, l.FastScalars
	} else {
		l.bind = nil
	}
	return l
}

// The signatures of vector kernels of two operands, and of one and a scalar.
type (
	vecBinary = func(l cpu.Level, dst, a, b []float32)
	vecScalar = func(l cpu.Level, dst, x []float32, s float32)
)

// InPieces splits the work of a kernel that makes several passes, so that its elements stay in the
// first-level cache. dst and x of the kernel must differ.
func InPieces(f kit.VecUnary) kit.VecUnary {
	const piece = 2048
	return func(l cpu.Level, dst, x []float32) {
		for lo := 0; lo < len(dst); lo += piece {
			hi := min(len(dst), lo+piece)
			f(l, dst[lo:hi], x[lo:hi])
		}
	}
}

// WithUnary adds a vector kernel, if not nil, to a float32 loop.
func WithUnary(l *Loop, f kit.VecUnary) *Loop {
	if f != nil {
		l.Fast = func(dst []byte, in *[3][]byte) {
			f(cpu.Active(), memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]))
		}
		l.bind = func(dst []byte, in *[3][]byte) func(lo, hi int) {
			y, x := memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0])
			return func(int, int) { f(cpu.Active(), y, x) }
		}
	}
	return l
}

// WithBinary adds vector kernels to a float32 loop: for two vectors, for a scalar right operand,
// and for a scalar left operand.
func WithBinary(l *Loop, vectors vecBinary, right, left vecScalar) *Loop {
	rightOnly := func(l cpu.Level, y, a, b []float32) { right(l, y, a, b[0]) }
	leftOnly := func(l cpu.Level, y, a, b []float32) { left(l, y, b, a[0]) }
	scalars := func(l cpu.Level, y, a, b []float32) {
		vectors(l, y[:1], a, b)
		kit.RepeatOf(y, y[0])
	}
	kernel := func(y, a, b []float32) vecBinary {
		switch {
		case len(a) == len(b) && len(a) == len(y):
			return vectors
		case len(b) == 1 && len(a) == len(y):
			return rightOnly
		case len(a) == 1 && len(b) == len(y):
			return leftOnly
		}
		return scalars
	}
	l.FastScalars = true
	l.Fast = func(dst []byte, in *[3][]byte) {
		y, a, b := memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]), memory.FromRaw[float32](in[1])
		kernel(y, a, b)(cpu.Active(), y, a, b)
	}
	l.bind = func(dst []byte, in *[3][]byte) func(lo, hi int) {
		y, a, b := memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]), memory.FromRaw[float32](in[1])
		f := kernel(y, a, b)
		return func(int, int) { f(cpu.Active(), y, a, b) }
	}
	return l
}

// WithKernel1 adds a vector kernel of one operand.
func WithKernel1[T, R tensor.Element](l *Loop, f func(l cpu.Level, dst []R, x []T)) *Loop {
	l.Fast = func(dst []byte, in *[3][]byte) { f(cpu.Active(), memory.FromRaw[R](dst), memory.FromRaw[T](in[0])) }
	return l
}

// WithKernel2 adds a vector kernel of two operands of the same length.
func WithKernel2[T, R tensor.Element](l *Loop, f func(l cpu.Level, dst []R, a, b []T)) *Loop {
	l.Fast = func(dst []byte, in *[3][]byte) {
		f(cpu.Active(), memory.FromRaw[R](dst), memory.FromRaw[T](in[0]), memory.FromRaw[T](in[1]))
	}
	return l
}

// WithTable makes a loop of one int8 or uint8 operand look its results up in a table.
func WithTable(l *Loop) *Loop {
	table := sync.OnceValue(func() *[256]byte {
		var all, results [256]byte
		for i := range all {
			all[i] = byte(i)
		}
		l.Run(results[:], &[3][]byte{all[:]})
		return &results
	})
	run := l.Run
	l.Fast = func(dst []byte, in *[3][]byte) {
		if len(dst) < 256 {
			run(dst, in)
			return
		}
		kit.MapBytes(dst, in[0], table())
	}
	return l
}

// WithConstant adds a vector kernel of two operands, the first of which has v everywhere.
func WithConstant[T tensor.Element](l *Loop, v T, f func(l cpu.Level, dst, a, b []T)) *Loop {
	var block [256]T
	kit.RepeatOf(block[:], v)
	return WithKernel1(l, func(l cpu.Level, dst, x []T) {
		for len(dst) > 0 {
			n := min(len(dst), len(block))
			f(l, dst[:n], block[:], x)
			dst, x = dst[n:], x[n:]
		}
	})
}

// WithCompare adds a vector kernel to a comparison. If swap is set, its operands are exchanged.
func WithCompare[T tensor.Element](l *Loop, f func(l cpu.Level, dst []bool, a, b []T), swap bool) *Loop {
	l.Fast = func(dst []byte, in *[3][]byte) {
		a, b := memory.FromRaw[T](in[0]), memory.FromRaw[T](in[1])
		if swap {
			a, b = b, a
		}
		f(cpu.Active(), memory.FromRaw[bool](dst), a, b)
	}
	return l
}

// Loop1 returns the loop of a function of one operand.
func Loop1[T, R tensor.Element](f func(dst []R, a []T)) *Loop {
	return &Loop{In: tensor.DTypeOf[T](), Out: tensor.DTypeOf[R](), Arity: 1, Run: func(dst []byte, in *[3][]byte) {
		f(memory.FromRaw[R](dst), memory.FromRaw[T](in[0]))
	}}
}

// Loop2 returns the loop of a function of two operands of the same length.
func Loop2[T, R tensor.Element](f func(dst []R, a, b []T)) *Loop {
	return &Loop{In: tensor.DTypeOf[T](), Out: tensor.DTypeOf[R](), Arity: 2, Run: func(dst []byte, in *[3][]byte) {
		f(memory.FromRaw[R](dst), memory.FromRaw[T](in[0]), memory.FromRaw[T](in[1]))
	}}
}

// Loop2Scalar is loop2 for a function that accepts an operand of one element, which it repeats.
func Loop2Scalar[T, R tensor.Element](f func(dst []R, a, b []T)) *Loop {
	l := Loop2(f)
	l.scalars = true
	return l
}

// Table maps the element type of the inputs to a loop.
type Table map[tensor.DType]Loop

// LoopsOf returns a table of loops. Float16 and bfloat16 use the float32 loop on widened blocks.
func LoopsOf(loops ...*Loop) Table {
	t := Table{}
	for _, l := range loops {
		t[l.In] = *l
		if l.In == tensor.TypeFloat32 {
			t[tensor.TypeFloat16] = WidenedLoop(*l, tensor.TypeFloat16)
			t[tensor.TypeBFloat16] = WidenedLoop(*l, tensor.TypeBFloat16)
		}
	}
	return t
}

// WithFast adds a loop of vector kernels for an element type to t.
//
//go:noinline
func (t Table) WithFast(d tensor.DType, f func(dst []byte, in *[3][]byte)) Table {
	l := t[d]
	l.Fast = f
	t[d] = l
	return t
}

// SameBits is LoopsOf for a function that gives the same bits for signed and unsigned integers: the
// loops of the signed ones run for both.
func SameBits(loops ...*Loop) Table {
	t := LoopsOf(loops...)
	for unsigned, signed := range map[tensor.DType]tensor.DType{
		tensor.TypeUint8: tensor.TypeInt8, tensor.TypeUint16: tensor.TypeInt16,
		tensor.TypeUint32: tensor.TypeInt32, tensor.TypeUint64: tensor.TypeInt64,
	} {
		l := t[signed]
		l.In = unsigned
		if l.Out == signed {
			l.Out = unsigned
		}
		t[unsigned] = l
	}
	return t
}

// Loop returns the loop for elements of type d.
func (t Table) Loop(d tensor.DType) (Loop, error) {
	l, ok := t[d]
	if !ok {
		return l, fail.Errorf("elements of type %s are not supported", d)
	}
	return l, nil
}

// LoopState is the memory of a worker for a loop over blocks.
type LoopState struct {
	in, wide [3][]byte
	fill     [3][16 * kit.LoopBlock]byte
	filled   [3]struct{ offset, n int }
	at       []int // coordinates of the current row
	Widened  [3][WidenBlock]float32
	result   [WidenBlock]float32
}

// LoopStates recycles the states of loops.
var LoopStates = sync.Pool{New: func() any { return new(LoopState) }}

// WidenedLoop converts a float32 loop to one for float16 or bfloat16.
func WidenedLoop(l Loop, d tensor.DType) Loop {
	w := l
	w.In = d
	w.scalars, w.FastScalars, w.bind = false, false, nil
	if l.Out == tensor.TypeFloat32 {
		w.Out = d
	}
	w.Run = widenedRun(l, l.Run, d, kit.WidenHalf, kit.NarrowHalf)
	fast := l.Fast
	if fast == nil {
		fast = l.Run
	}
	w.Fast = widenedRun(l, fast, d, kit.WidenHalfFast, kit.NarrowHalfFast)
	return w
}

func widenedRun(l Loop, run func(dst []byte, in *[3][]byte), d tensor.DType,
	widen func([]float32, []byte, tensor.DType), narrow func([]byte, []float32, tensor.DType)) func(dst []byte,
	in *[3][]byte) {
	size := l.Out.Size()
	if l.Out == tensor.TypeFloat32 {
		size = d.Size()
	}
	return func(dst []byte, in *[3][]byte) {
		st := LoopStates.Get().(*LoopState)
		defer LoopStates.Put(st)
		n := len(dst) / size
		for lo := 0; lo < n; lo += WidenBlock {
			m := min(WidenBlock, n-lo)
			for k := range l.Arity {
				widen(st.Widened[k][:m], in[k][2*lo:2*(lo+m)], d)
				st.wide[k] = memory.AsBytes(st.Widened[k][:m])
			}
			if l.Out != tensor.TypeFloat32 {
				run(dst[size*lo:size*(lo+m)], &st.wide)
				continue
			}
			run(memory.AsBytes(st.result[:m]), &st.wide)
			narrow(dst[2*lo:2*(lo+m)], st.result[:m], d)
		}
	}
}

// RunLoop computes output 0 of the given shape from tensors that broadcast to it. shapes[k] is the
// shape to use for in[k].
func RunLoop(c *ir.Call, l Loop, grain int, outShape []int, in []*tensor.Tensor, shapes [][]int) error {
	out, err := c.Output(0, l.Out, outShape...)
	if err != nil {
		return err
	}
	return RunLoopInto(c, l, grain, out, in, shapes)
}

// RunLoopInto is RunLoop into an existing tensor, which may be an input of the same shape.
func RunLoopInto(c *ir.Call, l Loop, grain int, out *tensor.Tensor, in []*tensor.Tensor, shapes [][]int) error {
	n := out.Len()
	if n == 0 {
		return nil
	}
	if c.Capturing && n <= kit.GrainCheap && tensor.Value(out) == c.Out[0] && l.In.IsFloat() {
		launchLoop(c, l.forCall(c), out, in, shapes)
		return nil
	}
	j := loopJobs.Get().(*loopJob)
	j.call, j.loop = c, l.forCall(c)
	j.dst, j.size = out.Bytes(), l.Out.Size()
	j.src = j.sources[:len(in)]
	for k, t := range in {
		s := &j.src[k]
		s.data, s.size, s.shape = t.Bytes(), t.DType().Size(), shapes[k]
	}
	j.plan(out.Shape(), n)
	c.Parallel(n, grain, j.work)
	j.release()
	return nil
}

// loopJob is one run of a loop over a tensor. Jobs are pooled, so that running a loop does not
// allocate.
type loopJob struct {
	broadcastLoop
	call    *ir.Call
	loop    Loop
	dst     []byte
	size    int              // of an element of dst
	work    func(lo, hi int) // method value of j.run, to avoid an allocation
	sources [3]loopSource
}

var loopJobs = sync.Pool{New: func() any {
	j := new(loopJob)
	j.work = j.run
	return j
}}

// run computes elements [lo, hi).
func (j *loopJob) run(lo, hi int) { j.elements(j.loop, j.dst[lo*j.size:hi*j.size], lo, hi) }

// release clears the references of the job and returns it to the pool.
func (j *loopJob) release() {
	j.call, j.loop, j.dst = nil, Loop{}, nil
	for k := range j.sources {
		j.sources[k].data, j.sources[k].shape = nil, nil
	}
	loopJobs.Put(j)
}

// launchLoop launches a loop over float. Integers are left out: a divisor of zero must be
// looked for each time.
func launchLoop(c *ir.Call, l Loop, out *tensor.Tensor, in []*tensor.Tensor, shapes [][]int) {
	n, dst := out.Len(), out.Bytes()
	b := &broadcastLoop{src: make([]loopSource, len(in))}
	whole := true
	var data [3][]byte
	for k, t := range in {
		b.src[k] = loopSource{data: t.Bytes(), size: t.DType().Size(), shape: shapes[k]}
		data[k] = t.Bytes()
	}
	b.plan(out.Shape(), n)
	for k := range b.src {
		s := &b.src[k]
		s.shape = nil // may be the tensor's own slice, which changes
		whole = whole && (s.whole || l.scalars && len(s.data) == s.size)
	}
	switch {
	case whole && l.bind != nil:
		c.Launch(1, 1, l.bind(dst, &data))
	case whole:
		c.Launch(1, 1, func(int, int) { l.Run(dst, &data) })
	default:
		c.Launch(1, 1, func(int, int) { b.elements(l, dst, 0, n) })
	}
}

// MapLoop runs a loop over input 0. Other inputs are parameters that the operator has read.
func MapLoop(c *ir.Call, l Loop, grain int) error {
	for i := 1; i < c.NumIn(); i++ {
		c.DependsOn(i)
	}
	x := c.Tensor(0)
	return RunLoop(c, l, grain, x.Shape(), []*tensor.Tensor{x}, [][]int{x.Shape()})
}

// MapTable runs the loop for the type of input 0.
func MapTable(c *ir.Call, t Table, grain int) error {
	l, err := t.Loop(c.Tensor(0).DType())
	if err != nil {
		return err
	}
	if l.Fast != nil && !c.Generic {
		grain = kit.GrainVector
	}
	return MapLoop(c, l, grain)
}

// FloatLoops returns the loops of a floating-point operator: f64 for float64, and f32 for other
// types, which are widened. fast is f32 with vector kernels, or nil.
func FloatLoops(f32 func(dst, src []float32), f64 func(dst, src []float64), fast kit.VecUnary) Table {
	return LoopsOf(WithUnary(Loop1(f32), fast), Loop1(f64))
}
