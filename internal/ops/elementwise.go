package ops

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// The constraints of arithmetic. They name the types without ~, which keeps
// Float16 and its like out: adding their bits would compile.
type (
	floatNumber    interface{ float32 | float64 }
	signedNumber   interface{ int8 | int16 | int32 | int64 }
	unsignedNumber interface {
		uint8 | uint16 | uint32 | uint64
	}
	intNumber  interface{ signedNumber | unsignedNumber }
	realNumber interface{ intNumber | floatNumber }
)

// loopBlock is how many elements are widened, gathered or repeated at a time.
const loopBlock = 512

// An elementLoop computes elements of an operator's output from as many of each
// of its inputs, given as raw memory.
type elementLoop struct {
	in, out tensor.DType
	arity   int
	// scalars says that run takes an input of a single element for a
	// repeated one.
	scalars bool
	run     func(dst []byte, in *[3][]byte)
	// fast, if not nil, is run with vector kernels. It takes inputs of a single
	// element if fastScalars is set.
	fast        func(dst []byte, in *[3][]byte)
	fastScalars bool
}

// forCall returns the loop that a call wants, in run.
func (l elementLoop) forCall(c *ir.Call) elementLoop {
	if l.fast != nil && !c.Generic {
		l.run, l.scalars = l.fast, l.fastScalars
	}
	return l
}

// The shapes of vector kernels.
type (
	vecUnary  = func(l cpu.Level, dst, x []float32)
	vecBinary = func(l cpu.Level, dst, a, b []float32)
	vecScalar = func(l cpu.Level, dst, x []float32, s float32)
)

// inPieces makes a kernel of one that walks over its elements several times, such
// that they stay in the first cache. dst and x of that one are not the same.
func inPieces(f vecUnary) vecUnary {
	const piece = 2048
	return func(l cpu.Level, dst, x []float32) {
		for lo := 0; lo < len(dst); lo += piece {
			hi := min(len(dst), lo+piece)
			f(l, dst[lo:hi], x[lo:hi])
		}
	}
}

// withUnary adds a vector kernel to a float32 loop; nil adds none.
func withUnary(l elementLoop, f vecUnary) elementLoop {
	if f != nil {
		l.fast = func(dst []byte, in *[3][]byte) {
			f(cpu.Active(), tensor.FromRaw[float32](dst), tensor.FromRaw[float32](in[0]))
		}
	}
	return l
}

// withBinary adds vector kernels to a float32 loop: for two vectors, for a
// scalar on the right, and for one on the left.
func withBinary(l elementLoop, vectors vecBinary, right, left vecScalar) elementLoop {
	l.fastScalars = true
	l.fast = func(dst []byte, in *[3][]byte) {
		y, a, b := tensor.FromRaw[float32](dst), tensor.FromRaw[float32](in[0]), tensor.FromRaw[float32](in[1])
		switch level := cpu.Active(); {
		case len(a) == len(b) && len(a) == len(y):
			vectors(level, y, a, b)
		case len(b) == 1 && len(a) == len(y):
			right(level, y, a, b[0])
		case len(a) == 1 && len(b) == len(y):
			left(level, y, b, a[0])
		default: // both are repeated
			vectors(level, y[:1], a, b)
			repeatOf(y, y[0])
		}
	}
	return l
}

// withCompare adds a vector kernel to a comparison; swap exchanges its operands.
func withCompare[T float32 | int32 | int64](l elementLoop, f func(l cpu.Level, dst []bool, a, b []T), swap bool) elementLoop {
	l.fast = func(dst []byte, in *[3][]byte) {
		a, b := tensor.FromRaw[T](in[0]), tensor.FromRaw[T](in[1])
		if swap {
			a, b = b, a
		}
		f(cpu.Active(), tensor.FromRaw[bool](dst), a, b)
	}
	return l
}

func loop1[T, R tensor.Element](f func(dst []R, a []T)) elementLoop {
	return elementLoop{in: tensor.DTypeOf[T](), out: tensor.DTypeOf[R](), arity: 1, run: func(dst []byte, in *[3][]byte) {
		f(tensor.FromRaw[R](dst), tensor.FromRaw[T](in[0]))
	}}
}

func loop2[T, R tensor.Element](f func(dst []R, a, b []T)) elementLoop {
	return elementLoop{in: tensor.DTypeOf[T](), out: tensor.DTypeOf[R](), arity: 2, run: func(dst []byte, in *[3][]byte) {
		f(tensor.FromRaw[R](dst), tensor.FromRaw[T](in[0]), tensor.FromRaw[T](in[1]))
	}}
}

// loop2Scalar is loop2 for a function that takes an a or b of one element for a
// repeated one.
func loop2Scalar[T, R tensor.Element](f func(dst []R, a, b []T)) elementLoop {
	l := loop2(f)
	l.scalars = true
	return l
}

// loopTable holds an operator's loop for every element type of its inputs.
type loopTable map[tensor.DType]elementLoop

