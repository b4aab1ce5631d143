package kernels_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var wordLine = regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`)

// TestEncodings assembles the comment after each WORD of the arm64 kernels with LLVM's
// assembler and compares the result with the WORD.
func TestEncodings(t *testing.T) {
	files, err := filepath.Glob("*/*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no arm64 assembly (%v)", err)
	}
	var words, texts []string
	seen := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range wordLine.FindAllStringSubmatch(string(b), -1) {
			if !seen[m[0]] {
				seen[m[0]] = true
				words, texts = append(words, m[1]), append(texts, m[2])
			}
		}
		if n := strings.Count(string(b), "WORD "); n != len(wordLine.FindAllString(string(b), -1)) {
			t.Errorf("%s: a WORD has no comment with its instruction", f)
		}
	}
	path, err := exec.LookPath("llvm-mc")
	if err != nil {
		t.Skip("llvm-mc is not installed")
	}
	cmd := exec.Command(path, "-triple=aarch64", "-mattr=+dotprod,+i8mm,+bf16,+fp16fml", "-show-encoding")
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-mc: %v", err)
	}
	encodings := regexp.MustCompile(`encoding: \[(.*)\]`).FindAllSubmatch(out, -1)
	if len(encodings) != len(words) {
		t.Fatalf("%d encodings of %d instructions", len(encodings), len(words))
	}
	for i, e := range encodings {
		code, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(string(e[1]), "0x", ""), ",", ""))
		if err != nil || len(code) != 4 {
			t.Fatalf("llvm-mc writes %s", e[1])
		}
		if got := fmt.Sprintf("%08x", binary.LittleEndian.Uint32(code)); got != words[i] {
			t.Errorf("%s is %s, want %s", texts[i], words[i], got)
		}
	}
}
