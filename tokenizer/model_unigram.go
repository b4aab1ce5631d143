package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// unknownPenalty is how far the score of an unknown character is below the lowest score.
const unknownPenalty = 10

// unigram finds the tokens whose scores have the largest sum (Viterbi's algorithm).
type unigram struct {
	pieces       []scoredPiece
	ids          map[string]int32
	trie         *trie
	unk          int32 // -1 for none
	unkScore     float64
	byteFallback bool
	bytes        [256]int32 // tokens <0x00> to <0xFF>, -1 for none
}

type pathNode struct {
	score float64
	start int32 // -1: not reached
	id    int32
}

func parseUnigram(m *modelFile, o *opening) (*unigram, error) {
	unk := int32(-1)
	if m.has("unk_id") {
		unk = int32(m.int("unk_id"))
	}
	fallback := m.has("byte_fallback") && m.bool("byte_fallback")
	if m.err != nil {
		return nil, m.err
	}
	return newUnigram(m.pieces, unk, fallback, o)
}

func newUnigram(pieces []scoredPiece, unk int32, fallback bool, o *opening) (*unigram, error) {
	if int(unk) >= len(pieces) {
		return nil, fmt.Errorf("unk_id %d is not below the size of the vocabulary, %d", unk, len(pieces))
	}
	size := 0
	for _, p := range pieces {
		size += len(p.token)
	}
	if !o.take(size) || !o.keep(size+(entryBytes+int(unsafe.Sizeof(scoredPiece{})))*len(pieces)) {
		return nil, o.err
	}
	u := &unigram{ids: make(map[string]int32, len(pieces)), unk: unk, byteFallback: fallback}
	arena := make([]byte, 0, size)
	for _, p := range pieces {
		arena = append(arena, p.token...)
	}
	all := string(arena)
	u.trie = newTrie(size, o)
	lowest := math.Inf(1)
	u.pieces = make([]scoredPiece, len(pieces))
	for i, p := range pieces {
		if math.IsNaN(p.score) {
			return nil, errors.New("a score is not a number")
		}
		t := all[:len(p.token)]
		all = all[len(p.token):]
		u.pieces[i] = scoredPiece{t, p.score}
		u.ids[t] = int32(i)
		if t != "" {
			u.trie.add(t, int32(i))
		}
		lowest = min(lowest, p.score)
	}
	u.unkScore = lowest - unknownPenalty
	for b := range u.bytes {
		u.bytes[b] = -1
		if id, ok := u.ids[byteToken(byte(b))]; ok {
			u.bytes[b] = id
		}
	}
	return u, nil
}

// byteToken returns the token of a byte in models with byte_fallback.
func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

func (u *unigram) id(token string) (int32, bool) { id, ok := u.ids[token]; return id, ok }

func (u *unigram) token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(u.pieces) {
		return "", false
	}
	return u.pieces[id].token, true
}

func (u *unigram) size() int { return len(u.pieces) }

func (u *unigram) tokenize(s []byte, sc *scratch, out []token) ([]token, error) {
	e, h, ok := sc.model.cache.find(s)
	if ok {
		return append(out, e.tokens...), nil
	}
	if sc.model.path = sc.model.path[:0]; !extend(sc, &sc.model.path, len(s)+1) {
		return out, sc.err
	}
	path := append(sc.model.path, pathNode{})
	for range len(s) {
		path = append(path, pathNode{start: -1})
	}
	sc.model.path = path
	for at := 0; at < len(s); {
		here := path[at].score
		size := runeSize(s[at])
		single := false
		node := int32(0)
		i := at
		for ; i < len(s); i++ {
			if node = u.trie.child(node, s[i]); node < 0 {
				break
			}
			id := u.trie.values[node]
			if id < 0 {
				continue
			}
			score := u.pieces[id].score + here
			if t := &path[i+1]; t.start < 0 || score > t.score {
				*t = pathNode{score, int32(at), id}
			}
			single = single || i+1 == at+size
		}
		if !sc.step(i - at + 1) {
			return out, sc.err
		}
		if !single {
			score := u.unkScore + here
			if t := &path[at+size]; t.start < 0 || score > t.score {
				if u.unk < 0 {
					return out, errors.New("Unigram: a character is not in the vocabulary, and unk_id is missing")
				}
				*t = pathNode{score, int32(at), u.unk}
			}
		}
		at += size
	}
	// Link the path forwards: the start of each node becomes its end.
	first := len(out)
	for end := len(s); end > 0; end = int(path[end].start) {
		n := path[end]
		start := uint32(n.start)
		if k := len(out); n.id == u.unk && k > first && out[k-1].surface {
			out[k-1].lo = start // unknown characters in a row are one token
			continue
		}
		out = append(out, token{id: n.id, lo: start, hi: uint32(end), surface: n.id == u.unk})
	}
	for i, j := first, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	out = u.resolve(s, sc, out, first)
	e.store(h, s, out[first:])
	return out, nil
}

// resolve replaces unknown tokens: by the token that their text is, or by those of its bytes.
func (u *unigram) resolve(s []byte, sc *scratch, out []token, first int) []token {
	unknown := false
	for i := first; i < len(out); i++ {
		if out[i].surface {
			if id, ok := u.ids[string(s[out[i].lo:out[i].hi])]; ok {
				out[i].id, out[i].surface = id, false
			} else {
				unknown = true
			}
		}
	}
	if !unknown || !u.byteFallback {
		return out
	}
	found := append(sc.tokens[:0], out[first:]...)
	sc.tokens = found
	out = out[:first]
	for _, t := range found {
		if !t.surface || !u.hasBytes(s[t.lo:t.hi]) {
			out = append(out, t)
			continue
		}
		for _, b := range s[t.lo:t.hi] {
			out = append(out, token{id: u.bytes[b], lo: t.lo, hi: t.hi})
		}
	}
	return out
}

func (u *unigram) hasBytes(s []byte) bool {
	for _, b := range s {
		if u.bytes[b] < 0 {
			return false
		}
	}
	return true
}
