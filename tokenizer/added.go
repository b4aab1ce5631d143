package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// AddedToken is a token that is found in a text before the model sees it.
type AddedToken struct {
	ID         int
	Content    string
	SingleWord bool // matches whole words only
	LStrip     bool // takes the spaces before it
	RStrip     bool // takes the spaces after it
	Normalized bool // is found in the normalized text
	Special    bool // is skipped by Decode if asked
}

// addedTokens finds added tokens in two passes: those that are not normalized in the
// original text, the others in the normalized one.
type addedTokens struct {
	byID       map[int32]*AddedToken
	byContent  map[string]int32
	special    map[string]bool
	texts      map[int32]string // normalized contents that differ from the contents
	original   *matcher
	normalized *matcher

	bytes int      // of all contents, and of the normalized ones that differ
	sc    *scratch // of the normalizer, while the file is opened

	opening *opening
}

// errAddedWork is returned if the normalization of added tokens takes too many steps.
var errAddedWork = errors.New("the normalization of added tokens exceeds the step limit")

// workLimit is a context that ends after a number of questions. Opening a file has no deadline.
type workLimit struct {
	context.Context
	left int
}

// Err implements context.Context.
func (w *workLimit) Err() error {
	if w.left--; w.left < 0 {
		return errAddedWork
	}
	return nil
}

// addedWork is how often the normalization of all added tokens may ask its context: about a
// billion steps.
const addedWork = 1 << 30 / checkEvery

// matcher finds the leftmost longest of several texts.
type matcher struct {
	trie  *trie
	pairs [1 << 10]uint64 // first two bytes of all texts; texts of one byte have all seconds
}

func newAddedTokens(o *opening) *addedTokens {
	sc := &scratch{limit: 1 << 20}
	sc.reserve = func(n int64) error { // what is reserved already counts for all added tokens
		o.take(int(n))
		return o.failed()
	}
	sc.ctx = &workLimit{context.Background(), addedWork}
	return &addedTokens{byID: map[int32]*AddedToken{}, byContent: map[string]int32{}, special: map[string]bool{},
		texts: map[int32]string{}, sc: sc, opening: o}
}

// add adds a token as tokenizers does: one that the model knows keeps its id, and the others
// are numbered after the vocabulary, whatever id the file says.
func (a *addedTokens) add(t AddedToken, m model, n normalizer, next *int32) error {
	if t.Content == "" {
		return nil
	}
	id, ok := a.byContent[t.Content]
	if ok {
		old := a.byID[id]
		t.ID = old.ID
		if *old == t {
			return nil
		}
	} else if id, ok = m.id(t.Content); !ok {
		id = *next
		*next++
	}
	t.ID = int(id)
	delete(a.texts, id)
	if t.Normalized {
		if err := a.normalize(id, t.Content, n); err != nil {
			return err
		}
	}
	a.set(t)
	return nil
}

// normalize stores the normalized content of a token, if it differs.
func (a *addedTokens) normalize(id int32, content string, n normalizer) error {
	if n == nil {
		return nil
	}
	norm := text{s: []byte(content)}
	if err := n.normalize(&norm, a.sc); err != nil {
		return err
	}
	if string(norm.s) != content {
		if !a.opening.keep(2 * len(norm.s)) {
			return a.opening.err
		}
		a.texts[id] = string(norm.s)
		a.bytes += len(norm.s)
	}
	a.sc.bytes, a.sc.spans = a.sc.bytes[:0], a.sc.spans[:0]
	if err := a.sc.poll(len(content)); err != nil {
		return err
	}
	return a.checkBytes()
}

func (a *addedTokens) checkBytes() error {
	if a.bytes > maxAddedBytes {
		return fmt.Errorf("added tokens have %d bytes, want at most %d", a.bytes, maxAddedBytes)
	}
	return nil
}

// set stores a token with the id that it has.
func (a *addedTokens) set(t AddedToken) {
	if !a.opening.keep(addedBytes) {
		return
	}
	a.byContent[t.Content] = int32(t.ID)
	a.bytes += len(t.Content)
	a.byID[int32(t.ID)] = &t
	if t.Special {
		a.special[t.Content] = true
	}
}

