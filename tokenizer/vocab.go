package tokenizer

import (
	"fmt"
	"hash/maphash"
	"math"
)

// vocab maps tokens to ids and back.
type vocab struct {
	ids    map[string]int32
	tokens []string // by id, "" where no token has the id
	known  []bool
	sparse map[int32]string // tokens of ids far beyond the number of tokens
}

// newVocab indexes entries. The last of several equal tokens or ids wins. It is empty if opening
// ends.
func newVocab(entries []vocabEntry, o *opening) *vocab {
	v := &vocab{}
	largest, size := int32(-1), 0
	for _, e := range entries {
		largest = max(largest, e.id)
		size += len(e.token)
	}
	dense := int64(largest) < 2*int64(len(entries))+1024
	table := 17 * int(largest+1)
	if !dense {
		table = 2 * entryBytes * len(entries)
	}
	if !o.take(size) || !o.keep(size+table+entryBytes*len(entries)) {
		return v
	}
	v.ids = make(map[string]int32, len(entries))
	if dense {
		v.tokens = make([]string, largest+1)
		v.known = make([]bool, largest+1)
	} else {
		v.sparse = map[int32]string{}
	}
	arena := make([]byte, 0, size) // so that the text of the file can be freed
	for _, e := range entries {
		arena = append(arena, e.token...)
	}
	all := string(arena)
	for _, e := range entries {
		token := all[:len(e.token)]
		all = all[len(e.token):]
		v.ids[token] = e.id
		if dense {
			v.tokens[e.id], v.known[e.id] = token, true
		} else {
			v.sparse[e.id] = token
		}
	}
	return v
}

func (v *vocab) token(id int32) (string, bool) {
	if v.sparse != nil {
		s, ok := v.sparse[id]
		return s, ok
	}
	if id < 0 || int(id) >= len(v.tokens) {
		return "", false
	}
	return v.tokens[id], v.known[id]
}

func (v *vocab) size() int { return len(v.ids) }

// pairTable maps pairs of ids to a rank. It is an open-addressing hash table.
type pairTable struct {
	keys  []uint64
	ranks []uint32
	shift uint
}

const emptyPair = math.MaxUint64

// newPairTable returns a table for n pairs, of no size if opening ends.
func newPairTable(n int, o *opening) *pairTable {
	bits := uint(4)
	for 1<<bits < 2*n {
		bits++
	}
	if !o.keep(12 << bits) {
		bits = 0
	}
	t := &pairTable{keys: make([]uint64, 1<<bits), ranks: make([]uint32, 1<<bits), shift: 64 - bits}
	for i := range t.keys {
		t.keys[i] = emptyPair
	}
	return t
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (t *pairTable) slot(key uint64) int {
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.keys[i] != key && t.keys[i] != emptyPair {
		if i++; i == len(t.keys) {
			i = 0
		}
	}
	return i
}

func (t *pairTable) set(a, b int32, rank uint32) {
	i := t.slot(pairKey(a, b))
	t.keys[i], t.ranks[i] = pairKey(a, b), rank
}

func (t *pairTable) get(a, b int32) (uint32, bool) {
	i := t.slot(pairKey(a, b))
	return t.ranks[i], t.keys[i] != emptyPair
}

// wordCache remembers the tokens of words. Each entry has one place, and a new word
// replaces the old one.
type wordCache struct {
	entries []cachedWord
	seed    maphash.Seed
}

type cachedWord struct {
	hash   uint64
	word   string
	tokens []token
}

const (
	cacheSize    = 1 << 13
	cacheMaxWord = 64 // bytes
)

func newWordCache() wordCache {
	return wordCache{entries: make([]cachedWord, cacheSize), seed: maphash.MakeSeed()}
}

// find returns the entry for a word, and whether it holds that word.
func (c *wordCache) find(word []byte) (*cachedWord, uint64, bool) {
	h := maphash.Bytes(c.seed, word)
	e := &c.entries[h%cacheSize]
	return e, h, e.hash == h && e.tokens != nil && e.word == string(word)
}

// errNoUnknown is returned if a word has no tokens and the model no unknown token.
func errNoUnknown(model, token string) error {
	return fmt.Errorf("%s: a word is not in the vocabulary, and neither is the unknown token %q", model, token)
}
