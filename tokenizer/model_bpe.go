package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// bpe merges pairs of tokens, the pair of the lowest rank first (byte pair encoding).
type bpe struct {
	*vocab
	pairs   *pairTable // rank of a pair
	results []int32    // token of a merge, by rank

	unk            string
	unkID          int32
	hasUnk         bool
	fuseUnk        bool
	byteFallback   bool
	ignoreMerges   bool
	prefix, suffix string
	fallback       [256]int32 // tokens <0x00> to <0xFF>, -1 for none

	// raw pieces hold bytes, and the characters of the vocabulary stand for bytes.
	raw      bool
	rawBytes [4][256]int32    // token of a byte: bit 0 not the first, bit 1 the last; -1 for none
	rawIDs   map[string]int32 // tokens by their bytes, for ignoreMerges
	ascii    [128]int32       // token of an ASCII character, -1 for none

	// crossed tells which pairs of characters some merge joins. Between others a piece can be
	// cut without changing its tokens. It is a Bloom filter; rawCrossed is a table of bytes.
	crossed, rawCrossed []uint64
}

// symbol is a token of a piece that is being merged.
type symbol struct {
	id         int32 // -1 after it was merged into the one before
	prev, next int32
	size       uint32
}

func parseBPE(m *modelFile, o *opening) (*bpe, error) {
	if !m.hasMerges {
		return nil, errors.New("merges are missing")
	}
	b := &bpe{vocab: newVocab(m.vocab, o)}
	optional := func(name string) bool { return m.has(name) && m.bool(name) }
	b.fuseUnk, b.byteFallback, b.ignoreMerges = optional("fuse_unk"), optional("byte_fallback"),
		optional("ignore_merges")
	if m.has("unk_token") {
		b.unk, b.hasUnk = m.string("unk_token"), true
	}
	if m.has("continuing_subword_prefix") {
		b.prefix = m.string("continuing_subword_prefix")
	}
	if m.has("end_of_word_suffix") {
		b.suffix = m.string("end_of_word_suffix")
	}
	if m.has("dropout") && m.fields["dropout"] != 0.0 {
		return nil, errors.New("dropout is not supported, because it makes tokens random")
	}
	if m.err != nil {
		return nil, m.err
	}
	b.pairs = newPairTable(len(m.merges), o)
	if !o.keep(4*len(m.merges) + 1<<17) {
		return nil, o.err
	}
	b.results = make([]int32, len(m.merges))
	b.crossed = make([]uint64, 1<<14)
	var joined []byte
	for i, p := range m.merges {
		left, ok := b.ids[p.left]
		right, ok2 := b.ids[p.right]
		if !ok || !ok2 {
			return nil, fmt.Errorf("merge %d: %q %q is not in the vocabulary", i, p.left, p.right)
		}
		if len(p.right) < len(b.prefix) {
			return nil, fmt.Errorf("merge %d: %q is shorter than the prefix %q", i, p.right, b.prefix)
		}
		joined = append(append(joined[:0], p.left...), p.right[len(b.prefix):]...)
		id, ok := b.ids[string(joined)]
		if !ok {
			return nil, fmt.Errorf("merge %d: %q is not in the vocabulary", i, joined)
		}
		b.pairs.set(left, right, uint32(i))
		b.results[i] = id
		x, _ := utf8.DecodeLastRuneInString(p.left)
		y, _ := utf8.DecodeRuneInString(p.right[len(b.prefix):])
		b.cross(x, y)
	}
	b.index()
	return b, nil
}

// index fills the tables that follow from the vocabulary.
func (b *bpe) index() {
	if b.hasUnk {
		id, ok := b.ids[b.unk]
		b.unkID = -1
		if ok {
			b.unkID = id
		}
	}
	for c := range b.fallback {
		b.fallback[c] = b.lookup(byteToken(byte(c)))
	}
	for c := range b.ascii {
		b.ascii[c] = b.lookup(string(rune(c)))
	}
}

func (b *bpe) lookup(token string) int32 {
	if id, ok := b.ids[token]; ok {
		return id
	}
	return -1
}

