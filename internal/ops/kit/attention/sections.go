package attention

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// headsSection computes chunks of queries, one after the other in each workspace.
type headsSection[T kit.RealFloat] struct {
	a          *Core[T]
	c          *ir.Call
	plan       attentionPlan
	heads      []attentionHead[T] // of each workspace
	packed     []T                // keys and values of all heads, if they are shared
	scratch    []T
	own        int // elements of a workspace
	workspaces int
	items      int // chunks of all heads
	pairs      int // keys and values that are shared
}

// Do computes the chunks of the workspaces [lo, hi).
func (s *headsSection[T]) Do(lo, hi int) {
	for ws := lo; ws < hi; ws++ {
		for i := ws; i < s.items && s.c.Err() == nil; i += s.workspaces {
			s.item(ws, i)
		}
	}
}

func (s *headsSection[T]) item(ws, i int) {
	a, p, memory := s.a, s.plan, s.scratch[ws*s.own:][:s.own]
	bh, chunk := i/p.chunks, i%p.chunks
	w := &s.heads[ws]
	*w = attentionHead[T]{attentionPlan: p, most: -1, b: bh / a.Heads, h: bh % a.Heads, s: memory[:p.scores]}
	w.kv = w.h * a.KVHeads / a.Heads
	if both := p.keys + p.values; p.shared {
		w.k = s.packed[(w.b*a.KVHeads+w.kv)*both:][:both]
	} else {
		w.k = memory[p.scores:][:both]
		a.pack(w, memory[p.scores+both:])
	}
	w.k, w.v = w.k[:p.keys], w.k[p.keys:]
	for block := p.blocks * chunk / p.chunks; block < p.blocks*(chunk+1)/p.chunks; block++ {
		if s.c.Err() != nil {
			return
		}
		i0 := a.QLen * block / p.blocks
		a.block(s.c, w, i0, a.QLen*(block+1)/p.blocks-i0)
	}
}

// packSection packs the keys and values that chunks share.
type packSection[T kit.RealFloat] struct{ headsSection[T] }

// Do packs those of the workspaces [lo, hi).
func (s *packSection[T]) Do(lo, hi int) {
	p, both := s.plan, s.plan.keys+s.plan.values
	workspaces := min(s.pairs, s.workspaces)
	for ws := lo; ws < hi; ws++ {
		for i := ws; i < s.pairs && s.c.Err() == nil; i += workspaces {
			w := &attentionHead[T]{attentionPlan: p, b: i / s.a.KVHeads, kv: i % s.a.KVHeads,
				k: s.packed[i*both:][:both]}
			s.a.pack(w, s.scratch[ws*s.own+p.scores:][:p.staging])
		}
	}
}
