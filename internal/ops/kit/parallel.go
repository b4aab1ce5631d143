package kit

import "github.com/onward-ml/onward/internal/ir"

// Grain sizes of elementwise work: for fewer elements, a second thread costs more than it saves.
const (
	GrainCheap  = 32 << 10 // a few instructions per element
	GrainCostly = 4 << 10  // a transcendental function per element
	GrainVector = 16 << 10 // a transcendental function in a vector kernel
)

// ShortRow is the number of elements below which a vector kernel is not faster.
const ShortRow = 16

// ParallelEach calls fn for [0, n) on all threads. work is the cost of a call, in elements.
func ParallelEach(c *ir.Call, n, work int, fn func(i int)) {
	ParallelSpans(c, n, work, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			fn(i)
		}
	})
}

// ParallelSpans is ParallelEach for ranges.
func ParallelSpans(c *ir.Call, n, work int, fn func(lo, hi int)) { c.Parallel(n, spanGrain(work), fn) }

// LaunchSpans is ParallelSpans by a launch.
func LaunchSpans(c *ir.Call, n, work int, fn func(lo, hi int)) { c.Launch(n, spanGrain(work), fn) }

// spanGrain is how many items of a given number of elements are worth another thread.
func spanGrain(work int) int { return max(1, GrainVector/max(work, 1)) }

// InWorkspaces runs work items [0, n) on as many workspaces as the run has threads. An item may
// use only the memory of workspace ws; the assignment of items to workspaces is not fixed. It
// returns the error of the lowest workspace that fails.
func InWorkspaces(c *ir.Call, n int, item func(ws, i int) error) error {
	count := WorkspaceCount(c, n)
	if count == 0 {
		return nil
	}
	errs := make([]error, count)
	c.Parallel(count, 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			for i := s; i < n; i += count {
				if errs[s] = c.Err(); errs[s] != nil {
					break
				}
				if errs[s] = item(s, i); errs[s] != nil {
					break
				}
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// WorkspaceCount returns the number of workspaces for n items in InWorkspaces.
func WorkspaceCount(c *ir.Call, n int) int { return min(n, c.Threads()) }

// GrainFor returns the minimum number of items per thread, for items of the given cost in
// elementary operations. It runs once per call of an operator; inlined, its copies took 8 KB.
//
//go:noinline
func GrainFor(cost int) int { return max(1, 32768/max(1, cost)) }

// ExpCost is the cost of an exponential in elementary operations.
const ExpCost = 10
