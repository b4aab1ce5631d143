package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestWindows compares pairs of texts, truncation with windows, padding, and streaming decoders
// of real tokenizers with package tokenizers.
func TestWindows(t *testing.T) {
	python := oraclePython(t)
	data := publicTokenizers(t)
	files, _ := filepath.Glob(filepath.Join(data, "*", "tokenizer.json"))
	files = append(files, smallTokenizers(t)...)
	n := textCount(200)
	seeds := testTexts(t)
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"-"+filepath.Base(file), func(t *testing.T) {
			whole, err := Open(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := startPython(t, python, "testdata/windows.py", file)
			r := rand.New(rand.NewPCG(seed(), 8))
			failures, refused := 0, 0
			for range n {
				texts := []string{strings.ToValidUTF8(mutate(r, seeds), "\uFFFD")}
				if r.IntN(2) == 0 {
					texts = append(texts, strings.ToValidUTF8(mutate(r, seeds), "\uFFFD"))
				}
				opts := &Options{RuneOffsets: true, NoSpecialTokens: r.IntN(4) == 0, NoTruncation: true,
					NoPadding: true}
				ids := make([]int64, r.IntN(12))
				for i := range ids {
					ids[i] = int64(r.IntN(whole.VocabSize() + 5))
				}
				request := map[string]any{"texts": texts, "ids": ids, "special": !opts.NoSpecialTokens,
					"truncation": nil, "padding": nil}
				if r.IntN(3) > 0 {
					k := r.IntN(3)
					opts.NoTruncation = false
					opts.Truncation = &Truncation{MaxLength: 4 + r.IntN(30), Stride: r.IntN(4), Left: r.IntN(2) == 0,
						Strategy: []string{"LongestFirst", "OnlyFirst", "OnlySecond"}[k]}
					request["truncation"] = fields{"max_length": opts.Truncation.MaxLength,
						"stride":   opts.Truncation.Stride,
						"strategy": []string{"longest_first", "only_first", "only_second"}[k], "direction": side(opts.Truncation.Left)}
				}
				if r.IntN(2) == 0 {
					opts.NoPadding = false
					opts.Padding = &Padding{Length: r.IntN(2) * 20, MultipleOf: r.IntN(2) * 8, Left: r.IntN(2) == 0,
						ID: 3, TypeID: 1, Token: "<p>"}
					p := fields{"direction": side(opts.Padding.Left), "pad_id": 3, "pad_type_id": 1, "pad_token": "<p>",
						"length": nil, "pad_to_multiple_of": nil}
					if opts.Padding.Length > 0 {
						p["length"] = opts.Padding.Length
					}
					if opts.Padding.MultipleOf > 0 {
						p["pad_to_multiple_of"] = opts.Padding.MultipleOf
					}
					request["padding"] = p
				}
				line, err := json.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				o.in.Write(append(line, '\n'))
				o.in.Flush()
				answer, err := o.out.ReadBytes('\n')
				if err != nil {
					t.Fatal(err)
				}
				var want struct {
					goldenLine
					Stream []string
					Failed string
					Text   string
				}
				if err := json.Unmarshal(answer, &want); err != nil {
					t.Fatal(err)
				}
				if s, err := whole.Decode(ids, !opts.NoSpecialTokens); err != nil || s != want.Text {
					if failures++; failures < 4 {
						t.Errorf("ids %v: decoded %+q, %v\nwant %+q", ids, s, err, want.Text)
					}
				}
				var e *Encoding
				tok, err := whole.WithOptions(opts)
				if err == nil {
					e, err = tok.EncodeContext(t.Context(), texts...)
				}
				if want.Failed != "" || err != nil {
					if refused++; (want.Failed != "") != (err != nil) {
						t.Errorf("%s: error %v, tokenizers: %q", line, err, want.Failed)
						failures++
					}
					continue
				}
				diff := want.difference(e)
				if s, err := tok.Decode(e.IDs, true); diff == "" && (err != nil || s != want.Decoded) {
					diff = strconv.QuoteToASCII(s) + " decoded, want " + strconv.QuoteToASCII(want.Decoded)
				}
				if diff == "" && want.Stream != nil {
					var got []string
					d := tok.NewDecoder(true)
					for _, id := range e.IDs {
						part, err := d.Next(id)
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, part)
					}
					if !slices.Equal(got, want.Stream) {
						diff = "parts differ: " + strconv.QuoteToASCII(strings.Join(got, "|")) + " want " +
							strconv.QuoteToASCII(strings.Join(want.Stream, "|"))
					}
				}
				if diff != "" {
					if failures++; failures < 4 {
						t.Errorf("%s\n%s", line, diff)
					}
				}
			}
			t.Logf("%d requests, %d mismatches, %d refused", n, failures, refused)
		})
	}
}

func side(left bool) string {
	if left {
		return "left"
	}
	return "right"
}
