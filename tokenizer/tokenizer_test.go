package tokenizer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

func small(t testing.TB, name string, opts *Options) *Tokenizer {
	t.Helper()
	tok, err := Open(filepath.Join("testdata", "small", name+".json"), opts)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// openJSON opens a tokenizer.json that is given as text.
func openJSON(data string, opts *Options) (*Tokenizer, error) {
	return OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(data)}}, "tokenizer.json", opts)
}

const wordLevelModel = `"model":{"type":"WordLevel","vocab":{"a":0,"b":1,"<unk>":2},"unk_token":"<unk>"}`

// TestUnsupported checks that Open names what it does not support.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{`{}`, "no model"},
		{`{"version":"2.0",` + wordLevelModel + `}`, "version 2.0"},
		{`{"model":{"type":"Other","vocab":{}}}`, `model "Other"`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}`, "dropout"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`, `"a" "b" is not in the vocabulary`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a  b"]}}`, "merge 1"},
		{`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`, "token id"},
		{`{"model":{"type":"BPE","vocab":{"a":1.5},"merges":[]}}`, "token id"},
		{`{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":1}}`, "unk_id 1"},
		{`{"model":{"type":"Unigram","vocab":{"a":0},"unk_id":0}}`, "wrong form"},
		{`{"model":{"type":"WordPiece","vocab":{"a":0},"unk_token":"a"}}`, "continuing_subword_prefix"},
		{`{"normalizer":{"type":"Other"},` + wordLevelModel + `}`, `normalizer "Other"`},
		{`{"normalizer":{"lowercase":true},` + wordLevelModel + `}`, "normalizer without a type"},
		{`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"////"},` + wordLevelModel + `}`, "Precompiled"},
		{`{"pre_tokenizer":{"type":"Other"},` + wordLevelModel + `}`, `pre-tokenizer "Other"`},
		{`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated","invert":false},` + wordLevelModel + `}`, `\1`},
		{`{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd","invert":false},` + wordLevelModel + `}`, `"Odd"`},
		{`{"pre_tokenizer":{"type":"Metaspace","replacement":"ab"},` + wordLevelModel + `}`, "one character"},
		{`{"pre_tokenizer":{"type":"FixedLength","length":0},` + wordLevelModel + `}`, "length"},
		{`{"post_processor":{"type":"Other"},` + wordLevelModel + `}`, `post-processor "Other"`},
		{`{"post_processor":{"type":"TemplateProcessing","single":["$B"],"pair":["$A","$B"],"special_tokens":{}},` + wordLevelModel + `}`, "sequence B"},
		{`{"post_processor":{"type":"TemplateProcessing","single":["[X]","$A"],"pair":["$A","$B"],"special_tokens":{}},` + wordLevelModel + `}`, `"[X]"`},
		{`{"decoder":{"type":"Other"},` + wordLevelModel + `}`, `decoder "Other"`},
		{`{"truncation":{"max_length":5,"strategy":"Odd","stride":0},` + wordLevelModel + `}`, `"Odd"`},
		{`{"padding":{"strategy":"Odd","direction":"Right","pad_id":0,"pad_type_id":0,"pad_token":"a"},` + wordLevelModel + `}`, `"Odd"`},
		{`{"padding":{"strategy":{"Fixed":2147483647},"direction":"Right","pad_id":0,"pad_type_id":0,"pad_token":"a"},` + wordLevelModel + `}`, "padding lengths"},
		{`{"added_tokens":[{"content":"a"}],` + wordLevelModel + `}`, "added token 0"},
		{"{\"x\":\"\xff\"," + wordLevelModel + `}`, "UTF-8"},
		{`{"x":"\ud800",` + wordLevelModel + `}`, "surrogate"},
		{`{` + wordLevelModel + `} x`, "after the value"},
		{`{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 100) + strings.Repeat(`]}`, 100) + `,` + wordLevelModel + `}`, "nesting"},
		{strings.Repeat("[", 1e6), "want"},
	} {
		_, err := openJSON(c.data, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.120s: error %v, want one with %q", c.data, err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no tokenizer.json") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestLimits(t *testing.T) {
	if _, err := openJSON(`{`+wordLevelModel+`}`, &Options{MaxFile: 10}); err == nil ||
		!strings.Contains(err.Error(), "limit") {
		t.Errorf("a file beyond the limit: %v", err)
	}
	for what, data := range map[string]string{
		"values": `{"normalizer":[` + strings.Repeat("0,", maxValues+1) + `0],` + wordLevelModel + `}`,
		"bytes":  `{"model":{"type":"Unigram","unk_id":0,"vocab":[["` + strings.Repeat("a", maxTokenBytes+1) + `",0]]}}`,
		"want at most 16384": `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"` + strings.Repeat("a|", regexBytes) +
			`"},"behavior":"Isolated"},` + wordLevelModel + `}`,
		"added tokens have": `{"added_tokens":[{"id":9,"content":"` + strings.Repeat("a", maxAddedBytes+1) +
			`","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],` + wordLevelModel + `}`,
	} {
		if _, err := openJSON(data, nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("too many %s: %v", what, err)
		} else if len(err.Error()) > 500 {
			t.Errorf("too many %s: the error has %d bytes", what, len(err.Error()))
		}
	}
	// Each line is a token, or a merge.
	for name, line := range map[string]string{"vocab.txt": "\n", "cl100k_base.tiktoken": "\n", "merges.txt": "a a\n"} {
		dir := t.TempDir()
		lines := strings.Repeat(line, maxTokens+1)
		if name == "merges.txt" {
			lines = strings.Repeat(line, maxMerges+1)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), []byte(lines), 0o666),
			os.WriteFile(filepath.Join(dir, "vocab.json"), []byte(`{"a":0,"aa":1}`), 0o666)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if name == "merges.txt" {
			path = filepath.Join(dir, "vocab.json")
		}
		if _, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), "lines") {
			t.Errorf("too many lines of %s: %v", name, err)
		}
	}
	tok, err := openJSON(`{`+wordLevelModel+`}`, &Options{MaxText: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode(strings.Repeat("a", 11)); !errors.Is(err, errTextLength) {
		t.Errorf("a text beyond the limit: %v", err)
	}
	// Each step multiplies the size of the text by 1000.
	grow := `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 1000) + `"}`
	tok, err = openJSON(`{"normalizer":{"type":"Sequence","normalizers":[`+grow+","+grow+","+grow+","+grow+`]},`+wordLevelModel+`}`, &Options{MaxText: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("aaaa"); !errors.Is(err, errTextSize) {
		t.Errorf("a text that grows: %v", err)
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("The quick brown fox. ", 50_000)
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, &Options{NoTruncation: true, NoPadding: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tok.EncodeContext(ctx, long); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a text of 1 MB with an ended context: %v", file, err)
		}
		if _, err := tok.EncodeBatch(ctx, []string{long, long}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a batch with an ended context: %v", file, err)
		}
	}
}

// TestConcurrent encodes from many goroutines and compares with one.
func TestConcurrent(t *testing.T) {
	texts := testTexts(t)
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want [][]int64
		for _, s := range texts {
			e, err := tok.WithOptions(&Options{NoPadding: true})
			if err != nil {
				t.Fatal(err)
			}
			enc, err := e.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, enc.IDs)
		}
		plain, err := tok.WithOptions(&Options{NoPadding: true})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for k := range 8 {
			wg.Go(func() {
				for i := range texts {
					i = (i + 5*k) % len(texts)
					if e, err := plain.Encode(texts[i]); err != nil || !slices.Equal(e.IDs, want[i]) {
						t.Errorf("%s: text %d differs in a goroutine: %v", file, i, err)
						return
					}
				}
			})
		}
		wg.Wait()
		batch, err := plain.EncodeBatch(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			if !slices.Equal(batch[i].IDs, want[i]) {
				t.Errorf("%s: text %d differs in a batch", file, i)
			}
		}
	}
}

// TestRawBytes compares byte-level BPE over bytes with BPE over the characters that stand for
// them.
func TestRawBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	seeds := testTexts(t)
	for _, name := range []string{"roberta", "llama3"} {
		raw, chars := small(t, name, nil), small(t, name, nil)
		if !chars.model.(*bpe).raw {
			t.Errorf("%s: the model does not read bytes", name)
		}
		chars.model.(*bpe).raw = false
		last := chars.pre
		for {
			list, ok := last.(preTokenizerSequence)
			if !ok {
				break
			}
			last = list[len(list)-1]
		}
		last.(*byteLevelSplit).raw = false
		for range 2000 {
			s := mutate(r, seeds)
			a, err := raw.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			b, err := chars.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Offsets, b.Offsets) {
				t.Fatalf("%s: %+q: %v %v, want %v %v", name, s, a.IDs, a.Offsets, b.IDs, b.Offsets)
			}
		}
	}
}

