package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// precompiled is the normalizer of a SentencePiece model: a double-array trie of the texts to
// replace, and their replacements, each ended by a zero byte.
//
// Like tokenizers, it looks up whole grapheme clusters of fewer than six bytes, replaces the
// cluster by what its shortest prefix in the trie maps to, and else looks up each character.
type precompiled struct {
	trie []uint32
	text []byte

	sentencePiece bool // replace the longest prefix, as SentencePiece does
}

func newPrecompiled(encoded string) (*precompiled, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("precompiled_charsmap is not valid base64")
	}
	return parsePrecompiled(data)
}

func parsePrecompiled(data []byte) (*precompiled, error) {
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap is too short")
	}
	n := int(binary.LittleEndian.Uint32(data)) &^ 3
	data = data[4:]
	if n > len(data) || n == 0 {
		return nil, errors.New("precompiled_charsmap: trie exceeds the data")
	}
	p := &precompiled{trie: make([]uint32, n/4), text: data[n:]}
	for i := range p.trie {
		p.trie[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.Valid(p.text) {
		return nil, errors.New("precompiled_charsmap: replacements are not valid UTF-8")
	}
	return p, nil
}

func unitOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// lookup returns what the shortest prefix of s in the trie maps to.
func (p *precompiled) lookup(s []byte) ([]byte, bool) {
	at := unitOffset(p.trie[0])
	for _, c := range s {
		if c == 0 {
			return nil, false
		}
		at ^= uint32(c)
		if int(at) >= len(p.trie) {
			return nil, false
		}
		unit := p.trie[at]
		if unit&(1<<31|0xFF) != uint32(c) {
			return nil, false
		}
		at ^= unitOffset(unit)
		if unit>>8&1 == 1 {
			from, ok := p.value(at)
			if !ok {
				return nil, false
			}
			return p.replacement(from), true
		}
	}
	return nil, false
}

// value returns the offset of the replacement in unit at of the trie.
func (p *precompiled) value(at uint32) (int, bool) {
	if int(at) >= len(p.trie) {
		return 0, false
	}
	from := int(p.trie[at] & (1<<31 - 1))
	return from, from <= len(p.text)
}

// replacement returns the replacement at an offset.
func (p *precompiled) replacement(from int) []byte {
	text := p.text[from:]
	if n := bytes.IndexByte(text, 0); n >= 0 {
		text = text[:n]
	}
	return text
}

func (p *precompiled) normalize(t *text, sc *scratch) error {
	runes := sc.runes[:0]
	add := func(r rune) {
		if sc.runes = runes; extend(sc, &sc.runes, 1) {
			runes = append(sc.runes, marked{r: r})
		}
	}
	changed := false
	replace := func(old int, s []byte) {
		changed = true
		first := len(runes)
		for i := 0; i < len(s); {
			r, n := utf8.DecodeRune(s[i:])
			i += n
			add(r)
		}
		if !sc.step(len(s)) {
			return
		}
		diff := len(runes) - first - old
		for i := len(runes) - diff; i < len(runes); i++ {
			runes[i].change = 1
		}
		if diff < 0 && len(runes) > 0 {
			runes[len(runes)-1].change += int32(diff)
		}
	}
	for i := 0; i < len(t.s) && sc.step(1); {
		if len(runes) > sc.limit {
			return errTextSize
		}
		if p.sentencePiece {
			if s, n := p.longest(t.s[i:], sc); n > 0 {
				replace(utf8.RuneCount(t.s[i:i+n]), s)
				i += n
				continue
			}
			r, n := utf8.DecodeRune(t.s[i:])
			add(r)
			i += n
			continue
		}
		n := 1
		if c := t.s[i]; c >= 0x80 || c == '\r' || i+1 < len(t.s) && t.s[i+1] >= 0x80 {
			n = nextGrapheme(t.s[i:])
		}
		cluster := t.s[i : i+n]
		i += n
		if n < 6 {
			if s, ok := p.lookup(cluster); ok {
				replace(utf8.RuneCount(cluster), s)
				continue
			}
		}
		for len(cluster) > 0 {
			r, n := utf8.DecodeRune(cluster)
			if s, ok := p.lookup(cluster[:n]); ok {
				replace(1, s)
			} else {
				add(r)
			}
			cluster = cluster[n:]
			sc.step(1)
		}
	}
	sc.runes = runes
	if !changed || sc.err != nil {
		return sc.err
	}
	e := newEdit(t, sc, 0)
	for _, m := range runes {
		e.put(m.r, int(m.change))
	}
	return e.end()
}
