package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// spMessage is a SentencePiece model of pieces with their types, and with other fields.
func spMessage(kind int, pieces []spPiece, charsmap []byte) string {
	field := func(b []byte, number int, data []byte) []byte {
		return append(binary.AppendUvarint(append(b, byte(number<<3|2)), uint64(len(data))), data...)
	}
	var b []byte
	for _, p := range pieces {
		m := field(nil, 1, []byte(p.text))
		m = binary.LittleEndian.AppendUint32(append(m, 2<<3|5), math.Float32bits(p.score))
		b = field(b, 1, append(m, 3<<3, byte(p.kind)))
	}
	b = field(b, 2, []byte{3 << 3, byte(kind)})
	return string(field(b, 3, field(nil, 2, charsmap)))
}

func openSP(data string) (*Tokenizer, error) {
	return OpenFS(fstest.MapFS{"t.model": {Data: []byte(data)}}, "t.model", nil)
}

// cyclicCharsmap returns rules whose trie has a cycle, so that "aaa…" is read to its end and
// matches nothing.
func cyclicCharsmap() []byte {
	data := binary.LittleEndian.AppendUint32(nil, 4*256)
	for i := range uint32(256) {
		unit := uint32(0)
		if i == 'a' {
			unit = 'a'<<10 | 'a'
		}
		data = binary.LittleEndian.AppendUint32(data, unit)
	}
	return append(data, "b\x00"...)
}

// TestLongMatchesAreCounted checks that tokenizers which read a long part of a text at each of its
// characters count that work: else the context would not be asked for minutes.
func TestLongMatchesAreCounted(t *testing.T) {
	const n = 1 << 12
	long := strings.Repeat("a", n) + "b"
	unk := spPiece{"<unk>", 0, pieceUnknown}
	a := spPiece{"a", -1, pieceNormal}
	files := map[string]string{
		"pieces of SentencePiece, Unigram": spMessage(1, []spPiece{unk, a, {long, -2, pieceNormal}}, nil),
		"user-defined pieces, Unigram":     spMessage(1, []spPiece{unk, a, {long, -2, pieceUserDefined}}, nil),
		"user-defined pieces, BPE":         spMessage(2, []spPiece{unk, a, {long, -2, pieceUserDefined}}, nil),
		"rules of SentencePiece":           spMessage(1, []spPiece{unk, a}, cyclicCharsmap()),
		"rules": `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"` +
			base64.StdEncoding.EncodeToString(cyclicCharsmap()) + `"},` + pieceModel + `}`,
		"prefix": `{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"continuing_subword_prefix":"` +
			long + `"}}`,
		"lookbehind": `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<!(?:b{1000}){4})a"},` +
			`"behavior":"Isolated","invert":false},` + pieceModel + `}`,
	}
	for name, file := range files {
		var tok *Tokenizer
		var err error
		if strings.HasPrefix(file, "{") {
			tok, err = openJSON(file, &Options{SentencePieceRules: true})
		} else {
			tok, err = openSP(file)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		ctx := &countedContext{Context: t.Context(), left: math.MaxInt}
		_, err = tok.EncodeContext(ctx, strings.Repeat("a", 2*n))
		if asked := math.MaxInt - ctx.left; err != nil || asked < n*n/checkEvery/2 {
			t.Errorf("%s: error %v; the context is asked %d times, want at least %d", name, err, asked,
				n*n/checkEvery/2)
		}
	}
}