// TestCut compares a BPE model that cuts words where no merge crosses with one that does not.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	seeds := testTexts(t)
	for _, name := range []string{"llama2", "llama3"} {
		cut, whole := small(t, name, &Options{NoTruncation: true}), small(t, name, &Options{NoTruncation: true})
		m := whole.model.(*bpe)
		for i := range m.crossed {
			m.crossed[i] = ^uint64(0)
		}
		for i := range m.rawCrossed {
			m.rawCrossed[i] = ^uint64(0)
		}
		for range 2000 {
			s := mutate(r, seeds)
			a, err := cut.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			b, err := whole.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Offsets, b.Offsets) {
				t.Fatalf("%s: %+q: %v %v, want %v %v", name, s, a.IDs, a.Offsets, b.IDs, b.Offsets)
			}
		}
	}
}

// TestDecoder checks that a streaming decoder returns whole characters, and together the text.
func TestDecoder(t *testing.T) {
	for _, file := range smallTokenizers(t) {
		tok, err := Open(file, &Options{NoTruncation: true, NoPadding: true, NoSpecialTokens: true})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "words.json") || strings.HasSuffix(file, "clip.json") {
			continue // CTC joins repeated tokens, and BPEDecoder changes the last token
		}
		for _, s := range testTexts(t) {
			e, err := tok.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			d := tok.NewDecoder(false)
			var out strings.Builder
			for _, id := range e.IDs {
				part, err := d.Next(id)
				if err != nil {
					t.Fatalf("%s: %q: %v", file, s, err)
				}
				if strings.HasSuffix(part, "\uFFFD") {
					t.Errorf("%s: %q: part %q ends in an incomplete character", file, s, part)
				}
				out.WriteString(part)
			}
			rest, err := d.Flush()
			if err != nil {
				t.Fatal(err)
			}
			want, err := tok.Decode(e.IDs, false)
			if err != nil || out.String()+rest != want {
				t.Errorf("%s: decoded in steps %q\nwant %q, %v", file, out.String()+rest, want, err)
			}
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	tok := small(t, "bert", &Options{NoTruncation: true, NoPadding: true, NoSpecialTokens: true})
	e, err := tok.Encode("a\xff\xe4\xb8 b\xe4\xb8\xad")
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]int{{0, 1}, {5, 6}, {6, 9}}
	if !slices.Equal(e.Offsets, want) {
		t.Errorf("tokens %q at %v, want %v", e.Tokens, e.Offsets, want)
	}
}

