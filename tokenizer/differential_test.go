package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// mutate returns a text made of parts of others and of random characters.
func mutate(r *rand.Rand, seeds []string) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			s := seeds[r.IntN(len(seeds))]
			lo := r.IntN(len(s))
			b.WriteString(s[lo:min(len(s), lo+r.IntN(40))])
		case 4:
			for range 1 + r.IntN(8) {
				b.WriteRune(randomRune(r))
			}
		case 5:
			for range 1 + r.IntN(6) {
				b.WriteRune(interesting[r.IntN(len(interesting))])
			}
		case 6:
			for range 1 + r.IntN(4) {
				b.WriteByte(byte(r.IntN(256)))
			}
		case 7:
			b.WriteString(strings.Repeat(string(interesting[r.IntN(len(interesting))]), 1+r.IntN(5)))
		case 8:
			base := randomRune(r)
			b.WriteRune(base)
			for range 1 + r.IntN(4) {
				b.WriteRune(marks[r.IntN(len(marks))])
			}
		default:
			b.WriteString([]string{" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "n't", "<s>", "</s>", "<pad>", "<unk>",
				"[MASK]", "[SEP]",
				"<|endoftext|>", "<mask>", " <mask> ", "▁", "123456", "0.5e-3", "ﬁ", "Å", "가", "http://x.y/z?q=1", "</w>", "##"}[r.IntN(26)])
		}
	}
	return b.String()
}

var interesting = []rune(
	" \n\r\t'\u00a0\u0085\u2028\u3000\u200b\u200c\u200d\ufeff\ufffd\u0000\u0001\u007f\u00adaAzZ09.,!?-_/▁Ġßẞſ" +
		"İıǅ\u212aﬀﬃ½²٣४〇五Ⅷ①㍿" +
		"\u0300\u0301\u0327\u0323\u0345\u05b0\u064b\u093c\u094d\u0e33\u0f71\u1100\u1161\u11a8가각힣\u3099が\u304b中文字龥" +
		"\U00020000\U0002ceb0日本語éñüÅ\u212bÇ😀👨\u200d👩\U0001f1e9\U0001f1ea©®\ufe0f" +
		"\u0600\u0903\u0e01กำ한국어العربيةעבריתहिन्दीবাংলা\u180e\u1680\u2581𝒜𝟙\U0001d15e\U0001d165\u0344\u0958\u2adc" +
		"\ufb1d\U0001d1bf")

var marks = []rune(
	"\u0300\u0301\u0302\u0308\u0316\u0323\u0327\u0328\u0334\u0345\u035c\u0360\u0488\u0591\u05b0\u0610\u064b" +
		"\u0670\u0711\u0730\u093c\u094d\u0951\u0bd7\u0d4d\u0e38\u0eb8\u0f18\u0f71\u0f72" +
		"\u1037\u135d\u1714\u17d2\u18a9\u1939\u1a17\u1a60\u1a7f\u1ab0\u1b34\u1cd0\u1dc0\u1dcd\u1dfb\u20d0\u20e5" +
		"\u302a\u302e\u3099\ua806\ua9c0\ufb1e\ufe20\U000101fd\U00011046\U0001d165\U0001d16d\U0001e8d0\u200d\ufe0f" +
		"\U0001f3fb")

func randomRune(r *rand.Rand) rune {
	for {
		var c rune
		switch r.IntN(8) {
		case 0:
			c = rune(r.IntN(0x110000))
		case 1:
			c = rune(r.IntN(0x20000))
		case 2:
			c = 0x1D000 + rune(r.IntN(0x3000))
		case 3:
			c = rune(r.IntN(0x10000))
		case 4:
			c = rune(r.IntN(0x3400))
		default:
			c = rune(r.IntN(0x600))
		}
		if utf8.ValidRune(c) {
			return c
		}
	}
}

