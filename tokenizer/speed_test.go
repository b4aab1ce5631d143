package tokenizer

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkEncode measures Encode on one thread beside package tokenizers, in one run. The
// ratio is the time of tokenizers over ours.
func BenchmarkEncode(b *testing.B) {
	python := oraclePython(b)
	cmd := exec.Command(python, "testdata/speed.py")
	cmd.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "RAYON_NUM_THREADS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	out := bufio.NewReader(pipe)
	lines := testTexts(b)
	texts := map[string]string{"english": concatenated(b, "../docs/*.md"), "german": lines[1] + "\n",
		"chinese": lines[6] + "\n",
		"code":    concatenated(b, "*.go")}
	dir := b.TempDir()
	for _, name := range []string{"minilm", "qwen3", "llama3", "gpt4o", "gemma3", "tokenizer_t5-small"} {
		file := filepath.Join(publicTokenizers(b), name, "tokenizer.json")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		start := time.Now()
		tok, err := Open(file, &Options{NoTruncation: true, NoPadding: true})
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Since(start)
		for _, kind := range []string{"english", "german", "chinese", "code"} {
			for _, size := range []int{100, 4 << 10, 1 << 20} {
				s := strings.Repeat(texts[kind], size/len(texts[kind])+1)
				s = strings.ToValidUTF8(s[:size], "")
				path := filepath.Join(dir, fmt.Sprintf("%s%d.txt", kind, size))
				if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
					b.Fatal(err)
				}
				b.Run(fmt.Sprintf("%s/%s/%d", name, kind, size), func(b *testing.B) {
					b.SetBytes(int64(len(s)))
					b.ReportAllocs()
					for b.Loop() {
						if _, err := tok.Encode(s); err != nil {
							b.Fatal(err)
						}
					}
					ours := float64(b.Elapsed()) / float64(b.N)
					fmt.Fprintf(in, "%s\t%s\t%d\n", file, path, max(1, min(b.N, int(2e8/ours))))
					var open, theirs float64
					if _, err := fmt.Fscan(out, &open, &theirs); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(theirs/ours, "ratio")
					b.ReportMetric(open/float64(opened), "open-ratio")
				})
			}
		}
	}
}

// concatenated returns the contents of files.
func concatenated(b *testing.B, pattern string) string {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		b.Fatal("no files", pattern, err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