// setRaw makes the model read bytes instead of the characters that stand for them. It
// reports whether the vocabulary has a token for each byte that may occur.
func (b *bpe) setRaw(o *opening) bool {
	for c := range 256 {
		s := string(byteChars[c])
		for k := range b.rawBytes {
			t := s
			if k&1 != 0 {
				t = b.prefix + t
			}
			if k&2 != 0 {
				t += b.suffix
			}
			id := b.lookup(t)
			if id < 0 {
				return false
			}
			b.rawBytes[k][c] = id
		}
	}
	b.raw = true
	if b.ignoreMerges {
		size := 0
		for t := range b.ids {
			size += len(t)
		}
		if !o.keep((entryBytes+16)*len(b.ids) + 2*size) {
			return false
		}
		b.rawIDs = make(map[string]int32, len(b.ids))
		for t, id := range b.ids {
			if s, ok := bytesOf(t); ok {
				b.rawIDs[s] = id
			}
		}
	}
	b.rawCrossed = make([]uint64, 1<<10)
	for x := range 256 {
		for y := range 256 {
			if b.crosses(byteChars[x], byteChars[y]) {
				b.rawCrossed[x<<2|y>>6] |= 1 << (y & 63)
			}
		}
	}
	return true
}

// bytesOf returns the bytes that the characters of a byte-level token stand for.
func bytesOf(token string) (string, bool) {
	var out strings.Builder
	for _, r := range token {
		c, ok := charBytes[r]
		if !ok {
			return "", false
		}
		out.WriteByte(c)
	}
	return out.String(), true
}

func crossHash(x, y rune) uint32 {
	return (uint32(x)*0x9E3779B1 ^ uint32(y)*0x85EBCA6B) >> 12 & (1<<20 - 1)
}

func (b *bpe) cross(x, y rune) {
	h := crossHash(x, y)
	b.crossed[h>>6] |= 1 << (h & 63)
}

func (b *bpe) crosses(x, y rune) bool {
	h := crossHash(x, y)
	return b.crossed[h>>6]>>(h&63)&1 != 0
}

func (b *bpe) id(token string) (int32, bool) { id, ok := b.ids[token]; return id, ok }

func (b *bpe) tokenize(s []byte, sc *scratch, out []token) ([]token, error) {
	if b.ignoreMerges {
		ids := b.ids
		if b.raw {
			ids = b.rawIDs
		}
		if id, ok := ids[string(s)]; ok {
			return append(out, token{id: id, hi: uint32(len(s))}), nil
		}
	}
	if b.prefix != "" || b.suffix != "" || len(s) <= 16 {
		return b.word(s, 0, sc, out)
	}
	first := len(out)
	for lo := 0; lo < len(s); {
		hi := b.cut(s, lo, sc)
		if !sc.step(hi - lo) {
			return out, sc.err
		}
		at := uint32(0) // like tokenizers, do not count characters without a token
		if n := len(out); n > first {
			at = out[n-1].hi
		}
		var err error
		if out, err = b.word(s[lo:hi], at, sc, out); err != nil {
			return out, err
		}
		lo = hi
	}
	return out, nil
}

// cut returns the end of the part of s from lo on that can be merged alone.
func (b *bpe) cut(s []byte, lo int, sc *scratch) int {
	if b.raw {
		for i := lo + 1; i < len(s); i++ {
			x, y := s[i-1], s[i]
			if b.rawCrossed[int(x)<<2|int(y>>6)]>>(y&63)&1 == 0 {
				return i
			}
		}
		return len(s)
	}
	x, n := utf8.DecodeRune(s[lo:])
	for i := lo + n; i < len(s) && sc.step(1); i += n {
		var y rune
		y, n = utf8.DecodeRune(s[i:])
		if !b.crosses(x, y) && b.knows(x) && b.knows(y) {
			return i
		}
		x = y
	}
	return len(s)
}

func (b *bpe) knows(r rune) bool {
	if r < utf8.RuneSelf {
		return b.ascii[r] >= 0
	}
	var buf [utf8.UTFMax]byte
	_, ok := b.ids[string(utf8.AppendRune(buf[:0], r))]
	return ok
}

// word appends the tokens of a word that begins at offset at of its piece.
func (b *bpe) word(s []byte, at uint32, sc *scratch, out []token) ([]token, error) {
	e, h, ok := sc.model.cache.find(s)
	if ok {
		for _, t := range e.tokens {
			t.lo += at
			t.hi += at
			out = append(out, t)
		}
		return out, nil
	}
	symbols, err := b.symbols(s, sc)
	if err != nil {
		return out, err
	}
	if err := b.merge(symbols, sc); err != nil {
		return out, err
	}
	first, lo := len(out), uint32(0)
	for _, y := range symbols {
		if y.size != 0 {
			out = append(out, token{id: y.id, lo: lo, hi: lo + y.size})
			lo += y.size
		}
	}
	e.store(h, s, out[first:])
	for i := range out[first:] {
		out[first+i].lo += at
		out[first+i].hi += at
	}
	return out, nil
}

