package tokenizer

import "unicode/utf8"

// wordPiece takes the longest token at the start of a word, and so on with tokens that
// continue a word.
type wordPiece struct {
	*vocab
	first, rest *trie
	prefix, unk string
	unkID       int32
	hasUnk      bool
	longest     int // characters of a word, beyond which it is unknown
}

func parseWordPiece(m *modelFile, o *opening) (*wordPiece, error) {
	prefix := m.string("continuing_subword_prefix")
	unk := m.string("unk_token")
	limit := m.int("max_input_chars_per_word")
	if m.err != nil {
		return nil, m.err
	}
	return newWordPiece(newVocab(m.vocab, o), unk, prefix, limit, o), nil
}

func newWordPiece(v *vocab, unk, prefix string, limit int, o *opening) *wordPiece {
	w := &wordPiece{vocab: v, prefix: prefix, unk: unk, longest: limit}
	w.unkID, w.hasUnk = v.ids[unk]
	w.first, w.rest = newTrie(0, o), newTrie(0, o)
	for t, id := range v.ids {
		if t != "" {
			w.first.add(t, id)
		}
		if len(t) > len(prefix) && t[:len(prefix)] == prefix {
			w.rest.add(t[len(prefix):], id)
		}
	}
	return w
}

func (w *wordPiece) id(token string) (int32, bool) { id, ok := w.ids[token]; return id, ok }

func (w *wordPiece) tokenize(s []byte, sc *scratch, out []token) ([]token, error) {
	e, h, ok := sc.model.cache.find(s)
	if ok {
		return append(out, e.tokens...), nil
	}
	start := len(out)
	unknown := len(s) > w.longest && utf8.RuneCount(s) > w.longest
	t := w.first
	for at := 0; at < len(s) && !unknown; t = w.rest {
		n, id, read := t.longest(s[at:])
		if !sc.step(read + 1) {
			return out, sc.err
		}
		if n == 0 {
			unknown = true
			break
		}
		out = append(out, token{id: id, lo: uint32(at), hi: uint32(at + n)})
		at += n
	}
	if unknown {
		if !w.hasUnk {
			return out, errNoUnknown("WordPiece", w.unk)
		}
		out = append(out[:start], token{id: w.unkID, hi: uint32(len(s))})
	}
	e.store(h, s, out[start:])
	return out, nil
}

// store replaces a cached word.
func (e *cachedWord) store(h uint64, word []byte, tokens []token) {
	if len(word) <= cacheMaxWord {
		*e = cachedWord{h, string(word), append(e.tokens[:0:0], tokens...)}
	}
}