// compare encodes and decodes a text, and describes the first difference to want.
func compare(tok *Tokenizer, s string, want *oracleResult) string {
	e, err := tok.Encode(s)
	if want.failed != "" {
		return "" // a panic of tokenizers; ours is an error or a result
	}
	if err != nil {
		return "error: " + err.Error()
	}
	switch {
	case !slices.Equal(e.IDs, want.ids):
		return fmt.Sprintf("ids %v\nwant    %v\ntokens %q\nwant   %q", e.IDs, want.ids, e.Tokens, want.tokens)
	case !slices.Equal(e.Offsets, want.offsets):
		return fmt.Sprintf("offsets %v\nwant    %v\ntokens %q", e.Offsets, want.offsets, e.Tokens)
	case !slices.Equal(e.Words, want.words):
		return fmt.Sprintf("words %v\nwant  %v", e.Words, want.words)
	case !slices.Equal(e.TypeIDs, want.types):
		return fmt.Sprintf("types %v\nwant  %v", e.TypeIDs, want.types)
	case strings.Join(e.Tokens, "\x00") != strings.Join(want.tokens, "\x00"):
		return fmt.Sprintf("tokens %q\nwant   %q", e.Tokens, want.tokens)
	}
	ids, err := tok.AppendIDs(nil, s)
	if err != nil {
		return "error: " + err.Error()
	}
	var plain []int64
	for i, id := range e.IDs {
		if !e.Special[i] {
			plain = append(plain, id)
		}
	}
	if !slices.Equal(ids, plain) {
		return fmt.Sprintf("AppendIDs %v\nwant      %v", ids, plain)
	}
	text, err := tok.Decode(e.IDs, false)
	if err != nil {
		return "decode: " + err.Error()
	}
	if text != want.decoded {
		return fmt.Sprintf("decoded %q\nwant    %q", text, want.decoded)
	}
	return ""
}

// shrink removes characters from a text as long as a difference remains.
func shrink(tok *Tokenizer, o *oracle, s string) string {
	r := []rune(strings.ToValidUTF8(s, "\uFFFD"))
	for i := 0; i < len(r); {
		shorter := string(r[:i]) + string(r[i+1:])
		want := o.encode([]string{shorter})
		if compare(tok, shorter, &want[0]) != "" {
			r = append(r[:i:i], r[i+1:]...)
			i = 0
		} else {
			i++
		}
	}
	if short := string(r); short != "" {
		want := o.encode([]string{short})
		if compare(tok, short, &want[0]) != "" {
			return short
		}
	}
	return s
}

// TestDifferential compares the tokenizers of public models with package tokenizers.
func TestDifferential(t *testing.T) {
	python := oraclePython(t)
	data := publicTokenizers(t)
	n := textCount(2000)
	folders, _ := filepath.Glob(filepath.Join(data, "*", "tokenizer.json"))
	seeds := testTexts(t)
	for _, file := range folders {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			tok, err := Open(file, &Options{RuneOffsets: true, NoTruncation: true, NoPadding: true})
			if err != nil {
				t.Fatal(err)
			}
			o := startOracle(t, python, file)
			r := rand.New(rand.NewPCG(seed(), 1))
			failures, panics, done := 0, 0, 0
			for done < n {
				var texts []string
				for range min(500, n-done) {
					if done+len(texts) < len(seeds) {
						texts = append(texts, seeds[done+len(texts)])
					} else {
						texts = append(texts, mutate(r, seeds))
					}
				}
				var long strings.Builder
				for range 400 {
					long.WriteString(mutate(r, seeds))
				}
				texts[len(texts)-1] = long.String()
				for i, want := range o.encode(texts) {
					if want.failed != "" {
						panics++
					}
					if diff := compare(tok, texts[i], &want); diff != "" {
						if failures++; failures <= 4 {
							s := shrink(tok, o, texts[i])
							want := o.encode([]string{s})
							t.Errorf("%+q\n%s", s, compare(tok, s, &want[0]))
						}
					}
				}
				done += len(texts)
				if failures > 20 {
					break
				}
			}
			t.Logf("%d texts, %d mismatches, %d panics of tokenizers", done, failures, panics)
		})
	}
}