// loopsOf makes a table. Half and bfloat16 get the float32 loop over widened
// blocks.
func loopsOf(loops ...elementLoop) loopTable {
	t := loopTable{}
	for _, l := range loops {
		t[l.in] = l
		if l.in == tensor.TypeFloat32 {
			t[tensor.TypeFloat16] = widenedLoop(l, tensor.TypeFloat16)
			t[tensor.TypeBFloat16] = widenedLoop(l, tensor.TypeBFloat16)
		}
	}
	return t
}

func (t loopTable) loop(d tensor.DType) (elementLoop, error) {
	l, ok := t[d]
	if !ok {
		return l, fmt.Errorf("elements of type %s are not supported", d)
	}
	return l, nil
}

// loopState is what a worker needs to run a loop on blocks.
type loopState struct {
	in, wide [3][]byte
	fill     [3][16 * loopBlock]byte
	filled   [3]struct{ offset, n int }
	widened  [3][loopBlock]float32
	result   [loopBlock]float32
}

var loopStates = sync.Pool{New: func() any { return new(loopState) }}

// widenedLoop makes a loop over half or bfloat16 numbers of one over float32.
func widenedLoop(l elementLoop, d tensor.DType) elementLoop {
	w := l
	w.in = d
	w.scalars, w.fastScalars = false, false
	if l.out == tensor.TypeFloat32 {
		w.out = d
	}
	w.run = widenedRun(l, l.run, d, widenHalf, narrowHalf)
	fast := l.fast
	if fast == nil {
		fast = l.run
	}
	w.fast = widenedRun(l, fast, d, widenHalfFast, narrowHalfFast)
	return w
}

func widenedRun(l elementLoop, run func(dst []byte, in *[3][]byte), d tensor.DType,
	widen func([]float32, []byte, tensor.DType), narrow func([]byte, []float32, tensor.DType)) func(dst []byte, in *[3][]byte) {
	size := l.out.Size()
	if l.out == tensor.TypeFloat32 {
		size = d.Size()
	}
	return func(dst []byte, in *[3][]byte) {
		st := loopStates.Get().(*loopState)
		defer loopStates.Put(st)
		n := len(dst) / size
		for lo := 0; lo < n; lo += loopBlock {
			m := min(loopBlock, n-lo)
			for k := range l.arity {
				widen(st.widened[k][:m], in[k][2*lo:2*(lo+m)], d)
				st.wide[k] = tensor.AsBytes(st.widened[k][:m])
			}
			if l.out != tensor.TypeFloat32 {
				run(dst[size*lo:size*(lo+m)], &st.wide)
				continue
			}
			run(tensor.AsBytes(st.result[:m]), &st.wide)
			narrow(dst[2*lo:2*(lo+m)], st.result[:m], d)
		}
	}
}

// widenHalf reads half or bfloat16 numbers.
func widenHalf(dst []float32, src []byte, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		tensor.Float16sToFloat32s(dst, tensor.FromRaw[tensor.Float16](src))
	} else {
		tensor.BFloat16sToFloat32s(dst, tensor.FromRaw[tensor.BFloat16](src))
	}
}

// narrowHalf writes half or bfloat16 numbers, rounded to nearest even.
func narrowHalf(dst []byte, src []float32, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		tensor.Float32sToFloat16s(tensor.FromRaw[tensor.Float16](dst), src)
	} else {
		tensor.Float32sToBFloat16s(tensor.FromRaw[tensor.BFloat16](dst), src)
	}
}

// widenHalfFast is widenHalf with vector kernels.
func widenHalfFast(dst []float32, src []byte, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		vec.F16ToF32(cpu.Active(), dst, tensor.FromRaw[uint16](src))
	} else {
		vec.BF16ToF32(cpu.Active(), dst, tensor.FromRaw[uint16](src))
	}
}

// narrowHalfFast is narrowHalf with vector kernels.
func narrowHalfFast(dst []byte, src []float32, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		vec.F32ToF16(cpu.Active(), tensor.FromRaw[uint16](dst), src)
	} else {
		vec.F32ToBF16(cpu.Active(), tensor.FromRaw[uint16](dst), src)
	}
}

// Grains of elementwise work: elements below which a second thread costs more
// than it brings.
const (
	grainCheap  = 32 << 10 // a few instructions an element
	grainCostly = 4 << 10  // a transcendental function an element
	grainVector = 16 << 10 // the same in a vector kernel
	grainWatch  = 64 << 10 // elements after which a loop looks at the context
)

// eachRange runs fn over ranges of [0, n) on all threads, in pieces short
// enough to notice that the run must stop.
func eachRange(c *ir.Call, n, grain int, fn func(lo, hi int)) error {
	if n == 0 {
		return nil
	}
	if n <= grainWatch {
		c.Parallel(n, grain, fn)
		return nil
	}
	var stop atomic.Bool
	c.Parallel(n, grain, func(lo, hi int) {
		for ; lo < hi; lo += grainWatch {
			if stop.Load() {
				return
			}
			fn(lo, min(hi, lo+grainWatch))
			if c.Err() != nil {
				stop.Store(true)
			}
		}
	})
	return c.Err()
}