// symbols returns the initial tokens of a word, one for each character.
func (b *bpe) symbols(s []byte, sc *scratch) ([]symbol, error) {
	list := sc.model.symbols[:0]
	add := func(id int32, size int) {
		if len(list) == cap(list) {
			if sc.model.symbols = list; !extend(sc, &sc.model.symbols, 1) {
				return
			}
			list = sc.model.symbols
		}
		k := int32(len(list))
		list = append(list, symbol{id, k - 1, k + 1, uint32(size)})
	}
	unknown := 0 // bytes of the unknown token that is not added yet
	flush := func() {
		if unknown > 0 {
			add(b.unkID, unknown)
			unknown = 0
		}
	}
	for i := 0; i < len(s) && sc.step(1); {
		n := 1
		if !b.raw {
			n = runeSize(s[i])
		}
		id := int32(-1)
		key := s[i : i+n]
		switch {
		case b.raw:
			k := 0
			if i > 0 {
				k = 1
			}
			if i+n == len(s) {
				k |= 2
			}
			id = b.rawBytes[k][s[i]]
		case b.prefix != "" && i > 0 || b.suffix != "" && i+n == len(s):
			sc.model.key = sc.model.key[:0]
			if i > 0 {
				sc.model.key = append(sc.model.key, b.prefix...)
			}
			sc.model.key = append(sc.model.key, key...)
			if i+n == len(s) {
				sc.model.key = append(sc.model.key, b.suffix...)
			}
			key = sc.model.key
			id = b.lookup(string(key))
			sc.step(len(key))
		case n == 1:
			id = b.ascii[s[i]]
		default:
			if v, ok := b.ids[string(key)]; ok {
				id = v
			}
		}
		i += n
		if id >= 0 {
			flush()
			add(id, n)
			continue
		}
		if b.byteFallback && !b.raw && !slices.ContainsFunc(key, func(c byte) bool { return b.fallback[c] < 0 }) {
			for _, c := range key {
				add(b.fallback[c], 1)
			}
			continue
		}
		if !b.hasUnk {
			continue // tokenizers drops the character
		}
		if b.unkID < 0 {
			return nil, errNoUnknown("BPE", b.unk)
		}
		if !b.fuseUnk {
			flush()
		}
		unknown += n
	}
	flush()
	if len(list) > 0 {
		list[len(list)-1].next = -1
	}
	sc.model.symbols = list
	return list, sc.err
}

// merge applies merges until none is left: the one of the lowest rank, and of those the
// leftmost. A merged symbol has size 0. An entry of the heap whose pair has changed since
// still applies if the new pair merges to the same token, as in tokenizers.
func (b *bpe) merge(list []symbol, sc *scratch) error {
	if len(list) < 2 {
		return nil
	}
	sc.model.heap = sc.model.heap[:0]
	if !extend(sc, &sc.model.heap, len(list)) {
		return sc.err
	}
	h := sc.model.heap
	for i := 1; i < len(list) && sc.step(1); i++ {
		if rank, ok := b.pairs.get(list[i-1].id, list[i].id); ok {
			h = append(h, uint64(rank)<<32|uint64(i-1))
		}
	}
	sc.model.heap = h
	for i := len(h)/2 - 1; i >= 0 && sc.step(1); i-- {
		siftDown(h, i)
	}
	defer func() { sc.model.heap = h[:0] }()
	for len(h) > 0 && sc.step(4) {
		top := h[0]
		n := len(h) - 1
		h[0] = h[n]
		h = h[:n]
		if n > 1 {
			siftDown(h, 0)
		}
		pos := int32(uint32(top))
		y := &list[pos]
		if y.size == 0 || y.next < 0 {
			continue
		}
		right := &list[y.next]
		id := b.results[top>>32]
		rank, ok := b.pairs.get(y.id, right.id)
		if !ok || b.results[rank] != id {
			continue
		}
		y.id = id
		y.size += right.size
		right.size = 0
		y.next = right.next
		if y.next >= 0 {
			list[y.next].prev = pos
			if rank, ok := b.pairs.get(id, list[y.next].id); ok {
				h = push(h, uint64(rank)<<32|uint64(pos))
			}
		}
		if y.prev >= 0 {
			if rank, ok := b.pairs.get(list[y.prev].id, id); ok {
				h = push(h, uint64(rank)<<32|uint64(y.prev))
			}
		}
	}
	return sc.err
}

func push(h []uint64, v uint64) []uint64 {
	h = append(h, v)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if h[p] <= v {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = v
	return h
}

func siftDown(h []uint64, i int) {
	v := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if v <= h[c] {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = v
}
