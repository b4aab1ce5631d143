package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// checkEncoding reports what no encoding may have.
func checkEncoding(t *testing.T, e *Encoding, texts ...string) {
	t.Helper()
	n := len(e.IDs)
	for _, k := range []int{len(e.TypeIDs), len(e.Mask), len(e.Special), len(e.Tokens), len(e.Words), len(e.Sequences),
		len(e.Offsets)} {
		if k != n {
			t.Fatalf("%d ids, but %d other values", n, k)
		}
	}
	for i, o := range e.Offsets {
		limit := 0
		for _, s := range texts {
			limit = max(limit, len(s))
		}
		if o[0] < 0 || o[0] > o[1] || o[1] > limit {
			t.Fatalf("token %d has offsets %v in a text of %d bytes", i, o, limit)
		}
	}
}

// FuzzOpen opens a tokenizer.json, and encodes with it if it is valid.
func FuzzOpen(f *testing.F) {
	for _, file := range smallTokenizers(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for _, s := range []string{
		`{` + wordLevelModel + `}`,
		`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAAA"},{"type":"Nmt"}]},` + wordLevelModel + `}`,
		`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|b)+?|\\p{L}"},"behavior":"MergedWithNext","invert":true},` + wordLevelModel + `}`,
		`{"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1.5],["ab",-2]],"unk_id":0,"byte_fallback":true}}`,
		`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]],"continuing_subword_prefix":"#"}}`,
		`{"decoder":{"type":"Strip","content":"a","start":1,"stop":1},"padding":{"strategy":"BatchLongest","direction":"Left","pad_id":0,"pad_type_id":0,"pad_token":"a","pad_to_multiple_of":3},` + wordLevelModel + `}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		tok, err := openJSON(data, &Options{MaxFile: 1 << 20, MaxText: 1 << 16})
		if err != nil {
			return
		}
		if p := tok.padding; p != nil && (p.Length > 1000 || p.MultipleOf > 1000) {
			return
		}
		for _, s := range []string{"", "a b", " aab <unk> é中\xff\n12 's"} {
			if e, err := tok.Encode(s); err == nil {
				if _, err := tok.Decode(e.IDs, true); err != nil && !strings.Contains(err.Error(), "limit") {
					t.Fatal(err)
				}
			}
		}
		tok.EncodePair("a", "b a")
	})
}

// FuzzEncode encodes and decodes texts with small tokenizers.
func FuzzEncode(f *testing.F) {
	for _, s := range testTexts(f) {
		f.Add(s)
	}
	var toks []*Tokenizer
	for _, file := range smallTokenizers(f) {
		tok, err := Open(file, nil)
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, tok)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range toks {
			e, err := tok.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			checkEncoding(t, e, s)
			for _, w := range e.Overflow {
				checkEncoding(t, w, s)
			}
			if text, err := tok.Decode(e.IDs, false); err != nil || !utf8.ValidString(text) {
				t.Fatalf("decoded %q, %v", text, err)
			}
		}
	})
}

// FuzzRegex compiles a pattern and finds its matches.
func FuzzRegex(f *testing.F) {
	for expr := range scanners {
		f.Add(expr, "a b1 's\n")
	}
	for _, expr := range []string{`(?:a|a)*b`, `(?<=ab|cd)[^\p{Han}&&a-z]{2,}?`, `(?>x+)+\b$`, `(?i:it's)|(?!^)\A`, `[[a-z]&&[^b]]++`, `(a*)*`} {
		f.Add(expr, "aaab abcd\n")
	}
	f.Fuzz(func(t *testing.T, expr, s string) {
		p, err := parseRegex(expr)
		if err != nil {
			return
		}
		text := []byte(strings.ToValidUTF8(s, "?"))
		ranges, err := (&splitPattern{program: p}).matches(text, &scratch{})
		if err != nil {
			return
		}
		at := 0
		for _, r := range ranges {
			if r.lo != at || r.hi < r.lo {
				t.Fatalf("%q on %q: ranges %v", expr, text, ranges)
			}
			at = r.hi
		}
		if at != len(text) {
			t.Fatalf("%q on %q: ranges end at %d of %d", expr, text, at, len(text))
		}
	})
}

// FuzzFormats opens SentencePiece models, vocabularies and .tiktoken files.
func FuzzFormats(f *testing.F) {
	f.Add("x.model", []byte("\x0a\x0c\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02\x0a\x08\x0a\x01a\x15\x00\x00\x80\xbf"))
	f.Add("vocab.txt", []byte("[UNK]\n[CLS]\n[SEP]\na\n##b\n"))
	f.Add("cl100k_base.tiktoken", []byte("IQ== 0\nIg== 1\n"))
	f.Add("tokenizer_config.json", []byte(`{"add_bos_token":true,"added_tokens_decoder":{"1":{"content":"a"}}}`))
	for _, file := range []string{"llama3.json", "unigram.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "small", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add("added_tokens.json", data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		folder := fstest.MapFS{name: {Data: data}}
		if !strings.HasSuffix(name, ".model") && !strings.HasSuffix(name, ".tiktoken") && name != "vocab.txt" {
			folder = fstest.MapFS{"tokenizer.json": {Data: []byte(`{` + wordLevelModel + `}`)}, name: {Data: data}}
		}
		tok, err := OpenFS(folder, "", &Options{MaxFile: 1 << 20, MaxText: 1 << 16})
		if err != nil {
			return
		}
		if e, err := tok.Encode("a b\xff é"); err == nil {
			tok.Decode(e.IDs, true)
		}
	})
}
