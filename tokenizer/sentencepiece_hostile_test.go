package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// longRules returns rules that replace "a", "aa", "aaa" and so on by a text of size bytes, and
// these with a "b" after them by "x".
func longRules(size int) string {
	trie := make([]uint32, 256)
	trie['a'] = 'a'<<10 | 1<<8 | 'a' // its value is in unit 0, which is the root again
	trie['b'] = ('b'^0x80)<<10 | 1<<8 | 'b'
	trie[0x80] = uint32(size + 1)
	b := binary.LittleEndian.AppendUint32(nil, 4*256)
	for _, unit := range trie {
		b = binary.LittleEndian.AppendUint32(b, unit)
	}
	return string(b) + strings.Repeat("r", size) + "\x00x\x00"
}

// TestShorterReplacementsAreNotRead normalizes texts with rules of which only the longest that
// matches is used. Reading the replacements of the others takes minutes.
func TestShorterReplacementsAreNotRead(t *testing.T) {
	const n = 1 << 8
	s := strings.Repeat(strings.Repeat("a", 30)+"b", n)
	rules := longRules(1 << 24)
	pieces := []spPiece{{"<unk>", 0, pieceUnknown}, {"x", -1, pieceNormal}}
	sp, err := openSP(spMessage(1, pieces, []byte(rules)))
	if err != nil {
		t.Fatal(err)
	}
	hf, err := openJSON(`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"`+
		base64.StdEncoding.EncodeToString([]byte(rules))+`"},"model":{"type":"WordLevel","unk_token":"[UNK]",`+
		`"vocab":{"[UNK]":0,"`+strings.Repeat("x", n)+`":1}}}`, &Options{SentencePieceRules: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, tok := range map[string]*Tokenizer{"SentencePiece": sp, "Precompiled": hf} {
		e, err := tok.Encode(s)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := strings.Count(strings.Join(e.Tokens, ""), "x"); got != n {
			t.Errorf("%s: %d replacements, want %d", name, got, n)
		}
	}
}

// TestDenormalizedTextsKeepTheLimit decodes a piece which the denormalizer replaces by a long text.
func TestDenormalizedTextsKeepTheLimit(t *testing.T) {
	const size = 1 << 24
	pieces := []spPiece{{"<unk>", 0, pieceUnknown}, {"a", -1, pieceNormal}}
	tok, err := openSP(spMessage(1, pieces, nil) + bytesField(5, bytesField(2, longRules(size))))
	if err != nil {
		t.Fatal(err)
	}
	if tok, err = tok.WithOptions(&Options{MaxText: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := tok.Decode([]int64{1}, false)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errTextSize) || n > size {
		t.Errorf("%d bytes, error %v, %d bytes allocated; want that the size is refused first", len(text), err, n)
	}
}

// TestUnknownPiecesAreText opens a model whose text for unknown pieces ends within a character.
func TestUnknownPiecesAreText(t *testing.T) {
	pieces := []spPiece{{"<unk>", 0, pieceUnknown}, {"a", -1, pieceNormal}}
	for _, surface := range []string{"\xF0", strings.Repeat("u", 31) + "\xF0", "unknown"} {
		file := spMessage(1, pieces, nil) + bytesField(2, bytesField(44, surface)) +
			bytesField(5, bytesField(2, longRules(1))+"\x18\x00\x28\x00") // no prefix, spaces as they are
		tok, err := openSP(file)
		if strings.HasSuffix(surface, "\xF0") {
			if err == nil || !strings.Contains(err.Error(), "unk_surface is not valid UTF-8") {
				t.Errorf("%q: error %v", surface, err)
				if err == nil {
					_, _ = tok.Decode([]int64{0}, false)
				}
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := tok.Decode([]int64{0}, false); err != nil || text != surface {
			t.Errorf("text %q, error %v, want %q", text, err, surface)
		}
	}
}
