package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzSpeechVocabulary reads the vocabularies of k2, NeMo and transformers from arbitrary bytes.
func FuzzSpeechVocabulary(f *testing.F) {
	for _, text := range []string{
		"<blk> 0\n▁low 1\nhigh 2\n", "<unk> 0\n▁the 1\ns 2\n<blk> 3\n", "a 0\r\n\t1\r\n 2\r\n", "<blk>\t0\nb  7\n",
		"a b 0\n▁▁ 1\n", "a 0\nb 0\n", "a 1001\n", "a 1002\n", "<blk> 0\n<blk> 1\n", "7\n", "\n", "a -1\n", "a +0\n",
		"a 00\nb 9999999999999999999\n", "\xff\xfe 0\n", "a 0\r\r\n", "a 0\n\nb 1\n", "a 0\vb 1\n", "a\u00a00\n",
	} {
		f.Add([]byte(text), []byte(`{"<pad>": 0, "a": 1, "|": 2}`), []byte(`{"<s>": 3}`))
	}
	for _, text := range []string{`{}`, `null`, `[]`, `{"a": 0, "b": 0}`, `{"a": -1}`, `{"a": 1e3}`, `{"a": 1001}`,
		`{"a": 1002}`, `{"": 5}`, `{"a": 0, "a": 1}`, `{"a": null}`, `{"a": 1.5}`, `{"a": "1"}`, `{"a": 99999999999999999999}`} {
		f.Add([]byte("<blk> 0\n"), []byte(text), []byte(`{"a": 0}`))
		f.Add([]byte("<blk> 0\n"), []byte(`{"a": 0}`), []byte(text))
	}
	f.Fuzz(func(t *testing.T, vocab, letters, added []byte) {
		read := func(data []byte) (*speechVocabulary, error) {
			return (&folder{fs: fstest.MapFS{"vocab.txt": {Data: data}}}).speechVocabulary("vocab.txt")
		}
		v, err := read(vocab)
		if err != nil {
			if v != nil || !strings.Contains(err.Error(), "vocab.txt") {
				t.Fatalf("%v, error %v", v, err)
			}
		} else {
			lines := 1 + bytes.Count(vocab, []byte{'\n'})
			if n := len(v.tokens); n == 0 || n > lines+1000 || v.tokens[n-1] == "" {
				t.Fatalf("%d tokens of %d lines, want the last to exist", n, lines)
			}
			if v.blank >= 0 && v.tokens[v.blank] != "<blk>" || v.blank < 0 && slices.Contains(v.tokens, "<blk>") {
				t.Fatalf("blank is %d of %q", v.blank, v.tokens)
			}
			var again strings.Builder
			for id, token := range v.tokens {
				if token != "" {
					fmt.Fprintf(&again, "%s %d\n", strings.ReplaceAll(token, " ", "▁"), id)
				}
			}
			// Holes count for no line, so there may be too few lines for the ids.
			got, err := read([]byte(again.String()))
			if err == nil && !slices.Equal(got.tokens, v.tokens) ||
				err != nil && strings.Count(again.String(), "\n")+1000 > len(v.tokens) {
				t.Fatalf("%q became %+v, %v, want %+v", again.String(), got, err, v)
			}
		}
		dir := &folder{fs: fstest.MapFS{"vocab.json": {Data: letters}, "added_tokens.json": {Data: added}}}
		tokens, err := dir.letters()
		if err != nil {
			return
		}
		again, err := dir.letters()
		if err != nil || !slices.Equal(tokens, again) || len(tokens) > len(letters)+len(added)+1001 {
			t.Fatalf("%q, then %q, %v", tokens, again, err)
		}
		seen := map[string]bool{}
		for _, s := range tokens {
			if s != "" && seen[s] {
				t.Fatalf("two ids have the token %q", s)
			}
			seen[s] = true
		}
	})
}
