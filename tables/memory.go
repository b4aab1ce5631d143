package tables

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// budget is the allocator of a reader. It panics if the parts of a record batch take more memory
// than maxBatch: pages, dictionaries and compressed buffers of small files can stand for any number
// of bytes, and Go cannot recover from an allocation that fails.
type budget struct{ used atomic.Int64 }

// maxBatch is the number of bytes that a reader allocates for a record batch, at most.
var maxBatch int64 = 2 << 30

// next begins a record batch.
func (b *budget) next() { b.used.Store(0) }

func (b *budget) take(n int) {
	if n > maxBody || b.used.Add(int64(n)) > maxBatch {
		panic(fmt.Sprintf("a record batch takes more than %d bytes, or one part of it more than %d", maxBatch, maxBody))
	}
}

// Allocate implements memory.Allocator.
func (b *budget) Allocate(n int) []byte {
	if n < 0 {
		panic(fmt.Sprintf("a part has %d bytes", n))
	}
	b.take(n)
	return memory.DefaultAllocator.Allocate(n)
}

// Reallocate implements memory.Allocator.
func (b *budget) Reallocate(n int, old []byte) []byte {
	if n < 0 {
		panic(fmt.Sprintf("a part has %d bytes", n))
	}
	b.take(max(0, n-len(old)))
	return memory.DefaultAllocator.Reallocate(n, old)
}

// Free implements memory.Allocator.
func (b *budget) Free(old []byte) { memory.DefaultAllocator.Free(old) }

// sizeOf returns the number of bytes of the buffers of a record batch.
func sizeOf(rec arrow.RecordBatch) (n int64) {
	for _, a := range rec.Columns() {
		n += bytesOf(a.Data())
	}
	return n
}

func bytesOf(d arrow.ArrayData) (n int64) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, c := range d.Children() {
		n += bytesOf(c)
	}
	if d, ok := d.Dictionary().(*array.Data); ok && d != nil {
		n += bytesOf(d)
	}
	return n
}
