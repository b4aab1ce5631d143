//go:build !core

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTokenize reads texts from the standard input, and decodes the ids that it prints.
func TestTokenize(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nca\n##t\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader("a cat\nCA\n"))
	root.SetArgs([]string{"tokenize", dir, "--json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	want := [][]int64{{2, 4, 5, 6, 3}, {2, 5, 3}}
	for d, i := json.NewDecoder(&out), 0; i < len(want); i++ {
		var r tokenizeJSON
		if err := d.Decode(&r); err != nil || !slices.Equal(r.IDs, want[i]) {
			t.Errorf("text %d: ids %v, %v, want %v", i, r.IDs, err, want[i])
		}
	}
	if stdout, _ := command(t, exitOK, "tokenize", dir, "2 4 5 6 3", "--decode", "--no-special"); stdout != "a cat\n" {
		t.Errorf("decoded %q, want %q", stdout, "a cat\n")
	}
	command(t, exitUsage, "tokenize", dir, "--decode", "x")
	command(t, exitFailed, "tokenize", dir, "--decode", "99")
	command(t, exitFailed, "tokenize", t.TempDir(), "a")
	command(t, exitUsage, "tokenize")
}
