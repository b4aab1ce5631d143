package ir

import (
	"context"
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// Env is the interface of an engine to a running operator.
type Env interface {
	// Context is cancelled when the run must stop.
	Context() context.Context
	// Alloc returns a tensor for output i of the call; contents are undefined for
	// numbers, empty for strings. It fails when the run would exceed its memory
	// limit.
	Alloc(c *Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error)
	// Scratch returns n bytes, 64-byte aligned with undefined contents, that are
	// valid until the call ends.
	Scratch(c *Call, n int) ([]byte, error)
	// Reserve charges n bytes to the run's memory limit until the call ends.
	Reserve(c *Call, n int64) error
	// Parallel calls fn over ranges that cover [0, n), at least grain long but for
	// the last, maybe on several threads at once. It checks the context between ranges
	// and does not return once it has ended: the engine unwinds the call.
	Parallel(n, grain int, fn func(lo, hi int))
	// Serial is Parallel on the calling goroutine, in order.
	Serial(n, grain int, fn func(lo, hi int))
	// Threads returns the largest number of goroutines in which a call of Parallel runs fn.
	Threads() int
	// RunGraph runs the call's k-th subgraph.
	RunGraph(c *Call, k int, in []tensor.Value) ([]tensor.Value, error)
	// RunBody is RunGraph with results that are valid until the second next call of RunBody for the
	// same subgraph, and until the call ends.
	RunBody(c *Call, k int, in []tensor.Value) ([]tensor.Value, error)
	// Release ends the use of a result of RunGraph or RunBody.
	Release(c *Call, v tensor.Value)
	// Seed returns a fresh seed for an operator that has none of its own.
	Seed() uint64
	// Extend makes output out of the call the first length elements, along the axis of
	// [Appender], of the state that the call extends in place. It returns nil if it has to write
	// an output of its own.
	Extend(c *Call, out, length int) (*Cache, error)
	// Cache returns the memory of input i if that is a state that an operator has extended in place
	// in this run, else nil.
	Cache(c *Call, i int) *Cache
}

// Cache is the memory of a state that grows in place along an axis: for each index of the
// dimensions before the axis a block of Room elements of the axis. The elements after the length of
// the state are not part of it, but the memory may be read.
type Cache struct {
	Data []byte
	Axis int // not negative
	Room int
}

// Call is one run of one node.
type Call struct {
	In  []tensor.Value // nil for an omitted input
	Out []tensor.Value // set by Output or Set; a wanted output must be set

	// Generic asks for the plain kernels: the reference engine's calls do.
	Generic bool

	// BFloat16 allows float32 GEMM and convolutions to round their operands to bfloat16.
	BFloat16 bool

	// Split allows float32 GEMM to multiply the bfloat16 parts of its operands where that is
	// faster. Results are as accurate as those of float32 multiplications.
	Split bool

	// Bound says that the call belongs to a binding, whose runs use the same call.
	Bound bool

	// Grows says that the engine does not use input 0, a sequence, after the call, so that the
	// call may append to its items in place; see [Growing].
	Grows bool

	// Capturing says that the engine keeps the launches of this call and replays them in later
	// runs.
	Capturing bool

	Node  *Node
	Index int // position of the node in its plan
	Env   Env

	launches []Launch // pending ones, in order
	deferred bool     // launches wait until Run has returned
	plain    bool     // the call did more than launch kernels
	depends  []int    // inputs whose contents Run has read
	dims     []int    // of Output, so that its argument need not escape
	kept     []any    // of Kept
	next     int      // index in kept
	ints     []int    // of Ints
	par      func(n int, fn func(lo, hi int))
	launcher func(n int, fn func(lo, hi int))
}

// Launch is one launch of a kernel: Kernel is called over ranges that cover [0, N), which are
// at least Grain long but for the last, maybe on several threads at once.
type Launch struct {
	N, Grain int
	Kernel   func(lo, hi int)
	Aside    bool // it may run at the same time as the next launch of the call
}

// With returns another launch each part of which also runs that part of l.
func (l Launch) With(other Launch) Launch {
	kernel, n := other.Kernel, int64(other.N)
	other.Kernel = func(lo, hi int) {
		if from, to := int(int64(lo)*int64(l.N)/n), int(int64(hi)*int64(l.N)/n); from < to {
			l.Kernel(from, to)
		}
		kernel(lo, hi)
	}
	return other
}

// Launch launches a kernel: the engine runs it when [Operator.Run] has returned, after the
// kernels that were launched before it. A call whose results come from its launches alone is
// captured: in later runs the engine runs its kernels, for other contents of the inputs, and
// not the operator. For that
//
//   - kernels read inputs and write outputs at their addresses during Run;
//   - shapes of inputs may be read during Run, contents by kernels only, or see [Call.DependsOn];
//   - results must not depend on how the ranges are cut.
//
// Everything else ends capture by itself: [Call.Parallel], [Call.Sync], scratch memory other than
// that of [LaunchScratchOf], and subgraphs. A kernel launches nothing itself.
func (c *Call) Launch(n, grain int, kernel func(lo, hi int)) {
	switch {
	case n <= 0:
	case c.deferred:
		c.launches = append(c.launches, Launch{N: n, Grain: grain, Kernel: kernel})
	default:
		c.Env.Parallel(n, grain, kernel)
	}
}

// LaunchAside is Launch for a kernel whose results the next launch of the call neither reads nor
// writes: a replay may run both at the same time.
func (c *Call) LaunchAside(n, grain int, kernel func(lo, hi int)) {
	c.Launch(n, grain, kernel)
	if n > 0 && c.deferred {
		c.launches[len(c.launches)-1].Aside = true
	}
}

// Launcher is Launch with ranges of any length, as a function value.
func (c *Call) Launcher() func(n int, kernel func(lo, hi int)) {
	if c.launcher == nil {
		c.launcher = func(n int, kernel func(lo, hi int)) { c.Launch(n, 1, kernel) }
	}
	return c.launcher
}

// DependsOn says that Run has read the contents of input i, so that the launches are
// replayed only if the input is constant.
func (c *Call) DependsOn(i int) { c.depends = append(c.depends, i) }

// Sync runs the kernels that are pending. The operator may then read what they have written;
// the call is not captured.
func (c *Call) Sync() {
	c.plain = true
	for i := range c.launches {
		l := &c.launches[i]
		c.Env.Parallel(l.N, l.Grain, l.Kernel)
	}
	clear(c.launches)
	c.launches = c.launches[:0]
}

// Inner runs another operator as a part of the call and waits for its kernels. Its inputs are
// in, or those of the call if in is nil.
func (c *Call) Inner(op Operator, in ...tensor.Value) error {
	if in != nil {
		outer := c.In
		defer func() { c.In = outer }()
		c.In = in
	}
	err := op.Run(c)
	c.Sync()
	return err
}

// Start makes the call ready for a run by an engine that takes its launches from Pending.
func (c *Call) Start(capturing bool) {
	c.Capturing, c.deferred, c.plain, c.depends, c.next = capturing, true, false, c.depends[:0], 0
	c.ints = c.ints[:0]
	if !c.Bound {
		c.kept = nil
	}
	clear(c.launches)
	c.launches = c.launches[:0]
}

// Pending returns the launches that Run has left to the engine. They are valid until the next
// Start.
func (c *Call) Pending() []Launch { return c.launches }

// Captured reports whether Run did nothing but launch kernels, which depend on the contents
// of the given inputs.
func (c *Call) Captured() (dependsOn []int, ok bool) { return c.depends, !c.plain }

// NumIn returns the number of inputs, trailing omitted ones not counted.
func (c *Call) NumIn() int {
	n := len(c.In)
	for n > 0 && c.In[n-1] == nil {
		n--
	}
	return n
}

// Has reports whether input i is given.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// Wants reports whether output i is used.
func (c *Call) Wants(i int) bool { return i < len(c.Node.Out) && c.Node.Out[i] != None }

// Tensor returns input i, nil when it is omitted. The engine has checked that
// the input is a tensor where the operator's signature says so. It is not inlined, since more than
// 1000 calls would take 60 KB more.
//
//go:noinline
func (c *Call) Tensor(i int) *tensor.Tensor {
	if i >= len(c.In) {
		return nil
	}
	t, _ := c.In[i].(*tensor.Tensor) // nil if the input is
	return t
}

// Output allocates output i. The contents are undefined for numbers: the
// operator must write every element.
func (c *Call) Output(i int, dtype tensor.DType, shape ...int) (*tensor.Tensor, error) {
	c.dims = append(c.dims[:0], shape...)
	t, err := c.Env.Alloc(c, i, dtype, c.dims)
	if err != nil {
		return nil, err
	}
	if i < len(c.Out) {
		c.Out[i] = t
	}
	return t, nil
}

// Set makes v output i. Values that share memory with inputs are allowed only
// for operators that are a [View] or whose outputs are not tensors; the engine
// copies others.
func (c *Call) Set(i int, v tensor.Value) {
	if i < len(c.Out) {
		c.Out[i] = v
	}
}

// Context returns the run's context.
func (c *Call) Context() context.Context { return c.Env.Context() }

// Err returns an error once the run must stop. Loops outside of [Call.Parallel], [Call.Serial] and
// [Call.Launch] check it at least every 10 ms.
func (c *Call) Err() error { return c.Env.Context().Err() }

// Check does not return if the run must stop. Kernels and loops call it at least every 10 ms within
// an item that takes longer.
func (c *Call) Check() { c.Env.Serial(1, 1, nothing) }

func nothing(int, int) {}

// Scratch returns n bytes, 64-byte aligned, with undefined contents, valid until
// the call ends. Other calls use the memory later, so the call is not captured.
func (c *Call) Scratch(n int) ([]byte, error) {
	c.plain = true
	return c.Env.Scratch(c, n)
}

// LaunchScratchOf is ScratchOf for memory that only launched kernels write and read. The call may
// be captured: no other call runs between its kernels.
func LaunchScratchOf[T any](c *Call, n int) ([]T, error) {
	return scratchOf[T](c, n, func(c *Call, n int) ([]byte, error) { return c.Env.Scratch(c, n) })
}

// ScratchOf returns n elements of scratch memory with undefined contents. T must
// hold no pointers.
func ScratchOf[T any](c *Call, n int) ([]T, error) {
	return scratchOf[T](c, n, (*Call).Scratch)
}

func scratchOf[T any](c *Call, n int, take func(c *Call, n int) ([]byte, error)) ([]T, error) {
	var z [1]T
	size := len(memory.AsBytes(z[:]))
	if n < 0 || n > math.MaxInt/2/size {
		return nil, fail.Errorf("scratch memory of %d elements overflows", n)
	}
	b, err := take(c, n*size)
	if err != nil {
		return nil, err
	}
	return memory.FromRaw[T](b), nil
}

// Reserve charges n bytes that the operator allocates itself to the run's memory
// limit, before it allocates them.
func (c *Call) Reserve(n int64) error { return c.Env.Reserve(c, n) }

// Parallel calls fn over ranges that cover [0, n), maybe on several threads, and returns when
// it has been called for all of them. Ranges are at least grain long but for the last.
// Results must not depend on how the ranges are cut. It does not return if the run must stop, so
// that operators need no check of their own as long as grain items take less than 10 ms. The call
// is not captured.
func (c *Call) Parallel(n, grain int, fn func(lo, hi int)) {
	c.Sync()
	c.Env.Parallel(n, grain, fn)
}

// Serial is [Call.Parallel] on the calling goroutine, over ranges in ascending order.
func (c *Call) Serial(n, grain int, fn func(lo, hi int)) {
	c.Sync()
	c.Env.Serial(n, grain, fn)
}

// Threads returns the number of threads of the run, at least 1: at most as many ranges of one
// [Call.Parallel] run at once. Workspaces and chunks follow it. Results must not depend on it.
func (c *Call) Threads() int { return c.Env.Threads() }

// Par is Parallel with ranges of any length, as a function value.
func (c *Call) Par() func(n int, fn func(lo, hi int)) {
	if c.par == nil {
		c.par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	}
	return c.par
}

// Seed returns a fresh seed for an operator that has none of its own.
func (c *Call) Seed() uint64 {
	c.plain = true
	return c.Env.Seed()
}

// Extend returns the memory of a state that output out extends in place, with room for length
// elements along its axis: the operator writes the new ones only. It returns nil if the operator
// has to write an output of its own. The call is not captured.
func (c *Call) Extend(out, length int) (*Cache, error) {
	if c.Generic || !c.Wants(out) {
		return nil, nil
	}
	h, err := c.Env.Extend(c, out, length)
	if h != nil {
		c.plain = true
	}
	return h, err
}

// Cache returns the memory of input i if that is a state that an operator has extended in place,
// else nil. Then the tensor of the input has the shape of the state, but not its contents. The call
// is not captured.
func (c *Call) Cache(i int) *Cache {
	h := c.Env.Cache(c, i)
	if h != nil {
		c.plain = true
	}
	return h
}

// RunGraph runs the node's k-th subgraph on inputs and returns its outputs.
func (c *Call) RunGraph(k int, in []tensor.Value) ([]tensor.Value, error) {
	c.Sync()
	return c.Env.RunGraph(c, k, in)
}

// RunBody runs the node's k-th subgraph as an iteration of a loop. What it returns is valid until
// the second next iteration of the same subgraph, and until the call ends.
func (c *Call) RunBody(k int, in []tensor.Value) ([]tensor.Value, error) {
	c.Sync()
	return c.Env.RunBody(c, k, in)
}

// Release ends the use of a result of RunGraph or RunBody, so that loops stay within the memory
// limit.
func (c *Call) Release(v tensor.Value) { c.Env.Release(c, v) }
