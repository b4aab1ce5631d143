package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

type topKEntry struct{ order, index int64 }

func (e topKEntry) ahead(f topKEntry) bool {
	return e.order > f.order || e.order == f.order && e.index < f.index
}

// topKList holds the k best entries: up to listK of them in order, more in a heap whose root is the
// worst.
type topKList struct {
	k       int
	entries []topKEntry
}

// worst returns the worst of k entries, or nil if there are fewer.
func (l *topKList) worst() *topKEntry {
	switch {
	case len(l.entries) < l.k:
		return nil
	case l.k <= listK:
		return &l.entries[l.k-1]
	}
	return &l.entries[0]
}

// add adds an entry with an index above all others. If there are k already, it replaces the worst,
// than which it must be better.
func (l *topKList) add(e topKEntry) {
	full := len(l.entries) == l.k
	if !full {
		l.entries = append(l.entries, e)
	}
	h := l.entries
	at := len(h) - 1
	if l.k <= listK {
		for ; at > 0 && e.order > h[at-1].order; at-- { // an equal entry follows
			h[at] = h[at-1]
		}
		h[at] = e
		return
	}
	if full {
		h[0] = e
		topKDown(h, 0)
		return
	}
	for at > 0 && h[(at-1)/2].ahead(e) { // the parent must be worse
		h[at] = h[(at-1)/2]
		at = (at - 1) / 2
	}
	h[at] = e
}

// sort puts the entries in order, unless the context ends.
func (l *topKList) sort(c *ir.Call) {
	for end := len(l.entries) - 1; end > 0 && l.k > listK; end-- {
		if end&0xfff == 0xfff && c.Err() != nil {
			return
		}
		l.entries[0], l.entries[end] = l.entries[end], l.entries[0]
		topKDown(l.entries[:end], 0)
	}
}

// topKDown restores the order of a heap whose root is the worst, where only entry i may be out of
// order.
func topKDown(h []topKEntry, i int) {
	e := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child].ahead(h[child+1]) {
			child++
		}
		if !e.ahead(h[child]) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}
