package tokenizer

import (
	"container/heap"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// spSymbol is a part of a text during SentencePiece's BPE.
type spSymbol struct {
	lo, hi     int
	prev, next int
	frozen     bool // a user-defined piece, which does not merge
}

// spPair is a pair of symbols that a piece joins.
type spPair struct {
	left, right, size int
	score             float32
}

type spAgenda []spPair

func (a spAgenda) Len() int { return len(a) }
func (a spAgenda) Less(i, j int) bool {
	if a[i].score != a[j].score {
		return a[i].score > a[j].score
	}
	return a[i].left < a[j].left
}
func (a spAgenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *spAgenda) Push(v any)   { *a = append(*a, v.(spPair)) }
func (a *spAgenda) Pop() any {
	n := len(*a) - 1
	v := (*a)[n]
	*a = (*a)[:n]
	return v
}

// bpe merges the pair whose piece has the highest score, the leftmost of several. Unused
// pieces are divided again at last.
func (m *spModel) bpe(s []byte, sc *scratch, out []token) ([]token, error) {
	// A character takes a symbol and up to two pairs, in slices that double.
	const cost = 2 * int(unsafe.Sizeof(spSymbol{})+2*unsafe.Sizeof(spPair{})+2*unsafe.Sizeof(any(nil)))
	if !sc.take(cost * utf8.RuneCount(s)) {
		return out, sc.err
	}
	var list []spSymbol
	for i := 0; i < len(s) && sc.step(1); {
		n, frozen := 0, false
		if m.user != nil {
			var read int
			n, _, read = m.user.longest(s[i:])
			frozen = n > 0
			sc.step(read)
		}
		if n == 0 {
			n = runeSize(s[i])
		}
		list = append(list, spSymbol{i, i + n, len(list) - 1, len(list) + 1, frozen})
		i += n
	}
	list[len(list)-1].next = -1
	merged := map[string][2]string{} // parts of unused pieces
	var agenda spAgenda
	add := func(left, right int) {
		if left < 0 || right < 0 || list[left].frozen || list[right].frozen {
			return
		}
		text := s[list[left].lo:list[right].hi]
		id, ok := m.ids[string(text)]
		if !ok || !m.mergeable(id) {
			return
		}
		heap.Push(&agenda, spPair{left, right, len(text), m.pieces[id].score})
		if m.pieces[id].kind == pieceUnused {
			merged[string(text)] = [2]string{string(s[list[left].lo:list[left].hi]),
				string(s[list[right].lo:list[right].hi])}
		}
	}
	for i := 1; i < len(list) && sc.step(1); i++ {
		add(i-1, i)
	}
	for len(agenda) > 0 {
		if err := sc.poll(1); err != nil {
			return out, err
		}
		top := heap.Pop(&agenda).(spPair)
		l, r := &list[top.left], &list[top.right]
		if l.lo == l.hi || r.lo == r.hi || r.hi-l.lo != top.size {
			continue
		}
		l.hi = r.hi
		l.next = r.next
		if r.next >= 0 {
			list[r.next].prev = top.left
		}
		r.lo = r.hi
		add(l.prev, top.left)
		add(top.left, l.next)
	}
	for i := 0; i >= 0; i = list[i].next {
		out = m.resegment(string(s[list[i].lo:list[i].hi]), uint32(list[i].lo), merged, out, 0)
	}
	return out, nil
}

// mergeable reports whether merges can make a piece.
func (m *spModel) mergeable(id int32) bool {
	k := m.pieces[id].kind
	return k == pieceNormal || k == pieceUserDefined || k == pieceUnused
}

// resegment appends the tokens of a merged text.
func (m *spModel) resegment(s string, lo uint32, merged map[string][2]string, out []token, depth int) []token {
	id, ok := m.ids[s]
	if !ok {
		id = m.unk
	}
	parts, divided := merged[s]
	if m.pieces[id].kind != pieceUnused || !divided || depth > 1000 {
		return append(out, token{id: id, lo: lo, hi: lo + uint32(len(s))})
	}
	out = m.resegment(parts[0], lo, merged, out, depth+1)
	return m.resegment(parts[1], lo+uint32(len(parts[0])), merged, out, depth+1)
}

// spDecoder joins pieces as SentencePiece does.
type spDecoder struct {
	file    *spFile
	unk     string
	special map[string]bool

	denormalizer *spNormalizer // may be nil
}

func (d *spDecoder) decode(tokens []string, sc *scratch) ([]string, error) {
	var b strings.Builder
	start := true // no piece has been written that ends the removal of spaces
	var pending []byte
	flush := func() {
		for _, r := range string(pending) { // each invalid byte becomes U+FFFD
			b.WriteRune(r)
		}
		pending = pending[:0]
	}
	for _, t := range tokens {
		if !sc.step(1 + len(t)) {
			break
		}
		if c, ok := byteOf(t); ok && d.file.byteFallback {
			pending = append(pending, c)
			start = false
			continue
		}
		flush()
		if d.special[t] {
			continue
		}
		unknown := t == d.unk
		if unknown {
			t = d.file.unkSurface
		}
		if b.Len()+len(t) > sc.limit {
			return nil, errTextSize
		}
		if unknown {
			b.WriteString(t)
			start = false
			continue
		}
		if start && (d.file.prefix || d.file.collapse) {
			rest, ok := strings.CutPrefix(t, spaceSymbol)
			t = rest
			start = ok && d.file.collapse
		}
		if t != "" {
			start = false
		}
		b.WriteString(strings.ReplaceAll(t, spaceSymbol, " "))
	}
	flush()
	if d.denormalizer == nil {
		return []string{b.String()}, sc.err
	}
	t := text{s: []byte(b.String())}
	if err := d.denormalizer.normalize(&t, sc); err != nil {
		return nil, err
	}
	return []string{string(t.s)}, nil
}