func TestPadBatch(t *testing.T) {
	tok := small(t, "bert", &Options{Padding: &Padding{Left: true, ID: 0, Token: "[PAD]"}, NoTruncation: true})
	list, err := tok.EncodeBatch(t.Context(), []string{"one", "one two three four five"})
	if err != nil {
		t.Fatal(err)
	}
	if list[0].Len() != list[1].Len() || list[0].Mask[0] != 0 || list[1].Mask[0] != 1 || list[0].Sequences[0] != -1 {
		t.Errorf("lengths %d and %d, mask %v, sequences %v", list[0].Len(), list[1].Len(), list[0].Mask,
			list[0].Sequences)
	}
}

// TestFolder checks which files of a folder Open reads, and what it refuses.
func TestFolder(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "small", "llama3.json"))
	if err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{
		"tokenizer.json":          {Data: data},
		"tokenizer_config.json":   {Data: []byte(`{"tokenizer_class":"X","model_max_length":512,"padding_side":"left","eos_token":{"content":"</s>"},"chat_template":"{{x}}","added_tokens_decoder":{"7000":{"content":"<new>","special":true,"normalized":false}}}`)},
		"special_tokens_map.json": {Data: []byte(`{"bos_token":"<s>"}`)},
		"added_tokens.json":       {Data: []byte(`{"<more>":7001}`)},
	}
	tok, err := OpenFS(folder, "", &Options{NoSpecialTokens: true})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Class: "X", ModelMaxLength: 512, PaddingLeft: true, ChatTemplate: "{{x}}", BOS: "<s>", EOS: "</s>"}
	if got := tok.Config(); got != want {
		t.Errorf("config %+v, want %+v", got, want)
	}
	e, err := tok.Encode("<new><more>")
	if err != nil || !slices.Equal(e.IDs, []int64{7000, 7001}) {
		t.Errorf("ids %v, %v", e.IDs, err)
	}
	folder["added_tokens.json"] = &fstest.MapFile{Data: []byte(`{"<clash>":5}`)}
	if _, err := OpenFS(folder, "", nil); err == nil || !strings.Contains(err.Error(), "id 5") {
		t.Errorf("an added token with the id of another: %v", err)
	}
	bert := fstest.MapFS{"vocab.txt": {Data: []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\n##s\n")}}
	tok, err = OpenFS(bert, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, err = tok.Encode("Hellos X [SEP]"); err != nil || !slices.Equal(e.IDs, []int64{2, 4, 5, 1, 3, 3}) {
		t.Errorf("ids %v, %v", e.IDs, err)
	}
	bert["tokenizer_config.json"] = &fstest.MapFile{Data: []byte(`{"tokenizer_class":"BertJapaneseTokenizer"}`)}
	if _, err := OpenFS(bert, "", nil); err == nil || !strings.Contains(err.Error(), "BertJapaneseTokenizer") {
		t.Errorf("an unknown class: %v", err)
	}
}

// TestAllocations checks that AppendIDs allocates nothing for words that it knows.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled memory")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	s := strings.Repeat(testTexts(t)[0], 3)
	for _, name := range []string{"bert", "llama3", "unigram"} {
		least := math.Inf(1)
		for range 8 { // words whose hashes, of random seeds, share an entry of the cache displace each other
			tok := small(t, name, nil)
			dst, err := tok.AppendIDs(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			least = min(least, testing.AllocsPerRun(20, func() {
				if dst, err = tok.AppendIDs(dst[:0], s); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if least > 2 {
			t.Errorf("%s: %.0f allocations for a text, want at most 2", name, least)
		}
	}
}

// TestSentencePieceRules normalizes a character with an accent. tokenizers drops the accent,
// because it replaces a grapheme cluster by what its shortest prefix maps to.
func TestSentencePieceRules(t *testing.T) {
	charsmap := charsmapOf(0xAC, "fi")
	file := fmt.Sprintf(`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled","precompiled_charsmap":%q}]},
		"model":{"type":"WordLevel","vocab":{"fi":0,"fi\u0301":1,"<unk>":2},"unk_token":"<unk>"}}`, charsmap)
	for rules, want := range map[bool]int64{false: 0, true: 1} {
		tok, err := openJSON(file, &Options{SentencePieceRules: rules})
		if err != nil {
			t.Fatal(err)
		}
		e, err := tok.Encode("\u00AC\u0301")
		if err != nil || len(e.IDs) != 1 || e.IDs[0] != want {
			t.Errorf("SentencePieceRules %v: ids %v, %v, want %d", rules, e.IDs, err, want)
		}
	}
}

// charsmapOf returns a precompiled_charsmap that replaces the character U+0080 to U+00BF with
// the second byte c.
func charsmapOf(c byte, replacement string) string {
	// A double array: the node of byte b after offset o is at o^b; a leaf is at its node's offset.
	units := make([]uint32, 1024)
	units[0] = 256 << 10
	first := uint32(256 ^ 0xC2)
	units[first] = 0xC2 | (first^512)<<10
	second := uint32(512) ^ uint32(c)
	units[second] = uint32(c) | 1<<8 | 1<<10
	units[second^1] = 1 << 31
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return base64.StdEncoding.EncodeToString(append(b, replacement+"\x00"...))
}

// TestNumbers compares numbers with those that tokenizers 0.23.3 writes after it has read them.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{
		"-9.033994674682617": -9.033994674682615, "-11.209592819213867": -11.209592819213867,
		"-12.210668563842773": -12.210668563842772, "-3.6185367107391357": -3.618536710739136,
		"1e-7": 1e-7, "-0.1": -0.1, "123456789012345678901234567890": 1.2345678901234568e29,
		"-12.34567890123456789012345": -12.345678901234567, "5e-324": 5e-324,
		"1.7976931348623157e308": 1.7976931348623157e308, "-2.5E-10": -2.5e-10,
		"1.2345678901234567e-30": 1.2345678901234568e-30, "9007199254740993": 9007199254740992,
		"-0.000012345678901234567": -1.2345678901234568e-5, "0.1e25": 1e24, "-0": 0, "0e999": 0,
	} {
		if got, err := (&jsonReader{s: text}).float(); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestUnigramTies divides a text whose divisions differ by rounding alone.
func TestUnigramTies(t *testing.T) {
	tok, err := openJSON(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],
		["x",-9.033994674682617],["xx",-11.209592819213867],["xxx",-12.210668563842773]]}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tok.Encode(strings.Repeat("x", 11))
	if want := []int64{3, 3, 3, 2}; err != nil || !slices.Equal(e.IDs, want) {
		t.Errorf("ids %v, %v, want %v", e.IDs, err, want)
	}
}

// TestNoOverflow cuts texts and pairs with and without their windows.
func TestNoOverflow(t *testing.T) {
	tok := small(t, "bert", nil)
	for _, texts := range [][]string{{"a"}, {"a b c d e f g h"}, {"a b c d e f", "g h i j k l"},
		{"a", "b c d e f g h"}} {
		for _, left := range []bool{false, true} {
			var list [2]*Encoding
			for i := range list {
				cut := &Truncation{MaxLength: 7, Left: left, NoOverflow: i == 1}
				o, err := tok.WithOptions(&Options{Truncation: cut, NoPadding: true})
				if err != nil {
					t.Fatal(err)
				}
				if list[i], err = o.EncodeContext(t.Context(), texts...); err != nil {
					t.Fatal(err)
				}
			}
			all, cut := list[0], list[1]
			if !slices.Equal(all.IDs, cut.IDs) || !slices.Equal(all.Offsets, cut.Offsets) ||
				!slices.Equal(all.Sequences, cut.Sequences) {
				t.Errorf("%q: %v with windows, %v without", texts, all.IDs, cut.IDs)
			}
			long := len(all.Overflow) > 0
			if len(cut.Overflow) > 0 || all.Truncated != long || cut.Truncated != long {
				t.Errorf("%q: %d windows, truncated %v; without windows %d, truncated %v", texts, len(all.Overflow),
					all.Truncated, len(cut.Overflow), cut.Truncated)
			}
		}
	}
}
