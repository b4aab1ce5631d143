package memory

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Recycled returns n bytes like [Uninitialized], for results that callers drop soon. When
// the garbage collector finds a block unreachable, the block returns to a pool and can be reused
// until the second collection after that. With a heap of a few megabytes, fresh result buffers
// would trigger a collection every few runs, and a collection costs more than running a small
// model.
func Recycled(n int) []byte { return recycle(n, uncleared) }

// Result is [Recycled] for results of runs. Long ones are in large pages where the system has them
// and the memory is new: a page fault per 4 KiB takes longer than writing the page.
func Result(n int) []byte { return recycle(n, largePages) }

func largePages(n int) []byte {
	const worth = 1 << 20
	b := uncleared(n)
	if n >= worth {
		advise(b)
	}
	return b
}

func recycle(n int, allocate func(n int) []byte) []byte {
	class := recycleClass(n + 64)
	if class < 0 {
		return Uninitialized(n)
	}
	size := recycleSize(class)
	if recycled.handed.Add(int64(size)) > recycleLimit {
		recycled.handed.Add(-int64(size))
		return aligned(allocate(n+64), n)
	}
	r := &recycled.classes[class]
	p, _ := r.free.Get().(*byte)
	if p == nil {
		p = unsafe.SliceData(allocate(size))
	}
	// A finalizer can make the block reachable again; a cleanup (runtime.AddCleanup) cannot.
	runtime.SetFinalizer(p, r.drop)
	return aligned(unsafe.Slice(p, size), n)
}

const (
	recycleLimit = 8 << 20 // limit in bytes of all blocks in use, and thereby of those in the pool
	recycleFirst = 14      // log2 of the smallest block: for smaller ones the finalizer costs more than it saves
	recycleLast  = 25      // log2 of the largest block
)

// recycled holds the pools, eight size classes between successive powers of two.
var recycled struct {
	handed  atomic.Int64 // bytes of all blocks in use
	classes [(recycleLast - recycleFirst) * 8]recycleBin
}

type recycleBin struct {
	free sync.Pool // of *byte, the first byte of a block
	drop func(*byte)
}

func init() {
	for i := range recycled.classes {
		r, size := &recycled.classes[i], int64(recycleSize(i))
		r.drop = func(p *byte) {
			recycled.handed.Add(-size)
			r.free.Put(p)
		}
	}
}

// recycleClass returns the smallest class with blocks of at least n bytes, or -1.
func recycleClass(n int) int {
	if n <= 1<<recycleFirst || n > 1<<recycleLast {
		return -1
	}
	log := bits.Len(uint(n-1)) - 1
	return (log-recycleFirst)*8 + (n-1)>>(log-3)&7
}

// recycleSize returns the size in bytes of the blocks of a class.
func recycleSize(class int) int {
	log := recycleFirst + class/8
	return 1<<log + (class%8+1)<<(log-3)
}
