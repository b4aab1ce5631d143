package exec

import "slices"

// blocks is the memory of a run whose layout is not known yet: values take blocks of chunks and
// give them back after their last use. Without it, the first run with a shape would touch several
// times the memory of later ones, and page faults would take most of its time. Chunks come from the
// idle memory of the plan. The zero value has no chunks.
type blocks struct {
	chunks [][]byte
	free   []block // sorted by chunk and offset; neighbours are merged
}

// block is a range of a chunk.
type block struct {
	chunk, at, n int
}

// Chunks double from the smallest size to the largest, unless a value needs a larger one.
const (
	firstChunk   = 64 << 10
	largestChunk = 32 << 20
)

// take returns n bytes with undefined contents. It takes the smallest free block that is large
// enough, or adds a chunk.
func (m *blocks) take(a *Arenas, n int) ([]byte, block) {
	if n == 0 {
		return []byte{}, block{}
	}
	need := (n + align - 1) &^ (align - 1)
	best := -1
	for i, b := range m.free {
		if b.n >= need && (best < 0 || b.n < m.free[best].n) {
			best = i
		}
	}
	if best < 0 {
		size := firstChunk
		if k := len(m.chunks); k > 0 {
			size = min(2*len(m.chunks[k-1]), largestChunk)
		}
		chunk := a.take(max(size, need))
		best = len(m.free)
		m.free = append(m.free, block{chunk: len(m.chunks), n: len(chunk) &^ (align - 1)})
		m.chunks = append(m.chunks, chunk)
	}
	f := &m.free[best]
	b := block{f.chunk, f.at, need}
	if f.at, f.n = f.at+need, f.n-need; f.n == 0 {
		m.free = slices.Delete(m.free, best, best+1)
	}
	return m.chunks[b.chunk][b.at : b.at+n : b.at+need], b
}

// give ends the use of a block. The zero block has no memory.
func (m *blocks) give(b block) {
	if b.n == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(m.free, b, func(f, b block) int {
		if f.chunk != b.chunk {
			return f.chunk - b.chunk
		}
		return f.at - b.at
	})
	if i < len(m.free) && m.free[i].chunk == b.chunk && m.free[i].at == b.at+b.n {
		m.free[i].at, m.free[i].n = b.at, m.free[i].n+b.n
	} else {
		m.free = slices.Insert(m.free, i, b)
	}
	if i > 0 && m.free[i-1].chunk == b.chunk && m.free[i-1].at+m.free[i-1].n == b.at {
		m.free[i-1].n += m.free[i].n
		m.free = slices.Delete(m.free, i, i+1)
	}
}

// reset ends the use of all blocks and gives the chunks back.
func (m *blocks) reset(a *Arenas) {
	for _, c := range m.chunks {
		a.put(c)
	}
	clear(m.chunks)
	m.chunks, m.free = m.chunks[:0], m.free[:0]
}