// index builds the matchers.
func (a *addedTokens) index() error {
	a.original, a.normalized, a.sc = nil, nil, nil
	if err := a.checkBytes(); err != nil {
		return err
	}
	ids := make([]int32, 0, len(a.byID))
	for id := range a.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := a.byID[id]
		s, m := t.Content, &a.original
		if t.Normalized {
			m = &a.normalized
			if norm, ok := a.texts[id]; ok {
				s = norm
			}
		}
		if s == "" {
			return fmt.Errorf("added token %.100q is empty after normalization", t.Content)
		}
		if *m == nil {
			if !a.opening.keep(1 << 14) {
				return a.opening.err
			}
			*m = &matcher{trie: newTrie(0, a.opening)}
		}
		if old := (*m).add(s, id); old >= 0 {
			return fmt.Errorf("added tokens %.100q and %.100q match the same text", a.byID[old].Content, t.Content)
		}
	}
	return nil
}

func (m *matcher) add(s string, id int32) int32 {
	first := int(s[0]) << 2
	if len(s) == 1 {
		for k := range 4 {
			m.pairs[first+k] = ^uint64(0)
		}
	} else {
		m.pairs[first+int(s[1]>>6)] |= 1 << (s[1] & 63)
	}
	return m.trie.add(s, id)
}

// find returns the first match from i on. It ends early if the call does.
func (m *matcher) find(s []byte, i int, sc *scratch) (lo, hi int, id int32) {
	for ; i < len(s); i++ {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		if m.pairs[int(s[i])<<2+int(next>>6)]>>(next&63)&1 == 0 {
			continue
		}
		n, id, visited := m.trie.longest(s[i:])
		if !sc.step(visited) {
			break
		}
		if n > 0 {
			return i, i + n, id
		}
	}
	return len(s), len(s), -1
}

// split appends the parts of p to sc.next, with the tokens of m apart.
func (a *addedTokens) split(p *piece, m *matcher, sc *scratch) error {
	if len(p.s) == 0 {
		return nil
	}
	if m == nil {
		sc.add(*p)
		return nil
	}
	done := 0
	for i := 0; ; {
		lo, hi, id := m.find(p.s, i, sc)
		if id < 0 {
			break
		}
		if !sc.step(hi - i) {
			break
		}
		i = hi
		t := a.byID[id]
		if t.SingleWord && (wordBefore(p.s[:lo]) || wordAfter(p.s[hi:])) {
			continue
		}
		if t.LStrip {
			lo = done + trimSpace(p.s[done:max(lo, done)])
		}
		if t.RStrip {
			n := leadingSpace(p.s[hi:])
			hi += n
			sc.step(n)
		}
		if done < lo {
			sc.add(piece{p.slice(done, lo), -1})
		}
		sc.add(piece{p.slice(lo, hi), id})
		done = hi
	}
	switch {
	case done == 0:
		sc.add(*p)
	case done < len(p.s):
		sc.add(piece{p.slice(done, len(p.s)), -1})
	}
	return sc.err
}

func wordBefore(s []byte) bool {
	r, n := utf8.DecodeLastRune(s)
	return n > 0 && ucd.is(r, regexWord)
}

func wordAfter(s []byte) bool {
	r, n := utf8.DecodeRune(s)
	return n > 0 && ucd.is(r, regexWord)
}

// trimSpace returns the length of s without the spaces at its end.
func trimSpace(s []byte) int {
	for len(s) > 0 {
		r, n := utf8.DecodeLastRune(s)
		if !ucd.is(r, regexSpace) {
			break
		}
		s = s[:len(s)-n]
	}
	return len(s)
}

// leadingSpace returns the length of the spaces at the start of s.
func leadingSpace(s []byte) int {
	i := 0
	for i < len(s) {
		r, n := utf8.DecodeRune(s[i:])
		if !ucd.is(r, regexSpace) {
			break
		}
		i += n
	}
	return i
}
