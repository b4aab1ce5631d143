package main

import (
	"bytes"
	"os"
	"testing"
)

func TestDocumentIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page()) {
		t.Error("docs/differences.md is not what the registry says: run make generate")
	}
}
