package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/testing/tokenizerfiles"
)

// startComponents starts a Python process that applies components of tokenizers.
func startComponents(t *testing.T) *oracle {
	return startPython(t, oraclePython(t), "testdata/components.py")
}

// apply returns what a component makes of texts, as strings to compare. failure is the error
// of opening it.
func (o *oracle) apply(component map[string]any, texts []string) (results []string, failure string) {
	put := func(b string) {
		binary.Write(o.in, binary.LittleEndian, uint32(len(b)))
		io.WriteString(o.in, b)
	}
	data, err := json.Marshal(component)
	if err != nil {
		o.t.Fatal(err)
	}
	put(string(data))
	binary.Write(o.in, binary.LittleEndian, uint32(len(texts)))
	for _, s := range texts {
		put(s)
	}
	if err := o.in.Flush(); err != nil {
		o.t.Fatalf("oracle: %v", err)
	}
	failure = o.text()
	for range texts {
		switch o.number() {
		case 0:
			results = append(results, o.text())
		case 1:
			var b strings.Builder
			for range o.number() {
				s := o.text()
				fmt.Fprintf(&b, "%q %d %d\n", s, o.number(), o.number())
			}
			results = append(results, b.String())
		default:
			results = append(results, "failed: "+o.text())
		}
	}
	return results, failure
}

// applyOwn is apply with the package's own component.
func applyOwn(t *testing.T, component map[string]any, texts []string) (results []string, err error) {
	loadTables()
	data, err := json.Marshal(component)
	if err != nil {
		t.Fatal(err)
	}
	v, err := parseJSON(string(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	fields := v.(map[string]any)
	tok := &Tokenizer{parts: &parts{added: newAddedTokens(nil)}}
	if tok.normalizer, err = parseNormalizer(fields["normalizer"], 0); err != nil {
		return nil, err
	}
	if tok.pre, err = parsePreTokenizer(fields["pre_tokenizer"], 0); err != nil {
		return nil, err
	}
	for _, s := range texts {
		sc := tok.acquire(t.Context())
		src, err := tok.split(s, sc)
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		for i := range sc.pieces {
			p := &sc.pieces[i]
			if tok.pre == nil {
				b.Write(p.s)
				continue
			}
			lo, hi := p.original(0, len(p.s))
			fmt.Fprintf(&b, "%q %d %d\n", p.s, src.runeIndex(lo), src.runeIndex(hi))
		}
		results = append(results, b.String())
		tok.release(sc)
	}
	return results, nil
}

func normalizerOf(v map[string]any) map[string]any { return map[string]any{"normalizer": v} }
func preOf(v map[string]any) map[string]any        { return map[string]any{"pre_tokenizer": v} }

type fields = map[string]any

// allComponents lists each normalizer and pre-tokenizer, in several configurations.
func allComponents(t *testing.T) map[string]map[string]any {
	m := map[string]map[string]any{}
	add := func(name string, c map[string]any) { m[name] = c }
	for _, kind := range []string{"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"} {
		add("normalizer/"+kind, normalizerOf(fields{"type": kind}))
	}
	add("normalizer/Strip", normalizerOf(fields{"type": "Strip", "strip_left": true, "strip_right": true}))
	add("normalizer/StripLeft", normalizerOf(fields{"type": "Strip", "strip_left": true, "strip_right": false}))
	add("normalizer/StripRight", normalizerOf(fields{"type": "Strip", "strip_left": false, "strip_right": true}))
	for i := range 16 {
		for strip, value := range map[string]any{"": nil, "-strip": true, "-keep": false} {
			if i&8 != 0 {
				continue
			}
			add(fmt.Sprintf("normalizer/Bert%d%s", i, strip),
				normalizerOf(fields{"type": "BertNormalizer", "clean_text": i&1 != 0,
					"handle_chinese_chars": i&2 != 0, "lowercase": i&4 != 0, "strip_accents": value}))
		}
	}
	add("normalizer/Prepend", normalizerOf(fields{"type": "Prepend", "prepend": "▁é"}))
	add("normalizer/Replace", normalizerOf(fields{"type": "Replace", "pattern": fields{"String": " "}, "content": "▁"}))
	add("normalizer/ReplaceRegex",
		normalizerOf(fields{"type": "Replace", "pattern": fields{"Regex": ` {2,}|\p{M}`}, "content": "<x>"}))
	add("normalizer/ReplaceEmpty", normalizerOf(fields{"type": "Replace", "pattern": fields{"Regex": `\s+`}, "content": ""}))
	for _, name := range []string{"tokenizer_nmt", "tokenizer_t5-small"} {
		if s := precompiledOf(name); s != "" {
			add("normalizer/Precompiled-"+name, normalizerOf(fields{"type": "Precompiled", "precompiled_charsmap": s}))
		}
	}
	for _, kind := range []string{"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "UnicodeScripts"} {
		add("pre/"+kind, preOf(fields{"type": kind}))
	}
	for _, b := range []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"} {
		add("pre/Punctuation"+b, preOf(fields{"type": "Punctuation", "behavior": b}))
		for _, invert := range []bool{false, true} {
			add(fmt.Sprintf("pre/Split%s%v", b, invert),
				preOf(fields{"type": "Split", "pattern": fields{"Regex": `\s+|\d`}, "behavior": b, "invert": invert}))
			add(fmt.Sprintf("pre/SplitString%s%v", b, invert),
				preOf(fields{"type": "Split", "pattern": fields{"String": "a"}, "behavior": b, "invert": invert}))
			add(fmt.Sprintf("pre/SplitEmpty%s%v", b, invert),
				preOf(fields{"type": "Split", "pattern": fields{"Regex": `a*`}, "behavior": b, "invert": invert}))
		}
	}
	add("pre/Digits", preOf(fields{"type": "Digits", "individual_digits": false}))
	add("pre/DigitsEach", preOf(fields{"type": "Digits", "individual_digits": true}))
	add("pre/FixedLength", preOf(fields{"type": "FixedLength", "length": 3}))
	add("pre/CharDelimiterSplit", preOf(fields{"type": "CharDelimiterSplit", "delimiter": "é"}))
	for _, scheme := range []string{"first", "never", "always"} {
		add("pre/Metaspace-"+scheme,
			preOf(fields{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true}))
		add("pre/MetaspaceWhole-"+scheme,
			preOf(fields{"type": "Metaspace", "replacement": "_", "prepend_scheme": scheme, "split": false}))
	}
	for i := range 8 {
		add(fmt.Sprintf("pre/ByteLevel%d", i),
			preOf(fields{"type": "ByteLevel", "add_prefix_space": i&1 != 0, "trim_offsets": i&2 != 0,
				"use_regex": i&4 != 0}))
	}
	for name, expr := range map[string]string{"GPT2": patternGPT2, "Llama3": patternLlama3, "Qwen": patternQwen,
		"O200k":    patternO200k,
		"DeepSeek": patternDeepSeek, "CLIP": patternCLIP, "Digits3": patternDigits3, "ASCII3": patternASCII3, "KanaHan": patternKanaHan, "Spaces": patternSpaces} {
		add("pre/Pattern"+name,
			preOf(fields{"type": "Split", "pattern": fields{"Regex": expr}, "behavior": "Isolated", "invert": false}))
	}
	return m
}

// precompiledOf returns the precompiled_charsmap of a tokenizer of the test data.
func precompiledOf(name string) string {
	dir, err := tokenizerfiles.Dir()
	if err != nil {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(dir, name, "tokenizer.json"))
	if err != nil {
		return ""
	}
	_, s, ok := strings.Cut(string(data), `"precompiled_charsmap":`)
	if !ok {
		return ""
	}
	_, s, _ = strings.Cut(s, `"`)
	s, _, _ = strings.Cut(s, `"`)
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return ""
	}
	return s
}

