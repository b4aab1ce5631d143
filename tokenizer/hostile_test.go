package tokenizer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// spMessage is a SentencePiece model of pieces with their types, and with other fields.
func spMessage(kind int, pieces []spPiece, charsmap []byte) string {
	var b strings.Builder
	for _, p := range pieces {
		score := binary.LittleEndian.AppendUint32([]byte{2<<3 | 5}, math.Float32bits(p.score))
		b.WriteString(bytesField(1, bytesField(1, p.text)+string(score)+string([]byte{3 << 3, byte(p.kind)})))
	}
	return b.String() + bytesField(2, string([]byte{3 << 3, byte(kind)})) +
		bytesField(3, bytesField(2, string(charsmap)))
}

// bytesField is a field of a protobuf message.
func bytesField(number int, data string) string {
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return string(binary.AppendUvarint(b, uint64(len(data)))) + data
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
	added := func(s string) string {
		return `{"id":1,"content":"` + s + `","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,` +
			`"special":false}`
	}
	files := map[string]string{
		"pieces of SentencePiece, Unigram": spMessage(1, []spPiece{unk, a, {long, -2, pieceNormal}}, nil),
		"user-defined pieces, Unigram":     spMessage(1, []spPiece{unk, a, {long, -2, pieceUserDefined}}, nil),
		"user-defined pieces, BPE":         spMessage(2, []spPiece{unk, a, {long, -2, pieceUserDefined}}, nil),
		"rules of SentencePiece":           spMessage(1, []spPiece{unk, a}, cyclicCharsmap()),
		"rules": `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"` +
			base64.StdEncoding.EncodeToString(cyclicCharsmap()) + `"},` + pieceModel + `}`,
		"added tokens": `{"added_tokens":[` + added("a") + `,` + added(long) + `],` + pieceModel + `}`,
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

// TestHostileTokenizerFiles checks that files are refused whose parts take much more time or memory
// than the files themselves.
func TestHostileTokenizerFiles(t *testing.T) {
	list := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	split := func(regex string) string {
		return `{"type":"Split","pattern":{"Regex":"` + regex + `"},"behavior":"Isolated","invert":false}`
	}
	special := `{"s":{"id":"s","ids":[` + list("0", 1000) + `],"tokens":[` + list(`"s"`, 1000) + `]}}`
	var tokens []string
	for i := range 100 {
		tokens = append(tokens, fmt.Sprintf(`{"id":%d,"content":"%da","single_word":false,"lstrip":false,"rstrip":false,`+
			`"normalized":true,"special":false}`, i+1, i))
	}
	added := `"added_tokens":[` + strings.Join(tokens, ",") + `]`
	for _, c := range []struct{ name, file, want string }{
		{"repetitions of nothing", `"pre_tokenizer":` + split(strings.Repeat("(?:", 12)+strings.Repeat("){1000}", 12)),
			"instructions"},
		{"long regular expression", `"pre_tokenizer":` + split("["+strings.Repeat("ab-cd", 1<<14)+"]"), "bytes"},
		{"many normalizers", `"normalizer":{"type":"Sequence","normalizers":[` + list(`{"type":"Lowercase"}`, 1000) + `]}`,
			"components"},
		{"many regular expressions", `"pre_tokenizer":{"type":"Sequence","pretokenizers":[` +
			list(split("(?:ab){1000}"), 1000) + `]}`, "components"},
		{"many decoders", `"decoder":{"type":"Sequence","decoders":[` + list(`{"type":"Fuse"}`, 1000) + `]}`, "components"},
		{"repeated special tokens", `"post_processor":{"type":"TemplateProcessing","single":["$A",` + list(`"s"`, 1000) +
			`],"pair":["$A","$B"],"special_tokens":` + special + `}`, "special tokens"},
		{"many pieces", `"post_processor":{"type":"TemplateProcessing","single":"` + strings.Repeat("$ ", 1<<16) +
			`$","pair":["$A","$B"],"special_tokens":{}}`, "65537 pieces, want at most 65536"},
		{"many pieces of a list", `"post_processor":{"type":"TemplateProcessing","single":[` + list(`"$"`, 1<<16+1) +
			`],"pair":["$A","$B"],"special_tokens":{}}`, "65537 pieces, want at most 65536"},
		{"added tokens that become long", `"normalizer":{"type":"Prepend","prepend":"` + strings.Repeat("p", 1<<20-16) +
			`"},` + added, "bytes"},
	} {
		_, err := openJSON(`{`+c.file+`,`+pieceModel+`}`, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.300v, want %q", c.name, err, c.want)
		}
	}
}

// TestDecodedTextsKeepTheLimit checks that texts beyond MaxText are not built.
func TestDecodedTextsKeepTheLimit(t *testing.T) {
	double := strings.Repeat(`{"type":"BPEDecoder","suffix":""},`, 60)
	space := strings.Repeat(`{"type":"CTC","pad_token":"p","word_delimiter_token":"","cleanup":true},`, 60)
	for name, decoder := range map[string]string{
		"none": `null`,
		"BPE":  `{"type":"Sequence","decoders":[` + strings.TrimSuffix(double, ",") + `]}`,
		"CTC":  `{"type":"Sequence","decoders":[` + strings.TrimSuffix(space, ",") + `]}`,
	} {
		tok, err := openJSON(`{"decoder":`+decoder+`,"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"`+
			strings.Repeat("a", 1<<10)+`":1}}}`, &Options{MaxText: 1 << 20})
		if err != nil {
			t.Fatal(name, err)
		}
		ids := make([]int64, 1<<11)
		for i := range ids {
			ids[i] = 1
		}
		if name != "none" {
			ids = []int64{1, 0}
		}
		if text, err := tok.Decode(ids, false); !errors.Is(err, errTextSize) {
			t.Errorf("%s: %d bytes, error %v, want that the size is refused", name, len(text), err)
		}
	}
}

// TestUnknownPiecesKeepTheLimit checks that the text which a SentencePiece model has for unknown
// pieces counts as often as it is written.
func TestUnknownPiecesKeepTheLimit(t *testing.T) {
	surface := strings.Repeat("u", 1<<16)
	file := spMessage(1, []spPiece{{"<unk>", 0, pieceUnknown}, {"a", -1, pieceNormal}}, nil)
	file += bytesField(2, bytesField(44, surface))
	tok, err := openSP(file)
	if err != nil {
		t.Fatal(err)
	}
	if tok, err = tok.WithOptions(&Options{MaxText: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if text, err := tok.Decode(make([]int64, 1<<10), false); !errors.Is(err, errTextSize) {
		t.Errorf("%d bytes, error %v, want that the size is refused", len(text), err)
	}
}

// TestCopiesAreReserved checks that what post-processors, truncation, padding and added tokens
// copy is reserved before.
func TestCopiesAreReserved(t *testing.T) {
	template := `"post_processor":{"type":"TemplateProcessing","single":[` + strings.Repeat(`"$A",`, 29) +
		`"$A"],"pair":["$A","$B"],"special_tokens":{}}`
	specials := `"post_processor":{"type":"TemplateProcessing","single":"$A X","pair":["$A","$B"],"special_tokens":` +
		`{"X":{"id":"X","ids":[0` + strings.Repeat(",0", 64999) + `],"tokens":["a"` + strings.Repeat(`,"a"`, 64999) + `]}}}`
	spaces := `"added_tokens":[{"id":1,"content":" ","single_word":false,"lstrip":false,"rstrip":true,` +
		`"normalized":false,"special":false}]`
	for _, c := range []struct{ name, file, text string }{
		{"template", template, strings.Repeat("a", 1<<14)},
		{"template of windows", template + `,"truncation":{"max_length":4,"strategy":"LongestFirst","stride":0}`, "aaaaaaaa"},
		{"windows", `"truncation":{"max_length":4096,"strategy":"LongestFirst","stride":4095}`, strings.Repeat("a", 1<<13)},
		{"padding", `"padding":{"strategy":{"Fixed":16777216},"direction":"Right","pad_id":0,"pad_type_id":0,` +
			`"pad_token":"p"}`, "a"},
		{"spaces", spaces, strings.Repeat(" ", 1<<13)},
		{"special tokens", specials, "a"},
		{"empty pieces", `"post_processor":{"type":"TemplateProcessing","single":"` + strings.Repeat("$ ", 1<<14) +
			`$","pair":["$A","$B"],"special_tokens":{}}`, ""},
		{"replacement", `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` +
			strings.Repeat("b", 1<<20) + `"}`, "a"},
		{"replacement of a character", `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"b"}`,
			strings.Repeat("a", 6<<20)},
		{"BERT", `"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,` +
			`"lowercase":true,"strip_accents":true}`, strings.Repeat("a", 6<<20)},
		{"long text", `"truncation":null`, strings.Repeat("a", 6<<20)},
		{"invalid UTF-8", `"truncation":null`, strings.Repeat("\xff", 1<<19)},
	} {
		tok, err := openJSON(`{`+c.file+`,"pre_tokenizer":{"type":"FixedLength","length":1},`+pieceModel+`}`, nil)
		if err != nil {
			t.Fatal(c.name, err)
		}
		const limit = 16 << 20
		reserved := int64(0)
		if tok, err = tok.WithOptions(&Options{Reserve: func(n int64) error {
			if reserved += n; reserved > limit {
				return errTooMuch
			}
			return nil
		}}); err != nil {
			t.Fatal(c.name, err)
		}
		var before, after runtime.MemStats
		for name, encode := range map[string]func() error{
			"Encode":      func() error { _, err := tok.Encode(c.text); return err },
			"EncodeBatch": func() error { _, err := tok.EncodeBatch(context.Background(), []string{c.text}); return err },
		} {
			reserved = 0
			runtime.ReadMemStats(&before)
			err := encode()
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errTooMuch) || n > limit {
				t.Errorf("%s of %s: error %v, want that the memory is refused; %d bytes are reserved, %d allocated",
					name, c.name, err, reserved, n)
			}
		}
	}
}

// TestAddedTokensKeepTheSteps checks that the normalization of added tokens ends, since opening a
// file has no deadline.
func TestAddedTokensKeepTheSteps(t *testing.T) {
	n, err := parseNormalizer(map[string]any{"type": "Replace", "pattern": map[string]any{"Regex": "a(?=a*b)"},
		"content": "c"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := newAddedTokens(nil)
	a.sc.ctx.(*workLimit).left = 100
	for i := range int32(100) {
		if err = a.normalize(i, strings.Repeat("a", 1<<10), n); err != nil {
			break
		}
	}
	if !errors.Is(err, errAddedWork) {
		t.Errorf("error %v, want %v", err, errAddedWork)
	}
}

// TestOffsetsLieInTheText checks the offsets of tokenizers of each kind, also where the tokens of a
// word stand for more than the word: the bytes of prefix and suffix, and replacements.
func TestOffsetsLieInTheText(t *testing.T) {
	var bytes strings.Builder
	for c := range 256 {
		fmt.Fprintf(&bytes, `,"%s":%d`, byteToken(byte(c)), c+2)
	}
	opened := map[string]*Tokenizer{}
	for normalizer, file := range map[string]string{
		"none":      `null`,
		"lowercase": `{"type":"Lowercase"}`,
		"removed":   `{"type":"Replace","pattern":{"String":"z"},"content":""}`,
		"longer":    `{"type":"Replace","pattern":{"String":"z"},"content":"zzé"}`,
		"prefix":    `{"type":"Prepend","prepend":"▁▁"}`,
		"bytes":     `{"type":"ByteLevel"}`,
	} {
		for _, post := range []string{`null`, `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}`,
			`{"type":"RobertaProcessing","sep":["a",0],"cls":["a",0],"add_prefix_space":false,"trim_offsets":true}`} {
			for _, fields := range []string{`"continuing_subword_prefix":"##########"`, `"end_of_word_suffix":"</www>"`,
				`"continuing_subword_prefix":"Ġ#","end_of_word_suffix":"Ġ"`} {
				tok, err := openJSON(`{"normalizer":`+file+`,"post_processor":`+post+
					`,"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"BPE","byte_fallback":true,"merges":[],`+
					fields+`,"vocab":{"a":0,"[UNK]":1`+bytes.String()+`}}}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				opened[normalizer+post+fields] = tok
			}
		}
	}
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, &Options{NoTruncation: true, NoPadding: true})
		if err != nil {
			t.Fatal(err)
		}
		opened[file] = tok
	}
	texts := []string{"", "zzz", "z", "aza z", " zé\xffz \xe2\x96", "\xff\xff", "\xff", "中 中z", "<s> </s>[MASK] "}
	for _, s := range hostileTexts(64) {
		texts = append(texts, s)
	}
	for name, tok := range opened {
		for _, runes := range []bool{false, true} {
			tok, err := tok.WithOptions(&Options{RuneOffsets: runes, NoTruncation: true, NoPadding: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range texts {
				e, err := tok.Encode(s)
				if err != nil {
					t.Fatalf("%s: %q: %v", name, s, err)
				}
				size := len(s)
				if runes {
					size = utf8.RuneCountInString(s)
				}
				for i, o := range e.Offsets {
					if o[0] < 0 || o[0] > o[1] || o[1] > size {
						t.Errorf("%s: token %d of %q, %q, has the offsets %v", name, i, s, e.Tokens[i], o)
						break
					}
				}
			}
		}
	}
}

// TestOpeningIsReserved checks that what opening a tokenizer takes is reserved before, that a
// refusal ends it, and that what the tokenizer keeps stays reserved.
func TestOpeningIsReserved(t *testing.T) {
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	var tokens, lines, long, added, merges, letters strings.Builder
	for i := range 1 << 14 {
		fmt.Fprintf(&tokens, `,"%d":%d`, i, i+300)
		fmt.Fprintf(&lines, "%d\n", i)
		fmt.Fprintf(&long, `,["%0500d",-1]`, i<<16)
		fmt.Fprintf(&added, `,{"id":%d,"content":"%da","single_word":false,"lstrip":false,"rstrip":false,`+
			`"normalized":true,"special":true}`, i, i)
		fmt.Fprintf(&merges, `,["%d","0"]`, i)
	}
	for c := range 256 {
		fmt.Fprintf(&letters, `,"<0x%02X>":%d`, c, c+1)
	}
	vocab := `"vocab":{"[UNK]":0` + letters.String() + tokens.String() + `}`
	random := make([]byte, 1<<18)
	x := uint64(1)
	for i := range random {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		random[i] = 'a' + byte(x%26)
	}
	for _, c := range []struct{ name, path, file string }{
		{"objects", "tokenizer.json", `{"normalizer":[` + repeat(`{"":0}`, 1<<16) + `],` + pieceModel + `}`},
		{"large object", "tokenizer.json", `{"normalizer":{"a":0` + tokens.String() + `},` + pieceModel + `}`},
		{"lists", "tokenizer.json", `{"normalizer":[` + repeat(`[]`, 1<<17) + `],` + pieceModel + `}`},
		{"escapes", "tokenizer.json", `{"normalizer":"` + strings.Repeat(`\n`, 1<<22) + `",` + pieceModel + `}`},
		{"vocabulary", "tokenizer.json", `{"model":{"type":"WordLevel","unk_token":"[UNK]",` + vocab + `}}`},
		{"WordPiece", "tokenizer.json", `{"model":{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":100,` +
			`"continuing_subword_prefix":"","vocab":{"[UNK]":0,"` + string(random) + `":1}}}`},
		{"Unigram", "tokenizer.json", `{"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0]` + long.String() + `]}}`},
		{"BPE", "tokenizer.json", `{"model":{"type":"BPE","ignore_merges":true,` + vocab + `,"merges":[` +
			repeat(`["1","0"]`, 1<<17) + `]}}`},
		{"added tokens", "tokenizer.json", `{"normalizer":{"type":"Prepend","prepend":"` + strings.Repeat("p", 100) +
			`"},"added_tokens":[` + added.String()[1:] + `],` + pieceModel + `}`},
		{"regular expressions", "tokenizer.json", `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[` +
			repeat(`{"type":"Split","pattern":{"Regex":"(?:ab){1000}"},"behavior":"Isolated","invert":false}`, 100) + `]},` +
			pieceModel + `}`},
		{"lines", "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n" + lines.String()},
		{"SentencePiece", "t.model", spMessage(1, []spPiece{{"<unk>", 0, pieceUnknown},
			{string(random), -1, pieceUserDefined}}, nil)},
	} {
		folder := fstest.MapFS{c.path: {Data: []byte(c.file)}}
		limit := int64(1 << 40)
		reserved, most := int64(0), int64(0)
		var before, after, kept runtime.MemStats
		open := func() (*Tokenizer, error) {
			reserved, most = 0, 0
			runtime.GC()
			runtime.ReadMemStats(&before)
			tok, err := OpenFS(folder, c.path, &Options{ReserveOpening: func(n int64) error {
				if reserved+n > limit {
					return errTooMuch
				}
				reserved += n
				most = max(most, reserved)
				return nil
			}})
			runtime.ReadMemStats(&after)
			return tok, err
		}
		tok, err := open()
		allocated := int64(after.TotalAlloc - before.TotalAlloc)
		if allocated > most+most/2 {
			t.Errorf("%s: %d bytes are allocated, %d reserved", c.name, allocated, most)
		}
		if err == nil {
			runtime.GC()
			runtime.ReadMemStats(&kept)
			if n := int64(kept.HeapAlloc) - int64(before.HeapAlloc); n > reserved+1<<20 {
				t.Errorf("%s: %d bytes are kept, %d reserved", c.name, n, reserved)
			}
		}
		runtime.KeepAlive(tok)
		limit = most / 2
		if _, err := open(); !errors.Is(err, errTooMuch) {
			t.Errorf("%s: error %v, want that the memory is refused", c.name, err)
		}
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > limit+limit/2+1<<20 {
			t.Errorf("%s: %d bytes are allocated of %d", c.name, n, limit)
		}
	}
}
