package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goldenLine is what testdata/record.py writes for one or two texts.
type goldenLine struct {
	Texts   []string
	Windows []struct {
		IDs, Types, Mask, Special []int64
		Words                     []int32
		Sequences                 []int8
		Offsets                   [][2]int
		Tokens                    []string
	}
	Decoded string
}

func smallTokenizers(t testing.TB) []string {
	files, err := filepath.Glob(filepath.Join("testdata", "small", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no small tokenizers", err)
	}
	return files
}

// TestGolden compares encodings of small tokenizers, which together have most components, with
// recorded ones of tokenizers 0.23.3.
func TestGolden(t *testing.T) {
	for _, file := range smallTokenizers(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			tok, err := Open(file, &Options{RuneOffsets: true})
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range goldenLines(t, data) {
				e, err := tok.EncodeContext(t.Context(), line.Texts...)
				if err != nil {
					t.Errorf("%q: %v", line.Texts, err)
					continue
				}
				if diff := line.difference(e); diff != "" {
					t.Errorf("%q: %s", line.Texts, diff)
				}
				if s, err := tok.Decode(e.IDs, true); err != nil || s != line.Decoded {
					t.Errorf("%q: decoded %q, %v\nwant %q", line.Texts, s, err, line.Decoded)
				}
			}
		})
	}
}

func goldenLines(t testing.TB, data []byte) []goldenLine {
	var lines []goldenLine
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line goldenLine
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) < 40 {
		t.Fatalf("%d recorded texts, want at least 40", len(lines))
	}
	return lines
}

func (line *goldenLine) difference(e *Encoding) string {
	windows := append([]*Encoding{e}, e.Overflow...)
	if len(windows) != len(line.Windows) {
		return fmt.Sprintf("%d windows, want %d", len(windows), len(line.Windows))
	}
	for i, w := range windows {
		want := &line.Windows[i]
		special := make([]int64, len(w.Special))
		for i, s := range w.Special {
			if s {
				special[i] = 1
			}
		}
		switch {
		case !slices.Equal(w.IDs, want.IDs):
			return fmt.Sprintf("window %d: ids %v\nwant %v\ntokens %q\nwant %q", i, w.IDs, want.IDs,
				w.Tokens, want.Tokens)
		case !slices.Equal(w.Tokens, want.Tokens):
			return fmt.Sprintf("window %d: tokens %q\nwant %q", i, w.Tokens, want.Tokens)
		case !slices.Equal(w.TypeIDs, want.Types):
			return fmt.Sprintf("window %d: types %v\nwant %v", i, w.TypeIDs, want.Types)
		case !slices.Equal(w.Mask, want.Mask):
			return fmt.Sprintf("window %d: mask %v\nwant %v", i, w.Mask, want.Mask)
		case !slices.Equal(special, want.Special):
			return fmt.Sprintf("window %d: special %v\nwant %v", i, special, want.Special)
		case !slices.Equal(w.Words, want.Words):
			return fmt.Sprintf("window %d: words %v\nwant %v", i, w.Words, want.Words)
		case !slices.Equal(w.Sequences, want.Sequences):
			return fmt.Sprintf("window %d: sequences %v\nwant %v", i, w.Sequences, want.Sequences)
		case !slices.Equal(w.Offsets, want.Offsets):
			return fmt.Sprintf("window %d: offsets %v\nwant %v", i, w.Offsets, want.Offsets)
		}
	}
	return ""
}
