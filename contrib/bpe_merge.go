package contrib

import (
	"container/heap"
	"context"
	"slices"
)

// noToken is the id of a text that is not in the vocabulary.
const noToken = 1<<32 - 1

// merge is what a pair of tokens becomes.
type merge struct{ id, rank uint32 }

// symbol is a token of a word: its id and its length in bytes, with its neighbours.
type symbol struct {
	id, size   uint32
	prev, next int32 // −1 at the ends
}

// candidate is a pair of tokens that may merge, which begins at a symbol.
type candidate struct {
	rank uint32
	at   int32
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, k int) bool {
	return c[i].rank < c[k].rank || c[i].rank == c[k].rank && c[i].at < c[k].at
}
func (c candidates) Swap(i, k int) { c[i], c[k] = c[k], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// mergeSymbols merges pairs of tokens in the order of their ranks: all pairs of a rank from left
// to right, before those that this makes.
func mergeSymbols(ctx context.Context, merges map[[2]uint32]merge, s []symbol) ([]symbol, error) {
	if len(s) < 2 {
		return s, nil
	}
	var queue candidates
	at := func(i int32) (merge, bool) { // what the pair at a symbol becomes
		if i < 0 || s[i].next < 0 {
			return merge{}, false
		}
		m, ok := merges[[2]uint32{s[i].id, s[s[i].next].id}]
		return m, ok
	}
	for i := range s {
		s[i].prev, s[i].next = int32(i)-1, int32(i)+1
	}
	s[len(s)-1].next = -1
	for i := range s {
		if m, ok := at(int32(i)); ok {
			queue = append(queue, candidate{m.rank, int32(i)})
		}
	}
	heap.Init(&queue)
	gone := func(i int32) bool { return s[i].size == 0 }
	var same []int32
	for steps := 0; len(queue) > 0; steps++ {
		if steps&1023 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rank := queue[0].rank
		same = same[:0]
		for len(queue) > 0 && queue[0].rank == rank {
			same = append(same, heap.Pop(&queue).(candidate).at)
		}
		for _, i := range same {
			if gone(i) {
				continue
			}
			merged := false
			for m, ok := at(i); ok && m.rank == rank; m, ok = at(i) {
				k := s[i].next
				s[i].id, s[i].next = m.id, s[k].next
				s[i].size += s[k].size
				s[k].size = 0
				if s[i].next >= 0 {
					s[s[i].next].prev = i
				}
				merged = true
			}
			if !merged {
				continue
			}
			for _, p := range []int32{s[i].prev, i} {
				if m, ok := at(p); ok {
					heap.Push(&queue, candidate{m.rank, p})
				}
			}
		}
	}
	return slices.DeleteFunc(s, func(x symbol) bool { return x.size == 0 }), nil
}