// TestComponents compares each component for every code point, alone between letters, before
// and after a combining character, and for random texts. Without ONWARD_LONG, it leaves out most
// code points of the unassigned and private planes.
func TestComponents(t *testing.T) {
	o := startComponents(t)
	var texts []string
	for first := rune(0); first <= maxRune; {
		var b, c strings.Builder
		for k := 0; k < 512 && first <= maxRune; first++ {
			if !utf8.ValidRune(first) {
				continue
			}
			if first > 0x33500 && first < 0xE0000 && first&0xFFF < 0xFF0 || first > 0xE1000 && first&0xFFF < 0xFF0 {
				if os.Getenv("ONWARD_LONG") == "" && first&0xFF != 7 {
					continue // unassigned and private
				}
			}
			k++
			fmt.Fprintf(&b, "a%cb %c\n", first, first)
			fmt.Fprintf(&c, "%c\u0301\u0323%c", first, first)
		}
		texts = append(texts, b.String(), c.String())
	}
	r := rand.New(rand.NewPCG(1, 2))
	seeds := testTexts(t)
	points := len(texts)
	for range 500 {
		texts = append(texts, mutate(r, seeds))
	}
	everyPoint := regexp.MustCompile(`/(NF.*|Lowercase|StripAccents|Nmt|Strip|Bert[37]-strip|Precompiled.*|BertPre.*|Whitespace.*|` +
		`UnicodeScripts|DigitsEach|PunctuationIsolated|Pattern(GPT2|O200k|DeepSeek|KanaHan))$`)
	all := texts
	for name, c := range allComponents(t) {
		t.Run(name, func(t *testing.T) {
			texts := all
			if !everyPoint.MatchString(name) {
				texts = all[points:]
			}
			want, failure := o.apply(c, texts)
			got, err := applyOwn(t, c, texts)
			if err != nil || failure != "" {
				t.Fatalf("error %v, tokenizers: %q", err, failure)
			}
			failures := 0
			for i := range texts {
				if got[i] != want[i] && !strings.HasPrefix(want[i], "failed: ") {
					if failures++; failures <= 3 {
						t.Errorf("%.200q:\n%s", texts[i], firstDifference(got[i], want[i]))
					}
				}
			}
			if failures > 0 {
				t.Errorf("%d of %d texts differ", failures, len(texts))
			}
		})
	}
}

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	lo := max(0, i-30)
	return fmt.Sprintf("got  …%q\nwant …%q", got[lo:min(len(got), i+40)], want[lo:min(len(want), i+40)])
}

func testTexts(t testing.TB) []string {
	data, err := os.ReadFile(filepath.Join("testdata", "texts.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
