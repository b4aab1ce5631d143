package main

import (
	"bytes"
	"os"
	"testing"
)

func TestDocumentIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page()) {
		t.Error("docs/operators.md is not what the registry says: run make generate")
	}
}
