package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// countedContext ends when it has been asked a number of times.
type countedContext struct {
	context.Context
	left  int // before it ends
	after int // how often it has been asked since
}

func (c *countedContext) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	c.after++
	return context.Canceled
}

const pieceModel = `"model":{"type":"WordLevel","vocab":{"[UNK]":0},"unk_token":"[UNK]"}`

// slowTokenizers take seconds to hours for a text of a megabyte of "a" or of spaces.
var slowTokenizers = map[string]string{
	"regular expression": `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a*)*b"},"behavior":"Isolated","invert":false},` +
		pieceModel + `}`,
	"lookahead of a run": `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a(?=a*b)"},"behavior":"Isolated","invert":false},` +
		pieceModel + `}`,
	"added tokens that take spaces": `{"added_tokens":[{"id":1,"content":" ","single_word":false,"lstrip":true,"rstrip":true,` +
		`"normalized":false,"special":false}],` + pieceModel + `}`,
	"long added token": `{"added_tokens":[{"id":1,"content":"` + strings.Repeat("a", 1<<19) + `b","single_word":false,` +
		`"lstrip":false,"rstrip":false,"normalized":false,"special":false}],` + pieceModel + `}`,
	"long words": `{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##a":2,"##` + strings.Repeat("a", 1<<19) +
		`b":3},"unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":1000000000}}`,
	"long pieces": `{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["` +
		strings.Repeat("a", 1<<19) + `b",-2]]}}`,
}

// hostileTexts are texts that take long or much memory for their size.
func hostileTexts(size int) map[string]string {
	texts := map[string]string{}
	for _, s := range []string{"a", "!", " ", "a ", "\n", "7", "'", "\uFDFA", "\u0301", "\u0301\u0323\u0327", "각", "ệ",
		"İ", "中", "😀", "▁", "\x01", "\xff", "the quick brown fox ", "<s></s>[MASK]"} {
		texts[fmt.Sprintf("%.30q", s)] = strings.Repeat(s, size/len(s))
	}
	return texts
}

// TestContextWithinAText ends the context while one long text is encoded. No part of the work goes
// on without asking it.
func TestContextWithinAText(t *testing.T) {
	try := func(tok *Tokenizer, name, text string) {
		t.Helper()
		for _, left := range []int{0, 1} {
			ctx := &countedContext{Context: t.Context(), left: left}
			_, err := tok.EncodeContext(ctx, text)
			if !errors.Is(err, context.Canceled) || ctx.after > 1 {
				t.Errorf("%s: after %d questions the context ends: error %v, %d questions after it", name, left, err,
					ctx.after)
			}
		}
	}
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, &Options{NoTruncation: true, NoPadding: true})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range hostileTexts(1 << 18) {
			try(tok, file+" "+name, text)
		}
	}
	for name, file := range slowTokenizers {
		tok, err := openJSON(file, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, s := range []string{"a", " "} {
			if s == " " == strings.Contains(name, "spaces") {
				try(tok, name, strings.Repeat(s, 1<<20))
			}
		}
	}
}

