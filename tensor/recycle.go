package tensor

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// RecycledBytes returns n bytes as [UninitializedBytes] does, for results that callers drop
// after a while. The collector hands a block that nothing refers to any more back to be used
// again, if it can be within the next two collections. With a heap of a few megabytes, a fresh
// block for each result makes a collection necessary every few runs, and a collection costs
// more than a small model.
func RecycledBytes(n int) []byte {
	class := recycleClass(n + 64)
	if class < 0 {
		return UninitializedBytes(n)
	}
	size := recycleSize(class)
	if recycled.handed.Add(int64(size)) > recycleLimit {
		recycled.handed.Add(-int64(size))
		return UninitializedBytes(n)
	}
	r := &recycled.classes[class]
	p, _ := r.free.Get().(*byte)
	if p == nil {
		p = unsafe.SliceData(uncleared(size))
	}
	// The finalizer makes the block reachable again, which a cleanup could not.
	runtime.SetFinalizer(p, r.drop)
	return aligned(unsafe.Slice(p, size), n)
}

const (
	recycleLimit = 8 << 20 // bytes of the blocks that are out at a time, and so of those that wait
	recycleFirst = 14      // log2 of the smallest block: below it the finalizer costs more than it saves
	recycleLast  = 25      // log2 above the largest
)

// recycled holds blocks in classes of eight sizes between powers of two.
var recycled struct {
	handed  atomic.Int64 // bytes of the blocks that are out
	classes [(recycleLast - recycleFirst) * 8]recycleBin
}

type recycleBin struct {
	free sync.Pool // of *byte, the first of a block
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

// recycleClass returns the first class whose blocks hold n bytes, or -1.
func recycleClass(n int) int {
	if n <= 1<<recycleFirst || n > 1<<recycleLast {
		return -1
	}
	log := bits.Len(uint(n-1)) - 1
	return (log-recycleFirst)*8 + (n-1)>>(log-3)&7
}

// recycleSize returns the size in bytes of a class's blocks.
func recycleSize(class int) int {
	log := recycleFirst + class/8
	return 1<<log + (class%8+1)<<(log-3)
}
