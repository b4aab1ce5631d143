package tokenizer

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestFormats compares SentencePiece models and .tiktoken files with packages sentencepiece
// and tiktoken.
func TestFormats(t *testing.T) {
	python := oraclePython(t)
	data := publicTokenizers(t)
	var files []string
	for _, pattern := range []string{"*/*.model", "*/*.spm", "*/*.tiktoken"} {
		list, _ := filepath.Glob(filepath.Join(data, pattern))
		files = append(files, list...)
	}
	if len(files) == 0 {
		t.Skip("there are no SentencePiece models or .tiktoken files in the folder of tokenizers")
	}
	n := textCount(1000)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			tok, err := Open(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := startPython(t, python, "testdata/formats.py", file)
			seeds := testTexts(t)
			r := rand.New(rand.NewPCG(3, 4))
			failures, done := 0, 0
			for ; done < n && failures < 20; done += 100 {
				var texts []string
				for i := range 100 {
					if done+i < len(seeds) {
						texts = append(texts, seeds[done+i])
					} else {
						texts = append(texts, mutate(r, seeds))
					}
				}
				o.send(texts)
				for _, s := range texts {
					var want []int64
					for range o.number() {
						want = append(want, int64(o.number()))
					}
					if diff := compareIDs(tok, s, want, o.text()); diff != "" {
						if failures++; failures < 5 {
							t.Errorf("%+q\n%s", s, diff)
						}
					}
				}
			}
			t.Logf("%d texts, %d mismatches", done, failures)
		})
	}
}

func compareIDs(tok *Tokenizer, s string, ids []int64, decoded string) string {
	e, err := tok.Encode(s)
	if err != nil {
		return err.Error()
	}
	if !slices.Equal(e.IDs, ids) {
		return fmt.Sprintf("ids %v\nwant %v", e.IDs, ids)
	}
	text, err := tok.Decode(e.IDs, false)
	if err != nil || text != decoded {
		return fmt.Sprintf("decoded %+q, %v\nwant    %+q", text, err, decoded)
	}
	for _, o := range e.Offsets {
		if o[0] < 0 || o[0] > o[1] || o[1] > len(s) {
			return fmt.Sprintf("offsets %v of a text of %d bytes", o, len(s))
		}
	}
	return ""
}

// TestLongTiktokenTokensAreRefused opens a file with a token of 128 KiB. Looking up the two parts
// of each of its divisions reads 16 GiB.
func TestLongTiktokenTokensAreRefused(t *testing.T) {
	line := base64.StdEncoding.EncodeToString(make([]byte, 1<<17)) + " 0\n"
	_, err := OpenFS(fstest.MapFS{"r50k_base.tiktoken": {Data: []byte(line)}}, "r50k_base.tiktoken", nil)
	if err == nil || !strings.Contains(err.Error(), "the tokens are too long") {
		t.Errorf("error %v", err)
	}
}