// TestReserve checks that the memory of an encoding is reserved, and that a refusal ends it.
func TestReserve(t *testing.T) {
	grow := `{"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 1000) + `"},` +
		`"pre_tokenizer":{"type":"FixedLength","length":1},` + pieceModel + `}`
	opened := map[string]*Tokenizer{}
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		opened[file] = tok
	}
	tok, err := openJSON(grow, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened["growing"] = tok
	for name, tok := range opened {
		texts := hostileTexts(1 << 16)
		if name == "growing" {
			texts = map[string]string{"a": strings.Repeat("a", 1000)}
		}
		for text, s := range texts {
			var reserved atomic.Int64
			limit := int64(1 << 40)
			with, err := tok.WithOptions(&Options{NoPadding: true,
				Truncation: &Truncation{MaxLength: 64, NoOverflow: true},
				Reserve: func(n int64) error {
					if reserved.Add(n) > limit {
						return errTooMuch
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = with.Encode(s)
			runtime.ReadMemStats(&after)
			// Buffers that grow leave garbage: up to six times their size in all.
			if n := int64(after.TotalAlloc - before.TotalAlloc); err != nil || n > 6*reserved.Load()+2<<20 {
				t.Errorf("%s %s: %v; %d bytes are allocated, %d reserved", name, text, err, n, reserved.Load())
			}
			if limit = reserved.Load() / 2; limit < 2*keepReserved { // buffers of calls before are not reserved
				continue
			}
			reserved.Store(0)
			if _, err := with.Encode(s); !errors.Is(err, errTooMuch) {
				t.Errorf("%s %s: error %v, want that the memory is refused", name, text, err)
			}
		}
	}
}

var errTooMuch = errors.New("too much")

// TestMatchesAreReserved checks that the list of matches of a pattern is reserved before it grows.
func TestMatchesAreReserved(t *testing.T) {
	for name, split := range map[string]string{
		"literal":            `"Split","pattern":{"String":"a"},"behavior":"Isolated","invert":false`,
		"regular expression": `"Split","pattern":{"Regex":"a"},"behavior":"Isolated","invert":false`,
		"scanner":            `"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true`,
		"class":              `"Punctuation","behavior":"Isolated"`,
	} {
		tok, err := openJSON(`{"pre_tokenizer":{"type":`+split+`},`+pieceModel+`}`, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		const limit = 64 << 10
		sc := &scratch{limit: 1 << 20}
		reserved := int64(0)
		sc.reserve = func(n int64) error {
			if reserved+n > limit {
				return errTooMuch
			}
			reserved += n
			return nil
		}
		s := strings.Repeat("a!", 1<<13)
		err = tok.pre.split(&piece{text: text{s: []byte(s)}}, sc)
		if n := int64(sc.size()); !errors.Is(err, errTooMuch) || n > reserved {
			t.Errorf("%s: error %v; the buffers have %d bytes, %d are reserved", name, err, n, reserved)
		}
	}
}

// TestPanicsOfWorkers checks that a panic in a goroutine of a batch becomes its error.
func TestPanicsOfWorkers(t *testing.T) {
	tok, err := openJSON(`{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tok.batch(t.Context(), 9, func(i int) []string { panic(fmt.Sprint("text ", i)) })
	if err == nil || !strings.Contains(err.Error(), "tokenizer: internal error: text ") {
		t.Errorf("got %v, want the panic", err)
	}
}

// TestContextWithinAList ends the context while one long list of ids is decoded. Each step of each
// decoder asks it.
func TestContextWithinAList(t *testing.T) {
	decoders := map[string]string{"none": "null"}
	for _, fields := range []string{`BPEDecoder","suffix":"</w>"`, `ByteLevel"`, `WordPiece","prefix":"##","cleanup":true`,
		`Metaspace","replacement":"▁","add_prefix_space":true`, `ByteFallback"`,
		`CTC","pad_token":"p","word_delimiter_token":"|","cleanup":true`,
		`Replace","pattern":{"String":"a"},"content":"b"`, `Replace","pattern":{"Regex":"a"},"content":"b"`,
		`Strip","content":"a","start":1,"stop":0`} {
		decoders[fields] = `{"type":"` + fields + `}`
	}
	opened := map[string]*Tokenizer{}
	for name, decoder := range decoders {
		tok, err := openJSON(`{"decoder":`+decoder+`,`+
			`"model":{"type":"WordLevel","vocab":{"a":0,"<0xE2>":1},"unk_token":"a"}}`, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		opened[name] = tok
	}
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		opened[file] = tok
	}
	ids := make([]int64, 1<<18)
	for i := range ids {
		ids[i] = int64(i % 2)
	}
	for name, tok := range opened {
		all := &countedContext{Context: t.Context(), left: 1 << 20}
		text, err := tok.DecodeContext(all, ids, false)
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, error %v", name, len(text), err)
		}
		asked := 1<<20 - all.left
		least := len(ids) / checkEvery // by what looks up the tokens
		if decoders[name] != "" && name != "none" {
			least *= 3 // a decoder counts a token and its bytes
		}
		if asked < least {
			t.Errorf("%s: the context is asked %d times for %d ids, want at least %d", name, asked, len(ids), least)
		}
		for _, left := range []int{0, 1, asked / 2, asked - 1} {
			ctx := &countedContext{Context: t.Context(), left: left}
			if _, err := tok.DecodeContext(ctx, ids, false); !errors.Is(err, context.Canceled) || ctx.after > 1 {
				t.Errorf("%s: after %d questions the context ends: error %v, %d questions after it", name, left, err,
					ctx.after)
			}
		}
	}
}