// runLoop computes output 0 of the given shape from tensors that broadcast to
// it; shapes[k] is the shape under which in[k] is read.
func runLoop(c *ir.Call, l elementLoop, grain int, outShape []int, in []*tensor.Tensor, shapes [][]int) error {
	out, err := c.Output(0, l.out, outShape...)
	if err != nil {
		return err
	}
	return runLoopInto(c, l, grain, out, in, shapes)
}

// runLoopInto is runLoop into an existing tensor, which may be one of the inputs
// if that has the same shape.
func runLoopInto(c *ir.Call, l elementLoop, grain int, out *tensor.Tensor, in []*tensor.Tensor, shapes [][]int) error {
	n := out.Len()
	if n == 0 {
		return nil
	}
	if c.Capturing && n <= grainCheap && tensor.Value(out) == c.Out[0] && l.in.IsFloat() {
		launchLoop(c, l.forCall(c), out, in, shapes)
		return nil
	}
	j := loopJobs.Get().(*loopJob)
	j.call, j.loop = c, l.forCall(c)
	j.dst, j.size = out.Bytes(), l.out.Size()
	j.src = j.sources[:len(in)]
	for k, t := range in {
		s := &j.src[k]
		s.data, s.size, s.shape = t.Bytes(), t.DType().Size(), shapes[k]
	}
	j.plan(out.Shape(), n)
	j.stop.Store(false)
	c.Parallel(n, grain, j.work)
	stopped := j.stop.Load()
	j.release()
	if stopped {
		return c.Err()
	}
	return nil
}

// loopJob is one run of a loop over a tensor. Jobs are used again, so that
// running a loop allocates nothing.
type loopJob struct {
	broadcastLoop
	call    *ir.Call
	loop    elementLoop
	dst     []byte
	size    int // of an element of dst
	stop    atomic.Bool
	work    func(lo, hi int) // j.run, bound once
	sources [3]loopSource
}

var loopJobs = sync.Pool{New: func() any {
	j := new(loopJob)
	j.work = j.run
	return j
}}

// run computes the elements [lo, hi), in pieces short enough to notice that the
// run must stop.
func (j *loopJob) run(lo, hi int) {
	for ; lo < hi && !j.stop.Load(); lo += grainWatch {
		end := min(hi, lo+grainWatch)
		j.elements(j.loop, j.dst[lo*j.size:end*j.size], lo, end)
		if j.call.Err() != nil {
			j.stop.Store(true)
		}
	}
}

// release drops what the job points to and gives it back.
func (j *loopJob) release() {
	j.call, j.loop, j.dst = nil, elementLoop{}, nil
	for k := range j.sources {
		j.sources[k].data, j.sources[k].shape = nil, nil
	}
	loopJobs.Put(j)
}

// launchLoop launches a loop over float. Integers are left out: a divisor of zero must be
// looked for each time.
func launchLoop(c *ir.Call, l elementLoop, out *tensor.Tensor, in []*tensor.Tensor, shapes [][]int) {
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
		s.shape = nil // it may be the tensor's own, which changes
		whole = whole && (s.whole || l.scalars && len(s.data) == s.size)
	}
	if whole {
		c.Launch(1, 1, func(int, int) { l.run(dst, &data) })
	} else {
		c.Launch(1, 1, func(int, int) { b.elements(l, dst, 0, n) })
	}
}

// mapLoop runs a loop over input 0. Other inputs are parameters that the operator has read.
func mapLoop(c *ir.Call, l elementLoop, grain int) error {
	for i := 1; i < c.NumIn(); i++ {
		c.DependsOn(i)
	}
	x := c.Tensor(0)
	return runLoop(c, l, grain, x.Shape(), []*tensor.Tensor{x}, [][]int{x.Shape()})
}

// mapTable runs the loop for the type of input 0.
func mapTable(c *ir.Call, t loopTable, grain int) error {
	l, err := t.loop(c.Tensor(0).DType())
	if err != nil {
		return err
	}
	if l.fast != nil && !c.Generic {
		grain = grainVector
	}
	return mapLoop(c, l, grain)
}

// floatLoops makes the table of an operator on floats: f64 is for doubles, f32
// for all others, half numbers widened. fast, if not nil, is f32 with vector
// kernels.
func floatLoops(f32 func(dst, src []float32), f64 func(dst, src []float64), fast vecUnary) loopTable {
	return loopsOf(withUnary(loop1(f32), fast), loop1(f64))
}

// sameTypeAndShape infers one output like input 0.
type sameTypeAndShape struct{}

func (sameTypeAndShape) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// ignoreConsumed marks the attribute that told opset 1 which inputs may be
// overwritten.
func ignoreConsumed(a *Attrs, opset int) {
	if opset < 6 {
		a.Ignore("consumed_inputs")
	}
}

// withoutAttrs makes a Build function for an operator without attributes of its
// own.
func withoutAttrs(op Operator) func(*Attrs, int) (Operator, error) {
	return func(a *Attrs, opset int) (Operator, error) {
		ignoreConsumed(a, opset)
		return op, nil
	}
}
